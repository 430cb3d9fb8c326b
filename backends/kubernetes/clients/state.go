package clients

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"time"

	"sweep.dev/sweep/backends"
	"sweep.dev/sweep/backends/kubernetes/signs"
	"sweep.dev/sweep/internal/kubeapi"
)

// The labels that the cluster gives the pods of an Indexed Job.
const (
	jobLabel   = "batch.kubernetes.io/job-name"
	indexLabel = "batch.kubernetes.io/job-completion-index"
)

// pullPatience is how long an image may fail to be pulled, and makePatience how long a Job
// may have too few pods, before that is taken for final. After askAfter the cluster is asked why
// it has too few.
const (
	pullPatience = 20 * time.Second
	makePatience = 10 * time.Second
	askAfter     = time.Second
)

// An object is the part of a pod that is read.
type object struct {
	Metadata kubeapi.Meta      `json:"metadata"`
	Status   kubeapi.PodStatus `json:"status"`
}

func (o *object) running() bool {
	return o.Metadata.Deleted == nil && o.Status.Phase == "Running" && len(o.Status.Containers) == 1 && o.Status.Containers[0].State.Running != nil
}

// ended says how a pod ended, "" if it has not.
func (o *object) ended() string {
	pod := "its pod " + o.Metadata.Name
	for _, c := range o.Status.Conditions {
		if c.Type == "DisruptionTarget" && c.Status == "True" {
			return fmt.Sprintf("%s was taken away (%s): %s", pod, c.Reason, c.Message)
		}
	}
	for _, c := range o.Status.Containers {
		if t := c.State.Terminated; t != nil {
			return fmt.Sprintf("%s ended with exit code %d (%s)", pod, t.ExitCode, t)
		}
	}
	switch {
	case o.Metadata.Deleted != nil:
		return pod + " is being deleted"
	case o.Status.Phase == "Failed" || o.Status.Phase == "Succeeded":
		return fmt.Sprintf("%s ended (%s %s)", pod, o.Status.Reason, o.Status.Message)
	}
	return ""
}

// waits says what a pod waits for, "" for one that runs, and whether waiting is in vain.
func (o *object) waits() (why string, vain, pulls bool) {
	for _, c := range o.Status.Containers {
		w := c.State.Waiting
		if w == nil {
			continue
		}
		switch w.Reason {
		case "ErrImageNeverPull", "InvalidImageName", "CreateContainerConfigError", "CreateContainerError", "RunContainerError":
			return w.String(), true, false
		case "ErrImagePull", "ImagePullBackOff":
			return w.String(), false, true
		}
		return w.String(), false, false
	}
	for _, c := range o.Status.Conditions {
		if c.Type == "PodScheduled" && c.Status == "False" {
			return c.Reason + ": " + c.Message, false, false
		}
	}
	return o.Status.Phase, false, false
}

// started waits until all pods of the Job run and returns their names by their indexes. An
// error has the class of why they do not.
func (f *Fleet) started(ctx context.Context, n int) ([]string, error) {
	var last error // why not all run
	for begun := time.Now(); ; {
		names, final, err := f.look(ctx, n, time.Since(begun))
		if names != nil || final {
			return names, err
		}
		if last == nil || ctx.Err() == nil { // its end hides why
			last = err
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("%w: %w", last, context.Cause(ctx))
		case <-time.After(lookEvery + time.Since(begun)/300): // less often, the longer it lasts
		}
	}
}

// look has the names of the pods once all run, or why not, and whether that is final. Room in a
// quota is waited for, as room on a node is.
func (f *Fleet) look(ctx context.Context, n int, waited time.Duration) (names []string, final bool, err error) {
	pods, err := f.list(ctx)
	if err != nil {
		return nil, false, err
	}
	names, why, final := ready(pods, n, waited)
	if names != nil {
		return names, true, nil
	}
	if !final && len(pods) < n && waited > askAfter {
		if err := f.refusal(ctx, len(pods), n); err != nil {
			return nil, waited > makePatience && !signs.UsedUp(err), err
		}
	}
	return nil, final, classed(pods, errors.New(why))
}

