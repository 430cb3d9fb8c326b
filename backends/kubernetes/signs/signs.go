// Package signs says what a cluster's words about a pod mean: the class that a row has,
// how long it may last, and what to do about it. It asks no cluster.
package signs

import (
	"strings"
	"time"

	"sweep.dev/sweep/backends"
)

// A place is where a cluster says something of a pod.
type place string

const (
	inCreate    place = "create"    // its answer to a create
	inPod       place = "pod"       // status.reason of a pod that failed
	inCondition place = "condition" // a condition of the pod
	inTarget    place = "target"    // its condition DisruptionTarget: it is made to end
	inWaiting   place = "waiting"   // the state of a container
	inEnded     place = "ended"     // "
	inEvent     place = "event"
)

// A Fact is one thing that a cluster says of a pod.
type Fact struct {
	in              place
	reason, message string
	of              string // the container, "" for the pod
}

// Refused returns the fact that an answer to a create is, or what a controller says of its own.
func Refused(reason, message string) Fact { return Fact{inCreate, reason, message, ""} }

func (f Fact) String() string { return Text(f.reason, f.message) }

// Text returns a reason of the cluster's with its message, as a part of a sentence.
func Text(reason, message string) string {
	text := strings.Join(strings.Fields(message), " ")
	if !strings.HasSuffix(text, "..") { // a sentence of the cluster's, which goes on here
		text = strings.TrimSuffix(text, ".")
	}
	if text == "" {
		return reason
	}
	if reason == "" {
		return text
	}
	return reason + ": " + text
}

// A sign is what a fact means.
type sign struct {
	in      place
	reason  string // of the fact: one of some that | separates; a * at an end is any end; "" is any
	message string // a pattern for its message; "" is any

	class string // of the row
	err   error  // what a caller branches on; nil for none
	hint  string
	// own is the hint for a pod of a user's own manifests, which backend.deploy says
	// nothing of; "" is hint.
	own string
	// after is how long it may last: some of these go away by themselves. waits is
	// [Judge.Pending] in its place.
	after time.Duration
	waits bool
	// ownAfter is after for a pod of a user's own manifests: an operator of theirs may still
	// make what is missing; 0 is after.
	ownAfter time.Duration
}

const (
	// Quota is the class of a ResourceQuota's refusals.
	Quota = "quota"
	// notReady stands for what the cluster gives no reason for in a condition, see
	// [Unheard]; it is the reason of its event.
	notReady = "NodeNotReady"
	// Placement is the class of a pod that no node takes. Nodes say more of it.
	Placement = "placement"
	// Node is the class of a pod whose node is why it ended, of which nodes say more, too.
	Node = "node"
)

const (
	// pulls are the reasons of an image that cannot be pulled, in turn.
	pulls = "ErrImagePull|ImagePullBackOff"
	// unanswered is what a container runtime says of a registry that does not answer, or
	// only with an error of its own.
	unanswered = `connection refused|no such host|server misbehaving|no route to host|network is unreachable|` +
		`i/o timeout|TLS handshake timeout|deadline exceeded|connection reset|EOF|` +
		`Internal Server Error|Bad Gateway|Service Unavailable|Gateway Timeout`

	// wrongCommand is what a container runtime says of a command that the image does not have.
	// Of files that the node lacks, such as those of a driver, it says `no such file` as well.
	wrongCommand = `(?i)(^|[^/])exec:? ["/].*(not found|no such file|permission denied|is a directory)|executable file .*not found|` +
		`exec format error|chdir to cwd|open executable`

	// HintLabels is a hint that nodes lead to as well.
	HintLabels = "no node has the labels: gpu in the matrix, gpu_label or node_selector in backend.deploy"
	// HintAway is another.
	HintAway = "the nodes that fit are lost, cordoned, not ready or short of something: wait for them, or use others"
)

// NodeGone is how long a pod stays on a node that does not answer.
const NodeGone = 30 * time.Second

const (
	soon    = 5 * time.Second
	retried = 40 * time.Second // what the kubelet tries again, and may succeed
	// remounted is that for a volume, whose pauses double: the kubelet mounts it again about 31
	// and 63 s after the first time.
	remounted = 75 * time.Second
)

