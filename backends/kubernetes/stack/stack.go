// Package stack finds an inference stack that runs on Kubernetes, by what leads to it:
// a route, a gateway, a pool, a service, an ingress or labels. It changes nothing of it.
//
// [Discover] reads the objects of a namespace and returns the stack as data: where
// requests enter, which pods have which role, and what of it must be looked at before
// it is measured.
package stack

// A Stack is what runs in one namespace behind one name.
type Stack struct {
	Context    string `json:"context"` // of the kubeconfig, "" inside a cluster
	Server     string `json:"server"`  // the API server's address
	Kubernetes string `json:"kubernetes"`
	Namespace  string `json:"namespace"`
	Name       string `json:"name"` // kind/name of what it was found by
	Kind       string `json:"kind"` // llm-d, dynamo, kserve, or "" if no label says

	Entries  []Entry       `json:"entries"` // the best first
	Roles    []Role        `json:"roles"`   // in the order of a request
	APIs     []string      `json:"apis"`    // versions that were read, as inference.networking.k8s.io/v1
	Findings []string      `json:"findings"`
	Rights   []RightStatus `json:"rights"`
}

// Pods returns those of all roles.
func (s *Stack) Pods() (all []*Pod) {
	for i := range s.Roles {
		for j := range s.Roles[i].Pods {
			all = append(all, &s.Roles[i].Pods[j])
		}
	}
	return all
}

// An Entry is an address at which requests reach the stack.
type Entry struct {
	URL     string   `json:"url"`
	Via     []string `json:"via"` // kind/name, from outside to the pods
	Outside bool     `json:"outside"`
	Needs   []string `json:"needs,omitempty"` // host names and headers without which nothing matches
}

// A Role is the pods that do the same.
type Role struct {
	Name string `json:"name"`
	Pods []Pod  `json:"pods"`
}

// Ready returns how many of its pods are.
func (r *Role) Ready() (n int) {
	for i := range r.Pods {
		if r.Pods[i].Ready {
			n++
		}
	}
	return n
}

// A Pod is one pod of a stack.
type Pod struct {
	Name       string      `json:"name"`
	UID        string      `json:"uid"`
	Node       string      `json:"node"` // "" while it is not bound
	IP         string      `json:"ip"`
	State      string      `json:"state"` // its phase, or why it is not what it should be
	Ready      bool        `json:"ready"`
	Revision   string      `json:"revision"` // hash of the template, "" if it has none
	Containers []Container `json:"containers"`
}

// Restarts returns how often its containers were started again.
func (p *Pod) Restarts() (n int) {
	for i := range p.Containers {
		n += p.Containers[i].Restarts
	}
	return n
}

// Main returns the container that does the role's work, or nil.
func (p *Pod) Main() *Container {
	for i := range p.Containers {
		if p.Containers[i].Main {
			return &p.Containers[i]
		}
	}
	return nil
}

// A Container is one container of a pod. Secrets in its arguments are masked.
type Container struct {
	Name     string   `json:"name"`
	Main     bool     `json:"main"`    // does the work of the pod's role
	Sidecar  bool     `json:"sidecar"` // an init container that stays
	Image    string   `json:"image"`
	ImageID  string   `json:"image_id"` // with the digest, "" before it was pulled
	Command  []string `json:"command"`
	Args     []string `json:"args"`
	Ports    []Port   `json:"ports"`
	GPUs     string   `json:"gpus"` // limits of extended resources, as "nvidia.com/gpu=1"
	State    string   `json:"state"`
	Restarts int      `json:"restarts"`
	LastEnd  string   `json:"last_end"` // how it ended before it was started again, "" if it never did
}

// A Port is one that a container says it has.
type Port struct {
	Name   string `json:"name"`
	Number int    `json:"number"`
}
