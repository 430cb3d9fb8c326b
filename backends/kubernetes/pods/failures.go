package pods

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	"sweep.dev/sweep/backends"
	"sweep.dev/sweep/internal/kubeapi"
)

// Where a cluster says something of a pod.
const (
	inCreate    = "create"    // its answer to a create
	inPod       = "pod"       // status.reason of a pod that failed
	inCondition = "condition" // a condition of the pod
	inWaiting   = "waiting"   // the state of a container
	inEnded     = "ended"     // "
	inEvent     = "event"
)

// A fact is one thing that a cluster says of a pod.
type fact struct{ in, reason, message string }

func (f fact) String() string {
	text := strings.Join(strings.Fields(f.message), " ")
	if !strings.HasSuffix(text, "..") { // a sentence of the cluster's, which goes on here
		text = strings.TrimSuffix(text, ".")
	}
	if text == "" {
		return f.reason
	}
	if f.reason == "" {
		return text
	}
	return f.reason + ": " + text
}

// A sign is what a fact means.
type sign struct {
	in      string
	reason  string // of the fact: one of some that | separates; a * at an end is any end; "" is any
	message string // a pattern for its message; "" is any

	class string // of the row
	err   error  // what a caller branches on; nil for none
	hint  string
	// after is how long it may last: some of these go away by themselves. waits is
	// backend.deploy.pending in its place.
	after time.Duration
	waits bool
}

const (
	// classQuota is the class of a ResourceQuota's refusals.
	classQuota = "quota"
	// notReady stands for what the cluster gives no reason for in a condition, see
	// [pod.unheard]; it is the reason of its event.
	notReady = "NodeNotReady"
	// classPlacement and classNode are those of which nodes say more: see explain.
	classPlacement = "placement"
	classNode      = "node"
)

const (
	// pulls are the reasons of an image that cannot be pulled, in turn.
	pulls = "ErrImagePull|ImagePullBackOff"
	// unanswered is what a container runtime says of a registry that does not answer, or
	// only with an error of its own.
	unanswered = `connection refused|no such host|server misbehaving|no route to host|network is unreachable|` +
		`i/o timeout|TLS handshake timeout|deadline exceeded|connection reset|EOF|` +
		`Internal Server Error|Bad Gateway|Service Unavailable|Gateway Timeout`

	hintLabels = "no node has the labels: gpu in the matrix, gpu_label or node_selector in backend.deploy"
	hintAway   = "the nodes that fit are lost, cordoned, not ready or short of something: wait for them, or use others"
)

const (
	soon    = 5 * time.Second
	retried = 40 * time.Second // what the kubelet tries again, and may succeed
)