// signs are what of a cluster's words is a failure, the most telling first. Reasons and
// messages are those of Kubernetes 1.34; where a registry, a webhook or a volume plug-in
// writes the message, only a part of it is looked for.
//
// A 403 of a create has at least five meanings, of which one is a missing right: that one
// is [*kubeapi.Denied].
var signs = []sign{
	// Answers to a create.
	{in: inCreate, message: `exceeded quota`, class: Quota, err: backends.ErrCapacity, hint: "the namespace's ResourceQuota is used up: end what uses it, ask for more, or wait longer with backend.deploy.pending", own: "the namespace's ResourceQuota is used up: end what uses it, ask for more, or wait longer with timeouts.launch", waits: true},
	{in: inCreate, message: `failed quota.*must specify (\S+)`, class: Quota, err: backends.ErrSpec, hint: "the namespace's ResourceQuota wants each pod to say what it uses: set memory and cpu in backend.deploy", own: "the namespace's ResourceQuota wants each container to say what it uses: set its resources in the manifest"},
	{in: inCreate, message: `violates PodSecurity`, class: "admission", err: backends.ErrSpec, hint: "the namespace's Pod Security Standard refuses the pod: leave out root in backend.deploy, or use another namespace", own: "the namespace's Pod Security Standard refuses the pod: set the securityContext that the text names in the manifest, or use another namespace"},
	{in: inCreate, message: `RuntimeClass .* not found`, class: "admission", err: backends.ErrSpec, hint: "the cluster has no such runtime class: backend.deploy.runtime_class", own: "the cluster has no such runtime class: runtimeClassName in the manifest"},
	{in: inCreate, message: `no PriorityClass with name`, class: "admission", err: backends.ErrSpec, hint: "the cluster has no such priority class: backend.deploy.priority_class", own: "the cluster has no such priority class: priorityClassName in the manifest"},
	{in: inCreate, message: `maximum .* usage per|minimum .* usage per`, class: "admission", err: backends.ErrSpec, hint: "the namespace's LimitRange refuses what the pod asks for: memory and cpu in backend.deploy", own: "the namespace's LimitRange refuses what the object asks for: resources in the manifest"},
	{in: inCreate, message: `failed calling webhook`, class: "admission", hint: "a webhook of the cluster does not answer: the text names it, and whoever runs it can say why", after: retried},
	{in: inCreate, message: `admission webhook|ValidatingAdmissionPolicy`, class: "admission", err: backends.ErrSpec, hint: "a rule of the cluster refuses the pod: the text says which", own: "a rule of the cluster refuses the object: the text says which"},
	{in: inCreate, message: `is being terminated`, class: "namespace", err: backends.ErrSpec, hint: "the namespace is being deleted: use another one, or wait until it is gone and make it again"},
	{in: inCreate, message: `namespaces? ".*" not found`, class: "namespace", err: backends.ErrSpec, hint: "there is no such namespace: make it first"},
	{in: inCreate, reason: "Invalid", class: "spec", err: backends.ErrSpec, hint: "the cluster cannot make this pod: the text names the field", own: "the cluster cannot make this object: the text names the field"},

	// The end of a pod, which its container's status would explain wrongly.
	{in: inTarget, reason: "PreemptionByScheduler", class: "preempted", err: backends.ErrCapacity, hint: "a pod of a higher priority took its place: a higher backend.deploy.priority_class, or another time", own: "a pod of a higher priority took its place: a higher priorityClassName in the manifest, or another time"},
	{in: inTarget, reason: "EvictionByEvictionAPI", class: "evicted", hint: "somebody drains the node: run it again on another one"},
	{in: inTarget, reason: "DeletionByTaintManager", class: Node, hint: "its node was lost, or got a taint with NoExecute: run it again"},
	{in: inTarget, reason: "DeletionByPodGC", class: Node, hint: "its node is gone: run it again"},
	{in: inCondition, reason: notReady, class: Node, hint: "its node was lost: run it again", after: NodeGone},
	{in: inPod, reason: "Evicted", class: "evicted", hint: "the node ran short of what the text names: ask for more memory in backend.deploy, or use another node", own: "the node ran short of what the text names: request more of it in the manifest, or use another node"},
	{in: inPod, reason: "Terminated", message: `shutdown`, class: Node, hint: "the node was shut down: run it again"},
	// A kubelet says it with both of those before, which tell more.
	{in: inTarget, reason: "TerminationByKubelet", class: "evicted", hint: "the node ended it, for want of memory or disk, or to shut down: run it again on another one"},
	{in: inPod, reason: "NodeLost", class: Node, hint: "its node was lost: run it again"},
	{in: inPod, reason: "DeadlineExceeded", class: "deadline", hint: "its time is over: budget.max_pod_lifetime", own: "its time is over: activeDeadlineSeconds in the manifest"},
	{in: inPod, reason: "OutOf*", class: "no_capacity", err: backends.ErrCapacity, hint: "another pod took the last of it between the choice of the node and the start: run it again"},
	{in: inPod, reason: "UnexpectedAdmissionError", class: "no_capacity", err: backends.ErrCapacity, hint: "the node could not give it its GPUs: run it again, and look at the node's device plugin"},
	{in: inPod, reason: "TopologyAffinityError", class: "no_capacity", err: backends.ErrCapacity, hint: "no such number of GPUs is free on one side of the node: fewer GPUs, or another node"},
	{in: inPod, reason: "TaintToleration", class: Placement, err: backends.ErrSpec, hint: "its node got a taint: tolerations in backend.deploy", own: "its node got a taint: tolerations in the manifest"},
	{in: inPod, reason: "NodeAffinity", class: Placement, err: backends.ErrSpec, hint: "the node's labels changed: backend.deploy.node_selector", own: "the node's labels changed: nodeSelector or affinity in the manifest"},

	// A container that cannot start.
	{in: inEnded, reason: "StartError", message: wrongCommand, class: "image", err: backends.ErrSpec, hint: "the image cannot run this command: engines.NAME.command or entrypoint in the plan", own: "the image cannot run this command: command and args in the manifest"},
	{in: inEnded, reason: "StartError", class: "host", hint: "the node cannot start the container: the text says why, and another node may", ownAfter: retried},
	{in: inEnded, reason: "ContainerCannotRun", class: "image", err: backends.ErrSpec, hint: "the image cannot run this command: engines.NAME.command or entrypoint in the plan", own: "the image cannot run this command: command and args in the manifest"},
	{in: inWaiting, reason: "ErrImageNeverPull", class: "image", err: backends.ErrSpec, hint: "the node does not have the image: pull in backend.deploy", own: "the node does not have the image: imagePullPolicy in the manifest"},
	{in: inWaiting, reason: "InvalidImageName", class: "image", err: backends.ErrSpec, hint: "engines.NAME.image is no name of an image", own: "image in the manifest is no name of an image"},
	{in: inWaiting, message: `(?i)unauthorized|authorization failed|authentication required|no basic auth|access denied|forbidden`, reason: pulls, class: "image", err: backends.ErrSpec, hint: "the registry does not give the image to the node: pull_secrets in backend.deploy, or the image's name", own: "the registry does not give the image to the node: imagePullSecrets in the manifest, or the image's name"},
	{in: inWaiting, message: `(?i)manifest unknown|not found|does not exist`, reason: pulls, class: "image", err: backends.ErrSpec, hint: "the registry has no such image: its name or its tag in engines.NAME.image", own: "the registry has no such image: its name or its tag in the manifest"},
	{in: inWaiting, message: `(?i)too ?many ?requests|rate limit`, reason: pulls, class: "registry", hint: "the registry limits pulls: pull_secrets in backend.deploy", own: "the registry limits pulls: imagePullSecrets in the manifest"},
	{in: inWaiting, message: unanswered, reason: pulls, class: "registry", hint: "the registry does not answer the node: the host in engines.NAME.image, or wait until it does", own: "the registry does not answer the node: the host of image in the manifest, or wait until it does", after: retried},
	{in: inWaiting, reason: pulls, class: "image", hint: "the node cannot pull the image: its name, its registry, or pull_secrets in backend.deploy", own: "the node cannot pull the image: its name, its registry, or imagePullSecrets in the manifest", after: retried},
	{in: inWaiting, reason: "ImageInspectError", class: "image", hint: "the node cannot read the image: another node may", after: retried},
	{in: inWaiting, reason: "RegistryUnavailable", class: "registry", hint: "the registry does not answer the node", after: retried},
	{in: inWaiting, reason: "SignatureValidationFailed", class: "image", err: backends.ErrSpec, hint: "the cluster wants a signed image", after: soon},
	{in: inWaiting, message: `runAsNonRoot|run as root`, reason: "CreateContainerConfigError", class: "admission", err: backends.ErrSpec, hint: "the image runs as root: say user in backend.deploy, or root: true", own: "the image runs as root: set runAsUser or leave out runAsNonRoot in the manifest"},
	{in: inWaiting, reason: "CreateContainerConfigError", class: "spec", err: backends.ErrSpec, hint: "a Secret or a key that backend.deploy.secrets names is not there", own: "a Secret or a ConfigMap that the manifest names, or a key of it, is not there", after: soon, ownAfter: retried},
	{in: inWaiting, reason: "CreateContainerError", class: "host", hint: "the node cannot make the container: the text says why", after: soon},
	{in: inWaiting, reason: "RunContainerError", message: wrongCommand, class: "image", err: backends.ErrSpec, hint: "the image cannot run this command: engines.NAME.command or entrypoint in the plan", own: "the image cannot run this command: command and args in the manifest", after: soon},
	{in: inWaiting, reason: "RunContainerError", class: "host", hint: "the node cannot start the container: the text says why, and another node may", after: soon, ownAfter: retried},

	// A pod that has no node, or no volume there.
	{in: inCondition, reason: "Unschedulable", message: `persistentvolumeclaim ".*" not found`, class: "volume", err: backends.ErrSpec, hint: "the namespace has no such PersistentVolumeClaim: backend.deploy.cache.claim", own: "the namespace has no such PersistentVolumeClaim: claimName in the manifest", after: soon, ownAfter: retried},
	{in: inCondition, reason: "Unschedulable", message: `unbound immediate PersistentVolumeClaims|volume node affinity conflict`, class: "volume", hint: "the volume of backend.deploy.cache is not bound, or no node that fits can reach it", own: "a volume of the manifest is not bound, or no node that fits can reach it", waits: true},
	{in: inCondition, reason: "Unschedulable", message: `Insufficient|Too many pods`, class: "no_capacity", err: backends.ErrCapacity, hint: "no node that fits has room: free one, ask for less, or wait longer with backend.deploy.pending", own: "no node that fits has room: free one, ask for less, or wait longer with timeouts.launch, and progressDeadlineSeconds of a Deployment", waits: true},
	{in: inCondition, reason: "Unschedulable", message: `were unschedulable.*node affinity/selector|node affinity/selector.*were unschedulable`, class: Node, hint: HintAway, waits: true},
	{in: inCondition, reason: "Unschedulable", message: `untolerated taint \{node\.kubernetes\.io/`, class: Node, hint: HintAway, waits: true}, // before 1.34, which names no taint
	{in: inCondition, reason: "Unschedulable", message: `untolerated taint.*node affinity/selector|node affinity/selector.*untolerated taint`, class: Placement, err: backends.ErrSpec, hint: "no node without a taint has the labels: tolerations, gpu_label or node_selector in backend.deploy, or gpu in the matrix", own: "no node without a taint has the labels: tolerations, nodeSelector or affinity in the manifest", waits: true},
	{in: inCondition, reason: "Unschedulable", message: `didn't match Pod's node affinity/selector`, class: Placement, err: backends.ErrSpec, hint: HintLabels, own: "no node has the labels: nodeSelector or affinity in the manifest", waits: true},
	{in: inCondition, reason: "Unschedulable", message: `untolerated taint`, class: Placement, err: backends.ErrSpec, hint: "the nodes have a taint, which kubectl describe nodes shows: tolerations in backend.deploy, unless they are lost", own: "the nodes have a taint, which kubectl describe nodes shows: tolerations in the manifest, unless they are lost", waits: true},
	{in: inCondition, reason: "Unschedulable", class: "no_capacity", err: backends.ErrCapacity, hint: "no node takes the pod: the text says why", waits: true},
	{in: inCondition, reason: "SchedulingGated", class: "queued", err: backends.ErrCapacity, hint: "a queue of the cluster holds the pod back", waits: true},
	{in: inEvent, reason: "FailedMount", message: `registered CSI drivers`, class: "volume", hint: "the driver of a volume does not run on the node: the text names it", after: 2 * time.Minute},
	{in: inEvent, reason: "FailedMount", message: `(?i)(secret|configmap)s? ".*" not found|references non-existent|no such file`, class: "volume", err: backends.ErrSpec, hint: "a volume cannot be mounted: backend.deploy.cache", own: "a volume cannot be mounted: volumes in the manifest", after: soon, ownAfter: remounted},
	{in: inEvent, reason: "FailedMount", class: "volume", hint: "a volume cannot be mounted: the text says why", after: 2 * time.Minute},
	{in: inEvent, reason: "FailedAttachVolume", class: "volume", hint: "a volume cannot be attached to the node: is another node using it?", after: 2 * time.Minute},
	{in: inEvent, reason: "FailedCreatePodSandBox", class: "host", hint: "the node cannot give the pod a network: another node may", after: retried},

	// Whatever else a kubelet refuses a pod for.
	{in: inPod, class: "host", hint: "the node does not take the pod: the text says why"},
}