// classed gives an error of load pods the class of what the pods say of themselves, as those of
// servers have it. One that has ended says more than one that waits.
func classed(pods []object, err error) error {
	for _, over := range []bool{true, false} {
		for i := range pods {
			if class := pods[i].class(); class != "" && (pods[i].ended() != "") == over {
				return &backends.Failure{Class: class, Err: err}
			}
		}
	}
	return err
}

// class returns that of what a pod says of itself, "" for none.
func (o *object) class() string {
	facts := signs.OfPod(&o.Status)
	for _, c := range o.Status.Containers {
		facts = append(facts, signs.OfState("", c.State)...)
	}
	if f, ok := errors.AsType[*backends.Failure]((&signs.Judge{}).AtLast(facts)); ok {
		return f.Class
	}
	for _, c := range o.Status.Containers {
		switch t := c.State.Terminated; {
		case t != nil && t.Reason == "OOMKilled":
			return "oom.host"
		case t != nil && o.Metadata.Deleted == nil:
			return "exit"
		}
	}
	if o.Metadata.Deleted != nil {
		return "deleted"
	}
	return ""
}

// explained gives an error about pods that ran the class of their end, if one has ended.
func (f *Fleet) explained(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), goneWithin)
	defer cancel()
	pods, unseen := f.list(ctx)
	if unseen != nil {
		return err
	}
	return classed(slices.DeleteFunc(pods, func(o object) bool { return o.ended() == "" }), err)
}

// ready has the names of the pods once all run, or why not, and whether that is final.
func ready(pods []object, n int, waited time.Duration) (names []string, why string, final bool) {
	names = make([]string, n)
	run := 0
	for i := range pods {
		o := &pods[i]
		index, err := strconv.Atoi(o.Metadata.Labels[indexLabel])
		if err != nil || index < 0 || index >= n {
			continue
		}
		if how := o.ended(); how != "" {
			return nil, how, true
		}
		if o.running() {
			names[index], run = o.Metadata.Name, run+1
			continue
		}
		text, vain, pulls := o.waits()
		why = fmt.Sprintf("pod %s waits: %s", o.Metadata.Name, text)
		if vain || pulls && waited > pullPatience {
			return nil, why, true
		}
	}
	if run == n && !slices.Contains(names, "") {
		return names, "", false
	}
	if why == "" {
		why = fmt.Sprintf("%d of %d pods are made", len(pods), n)
	}
	return nil, why, false
}

// list has the pods of the Job.
func (f *Fleet) list(ctx context.Context) ([]object, error) {
	var page struct {
		Items []object `json:"items"`
	}
	query := url.Values{"labelSelector": {jobLabel + "=" + f.jobName()}}
	err := f.API.Get(ctx, f.path("/api/v1", "pods")+"?"+query.Encode(), &page)
	return page.Items, err
}

// refusal returns why the cluster makes no more than some pods of the Job, nil if it does not say so
// or we may not read it: a quota or a rule of the cluster stands in the events of the Job alone.
func (f *Fleet) refusal(ctx context.Context, have, n int) error {
	var page struct {
		Items []struct{ Reason, Message string } `json:"items"`
	}
	query := url.Values{"fieldSelector": {"involvedObject.name=" + f.jobName()}}
	if err := f.API.Get(ctx, f.path("/api/v1", "events")+"?"+query.Encode(), &page); err != nil {
		return nil
	}
	for _, e := range slices.Backward(page.Items) {
		if e.Reason == "FailedCreate" {
			j := signs.Judge{What: fmt.Sprintf("the cluster makes %d of %d pods", have, n), Own: true}
			if err := j.AtLast([]signs.Fact{signs.Refused("Forbidden", e.Message)}); err != nil {
				return hinted(err)
			}
			return fmt.Errorf("%s: %s", j.What, e.Message)
		}
	}
	return nil
}

// refused returns the error of a create, nil for none. That of one that the cluster refused has its class.
func refused(what string, err error) error {
	if _, answered := errors.AsType[*kubeapi.StatusError](err); err != nil && !answered {
		return fmt.Errorf("%s: %w", what, err)
	}
	return hinted(signs.Refusal(true, what, err))
}

// hinted returns an error without its hint, but for a quota that is used up: other hints are about servers.
func hinted(err error) error {
	if f, ok := errors.AsType[*backends.Failure](err); ok && !signs.UsedUp(err) {
		f.Hint = ""
	}
	return err
}
