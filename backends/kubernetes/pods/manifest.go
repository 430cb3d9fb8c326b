package pods

import (
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"sweep.dev/sweep/backends"
	"sweep.dev/sweep/backends/kubernetes/owner"
	"sweep.dev/sweep/backends/kubernetes/signs"
	"sweep.dev/sweep/backends/provision"
	"sweep.dev/sweep/engine/catalog"
	"sweep.dev/sweep/internal/kubeapi"
)

const (
	// container is the name of the one container of a pod.
	container = "server"
	// filesDir is where the files of a replica are, in a folder of its unit's name.
	filesDir = "/etc/sweep"
	shmDir   = "/dev/shm"

	annotationServer = "sweep.dev/server" // backends.MarkServer
	annotationGrace  = "sweep.dev/grace"
	annotationGPU    = "sweep.dev/gpu" // what the plan calls it

	// nodeGone is how many seconds a pod stays on a node that does not answer. The
	// default is five minutes, in which a trial would go on against nothing.
	nodeGone = int(signs.NodeGone / time.Second)
)

// keys of a unit's Secret.
const (
	envKey  = "env."
	fileKey = "file."
)

// object has what every object of a deployment has.
func (l *launch) object(kind, name string, c owner.Component, role string, replica int) map[string]any {
	return map[string]any{
		"apiVersion": "v1", "kind": kind,
		"metadata": map[string]any{
			"name": name, "labels": l.owner.Labels(c, role, replica), "annotations": l.owner.Annotations(),
			"ownerReferences": []kubeapi.OwnerReference{l.owner.Reference()},
		},
	}
}

// service gives the replicas of a deployment their names. A name leads to its pod as soon
// as that has an address: roles look for each other before they are ready.
func (l *launch) service() map[string]any {
	o := l.object("Service", l.name, owner.Engine, "", 0)
	o["spec"] = map[string]any{
		"clusterIP": "None", "publishNotReadyAddresses": true,
		"selector": map[string]string{owner.LabelInstance: l.name, owner.LabelManagedBy: owner.ManagedBy, owner.LabelComponent: string(owner.Engine)},
	}
	return o
}

// secret has the environment and the files of a unit, nil if there are none: an
// environment has credentials, which must not stand in a pod.
func (l *launch) secret(u *provision.Unit) map[string]any {
	r := u.Replicas[0]
	data := map[string]string{}
	for name, value := range r.Env {
		if !open(name) {
			data[envKey+name] = value
		}
	}
	for i, name := range slices.Sorted(maps.Keys(r.Files)) {
		data[fileKey+strconv.Itoa(i)] = string(r.Files[name])
	}
	if len(data) == 0 {
		return nil
	}
	o := l.object("Secret", u.Name, owner.Engine, r.Role.Name, r.Place.Replica)
	o["stringData"], o["immutable"] = data, true
	return o
}

// open reports whether a variable is one of sweep's marks, which are no secrets.
func open(name string) bool {
	switch name {
	case backends.MarkOwner, backends.MarkRun, backends.MarkPod, backends.MarkExpires, backends.MarkDigest, backends.MarkServer:
		return true
	}
	return false
}