// signs are what of a cluster's words is a failure, the most telling first. Reasons and
// messages are those of Kubernetes 1.34; where a registry, a webhook or a volume plug-in
// writes the message, only a part of it is looked for.
//
// A 403 of a create has at least five meanings, of which one is a missing right: that one
// is [*kubeapi.Denied].
var signs = []sign{
	// Answers to a create.
	{in: inCreate, message: `exceeded quota`, class: classQuota, err: backends.ErrCapacity, hint: "the namespace's ResourceQuota is used up: end what uses it, ask for more, or wait longer with backend.deploy.pending"},
	{in: inCreate, message: `failed quota.*must specify (\S+)`, class: classQuota, err: backends.ErrSpec, hint: "the namespace's ResourceQuota wants each pod to say what it uses: set memory and cpu in backend.deploy"},
	{in: inCreate, message: `violates PodSecurity`, class: "admission", err: backends.ErrSpec, hint: "the namespace's Pod Security Standard refuses the pod: leave out root in backend.deploy, or use another namespace"},
	{in: inCreate, message: `RuntimeClass .* not found`, class: "admission", err: backends.ErrSpec, hint: "the cluster has no such runtime class: backend.deploy.runtime_class"},
	{in: inCreate, message: `no PriorityClass with name`, class: "admission", err: backends.ErrSpec, hint: "the cluster has no such priority class: backend.deploy.priority_class"},
	{in: inCreate, message: `maximum .* usage per|minimum .* usage per`, class: "admission", err: backends.ErrSpec, hint: "the namespace's LimitRange refuses what the pod asks for: memory and cpu in backend.deploy"},
	{in: inCreate, message: `admission webhook|ValidatingAdmissionPolicy|failed calling webhook`, class: "admission", err: backends.ErrSpec, hint: "a rule of the cluster refuses the pod: the text says which"},
	{in: inCreate, message: `is being terminated`, class: "namespace", err: backends.ErrSpec, hint: "the namespace is being deleted: use another one, or wait until it is gone and make it again"},
	{in: inCreate, message: `namespaces? ".*" not found`, class: "namespace", err: backends.ErrSpec, hint: "there is no such namespace: make it first"},
	{in: inCreate, reason: "Invalid", class: "spec", err: backends.ErrSpec, hint: "the cluster cannot make this pod: the text names the field"},

	// The end of a pod, which its container's status would explain wrongly.
	{in: inCondition, reason: "PreemptionByScheduler", class: "preempted", err: backends.ErrCapacity, hint: "a pod of a higher priority took its place: a higher backend.deploy.priority_class, or another time"},
	{in: inCondition, reason: "EvictionByEvictionAPI", class: "evicted", hint: "somebody drains the node: run it again on another one"},
	{in: inCondition, reason: "DeletionByTaintManager", class: classNode, hint: "its node was lost, or got a taint with NoExecute: run it again"},
	{in: inCondition, reason: "DeletionByPodGC", class: classNode, hint: "its node is gone: run it again"},
	{in: inCondition, reason: "TerminationByKubelet", class: "evicted", hint: "the node ended it, for want of memory or disk, or to shut down: run it again on another one"},
	{in: inCondition, reason: notReady, class: classNode, hint: "its node was lost: run it again", after: nodeGone * time.Second},
	{in: inPod, reason: "Evicted", class: "evicted", hint: "the node ran short of what the text names: ask for more memory in backend.deploy, or use another node"},
	{in: inPod, reason: "Terminated", message: `shutdown`, class: classNode, hint: "the node was shut down: run it again"},
	{in: inPod, reason: "NodeLost", class: classNode, hint: "its node was lost: run it again"},
	{in: inPod, reason: "DeadlineExceeded", class: "deadline", hint: "its time is over: budget.max_pod_lifetime"},
	{in: inPod, reason: "OutOf*", class: "no_capacity", err: backends.ErrCapacity, hint: "another pod took the last of it between the choice of the node and the start: run it again"},
	{in: inPod, reason: "UnexpectedAdmissionError", class: "no_capacity", err: backends.ErrCapacity, hint: "the node could not give it its GPUs: run it again, and look at the node's device plugin"},
	{in: inPod, reason: "TopologyAffinityError", class: "no_capacity", err: backends.ErrCapacity, hint: "no such number of GPUs is free on one side of the node: fewer GPUs, or another node"},
	{in: inPod, reason: "TaintToleration", class: classPlacement, err: backends.ErrSpec, hint: "its node got a taint: tolerations in backend.deploy"},
	{in: inPod, reason: "NodeAffinity", class: classPlacement, err: backends.ErrSpec, hint: "the node's labels changed: backend.deploy.node_selector"},

	// A container that cannot start.
	{in: inEnded, reason: "StartError", class: "image", err: backends.ErrSpec, hint: "the image cannot run this command: engines.NAME.command or entrypoint in the plan"},
	{in: inEnded, reason: "ContainerCannotRun", class: "image", err: backends.ErrSpec, hint: "the image cannot run this command: engines.NAME.command or entrypoint in the plan"},
	{in: inWaiting, reason: "ErrImageNeverPull", class: "image", err: backends.ErrSpec, hint: "the node does not have the image: pull in backend.deploy"},
	{in: inWaiting, reason: "InvalidImageName", class: "image", err: backends.ErrSpec, hint: "engines.NAME.image is no name of an image"},
	{in: inWaiting, message: `(?i)unauthorized|authorization failed|authentication required|no basic auth|access denied|forbidden`, reason: pulls, class: "image", err: backends.ErrSpec, hint: "the registry does not give the image to the node: pull_secrets in backend.deploy, or the image's name"},
	{in: inWaiting, message: `(?i)manifest unknown|not found|does not exist`, reason: pulls, class: "image", err: backends.ErrSpec, hint: "the registry has no such image: its name or its tag in engines.NAME.image"},
	{in: inWaiting, message: `(?i)too ?many ?requests|rate limit`, reason: pulls, class: "registry", hint: "the registry limits pulls: pull_secrets in backend.deploy"},
	{in: inWaiting, message: unanswered, reason: pulls, class: "registry", hint: "the registry does not answer the node: the host in engines.NAME.image, or wait until it does", after: retried},
	{in: inWaiting, reason: pulls, class: "image", hint: "the node cannot pull the image: its name, its registry, or pull_secrets in backend.deploy", after: retried},
	{in: inWaiting, reason: "ImageInspectError", class: "image", hint: "the node cannot read the image: another node may", after: retried},
	{in: inWaiting, reason: "RegistryUnavailable", class: "registry", hint: "the registry does not answer the node", after: retried},
	{in: inWaiting, reason: "SignatureValidationFailed", class: "image", err: backends.ErrSpec, hint: "the cluster wants a signed image", after: soon},
	{in: inWaiting, message: `runAsNonRoot|run as root`, reason: "CreateContainerConfigError", class: "admission", err: backends.ErrSpec, hint: "the image runs as root: say user in backend.deploy, or root: true"},
	{in: inWaiting, reason: "CreateContainerConfigError", class: "spec", err: backends.ErrSpec, hint: "a Secret or a key that backend.deploy.secrets names is not there", after: soon},
	{in: inWaiting, reason: "CreateContainerError", class: "host", hint: "the node cannot make the container: the text says why", after: soon},
	{in: inWaiting, reason: "RunContainerError", class: "image", err: backends.ErrSpec, hint: "the image cannot run this command: engines.NAME.command or entrypoint in the plan", after: soon},

	// A pod that has no node, or no volume there.
	{in: inCondition, reason: "Unschedulable", message: `persistentvolumeclaim ".*" not found`, class: "volume", err: backends.ErrSpec, hint: "the namespace has no such PersistentVolumeClaim: backend.deploy.cache.claim", after: soon},
	{in: inCondition, reason: "Unschedulable", message: `unbound immediate PersistentVolumeClaims|volume node affinity conflict`, class: "volume", hint: "the volume of backend.deploy.cache is not bound, or no node that fits can reach it", waits: true},
	{in: inCondition, reason: "Unschedulable", message: `Insufficient|Too many pods`, class: "no_capacity", err: backends.ErrCapacity, hint: "no node that fits has room: free one, ask for less, or wait longer with backend.deploy.pending", waits: true},
	{in: inCondition, reason: "Unschedulable", message: `were unschedulable.*node affinity/selector|node affinity/selector.*were unschedulable`, class: classNode, hint: hintAway, waits: true},
	{in: inCondition, reason: "Unschedulable", message: `untolerated taint \{node\.kubernetes\.io/`, class: classNode, hint: hintAway, waits: true}, // before 1.34, which names no taint
	{in: inCondition, reason: "Unschedulable", message: `untolerated taint.*node affinity/selector|node affinity/selector.*untolerated taint`, class: classPlacement, err: backends.ErrSpec, hint: "no node without a taint has the labels: tolerations, gpu_label or node_selector in backend.deploy, or gpu in the matrix", waits: true},
	{in: inCondition, reason: "Unschedulable", message: `didn't match Pod's node affinity/selector`, class: classPlacement, err: backends.ErrSpec, hint: hintLabels, waits: true},
	{in: inCondition, reason: "Unschedulable", message: `untolerated taint`, class: classPlacement, err: backends.ErrSpec, hint: "the nodes have a taint, which kubectl describe nodes shows: tolerations in backend.deploy, unless they are lost", waits: true},
	{in: inCondition, reason: "Unschedulable", class: "no_capacity", err: backends.ErrCapacity, hint: "no node takes the pod: the text says why", waits: true},
	{in: inCondition, reason: "SchedulingGated", class: "queued", err: backends.ErrCapacity, hint: "a queue of the cluster holds the pod back", waits: true},
	{in: inEvent, reason: "FailedMount", message: `not found|no such file`, class: "volume", err: backends.ErrSpec, hint: "a volume cannot be mounted: backend.deploy.cache", after: soon},
	{in: inEvent, reason: "FailedMount", class: "volume", hint: "a volume cannot be mounted: the text says why", after: 2 * time.Minute},
	{in: inEvent, reason: "FailedAttachVolume", class: "volume", hint: "a volume cannot be attached to the node: is another node using it?", after: 2 * time.Minute},
	{in: inEvent, reason: "FailedCreatePodSandBox", class: "host", hint: "the node cannot give the pod a network: another node may", after: retried},

	// Whatever else a kubelet refuses a pod for.
	{in: inPod, class: "host", hint: "the node does not take the pod: the text says why"},
}

