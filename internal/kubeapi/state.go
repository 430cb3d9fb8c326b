package kubeapi

import (
	"strings"
	"time"
)

// Meta is what the objects of all kinds say of themselves.
type Meta struct {
	Name        string            `json:"name"`
	Namespace   string            `json:"namespace"`
	UID         string            `json:"uid"`
	Version     string            `json:"resourceVersion"`
	Generation  int64             `json:"generation"`
	Labels      map[string]string `json:"labels"`
	Annotations map[string]string `json:"annotations"`
	Finalizers  []string          `json:"finalizers"`
	Created     time.Time         `json:"creationTimestamp"`
	Deleted     *time.Time        `json:"deletionTimestamp"`
	Grace       int64             `json:"deletionGracePeriodSeconds"` // of one that is deleted
	Owners      []OwnerReference  `json:"ownerReferences"`
}

// An OwnerReference names an owner of an object. It has no blockOwnerDeletion: some clusters
// let only those block a deletion who may change finalizers.
type OwnerReference struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Name       string `json:"name"`
	UID        string `json:"uid"`
	Controller bool   `json:"controller,omitempty"`
}

// A Condition is one of an object's.
type Condition struct {
	Type    string `json:"type"`
	Status  string `json:"status"` // True, False or Unknown
	Reason  string `json:"reason"`
	Message string `json:"message"`
}

// A PodStatus is how a pod is.
type PodStatus struct {
	Phase      string            `json:"phase"` // Pending, Running, Succeeded, Failed or Unknown
	Reason     string            `json:"reason"`
	Message    string            `json:"message"`
	IP         string            `json:"podIP"`
	Conditions []Condition       `json:"conditions"`
	Containers []ContainerStatus `json:"containerStatuses"`
	Init       []ContainerStatus `json:"initContainerStatuses"`
}

// A ContainerStatus is what a pod says of one of its containers.
type ContainerStatus struct {
	Name     string         `json:"name"`
	ImageID  string         `json:"imageID"`
	Ready    bool           `json:"ready"`
	Restarts int            `json:"restartCount"`
	State    ContainerState `json:"state"`
	Last     ContainerState `json:"lastState"` // before the last restart
}

// A ContainerState is one of three; none for one that never was.
type ContainerState struct {
	Waiting    *ContainerReason `json:"waiting"`
	Running    *struct{}        `json:"running"`
	Terminated *ContainerReason `json:"terminated"`
}

// A ContainerReason is why a container waits, or how it ended.
type ContainerReason struct {
	Reason   string `json:"reason"`
	Message  string `json:"message"`
	ExitCode int    `json:"exitCode"` // of one that ended
}

// String returns the reason with its message.
func (r *ContainerReason) String() string {
	return strings.Trim(r.Reason+": "+strings.TrimSpace(r.Message), ": ")
}
