package pods

import (
	"strings"

	"sweep.dev/sweep/backends/kubernetes/signs"
	"sweep.dev/sweep/internal/kubeapi"
)

// pod is the part of a Pod that is read.
type pod struct {
	Meta kubeapi.Meta `json:"metadata"`
	Spec struct {
		Node        string            `json:"nodeName"` // "" before it has one
		Selector    map[string]string `json:"nodeSelector"`
		Tolerations []toleration      `json:"tolerations"`
	} `json:"spec"`
	Status kubeapi.PodStatus `json:"status"`
}

// server returns the state of the one container.
func (p *pod) server() kubeapi.ContainerState {
	for _, s := range p.Status.Containers {
		if s.Name == container {
			return s.State
		}
	}
	return kubeapi.ContainerState{}
}

// digest returns that of the image that runs; "" if it is not known.
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

// facts returns what a pod says of itself that may be a failure.
func (p *pod) facts() []signs.Fact {
	return append(signs.OfPod(&p.Status), signs.OfState("", p.server())...)
}
