package signs

import (
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"sweep.dev/sweep/backends"
	"sweep.dev/sweep/internal/kubeapi"
)

// What passes: a driver that is still loaded on a new node, and one of volumes that is not
// registered there yet.
const (
	noDriver = `failed to create containerd task: OCI runtime create failed: error running prestart hook #0: exit status 1, stderr: ` +
		`nvidia-container-cli: initialization error: load library failed: libnvidia-ml.so.1: cannot open shared object file: no such file or directory`
	noCSI = `MountVolume.MountDevice failed for volume "x" : kubernetes.io/csi: attacher.MountDevice failed to create newCsiDriverClient: ` +
		`driver name ebs.csi.aws.com not found in the list of registered CSI drivers`
)

// Each sign has words that a cluster has said, and is found in them, at once or after its
// time. The words of those that one node can be brought to say are also provoked in
// e2e/kube.
func TestJudge(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		f     Fact
		class string
		is    error         // nil: any
		after time.Duration // 0: at once
	}{
		{Fact{inTarget, "PreemptionByScheduler", "default-scheduler: preempting to accommodate a higher priority pod", ""}, "preempted", backends.ErrCapacity, 0},
		{Fact{inTarget, "EvictionByEvictionAPI", "Eviction API: evicting", ""}, "evicted", nil, 0},
		{Fact{inTarget, "DeletionByTaintManager", "Taint manager: deleting due to NoExecute taint", ""}, "node", nil, 0},
		{Fact{inTarget, "DeletionByPodGC", "PodGC: node no longer exists", ""}, "node", nil, 0},
		{Fact{inCondition, notReady, "the cluster does not hear from its node", ""}, "node", nil, NodeGone},
		{Fact{inTarget, "TerminationByKubelet", "The node was low on resource: memory.", ""}, "evicted", nil, 0},
		{Fact{inCreate, "InternalError", `failed calling webhook "v.example.com": failed to call webhook: Post "https://v.ns.svc": no endpoints available for service "v"`, ""}, "admission", nil, retried},
		{Fact{inPod, "Evicted", "The node was low on resource: ephemeral-storage. Threshold quantity: 1", ""}, "evicted", nil, 0},
		{Fact{inPod, "Terminated", "Pod was terminated in response to imminent node shutdown.", ""}, "node", nil, 0},
		{Fact{inPod, "NodeLost", "Node node-0 which was running pod x is unresponsive", ""}, "node", nil, 0},
		{Fact{inPod, "DeadlineExceeded", "Pod was active on the node longer than the specified deadline", ""}, "deadline", nil, 0},
		{Fact{inPod, "OutOfnvidia.com/gpu", "Node didn't have enough resource: nvidia.com/gpu, requested: 1, used: 2, capacity: 2", ""}, "no_capacity", backends.ErrCapacity, 0},
		{Fact{inPod, "OutOfmemory", "Pod was rejected", ""}, "no_capacity", backends.ErrCapacity, 0},
		{Fact{inPod, "UnexpectedAdmissionError", "Allocate failed due to requested number of devices unavailable for nvidia.com/gpu", ""}, "no_capacity", backends.ErrCapacity, 0},
		{Fact{inPod, "TopologyAffinityError", "Resources cannot be allocated with Topology locality", ""}, "no_capacity", backends.ErrCapacity, 0},
		{Fact{inPod, "TaintToleration", "Predicate TaintToleration failed: node(s) had taints that the pod didn't tolerate", ""}, "placement", backends.ErrSpec, 0},
		{Fact{inPod, "SysctlForbidden", "forbidden sysctl", ""}, "host", nil, 0},
		{Fact{inPod, "NodeAffinity", "Predicate NodeAffinity failed", ""}, "placement", backends.ErrSpec, 0},
		{Fact{inEnded, "StartError", `exec: "vllm": executable file not found in $PATH: unknown`, ""}, "image", backends.ErrSpec, 0},
		{Fact{inEnded, "StartError", `failed to create containerd task: OCI runtime create failed: exec: "/app/run": stat /app/run: no such file or directory: unknown`, ""}, "image", backends.ErrSpec, 0},
		{Fact{inEnded, "StartError", `exec /app/run: exec format error`, ""}, "image", backends.ErrSpec, 0},
		{Fact{inEnded, "StartError", `error running prestart hook #0: fork/exec /usr/bin/nvidia-container-runtime-hook: no such file or directory`, ""}, "host", nil, 0},
		{Fact{inEnded, "StartError", noDriver, ""}, "host", nil, 0},
		{Fact{inEnded, "ContainerCannotRun", "x", ""}, "image", backends.ErrSpec, 0},
		{Fact{inWaiting, "ErrImageNeverPull", `Container image "x" is not present with pull policy of Never`, ""}, "image", backends.ErrSpec, 0},
		{Fact{inWaiting, "InvalidImageName", "couldn't parse image name", ""}, "image", backends.ErrSpec, 0},
		{Fact{inWaiting, "ErrImagePull", "failed to resolve reference: pull access denied, repository does not exist or may require authorization", ""}, "image", backends.ErrSpec, 0},
		{Fact{inWaiting, "ErrImagePull", "pulling from host 127.0.0.1:1 failed with status code [manifests 1]: 429 Too Many Requests", ""}, "registry", nil, 0},
		{Fact{inWaiting, "ErrImagePull", "toomanyrequests: You have reached your pull rate limit", ""}, "registry", nil, 0},
		{Fact{inWaiting, "ErrImagePull", "dial tcp 127.0.0.1:1: connect: connection refused", ""}, "registry", nil, retried},
		{Fact{inWaiting, "ImagePullBackOff", `Back-off pulling image "x": ErrImagePull: dial tcp: lookup registry.example: no such host`, ""}, "registry", nil, retried},
		{Fact{inWaiting, "ErrImagePull", "failed with status code [manifests 1]: 503 Service Unavailable", ""}, "registry", nil, retried},
		{Fact{inWaiting, "ErrImagePull", "x509: certificate signed by unknown authority", ""}, "image", nil, retried},
		{Fact{inWaiting, "ImagePullBackOff", `Back-off pulling image "x"`, ""}, "image", nil, retried},
		{Fact{inWaiting, "ImageInspectError", "x", ""}, "image", nil, retried},
		{Fact{inWaiting, "RegistryUnavailable", "x", ""}, "registry", nil, retried},
		{Fact{inWaiting, "SignatureValidationFailed", "x", ""}, "image", backends.ErrSpec, soon},
		{Fact{inWaiting, "CreateContainerConfigError", "container has runAsNonRoot and image will run as root", ""}, "admission", backends.ErrSpec, 0},
		{Fact{inWaiting, "CreateContainerConfigError", "couldn't find key HF_TOKEN in Secret ns/hf", ""}, "spec", backends.ErrSpec, soon},
		{Fact{inWaiting, "CreateContainerError", "x", ""}, "host", nil, soon},
		{Fact{inWaiting, "RunContainerError", `exec: "/app/run": permission denied: unknown`, ""}, "image", backends.ErrSpec, soon},
		{Fact{inWaiting, "RunContainerError", noDriver, ""}, "host", nil, soon},
		{Fact{inCondition, "Unschedulable", `0/1 nodes are available: persistentvolumeclaim "x" not found. not found`, ""}, "volume", backends.ErrSpec, soon},
		{Fact{inCondition, "Unschedulable", "pod has unbound immediate PersistentVolumeClaims", ""}, "volume", nil, time.Minute},
		{Fact{inCondition, "Unschedulable", "0/1 nodes are available: 1 Insufficient nvidia.com/gpu. no new claims to deallocate", ""}, "no_capacity", backends.ErrCapacity, time.Minute},
		{Fact{inCondition, "Unschedulable", "0/2 nodes are available: 1 Too many pods, 1 node(s) didn't match Pod's node affinity/selector.", ""}, "no_capacity", backends.ErrCapacity, time.Minute},
		{Fact{inCondition, "Unschedulable", "0/2 nodes are available: 1 node(s) didn't match Pod's node affinity/selector, 1 node(s) were unschedulable.", ""}, Node, nil, time.Minute},
		{Fact{inCondition, "Unschedulable", "2 node(s) didn't match Pod's node affinity/selector", ""}, "placement", backends.ErrSpec, time.Minute},
		{Fact{inCondition, "Unschedulable", "1 node(s) had untolerated taint(s)", ""}, "placement", backends.ErrSpec, time.Minute},
		{Fact{inCondition, "Unschedulable", "1 node(s) had untolerated taint {nvidia.com/gpu: present}", ""}, "placement", backends.ErrSpec, time.Minute},
		{Fact{inCondition, "Unschedulable", "1 node(s) had untolerated taint {node.kubernetes.io/unreachable: }", ""}, "node", nil, time.Minute},
		{Fact{inCondition, "Unschedulable", "1 node(s) were unschedulable", ""}, "no_capacity", backends.ErrCapacity, time.Minute},
		{Fact{inCondition, "SchedulingGated", "Scheduling is blocked due to non-empty scheduling gates", ""}, "queued", backends.ErrCapacity, time.Minute},
		{Fact{inEvent, "FailedMount", `MountVolume.SetUp failed for volume "x" : secret "x" not found`, ""}, "volume", backends.ErrSpec, soon},
		{Fact{inEvent, "FailedMount", `MountVolume.SetUp failed for volume "x" : references non-existent secret key: x`, ""}, "volume", backends.ErrSpec, soon},
		{Fact{inEvent, "FailedMount", noCSI, ""}, "volume", nil, 2 * time.Minute},
		{Fact{inEvent, "FailedMount", "Unable to attach or mount volumes: timed out waiting for the condition", ""}, "volume", nil, 2 * time.Minute},
		{Fact{inEvent, "FailedAttachVolume", "Multi-Attach error for volume", ""}, "volume", nil, 2 * time.Minute},
		{Fact{inEvent, "FailedCreatePodSandBox", "plugin type=\"calico\" failed", ""}, "host", nil, retried},
	} {
		j := &Judge{What: "pod x", Pending: time.Minute}
		begun := time.Now()
		at := func(d time.Duration) error {
			return j.Judge([]Fact{{inWaiting, "ContainerCreating", "", ""}, c.f}, begun.Add(d))
		}
		err := at(0)
		if c.after > 0 {
			if err != nil {
				t.Errorf("%v: at once %v", c.f, err)
			}
			if err := at(c.after - time.Millisecond); err != nil {
				t.Errorf("%v: too early %v", c.f, err)
			}
			// What went away and came back begins anew.
			if err := j.Judge(nil, begun.Add(c.after)); err != nil {
				t.Error(err)
			}
			begun = begun.Add(c.after)
			if err := at(0); err != nil {
				t.Errorf("%v: the second time at once %v", c.f, err)
			}
			err = at(c.after)
		}
		f, ok := errors.AsType[*backends.Failure](err)
		if !ok || f.Class != c.class || f.Hint == "" || c.is != nil && !errors.Is(err, c.is) || !strings.Contains(err.Error(), "pod x: "+c.f.reason) {
			t.Errorf("%v: %#v, %v", c.f, f, err)
		}
	}
	// A pod that only starts is no failure.
	j := &Judge{}
	for _, reason := range []string{"ContainerCreating", "PodInitializing", ""} {
		if err := j.Judge([]Fact{{inWaiting, reason, "", ""}}, time.Now()); err != nil {
			t.Errorf("%s: %v", reason, err)
		}
	}
}