// pod returns the manifest of a unit.
func (l *launch) pod(u *provision.Unit) map[string]any {
	c, r := l.b.config, u.Replicas[0]
	o := l.object("Pod", u.Name, owner.Engine, r.Role.Name, r.Place.Replica)
	meta, _ := o["metadata"].(map[string]any)
	annotations, _ := meta["annotations"].(map[string]string)
	annotations[annotationServer] = r.Env[backends.MarkServer]
	annotations[annotationGrace] = u.Spec.Grace.String()
	if u.Spec.GPU != "" {
		annotations[annotationGPU] = u.Spec.GPU
	}
	spec := map[string]any{
		"restartPolicy":                 "Never", // a server that is started again has lost what it was
		"activeDeadlineSeconds":         max(1, int64(time.Until(u.Pod.Expires).Seconds())),
		"terminationGracePeriodSeconds": max(1, int64(math.Ceil(u.Spec.Grace.Seconds()))),
		// A Service called vllm would set VLLM_PORT, which vLLM takes for its own setting.
		"enableServiceLinks":           false,
		"automountServiceAccountToken": false,
		"hostname":                     hostname(r.Role.Name, r.Place.Replica),
		"securityContext":              c.podSecurity(),
		"tolerations":                  c.tolerations(r.Role.GPUs),
		"containers":                   []any{l.container(u)},
		"volumes":                      c.volumes(u),
	}
	if l.several {
		spec["subdomain"] = l.name
	}
	for key, value := range map[string]string{"priorityClassName": c.PriorityClass, "runtimeClassName": c.runtimeClass(r.Role.GPUs)} {
		if value != "" {
			spec[key] = value
		}
	}
	if selector := c.selector(u.Spec.GPU, r.Role.GPUs); len(selector) > 0 {
		spec["nodeSelector"] = selector
	}
	if len(c.PullSecrets) > 0 {
		var names []any
		for _, name := range c.PullSecrets {
			names = append(names, map[string]string{"name": name})
		}
		spec["imagePullSecrets"] = names
	}
	o["spec"] = spec
	return o
}

// container returns the one of a unit.
func (l *launch) container(u *provision.Unit) map[string]any {
	c, r := l.b.config, u.Replicas[0]
	argv := make([]string, len(r.Argv))
	for i, arg := range r.Argv {
		argv[i] = strings.ReplaceAll(arg, "$", "$$") // the kubelet expands $(NAME), and $$ is a $
	}
	ports := []any{map[string]any{"name": "http", "containerPort": r.Place.Port}}
	for _, port := range slices.Sorted(maps.Values(r.Place.Ports)) {
		ports = append(ports, map[string]any{"containerPort": port})
	}
	of := map[string]any{
		"name": container, "image": r.Role.Image, "imagePullPolicy": policies[c.Pull],
		"command": argv[:1], "args": argv[1:], "env": c.env(u), "ports": ports,
		"resources": c.resources(r.Role.GPUs), "volumeMounts": c.mounts(u), "securityContext": c.security(),
		// What a server said last stands in its pod too, where logs may not be read.
		"terminationMessagePolicy": "FallbackToLogsOnError",
	}
	if r.Role.Dir != "" {
		of["workingDir"] = r.Role.Dir
	}
	return of
}

// hostname returns what a replica is called within its deployment.
func hostname(role string, replica int) string {
	name := strings.ToLower(strings.NewReplacer("_", "-", ".", "-").Replace(owner.Value(role)))
	return name[:min(len(name), 50)] + "-" + strconv.Itoa(replica)
}

