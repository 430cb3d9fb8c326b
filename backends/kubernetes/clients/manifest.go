package clients

import (
	"cmp"
	"fmt"
	"math"
	"net/url"
	"strconv"
	"time"

	"sweep.dev/sweep/backends/kubernetes/owner"
	"sweep.dev/sweep/internal/kubeapi"
)

const (
	// DefaultBase is the image of pods into which sweep copies itself. It has a shell, cat
	// and sha256sum.
	DefaultBase = "busybox:1.37"
	// DefaultCPUs is what each client asks for.
	DefaultCPUs = 1
	memory      = "512Mi"
	container   = "client"
	// folder is where sweep copies itself to, on a volume of the pod.
	folder = "/sweep-client"
	// maxProgram bounds the program in bytes.
	maxProgram = "256Mi"
	// user is no user of any system.
	user = 65532
	// graceSeconds is how long a client that is deleted has to end.
	graceSeconds = 2
	// nodeLost is how long a pod stays on a node that is lost, in seconds.
	nodeLost = 30
)

const (
	controlAddr = "127.0.0.1:7070"
	controlURL  = "http://" + controlAddr
)

// tokenVar is the variable in which a client gets its token, and markVar marks it for
// people who look.
const (
	tokenVar = "SWEEP_WORKER_TOKEN"
	markVar  = "SWEEP_WORKER"
	tokenKey = "token"
)

func (f *Fleet) path(group, kind string) string {
	return group + "/namespaces/" + url.PathEscape(f.space.Name) + "/" + kind
}

func (f *Fleet) secretName() string { return f.Name.String() + "-c" + f.tag }
func (f *Fleet) jobName() string    { return f.secretName() + "-" + strconv.Itoa(f.made) }
func (f *Fleet) image() string      { return cmp.Or(f.Want.Image, f.Want.Base, DefaultBase) }

// meta returns the metadata of an object of the fleet.
func (f *Fleet) meta(name string) map[string]any {
	return map[string]any{
		"name": name, "labels": f.owner.Labels(owner.Load, "", 0), "annotations": f.owner.Annotations(),
		"ownerReferences": []kubeapi.OwnerReference{f.owner.Reference()},
	}
}

func (f *Fleet) secret() map[string]any {
	return map[string]any{
		"apiVersion": "v1", "kind": "Secret", "metadata": f.meta(f.secretName()), "immutable": true,
		"stringData": map[string]string{tokenKey: f.token.Reveal()},
	}
}

// job returns the Indexed Job of n clients. A pod that ends is not made again: its load would
// be another one.
func (f *Fleet) job(n int) map[string]any {
	return map[string]any{
		"apiVersion": "batch/v1", "kind": "Job", "metadata": f.meta(f.jobName()),
		"spec": map[string]any{
			"completionMode": "Indexed", "parallelism": n, "completions": n,
			"backoffLimit": 0, "podReplacementPolicy": "Failed",
			"activeDeadlineSeconds": max(1, int64(math.Ceil(time.Until(f.Name.Expires).Seconds()))),
			"template": map[string]any{
				"metadata": map[string]any{"labels": f.owner.Labels(owner.Load, "", 0), "annotations": f.owner.Annotations()},
				"spec":     f.pod(),
			},
		},
	}
}

// pod is clean by the rules of the Pod Security Standard "restricted", and has no rights.
func (f *Fleet) pod() map[string]any {
	lost := func(key string) map[string]any {
		return map[string]any{"key": "node.kubernetes.io/" + key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": nodeLost}
	}
	return map[string]any{
		"restartPolicy": "Never", "automountServiceAccountToken": false, "enableServiceLinks": false,
		"terminationGracePeriodSeconds": graceSeconds,
		"securityContext": map[string]any{
			"runAsNonRoot": true, "runAsUser": user, "runAsGroup": user, "fsGroup": user,
			"seccompProfile": map[string]string{"type": "RuntimeDefault"},
		},
		"tolerations": []any{lost("not-ready"), lost("unreachable")},
		"topologySpreadConstraints": []any{map[string]any{
			"maxSkew": 1, "topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": "ScheduleAnyway",
			"labelSelector": map[string]any{"matchLabels": map[string]string{owner.LabelInstance: f.Name.String(), owner.LabelComponent: string(owner.Load)}},
		}},
		// Beside an engine a client would share its CPUs: elsewhere if that can be.
		"affinity": map[string]any{"nodeAffinity": map[string]any{"preferredDuringSchedulingIgnoredDuringExecution": []any{map[string]any{
			"weight": 100, "preference": map[string]any{"matchExpressions": []any{
				map[string]any{"key": "nvidia.com/gpu.present", "operator": "NotIn", "values": []string{"true"}},
			}},
		}}}},
		"volumes":    []any{map[string]any{"name": "program", "emptyDir": map[string]string{"sizeLimit": maxProgram}}},
		"containers": []any{f.container()},
	}
}

func (f *Fleet) container() map[string]any {
	cpus := f.Want.CPUs
	requests := map[string]string{"cpu": milli(cmp.Or(cpus, DefaultCPUs)), "memory": memory}
	resources := map[string]any{"requests": requests}
	if cpus >= 1 && cpus == math.Trunc(cpus) {
		// Whole CPUs may be its own. A limit of others holds a client back for tens of
		// milliseconds at a time.
		resources["limits"] = requests
	}
	return map[string]any{
		"name": container, "image": f.image(), "imagePullPolicy": "IfNotPresent", "command": f.command(),
		"env": []any{
			map[string]any{"name": markVar, "value": "1"},
			map[string]any{"name": tokenVar, "valueFrom": map[string]any{"secretKeyRef": map[string]string{"name": f.secretName(), "key": tokenKey}}},
		},
		"resources":    resources,
		"volumeMounts": []any{map[string]string{"name": "program", "mountPath": folder}},
		"securityContext": map[string]any{
			"allowPrivilegeEscalation": false, "readOnlyRootFilesystem": true,
			"capabilities": map[string]any{"drop": []string{"ALL"}},
		},
	}
}

// command runs a client, of a pod without the program as soon as it is there.
func (f *Fleet) command() []string {
	if f.Want.Image != "" {
		return []string{"/sweep", "worker", "--listen", controlAddr}
	}
	return []string{"sh", "-c", fmt.Sprintf("until [ -x %[1]s/sweep ]; do sleep 1; done; exec %[1]s/sweep worker --listen %[2]s", folder, controlAddr)}
}

// milli returns an amount of CPUs as the API takes it.
func milli(cpus float64) string { return strconv.Itoa(int(math.Ceil(1000*cpus))) + "m" }