// A refused create is told apart by its words: only a missing right is a refusal.
func TestRefusal(t *testing.T) {
	t.Parallel()
	for message, c := range map[string]struct {
		class string
		is    error
	}{
		`pods "x" is forbidden: exceeded quota: q, requested: requests.nvidia.com/gpu=1`:                     {"quota", backends.ErrCapacity},
		`pods "x" is forbidden: failed quota: q: must specify limits.memory for: server`:                     {"quota", backends.ErrSpec},
		`pods "x" is forbidden: violates PodSecurity "restricted:latest": runAsNonRoot != true`:              {"admission", backends.ErrSpec},
		`pods "x" is forbidden: pod rejected: RuntimeClass "nvidia" not found`:                               {"admission", backends.ErrSpec},
		`pods "x" is forbidden: no PriorityClass with name x was found`:                                      {"admission", backends.ErrSpec},
		`pods "x" is forbidden: maximum memory usage per Container is 1Gi, but limit is 64Gi`:                {"admission", backends.ErrSpec},
		`admission webhook "validate.kyverno.svc-fail" denied the request: labels`:                           {"admission", backends.ErrSpec},
		`pods "x" is forbidden: ValidatingAdmissionPolicy 'P' with binding 'B' denied request: no`:           {"admission", backends.ErrSpec},
		`pods "x" is forbidden: unable to create new content in namespace ns because it is being terminated`: {"namespace", backends.ErrSpec},
		`namespaces "ns" not found`: {"namespace", backends.ErrSpec},
	} {
		err := Refusal(false, "pod x", &kubeapi.StatusError{Code: http.StatusForbidden, Reason: "Forbidden", Message: message})
		f, ok := errors.AsType[*backends.Failure](err)
		if !ok || f.Class != c.class || !errors.Is(err, c.is) || errors.Is(err, backends.ErrRefused) {
			t.Errorf("%s: %#v, %v", message, f, err)
		}
	}
	if err := Refusal(false, "pod x", &kubeapi.Denied{User: "u", Verb: "create", Resource: "pods"}); !errors.Is(err, backends.ErrRefused) {
		t.Error(err)
	}
	if err := Refusal(false, "pod x", errors.New("connection refused")); errors.Is(err, backends.ErrSpec) || errors.Is(err, backends.ErrRefused) {
		t.Error(err)
	}
}

