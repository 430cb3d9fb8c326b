package manifests

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"sweep.dev/sweep/backends"
	"sweep.dev/sweep/backends/kubernetes/signs"
	"sweep.dev/sweep/internal/manifest"
)

// Each kind is ready when its controller says so of the newest generation, and not before.
func TestWaits(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		kind, object string
		want         string // "" is ready
		fails        string
	}{
		"deployment, new":             {"Deployment", `{"metadata":{"generation":1},"status":{}}`, "has not seen it yet", ""},
		"deployment, an old look":     {"Deployment", `{"metadata":{"generation":2},"status":{"observedGeneration":1,"readyReplicas":1,"updatedReplicas":1,"conditions":[{"type":"Available","status":"True"}]}}`, "has not seen it yet", ""},
		"deployment, some":            {"Deployment", `{"spec":{"replicas":3},"status":{"observedGeneration":1,"readyReplicas":2,"updatedReplicas":3}}`, "2 of 3 replicas are ready", ""},
		"deployment, old pods":        {"Deployment", `{"spec":{"replicas":2},"status":{"observedGeneration":1,"readyReplicas":2,"updatedReplicas":1}}`, "1 of 2 replicas are of its newest revision", ""},
		"deployment":                  {"Deployment", `{"status":{"observedGeneration":1,"readyReplicas":1,"updatedReplicas":1,"conditions":[{"type":"Available","status":"True"}]}}`, "", ""},
		"deployment of none":          {"Deployment", `{"spec":{"replicas":0},"status":{"observedGeneration":1}}`, "", ""},
		"deployment, quota":           {"Deployment", `{"status":{"observedGeneration":1,"conditions":[{"type":"ReplicaFailure","status":"True","reason":"FailedCreate","message":"exceeded quota: q"}]}}`, "", "FailedCreate: exceeded quota: q"},
		"deployment, quota, too late": {"Deployment", `{"status":{"observedGeneration":1,"conditions":[{"type":"Progressing","status":"False","reason":"ProgressDeadlineExceeded"},{"type":"ReplicaFailure","status":"True","reason":"FailedCreate","message":"exceeded quota: q"}]}}`, "", "FailedCreate: exceeded quota: q"},
		"deployment, too late":        {"Deployment", `{"status":{"observedGeneration":1,"conditions":[{"type":"Progressing","status":"False","reason":"ProgressDeadlineExceeded"}]}}`, "", "ProgressDeadlineExceeded"},
		"stateful set":                {"StatefulSet", `{"spec":{"replicas":2},"status":{"observedGeneration":1,"readyReplicas":2,"updatedReplicas":2}}`, "", ""},
		"daemon set, some":            {"DaemonSet", `{"status":{"observedGeneration":1,"desiredNumberScheduled":2,"numberReady":1}}`, "1 of 2 pods are ready", ""},
		"pod, starting":               {"Pod", `{"status":{"phase":"Pending"}}`, "condition Ready is not there yet", ""},
		"pod, not ready":              {"Pod", `{"status":{"phase":"Running","conditions":[{"type":"Ready","status":"False","reason":"ContainersNotReady"}]}}`, "condition Ready is False: ContainersNotReady", ""},
		"pod":                         {"Pod", `{"status":{"phase":"Running","conditions":[{"type":"Ready","status":"True"}]}}`, "", ""},
		"pod, failed":                 {"Pod", `{"status":{"phase":"Failed","reason":"OutOfnvidia.com/gpu","message":"no"}}`, "", "OutOfnvidia.com/gpu: no"},
		"pod, done":                   {"Pod", `{"status":{"phase":"Succeeded"}}`, "", ""},
		"job":                         {"Job", `{"status":{"conditions":[{"type":"Complete","status":"True"}]}}`, "", ""},
		"job, at work":                {"Job", `{"status":{}}`, "condition Complete is not there yet", ""},
		"job, failed":                 {"Job", `{"status":{"conditions":[{"type":"Failed","status":"True","reason":"BackoffLimitExceeded"}]}}`, "", "BackoffLimitExceeded"},
		"group":                       {"LeaderWorkerSet", `{"spec":{"replicas":1},"status":{"readyReplicas":1,"updatedReplicas":1,"conditions":[{"type":"Available","status":"True"}]}}`, "", ""},
		"graph, too early":            {"DynamoGraphDeployment", `{"metadata":{"generation":2},"status":{"observedGeneration":1,"state":"successful","conditions":[{"type":"Ready","status":"True"}]}}`, "has not seen it yet", ""},
		"graph, pending":              {"DynamoGraphDeployment", `{"status":{"state":"pending","conditions":[{"type":"Ready","status":"False"}]}}`, `its state is "pending"`, ""},
		"graph":                       {"DynamoGraphDeployment", `{"status":{"state":"successful","conditions":[{"type":"Ready","status":"True"}]}}`, "", ""},
		"graph, failed":               {"DynamoGraphDeployment", `{"status":{"state":"failed","conditions":[{"type":"Ready","status":"False","reason":"insufficient_capacity"}]}}`, "", "insufficient_capacity"},
		"another kind":                {"LLMInferenceService", `{"status":{"conditions":[{"type":"Ready","status":"Unknown","reason":"Deploying"}]}}`, "condition Ready is Unknown: Deploying", ""},
		"another kind, by now":        {"LLMInferenceService", `{"status":{"conditions":[{"type":"Ready","status":"True"}]}}`, "", ""},
		"a kind without status":       {"Service", `{}`, "", ""},
	} {
		var have live
		if err := json.Unmarshal([]byte(c.object), &have); err != nil {
			t.Fatal(err)
		}
		o := &object{Object: &manifest.Object{Kind: c.kind}}
		got, err := o.waits(&have)
		switch {
		case c.fails != "" && (err == nil || !strings.Contains(err.Error(), c.fails)):
			t.Errorf("%s: failure %v, want %q", name, err, c.fails)
		case c.fails == "" && (err != nil || (got == "") != (c.want == "") || !strings.Contains(got, c.want)):
			t.Errorf("%s: %q, %v, want %q", name, got, err, c.want)
		}
	}
}

