package manifests

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/url"
	"slices"
	"strings"
	"time"

	"sweep.dev/sweep/backends"
	"sweep.dev/sweep/backends/kubernetes/owner"
	"sweep.dev/sweep/backends/kubernetes/signs"
	"sweep.dev/sweep/internal/effect"
	"sweep.dev/sweep/internal/kubeapi"
	"sweep.dev/sweep/internal/plaintext"
)

// A pod of an object, as far as it is read.
type pod struct {
	Metadata kubeapi.Meta `json:"metadata"`
	Spec     struct {
		Node string `json:"nodeName"` // "" before it has one
	} `json:"spec"`
	Status kubeapi.PodStatus `json:"status"`
}

// starts reports whether the pod has a node and does not run there yet.
func (p *pod) starts() bool { return p.Status.Phase == "Pending" && p.Spec.Node != "" }

// replaced reports whether a controller makes another pod when this one ends.
func (p *pod) replaced() bool {
	return slices.ContainsFunc(p.Metadata.Owners, func(o kubeapi.OwnerReference) bool { return o.Controller })
}

// standing returns those of a pod's facts that another pod in its place does not end: a node that
// is drained, a pod of a higher priority and a kubelet's refusal are no failures of a launch
// whose controller makes another pod. A lost node is.
func (p *pod) standing(facts []signs.Fact) []signs.Fact {
	if !p.replaced() {
		return facts
	}
	return slices.DeleteFunc(slices.Clone(facts), func(f signs.Fact) bool { return f.Ends() && signs.Class(f) != signs.Node })
}

// containers returns all of the pod, those that run first before the others.
func (p *pod) containers() []kubeapi.ContainerStatus {
	return slices.Concat(p.Status.Init, p.Status.Containers)
}

// maxRestarts is how often a container may start again while its stack comes up: some
// parts cannot wait for others, and try again that way.
const maxRestarts = 3

// exhausted says why a pod that is started again and again will not become ready, nil for
// one that may.
func (p *pod) exhausted() *backends.Failure {
	for _, c := range p.containers() {
		end := c.Last.Terminated
		if end == nil {
			end = c.State.Terminated
		}
		if c.Restarts < maxRestarts || c.Ready || end == nil {
			continue
		}
		f := &backends.Failure{Class: "exit", Err: fmt.Errorf("container %s of pod %s was started %d times, and ended each time: %s, exit code %d", c.Name, p.Metadata.Name, c.Restarts+1, end.Reason, end.ExitCode)}
		if end.Reason == "OOMKilled" {
			f.Class, f.Hint = "oom.host", "it used more memory than its limit: resources in the manifest"
		}
		return f
	}
	return nil
}

// facts returns what a pod says of itself that may be a failure.
func (p *pod) facts() []signs.Fact {
	all := signs.OfPod(&p.Status)
	for _, c := range p.containers() {
		if c.Ready {
			continue
		}
		all = append(all, signs.OfState(c.Name, c.State)...)
		if c.State.Waiting != nil { // for its next start, after one that failed
			all = append(all, signs.OfState(c.Name, kubeapi.ContainerState{Terminated: c.Last.Terminated})...)
		}
	}
	return all
}

// judges are those of pods and objects, by their UIDs.
type judges map[string]*signs.Judge

// of returns the judge of one of them, by its UID. What waits for room waits as long as the
// launch may take.
func (j judges) of(uid, what string) *signs.Judge {
	if j[uid] == nil {
		j[uid] = &signs.Judge{What: what, Own: true, Pending: math.MaxInt64}
	}
	return j[uid]
}

// judge returns the failure that facts of a pod are by now, nil for none. That of a node names it.
func (j judges) judge(p *pod, facts []signs.Fact, now time.Time) *backends.Failure {
	f, ok := errors.AsType[*backends.Failure](j.of(p.Metadata.UID, "pod "+p.Metadata.Name).Judge(facts, now))
	if !ok {
		return nil
	}
	if f.Class == signs.Node && p.Spec.Node != "" {
		f.Err = fmt.Errorf("%w; its node is %s", f.Err, p.Spec.Node)
	}
	return f
}

// broken says why a pod will not become ready, nil for one that may, or in whose place one may.
func (j judges) broken(p *pod, facts []signs.Fact, now time.Time) *backends.Failure {
	if f := j.judge(p, p.standing(facts), now); f != nil {
		return f
	}
	return p.exhausted()
}

// stranded says why a pod that was ready is on a node that is lost, nil for another.
func (j judges) stranded(p *pod, now time.Time) error {
	if p.Status.Phase == "Succeeded" {
		return nil
	}
	facts := slices.DeleteFunc(signs.OfPod(&p.Status), func(f signs.Fact) bool { return signs.Class(f) != signs.Node })
	if f := j.judge(p, facts, now); f != nil {
		return f
	}
	return nil
}

// Bounds of what an error has of logs.
const (
	logLines = 5
	logBytes = 2000

	logPatience = 5 * time.Second // once a launch is out of time
)

// lastLines returns the end of the logs of a pod's containers that are not ready, each after a
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

// states returns those of pods that are not ready, each after a line break, with the last
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