// An image that is pulled again and again fails under two names in turn.
func TestJudge_pull(t *testing.T) {
	t.Parallel()
	j := &Judge{What: "pod x"}
	begun := time.Now()
	for n := range 9 {
		reason := []string{"ErrImagePull", "ImagePullBackOff"}[n%2]
		err := j.Judge([]Fact{{inWaiting, reason, "connection refused", ""}}, begun.Add(time.Duration(n)*retried/8))
		if (err != nil) != (n == 8) {
			t.Errorf("after %d of 8 parts of the time: %v", n, err)
		}
	}
}

// A volume that was mounted on the second try is no failure while the image is pulled.
func TestTroubles(t *testing.T) {
	t.Parallel()
	at := func(seconds int) time.Time { return time.Unix(1000+int64(seconds), 0) }
	mount := Event{Reason: "FailedMount", Type: "Warning", Message: "not found", Last: at(1)}
	if got := Troubles([]Event{mount}); len(got) != 1 {
		t.Errorf("%v", got)
	}
	if got := Troubles([]Event{mount, {Reason: "Pulling", Type: "Normal", Time: at(3)}}); len(got) != 0 {
		t.Errorf("%v", got)
	}
	mount.Last = at(5)
	if got := Troubles([]Event{{Reason: "Pulling", Type: "Normal", Last: at(3)}, mount}); len(got) != 1 {
		t.Errorf("%v", got)
	}
}