// A pod that no time will start ends a launch, at once or once it has tried again for a
// while. The words are those of [signs].
func TestBroken(t *testing.T) {
	t.Parallel()
	const (
		soon    = 5 * time.Second
		retried = 40 * time.Second
		never   = time.Hour
		refused = `failed to pull and unpack image \"r.example/app:1\": failed to resolve reference \"r.example/app:1\": `
	)
	waiting := func(reason, message string) string {
		return `"containerStatuses":[{"name":"vllm","state":{"waiting":{"reason":"` + reason + `","message":"` + message + `"}}}]`
	}
	restarted := func(times int, waits, end string) string {
		return fmt.Sprintf(`"containerStatuses":[{"name":"vllm","restartCount":%d,"state":{"waiting":{"reason":%q}},"lastState":{"terminated":%s}}]`, times, waits, end)
	}
	condition := func(kind, status, reason, message string) string {
		return fmt.Sprintf(`"conditions":[{"type":%q,"status":%q,"reason":%q,"message":%q}]`, kind, status, reason, message)
	}
	for name, c := range map[string]struct {
		status string
		class  string        // "": it may still start
		after  time.Duration // 0: at once; never: only at the end of the launch
		is     error
		hint   string
	}{
		"starts":         {waiting("ContainerCreating", ""), "", 0, nil, ""},
		"no registry":    {waiting("ImagePullBackOff", `Back-off pulling image \"r.example/app:1\": ErrImagePull: `+refused+`dial tcp 127.0.0.1:1: connect: connection refused`), "registry", retried, nil, "the host of image in the manifest"},
		"busy registry":  {waiting("ErrImagePull", refused+`429 Too Many Requests`), "registry", 0, nil, "imagePullSecrets"},
		"wrong password": {waiting("ErrImagePull", refused+`failed to authorize: 401 Unauthorized`), "image", 0, backends.ErrSpec, "imagePullSecrets"},
		"no image":       {waiting("ImagePullBackOff", refused+`r.example/app:1: not found`), "image", 0, backends.ErrSpec, "its tag"},
		"some pull":      {waiting("ErrImagePull", ""), "image", retried, nil, "imagePullSecrets"},
		"no name":        {waiting("InvalidImageName", ""), "image", 0, backends.ErrSpec, "image in the manifest"},
		"no secret":      {waiting("CreateContainerConfigError", `secret \"x\" not found`), "spec", retried, backends.ErrSpec, "that the manifest names"},
		"as root":        {waiting("CreateContainerConfigError", `container has runAsNonRoot and image will run as root`), "admission", 0, backends.ErrSpec, "runAsUser"},
		"a wrong entry":  {waiting("RunContainerError", `exec: \"vlm\": executable file not found in $PATH`), "image", soon, backends.ErrSpec, "command and args"},
		"no such entry":  {restarted(1, "CrashLoopBackOff", `{"reason":"StartError","exitCode":128,"message":"exec: \"vlm\": executable file not found in $PATH"}`), "image", 0, backends.ErrSpec, "command and args"},
		"second start":   {restarted(1, "CrashLoopBackOff", `{"reason":"Error","exitCode":3}`), "", 0, nil, ""},
		"fourth start":   {restarted(3, "CrashLoopBackOff", `{"reason":"Error","exitCode":3}`), "exit", 0, nil, ""},
		"no memory":      {restarted(3, "CrashLoopBackOff", `{"reason":"OOMKilled","exitCode":137}`), "oom.host", 0, nil, "its limit"},
		"ready by now":   {`"containerStatuses":[{"restartCount":9,"ready":true,"state":{"running":{}},"lastState":{"terminated":{"reason":"Error","exitCode":3}}}]`, "", 0, nil, ""},
		"ended":          {`"containerStatuses":[{"restartCount":3,"state":{"terminated":{"reason":"Error","exitCode":1}}}]`, "exit", 0, nil, ""},
		"a sidecar":      {`"containerStatuses":[{"ready":true}],"initContainerStatuses":[{"state":{"waiting":{"reason":"InvalidImageName"}}}]`, "image", 0, backends.ErrSpec, ""},
		"no room":        {condition("PodScheduled", "False", "Unschedulable", "0/1 nodes are available: 1 Insufficient nvidia.com/gpu."), "no_capacity", never, backends.ErrCapacity, "timeouts.launch"},
		"no node":        {condition("PodScheduled", "False", "Unschedulable", "0/1 nodes are available: 1 node(s) didn't match Pod's node affinity/selector."), "placement", never, backends.ErrSpec, "nodeSelector"},
		"no claim":       {condition("PodScheduled", "False", "Unschedulable", `0/1 nodes are available: persistentvolumeclaim "x" not found.`), "volume", retried, backends.ErrSpec, "claimName"},
		"preempted":      {condition("DisruptionTarget", "True", "PreemptionByScheduler", ""), "preempted", 0, backends.ErrCapacity, "priorityClassName"},
		"node away":      {`"conditions":[{"type":"ContainersReady","status":"True"},{"type":"Ready","status":"False"}]`, "node", signs.NodeGone, nil, ""},
		"no GPU there":   {`"phase":"Failed","reason":"OutOfnvidia.com/gpu","message":"no"`, "no_capacity", 0, backends.ErrCapacity, "run it again"},
	} {
		var p pod
		if err := json.Unmarshal([]byte(`{"metadata":{"name":"p","uid":"u"},"status":{`+c.status+`}}`), &p); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		by, begun := judges{}, time.Now()
		if c.after > 0 {
			for _, at := range []time.Duration{0, c.after - time.Millisecond} {
				if got := by.broken(&p, p.facts(), begun.Add(at)); got != nil {
					t.Errorf("%s: after %v already %v", name, at, got)
				}
			}
		}
		got := by.broken(&p, p.facts(), begun.Add(c.after))
		if c.after == never {
			if got != nil {
				t.Errorf("%s: after %v already %v", name, never, got)
			}
			got, _ = errors.AsType[*backends.Failure](by.late([]pod{p}, nil, &warnings{}, errors.New("timeouts.launch")))
		}
		if (got == nil) != (c.class == "") || got != nil && (got.Class != c.class || !strings.Contains(got.Hint, c.hint) || c.is != nil && !errors.Is(got, c.is)) {
			t.Errorf("%s: %+v, want %q", name, got, c.class)
		}
	}
}