// env returns the environment of a unit: its own by way of its Secret, the plan's Secrets, and
// the marks as they are.
func (c Config) env(u *provision.Unit) []any {
	own := u.Replicas[0].Env
	env := []any{}
	from := func(name, secret, key string) {
		env = append(env, map[string]any{"name": name, "valueFrom": map[string]any{"secretKeyRef": map[string]string{"name": secret, "key": key}}})
	}
	plain := func(name, value string) {
		env = append(env, map[string]any{"name": name, "value": strings.ReplaceAll(value, "$", "$$")})
	}
	for _, name := range slices.Sorted(maps.Keys(own)) {
		if open(name) {
			plain(name, own[name])
		} else {
			from(name, u.Name, envKey+name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(c.Secrets)) {
		if _, ok := own[name]; !ok {
			secret, key, _ := strings.Cut(c.Secrets[name], "/")
			from(name, secret, key)
		}
	}
	_, named := c.Secrets["HF_HOME"]
	if _, ok := own["HF_HOME"]; c.Cache != nil && !ok && !named {
		plain("HF_HOME", c.Cache.Path)
	}
	_, named = c.Secrets["HOME"]
	if _, ok := own["HOME"]; !c.Root && !ok && !named {
		plain("HOME", "/tmp") // a uid that the image does not know has no home
	}
	return env
}

func (c Config) resources(gpus int) map[string]any {
	requests, limits := map[string]string{}, map[string]string{}
	if c.CPU > 0 {
		requests["cpu"] = strconv.FormatFloat(c.CPU, 'f', 3, 64)
	}
	if c.Memory != "" {
		requests["memory"], limits["memory"] = c.Memory, c.Memory
	}
	if gpus > 0 {
		requests[c.GPUResource], limits[c.GPUResource] = strconv.Itoa(gpus), strconv.Itoa(gpus)
	}
	return map[string]any{"requests": requests, "limits": limits}
}

func (c Config) volumes(u *provision.Unit) []any {
	all := []any{map[string]any{"name": "shm", "emptyDir": map[string]string{"medium": "Memory", "sizeLimit": c.ShmSize}}}
	if c.Cache != nil {
		all = append(all, map[string]any{"name": "cache", "persistentVolumeClaim": map[string]string{"claimName": c.Cache.Claim}})
	}
	if files := slices.Sorted(maps.Keys(u.Replicas[0].Files)); len(files) > 0 {
		items := []any{}
		for i, name := range files {
			items = append(items, map[string]string{"key": fileKey + strconv.Itoa(i), "path": name})
		}
		all = append(all, map[string]any{"name": "files", "secret": map[string]any{"secretName": u.Name, "items": items}})
	}
	return all
}

func (c Config) mounts(u *provision.Unit) []any {
	all := []any{map[string]string{"name": "shm", "mountPath": shmDir}}
	if c.Cache != nil {
		all = append(all, map[string]string{"name": "cache", "mountPath": c.Cache.Path})
	}
	if len(u.Replicas[0].Files) > 0 {
		all = append(all, map[string]string{"name": "files", "mountPath": u.Replicas[0].Place.Dir})
	}
	return all
}

// selector returns the labels that a node must have.
func (c Config) selector(gpu string, gpus int) map[string]string {
	labels := maps.Clone(c.NodeSelector)
	if labels == nil {
		labels = map[string]string{}
	}
	if _, own := labels[c.GPULabel]; gpus > 0 && gpu != "" && c.GPULabel != "" && c.GPULabel != noLabel && !own {
		labels[c.GPULabel] = productOf(gpu)
	}
	return labels
}

// productOf returns a GPU of the catalogue as the labels of nodes have it; another word as it
// is.
func productOf(gpu string) string {
	if g, ok := catalog.GPUByName(gpu); ok {
		return strings.ReplaceAll(g.Product, " ", "-")
	}
	return gpu
}

func (c Config) runtimeClass(gpus int) string {
	if gpus == 0 {
		return ""
	}
	return c.RuntimeClass
}

func (c Config) tolerations(gpus int) []any {
	all := []any{}
	for _, key := range []string{"node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"} {
		all = append(all, map[string]any{"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": nodeGone})
	}
	if gpus > 0 && c.Tolerations == nil {
		all = append(all, map[string]any{"key": c.GPUResource, "operator": "Exists", "effect": "NoSchedule"})
	}
	for _, t := range c.Tolerations {
		one := map[string]any{"key": t.Key, "operator": "Equal", "value": t.Value}
		if t.Value == "" {
			one = map[string]any{"key": t.Key, "operator": "Exists"}
		}
		if t.Effect != "" {
			one["effect"] = t.Effect
		}
		all = append(all, one)
	}
	return all
}

// podSecurity and security are what the restricted Pod Security Standard asks for, unless
// the image needs root.
// https://kubernetes.io/docs/concepts/security/pod-security-standards/
func (c Config) podSecurity() map[string]any {
	all := map[string]any{"seccompProfile": map[string]string{"type": "RuntimeDefault"}}
	if !c.Root {
		user, group, several := strings.Cut(c.User, ":")
		if !several {
			group = user
		}
		uid, _ := strconv.Atoi(user) // it was checked
		gid, _ := strconv.Atoi(group)
		all["runAsNonRoot"], all["runAsUser"], all["runAsGroup"] = true, uid, gid
		all["fsGroup"], all["fsGroupChangePolicy"] = gid, "OnRootMismatch" // a cache of many files is not walked
	}
	return all
}

func (c Config) security() map[string]any {
	if c.Root {
		return map[string]any{}
	}
	return map[string]any{"allowPrivilegeEscalation": false, "capabilities": map[string]any{"drop": []string{"ALL"}}}
}