// matches says whether a sign is of a fact.
func (s *sign) matches(f fact) bool {
	reason := s.reason == ""
	for one := range strings.SplitSeq(s.reason, "|") {
		stem, open := strings.CutSuffix(one, "*")
		reason = reason || one == f.reason || open && strings.HasPrefix(f.reason, stem)
	}
	return s.in == f.in && reason && (s.message == "" || regexp.MustCompile(s.message).MatchString(f.message))
}

// failure is what a sign means of a fact about something.
func (s *sign) failure(what string, f fact) error {
	err := fmt.Errorf("%s: %.500s", what, f)
	if s.err != nil {
		err = fmt.Errorf("%w: %w", s.err, err)
	}
	return &backends.Failure{Class: s.class, Hint: s.hint, Err: err}
}

// refusal is the error of a create that was refused.
func refusal(what string, err error) error {
	at, ok := errors.AsType[*kubeapi.StatusError](err)
	if !ok {
		return fmt.Errorf("%s: %w", what, denied(err))
	}
	f := fact{inCreate, at.Reason, at.Message}
	for i := range signs {
		if signs[i].matches(f) {
			return signs[i].failure(what, f)
		}
	}
	if at.Code >= 400 && at.Code < 500 {
		return fmt.Errorf("%w: %s: %w", backends.ErrSpec, what, err)
	}
	return fmt.Errorf("%s: %w", what, err)
}

