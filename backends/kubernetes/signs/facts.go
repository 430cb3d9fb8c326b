package signs

import (
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"time"

	"sweep.dev/sweep/internal/kubeapi"
)

// OfPod returns what a pod says of itself that may be a failure, without its containers.
func OfPod(s *kubeapi.PodStatus) (all []Fact) {
	if s.Phase == "Failed" && s.Reason != "" {
		all = append(all, Fact{inPod, s.Reason, s.Message, ""})
	}
	for _, c := range s.Conditions {
		switch {
		case c.Type == "DisruptionTarget" && c.Status == "True":
			all = append(all, Fact{inTarget, c.Reason, c.Message, ""})
		case c.Type == "PodScheduled" && c.Status == "False":
			all = append(all, Fact{inCondition, c.Reason, c.Message, ""})
		}
	}
	if Unheard(s) {
		all = append(all, Fact{inCondition, notReady, "the cluster does not hear from its node", ""})
	}
	return all
}

// Unheard reports whether the cluster does not hear from a pod's node: it then takes the
// pod's Ready away and nothing else, without a reason, where a kubelet writes both conditions
// or a reason. Often no more comes: while it hears from none of the nodes of a zone, the
// cluster ends none of their pods.
// https://kubernetes.io/docs/concepts/architecture/nodes/#rate-limits-on-eviction
func Unheard(s *kubeapi.PodStatus) bool {
	is := map[string]kubeapi.Condition{}
	for _, c := range s.Conditions {
		is[c.Type] = c
	}
	return is["ContainersReady"].Status == "True" && is["Ready"].Status == "False" && is["Ready"].Reason == ""
}

// OfState returns what the state of a container says that may be a failure. Its name is in the
// errors, "" for that of a pod with one.
func OfState(name string, s kubeapi.ContainerState) (all []Fact) {
	if s.Waiting != nil {
		all = append(all, Fact{inWaiting, s.Waiting.Reason, s.Waiting.Message, name})
	}
	if s.Terminated != nil {
		all = append(all, Fact{inEnded, s.Terminated.Reason, s.Terminated.Message, name})
	}
	return all
}

// EventsOf returns the query of a list for the events of a pod or another object, by its UID.
func EventsOf(uid string) string {
	return url.Values{"fieldSelector": {"involvedObject.uid=" + uid}, "limit": {strconv.Itoa(maxEvents)}}.Encode()
}

// maxEvents bounds how many events of one object are read.
const maxEvents = 50

// Events are the answer to [EventsOf].
type Events struct {
	Items []Event `json:"items"`
}

// Event is one of a pod, or of an object that makes pods.
type Event struct {
	Reason  string `json:"reason"`
	Message string `json:"message"`
	Type    string `json:"type"` // Normal or Warning

	Last time.Time `json:"lastTimestamp"`
	Time time.Time `json:"eventTime"` // of those that have no last
}

// at returns when it was seen last.
func (e *Event) at() time.Time {
	if e.Last.After(e.Time) {
		return e.Last
	}
	return e.Time
}

// progress are events of a pod that has its volumes and its network, and of an object that
// has made a pod: what failed before them was tried again and succeeded.
var progress = []string{"Pulling", "Pulled", "Created", "Started", "SuccessfulCreate"}

// volumeOf finds the volume in the messages of the two events below.
var volumeOf = regexp.MustCompile(`for volume "([^"]+)"`)

// volume returns the one that an event of attaching is of, "" for another event.
func (e *Event) volume(reason string) string {
	if m := volumeOf.FindStringSubmatch(e.Message); e.Reason == reason && m != nil {
		return m[1]
	}
	return ""
}

// Troubles returns the warnings among the events of one object that no progress has followed.
func Troubles(events []Event) (facts []Fact) {
	var last time.Time
	attached := map[string]time.Time{} // by volume
	for i := range events {
		e := &events[i]
		if slices.Contains(progress, e.Reason) && e.at().After(last) {
			last = e.at()
		}
		if v := e.volume("SuccessfulAttachVolume"); v != "" && e.at().After(attached[v]) {
			attached[v] = e.at()
		}
	}
	for i := range events {
		e := &events[i]
		past := last
		if at := attached[e.volume("FailedAttachVolume")]; at.After(past) {
			past = at
		}
		if e.Type != "Warning" || !past.IsZero() && !e.at().After(past) {
			continue
		}
		if e.Reason == failedCreate {
			facts = append(facts, Refused("", e.Message))
			continue
		}
		facts = append(facts, Fact{inEvent, e.Reason, e.Message, ""})
	}
	return facts
}

// failedCreate is the reason of an event, and of a condition, of an object whose pods the
// API server refuses.
const failedCreate = "FailedCreate"