// A volume that was attached on the second try is no failure while others are.
func TestTroubles_attached(t *testing.T) {
	t.Parallel()
	failed := func(volume string) Event {
		return Event{Reason: "FailedAttachVolume", Type: "Warning", Message: `Multi-Attach error for volume "` + volume + `" Volume is already used`, Last: time.Unix(1000, 0)}
	}
	done := Event{Reason: "SuccessfulAttachVolume", Type: "Normal", Message: `AttachVolume.Attach succeeded for volume "a"`, Last: time.Unix(1001, 0)}
	mount := Event{Reason: "FailedMount", Type: "Warning", Message: `for volume "a"`, Last: time.Unix(1000, 0)}
	if got := Troubles([]Event{failed("a"), failed("b"), done, mount}); len(got) != 2 || !strings.Contains(got[0].message, `"b"`) || got[1].reason != "FailedMount" {
		t.Errorf("%v", got)
	}
	again := failed("a")
	again.Last = time.Unix(1002, 0)
	if got := Troubles([]Event{done, again}); len(got) != 1 {
		t.Errorf("%v", got)
	}
}

// A kubelet that says why a pod is not ready is heard.
func TestUnheard(t *testing.T) {
	t.Parallel()
	for conditions, want := range map[string]bool{
		"": false,
		`{"type":"ContainersReady","status":"True"},{"type":"Ready","status":"True"}`:                                                               false,
		`{"type":"ContainersReady","status":"True"},{"type":"Ready","status":"False"}`:                                                              true,
		`{"type":"ContainersReady","status":"True"},{"type":"Ready","status":"False","reason":"ReadinessGatesNotReady"}`:                            false,
		`{"type":"ContainersReady","status":"False","reason":"ContainersNotReady"},{"type":"Ready","status":"False","reason":"ContainersNotReady"}`: false,
	} {
		var s kubeapi.PodStatus
		if err := json.Unmarshal([]byte(`{"conditions":[`+conditions+`]}`), &s); err != nil {
			t.Fatal(err)
		}
		if got := Unheard(&s); got != want {
			t.Errorf("%s: %v", conditions, got)
		}
	}
}