// A warning about a pod counts at the end of a launch as long as the pod does not run.
func TestLate_warnings(t *testing.T) {
	t.Parallel()
	told := &warnings{seen: map[string]warned{"u": {facts: signs.Troubles([]signs.Event{{Type: "Warning", Reason: "FailedMount", Message: "timed out"}})}}}
	for status, class := range map[string]string{`"phase":"Pending"`: "volume", `"phase":"Running"`: ""} {
		var p pod
		if err := json.Unmarshal([]byte(`{"metadata":{"name":"p","uid":"u"},"spec":{"nodeName":"gpu-1"},"status":{`+status+`}}`), &p); err != nil {
			t.Fatal(err)
		}
		err := judges{}.late([]pod{p}, nil, told, errors.New("timeouts.launch"))
		if f, _ := errors.AsType[*backends.Failure](err); (f == nil) != (class == "") || f != nil && f.Class != class {
			t.Errorf("%s: %v", status, err)
		}
	}
}

// A pod that ends and that a controller replaces ends no launch, unless its node is lost. It
// is the class of one that is late if no pod in its place says more.
func TestBroken_replaced(t *testing.T) {
	t.Parallel()
	const other = `{"metadata":{"name":"q","uid":"v"},"status":{"phase":"Pending","conditions":[{"type":"PodScheduled","status":"False","reason":"Unschedulable","message":"1 Insufficient nvidia.com/gpu."}]}}`
	for name, c := range map[string]struct {
		status, other string
		class         string // at once; "": not yet
		late          string
	}{
		"drained":           {status: `"conditions":[{"type":"DisruptionTarget","status":"True","reason":"EvictionByEvictionAPI"}]`, late: "evicted"},
		"preempted":         {status: `"conditions":[{"type":"DisruptionTarget","status":"True","reason":"PreemptionByScheduler"}]`, late: "preempted"},
		"refused":           {status: `"phase":"Failed","reason":"OutOfnvidia.com/gpu"`, late: "no_capacity"},
		"evicted, no place": {status: `"phase":"Failed","reason":"Evicted"`, other: other, late: "no_capacity"},
		"node":              {status: `"conditions":[{"type":"DisruptionTarget","status":"True","reason":"DeletionByTaintManager"}]`, class: "node", late: "node"},
		"image":             {status: `"containerStatuses":[{"state":{"waiting":{"reason":"InvalidImageName"}}}]`, class: "image", late: "image"},
	} {
		for controller, class := range map[string]string{`,"ownerReferences":[{"uid":"j"},{"uid":"r","controller":true}]`: c.class, `,"ownerReferences":[{"uid":"j"}]`: c.late} {
			var pods []pod
			if err := json.Unmarshal([]byte(`[{"metadata":{"name":"p","uid":"u"`+controller+`},"status":{`+c.status+`}}`+strings.Replace(c.other, "{", ",{", 1)+`]`), &pods); err != nil {
				t.Fatal(err)
			}
			if c.other != "" && class != "" {
				class = "evicted" // of a bare pod
			}
			by := judges{}
			if got := by.broken(&pods[0], pods[0].facts(), time.Now()); (got == nil) != (class == "") || got != nil && got.Class != class {
				t.Errorf("%s, %s: %+v, want %q", name, controller, got, class)
			}
			if class != "" {
				continue
			}
			got, _ := errors.AsType[*backends.Failure](by.late(pods, nil, &warnings{}, errors.New("timeouts.launch")))
			if got == nil || got.Class != c.late {
				t.Errorf("%s: at last %+v, want %q", name, got, c.late)
			}
		}
	}
}

// A lost node is found beside other ends of a pod.
func TestStranded(t *testing.T) {
	t.Parallel()
	var p pod
	if err := json.Unmarshal([]byte(`{"metadata":{"name":"p","uid":"u"},"status":{"phase":"Running","conditions":[{"type":"ContainersReady","status":"True"},{"type":"Ready","status":"False"},`+
		`{"type":"DisruptionTarget","status":"True","reason":"EvictionByEvictionAPI"}]}}`), &p); err != nil {
		t.Fatal(err)
	}
	by, begun := judges{}, time.Now()
	if err := by.stranded(&p, begun); err != nil {
		t.Error(err)
	}
	if f, ok := errors.AsType[*backends.Failure](by.stranded(&p, begun.Add(signs.NodeGone))); !ok || f.Class != signs.Node {
		t.Errorf("%v", f)
	}
}
