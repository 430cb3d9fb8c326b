package pods

import (
	"slices"
	"strings"
	"time"

	"sweep.dev/sweep/internal/kubeapi"
)

// pod is the part of a Pod that is read.
type pod struct {
	Meta struct {
		Name        string            `json:"name"`
		UID         string            `json:"uid"`
		Version     string            `json:"resourceVersion"`
		Labels      map[string]string `json:"labels"`
		Annotations map[string]string `json:"annotations"`
		Created     time.Time         `json:"creationTimestamp"`
		Deleted     *time.Time        `json:"deletionTimestamp"`
		Grace       int64             `json:"deletionGracePeriodSeconds"` // once it is deleted
	} `json:"metadata"`
	Spec struct {
		Node        string            `json:"nodeName"` // "" before it has one
		Selector    map[string]string `json:"nodeSelector"`
		Tolerations []toleration      `json:"tolerations"`
	} `json:"spec"`
	Status kubeapi.PodStatus `json:"status"`
}

// server is the state of the one container.
func (p *pod) server() kubeapi.ContainerState {
	for _, s := range p.Status.Containers {
		if s.Name == container {
			return s.State
		}
	}
	return kubeapi.ContainerState{}
}

// unheard says whether the cluster does not hear from the pod's node: it then takes the
// pod's Ready away and nothing else, without a reason, where a kubelet writes both conditions
// or a reason. Often no more comes: while it hears from none of the nodes of a zone, the
// cluster ends none of their pods.
// https://kubernetes.io/docs/concepts/architecture/nodes/#rate-limits-on-eviction
func (p *pod) unheard() bool {
	is := map[string]kubeapi.Condition{}
	for _, c := range p.Status.Conditions {
		is[c.Type] = c
	}
	return is["ContainersReady"].Status == "True" && is["Ready"].Status == "False" && is["Ready"].Reason == ""
}

// digest is that of the image that runs; "" if it is not known.
func (p *pod) digest() string {
	for _, s := range p.Status.Containers {
		if s.Name != container {
			continue
		}
		if _, digest, ok := strings.Cut(s.ImageID, "@"); ok {
			return digest
		}
		if strings.HasPrefix(s.ImageID, "sha256:") {
			return s.ImageID
		}
	}
	return ""
}

// event is one of a pod.
type event struct {
	Reason  string `json:"reason"`
	Message string `json:"message"`
	Type    string `json:"type"` // Normal or Warning

	Last time.Time `json:"lastTimestamp"`
	Time time.Time `json:"eventTime"` // of those that have no last
}

// at is when it was seen last.
func (e *event) at() time.Time {
	if e.Last.After(e.Time) {
		return e.Last
	}
	return e.Time
}

// progress are events of a pod that has its volumes and its network: what failed before
// them was tried again and succeeded.
var progress = []string{"Pulling", "Pulled", "Created", "Started"}

// troubles are the warnings among events that no progress has followed.
func troubles(events []event) (facts []fact) {
	var last time.Time
	for i := range events {
		if e := &events[i]; slices.Contains(progress, e.Reason) && e.at().After(last) {
			last = e.at()
		}
	}
	for i := range events {
		if e := &events[i]; e.Type == "Warning" && (last.IsZero() || e.at().After(last)) {
			facts = append(facts, fact{inEvent, e.Reason, e.Message})
		}
	}
	return facts
}
