package manifests

import (
	"context"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strings"
	"time"

	"sweep.dev/sweep/backends"
	"sweep.dev/sweep/backends/kubernetes/owner"
	"sweep.dev/sweep/internal/effect"
	"sweep.dev/sweep/internal/kubeapi"
	"sweep.dev/sweep/internal/plaintext"
)

// A pod of an object, as far as it is read.
type pod struct {
	Metadata struct {
		Name string `json:"name"`
	} `json:"metadata"`
	Status kubeapi.PodStatus `json:"status"`
}

// containers are all of the pod, those that run first before the others.
func (p *pod) containers() []kubeapi.ContainerStatus {
	return slices.Concat(p.Status.Init, p.Status.Containers)
}

// maxRestarts is how often a container may start again while its stack comes up: some
// parts cannot wait for others, and try again that way.
const maxRestarts = 3

// broken says why a pod will not become ready, nil for a pod that may.
func (p *pod) broken() *backends.Failure {
	for _, c := range p.containers() {
		if w := c.State.Waiting; w != nil {
			if class := stuck(w.Reason); class != "" {
				return &backends.Failure{Class: class, Err: fmt.Errorf("container %s of pod %s: %s", c.Name, p.Metadata.Name, w)}
			}
		}
		end := c.Last.Terminated
		if end == nil {
			end = c.State.Terminated
		}
		if c.Restarts >= maxRestarts && !c.Ready && end != nil {
			class := "exit"
			if end.Reason == "OOMKilled" {
				class = "oom.host"
			}
			return &backends.Failure{Class: class, Err: fmt.Errorf("container %s of pod %s was started %d times, and ended each time: %s, exit code %d", c.Name, p.Metadata.Name, c.Restarts+1, end.Reason, end.ExitCode)}
		}
	}
	if p.Status.Phase == "Failed" && strings.HasPrefix(p.Status.Reason, "OutOf") {
		return &backends.Failure{Class: "no_capacity", Hint: "its node has less than it asks for: run it again, or ask for less", Err: fmt.Errorf("%w: pod %s: %s: %s", backends.ErrCapacity, p.Metadata.Name, p.Status.Reason, p.Status.Message)}
	}
	return nil
}

// stuck is the class of a reason for which a container waits that no time changes, ""
// for another.
func stuck(reason string) string {
	switch reason {
	case "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull", "ImageInspectError", "SignatureValidationFailed":
		return "image"
	case "RegistryUnavailable":
		return "registry"
	case "CreateContainerConfigError", "CreateContainerError", "RunContainerError":
		return "host"
	}
	return ""
}

// Bounds of what an error has of logs.
const (
	logLines = 5
	logBytes = 2000

	logPatience = 5 * time.Second // once a launch is out of time
)

// lastLines is the end of the logs of a pod's containers that are not ready, each after a
// line break; "" if they cannot be read.
func (r *Release) lastLines(ctx context.Context, p *pod) string {
	var b strings.Builder
	for _, c := range p.containers() {
		if c.Ready {
			continue
		}
		query := url.Values{"container": {c.Name}, "tailLines": {fmt.Sprint(logLines)}, "limitBytes": {fmt.Sprint(logBytes)}}
		if c.State.Waiting != nil && c.Last.Terminated != nil {
			query.Set("previous", "true")
		}
		path := owner.Ref{APIVersion: "v1", Resource: "pods", Name: p.Metadata.Name}.Path(r.in.Name) + "/log?" + query.Encode()
		var text []byte
		err := r.call(ctx, effect.KubeRead, func(ctx context.Context) error {
			log, err := r.in.API.Stream(ctx, path)
			if err != nil {
				return err
			}
			defer log.Close()
			text, err = io.ReadAll(io.LimitReader(log, logBytes))
			return err
		})
		if err == nil && len(text) > 0 {
			fmt.Fprintf(&b, "\n%s/%s: %s", p.Metadata.Name, c.Name, strings.TrimSpace(plaintext.Lines(string(text))))
		}
	}
	return b.String()
}

// states are those of pods that are not ready, each after a line break, with the last
// lines of their logs.
func (r *Release) states(ctx context.Context, pods []pod) string {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), logPatience)
	defer cancel()
	var b strings.Builder
	for i := range pods {
		p := &pods[i]
		text := []string{p.Status.Phase}
		for _, c := range p.Status.Conditions {
			if c.Type == "PodScheduled" && c.Status == "False" {
				text = append(text, c.Reason+": "+c.Message)
			}
		}
		for _, c := range p.containers() {
			switch {
			case c.Ready:
			case c.State.Waiting != nil:
				text = append(text, c.Name+" "+c.State.Waiting.String())
			default:
				text = append(text, c.Name+" is not ready")
			}
		}
		if len(text) > 1 || p.Status.Phase == "Pending" {
			fmt.Fprintf(&b, "\npod %s: %s%s", p.Metadata.Name, strings.Join(text, "; "), r.lastLines(ctx, p))
		}
	}
	return b.String()
}