// facts are what a pod says of itself that may be a failure.
func (p *pod) facts() (all []fact) {
	if p.Status.Phase == "Failed" && p.Status.Reason != "" {
		all = append(all, fact{inPod, p.Status.Reason, p.Status.Message})
	}
	for _, c := range p.Status.Conditions {
		switch {
		case c.Type == "DisruptionTarget" && c.Status == "True", c.Type == "PodScheduled" && c.Status == "False":
			all = append(all, fact{inCondition, c.Reason, c.Message})
		}
	}
	if p.unheard() {
		all = append(all, fact{inCondition, notReady, "the cluster does not hear from its node"})
	}
	s := p.server()
	if s.Waiting != nil {
		all = append(all, fact{inWaiting, s.Waiting.Reason, s.Waiting.Message})
	}
	if s.Terminated != nil {
		all = append(all, fact{inEnded, s.Terminated.Reason, s.Terminated.Message})
	}
	return all
}

// A judge holds the facts of one pod against the signs. It looks at no clock of its own.
type judge struct {
	what    string // "pod NAME"
	pending time.Duration
	since   map[*sign]time.Time
}

// judge is the failure that the facts are by now, nil for none.
func (j *judge) judge(facts []fact, now time.Time) error {
	here := map[*sign]fact{}
	for _, f := range facts {
		for i := range signs {
			if signs[i].matches(f) {
				here[&signs[i]] = f
				break
			}
		}
	}
	if j.since == nil {
		j.since = map[*sign]time.Time{}
	}
	for s := range j.since {
		if _, still := here[s]; !still {
			delete(j.since, s)
		}
	}
	for i := range signs {
		s := &signs[i]
		f, ok := here[s]
		if !ok {
			continue
		}
		if _, before := j.since[s]; !before {
			j.since[s] = now
		}
		after := s.after
		if s.waits {
			after = j.pending
		}
		if now.Sub(j.since[s]) >= after {
			return s.failure(j.what, f)
		}
	}
	return nil
}