// Old kubelets say why an image cannot be pulled only every other time.
func TestJudge_noCause(t *testing.T) {
	t.Parallel()
	j := &Judge{What: "pod x"}
	begun := time.Now()
	for n := range 9 {
		message := []string{`Back-off pulling image "x"`, "connection refused"}[n%2]
		err := j.Judge([]Fact{{inWaiting, []string{"ImagePullBackOff", "ErrImagePull"}[n%2], message, "vllm"}}, begun.Add(time.Duration(n)*retried/8))
		if (err != nil) != (n == 8) {
			t.Errorf("after %d of 8 parts of the time: %v", n, err)
		}
		if err != nil && !strings.Contains(err.Error(), "container vllm of pod x: ImagePullBackOff") {
			t.Error(err)
		}
	}
}

// The hints for a user's own manifests name no key of a plan that has none for them.
func TestSigns_own(t *testing.T) {
	t.Parallel()
	for i := range signs {
		s := &signs[i]
		f, ok := errors.AsType[*backends.Failure](s.failure(true, errors.New("x")))
		if !ok || f.Hint == "" {
			t.Fatalf("%+v", s)
		}
		for _, key := range []string{"backend.deploy", "engines.", "matrix", "gpu_label", "budget"} {
			if strings.Contains(f.Hint, key) {
				t.Errorf("%s %s: %q names %s", s.in, s.reason, f.Hint, key)
			}
		}
	}
}

// A refused create of an object of a user's own speaks of the manifest.
func TestRefusal_own(t *testing.T) {
	t.Parallel()
	err := Refusal(true, "stack.yaml:3: Pod/x is refused", &kubeapi.StatusError{Code: http.StatusForbidden, Reason: "Forbidden", Message: `violates PodSecurity "restricted:latest"`})
	if f, ok := errors.AsType[*backends.Failure](err); !ok || f.Class != "admission" || !strings.Contains(f.Hint, "in the manifest") || !errors.Is(err, backends.ErrSpec) {
		t.Errorf("%#v, %v", f, err)
	}
}

// The hint for a refused object of a user's own is true for any kind.
func TestRefusal_object(t *testing.T) {
	t.Parallel()
	for message, hint := range map[string]string{
		`persistentvolumeclaims "x" is forbidden: exceeded quota: q`:                                      "wait longer with timeouts.launch",
		`persistentvolumeclaims "x" is forbidden: maximum storage usage per PersistentVolumeClaim is 1Gi`: "what the object asks for",
		`admission webhook "v" denied the request: no`:                                                    "refuses the object",
		`Service "x" is invalid: spec.ports: Required value`:                                              "make this object",
	} {
		err := Refusal(true, "stack.yaml:3: x is refused", &kubeapi.StatusError{Code: http.StatusUnprocessableEntity, Reason: "Invalid", Message: message})
		if f, ok := errors.AsType[*backends.Failure](err); !ok || !strings.Contains(f.Hint, hint) {
			t.Errorf("%s: %#v", message, f)
		}
	}
	// A webhook that does not answer is no fault of the manifest.
	err := (&Judge{What: "StatefulSet/x", Own: true}).AtLast([]Fact{Refused("", `failed calling webhook "v": timeout`)})
	if f, ok := errors.AsType[*backends.Failure](err); !ok || f.Class != "admission" || errors.Is(err, backends.ErrSpec) {
		t.Errorf("%#v, %v", f, err)
	}
}

