package stack

import (
	"cmp"
	"fmt"
	"slices"

	"sweep.dev/sweep/internal/kubeapi"
)

// describe makes a pod of what the API says of it.
func describe(p *pod) Pod {
	out := Pod{
		Name: p.Meta.Name, UID: p.Meta.UID, Node: p.Spec.Node, IP: p.Status.IP, State: stateOf(p),
		Revision: cmp.Or(p.Meta.Labels["controller-revision-hash"], p.Meta.Labels["pod-template-hash"]),
	}
	for _, c := range p.Status.Conditions {
		if c.Type == "Ready" {
			out.Ready = c.Status == "True" && p.Meta.Deleted == nil
		}
	}
	main := mainOf(p)
	for _, c := range p.Spec.Init {
		// One that has ended is over; one that stays works beside the others.
		if c.Restart == "Always" {
			one := contained(c, p.Status.Init)
			one.Sidecar = true
			out.Containers = append(out.Containers, one)
		}
	}
	for _, c := range p.Spec.Containers {
		one := contained(c, p.Status.Containers)
		one.Main = c.Name == main
		out.Containers = append(out.Containers, one)
	}
	return out
}

func contained(c container, all []kubeapi.ContainerStatus) Container {
	out := Container{
		Name: c.Name, Image: c.Image, Command: masked(c.Command), Args: masked(c.Args), GPUs: gpus(c), State: "not started", Ports: []Port{},
	}
	for _, port := range c.Ports {
		out.Ports = append(out.Ports, Port{Name: port.Name, Number: port.Number})
	}
	if i := slices.IndexFunc(all, func(s kubeapi.ContainerStatus) bool { return s.Name == c.Name }); i >= 0 {
		s := &all[i]
		out.ImageID, out.Restarts, out.State, out.LastEnd = s.ImageID, s.Restarts, doing(s.State), doing(s.Last)
	}
	return out
}

// doing says what a container does, in the API's words; "" for a state that never was.
func doing(s kubeapi.ContainerState) string {
	switch {
	case s.Terminated != nil:
		return fmt.Sprintf("%s, exit code %d", cmp.Or(s.Terminated.Reason, "terminated"), s.Terminated.ExitCode)
	case s.Waiting != nil:
		return cmp.Or(s.Waiting.Reason, "waiting")
	case s.Running != nil:
		return "running"
	}
	return ""
}

// stateOf returns a pod's phase, or what keeps it from being well.
func stateOf(p *pod) string {
	if p.Meta.Deleted != nil {
		return "Terminating"
	}
	if p.Status.Reason != "" {
		return p.Status.Reason // Evicted, DeadlineExceeded, OutOfnvidia.com/gpu
	}
	for _, s := range slices.Concat(p.Status.Init, p.Status.Containers) {
		if s.State.Waiting != nil && s.State.Waiting.Reason != "" && s.State.Waiting.Reason != "PodInitializing" {
			return s.State.Waiting.Reason
		}
	}
	for _, c := range p.Status.Conditions {
		if c.Type == "PodScheduled" && c.Status == "False" {
			return cmp.Or(c.Reason, "not scheduled")
		}
	}
	return cmp.Or(p.Status.Phase, "unknown")
}