// An operator has time for a user's own pods, longer where the kubelet waits longer itself.
func TestJudge_own(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		f     Fact
		after time.Duration
	}{
		{Fact{inEvent, "FailedMount", `configmap "x" not found`, ""}, 75 * time.Second},
		{Fact{inEnded, "StartError", noDriver, ""}, 40 * time.Second},
		{Fact{inWaiting, "RunContainerError", noDriver, ""}, 40 * time.Second},
		{Fact{inEnded, "StartError", `exec: "vlm": executable file not found in $PATH`, ""}, 0},
	} {
		j, begun := &Judge{Own: true}, time.Now()
		if err := j.Judge([]Fact{c.f}, begun); (err != nil) != (c.after == 0) {
			t.Errorf("%v: at once %v", c.f, err)
		}
		for late, after := range map[bool]time.Duration{false: c.after - time.Millisecond, true: c.after} {
			if err := j.Judge([]Fact{c.f}, begun.Add(after)); c.after > 0 && (err != nil) != late {
				t.Errorf("%v: after %v %v", c.f, after, err)
			}
		}
	}
	err := (&Judge{Own: true}).AtLast([]Fact{{inEvent, "FailedMount", noCSI, ""}})
	if f, ok := errors.AsType[*backends.Failure](err); !ok || !strings.Contains(f.Hint, "driver") {
		t.Errorf("%#v", f)
	}
}

// The events of an object that makes pods say that the API server refuses them.
func TestTroubles_refused(t *testing.T) {
	t.Parallel()
	facts := Troubles([]Event{{Reason: "FailedCreate", Type: "Warning", Message: `create Pod x-0 in StatefulSet x failed error: pods "x-0" is forbidden: exceeded quota: q, requested: pods=1, used: pods=2, limited: pods=2`}})
	err := (&Judge{What: "StatefulSet/x"}).AtLast(facts)
	if f, ok := errors.AsType[*backends.Failure](err); !ok || f.Class != "quota" || !errors.Is(err, backends.ErrCapacity) {
		t.Errorf("%#v, %v", f, err)
	}
}

// A kubelet says a second time, in other words, that it ended a pod: the words that tell more
// count.
func TestJudge_byKubelet(t *testing.T) {
	t.Parallel()
	said := Fact{inTarget, "TerminationByKubelet", "The node was low on resource: memory.", ""}
	for class, f := range map[string]Fact{
		"evicted": {inPod, "Evicted", "The node was low on resource: memory.", ""},
		"node":    {inPod, "Terminated", "Pod was terminated in response to imminent node shutdown.", ""},
	} {
		got, ok := errors.AsType[*backends.Failure]((&Judge{What: "pod x"}).Judge([]Fact{said, f}, time.Now()))
		if !ok || got.Class != class || class == "evicted" && !strings.Contains(got.Hint, "more memory") {
			t.Errorf("%v: %+v", f, got)
		}
	}
}

// A sign that may last for 5 seconds does not inherit the time of one that may last longer.
func TestJudge_spells(t *testing.T) {
	t.Parallel()
	for _, c := range [][2]Fact{
		{{inEvent, "FailedMount", "timed out waiting for the condition", ""}, {inEvent, "FailedMount", `secret "x" not found`, ""}},
		{{inCondition, "Unschedulable", "1 Insufficient nvidia.com/gpu.", ""}, {inCondition, "Unschedulable", `persistentvolumeclaim "x" not found`, ""}},
	} {
		j, begun := &Judge{What: "pod x", Pending: time.Hour}, time.Now()
		for n, f := range []Fact{c[0], c[0], c[1], c[1]} {
			after := time.Duration(n) * time.Minute
			if err := j.Judge([]Fact{f}, begun.Add(after)); (err != nil) != (n == 3) {
				t.Errorf("%v after %v: %v", f, after, err)
			}
		}
	}
}
