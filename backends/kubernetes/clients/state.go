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
// may have too few pods, before that is taken for final.
const (
	pullPatience = 20 * time.Second
	makePatience = 10 * time.Second
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

// started waits until all pods of the Job run and returns their names by their indexes.
func (f *Fleet) started(ctx context.Context, n int) ([]string, error) {
	begun, last := time.Now(), ""
	for {
		pods, err := f.list(ctx)
		names, why, final := ready(pods, n, time.Since(begun))
		switch {
		case err != nil:
			why = err.Error()
		case names != nil:
			return names, nil
		case final:
			return nil, classed(pods, errors.New(why))
		case len(pods) < n && time.Since(begun) > makePatience:
			if refused := f.refusal(ctx); refused != "" {
				err := fmt.Errorf("the cluster makes %d of %d pods: %s", len(pods), n, refused)
				if class := signs.Class(signs.Refused("Forbidden", refused)); class != "" {
					return nil, &backends.Failure{Class: class, Err: err}
				}
				return nil, err
			}
		}
		last = why
		select {
		case <-ctx.Done():
			return nil, classed(pods, fmt.Errorf("%w: %s", context.Cause(ctx), last))
		case <-time.After(lookEvery):
		}
	}
}

// classed gives an error of load pods the class of what the pods say of themselves, as those of
// servers have it.
func classed(pods []object, err error) error {
	for i := range pods {
		facts := signs.OfPod(&pods[i].Status)
		for _, c := range pods[i].Status.Containers {
			facts = append(facts, signs.OfState("", c.State)...)
		}
		judge := signs.Judge{What: "pod " + pods[i].Metadata.Name}
		if f, ok := errors.AsType[*backends.Failure](judge.AtLast(facts)); ok {
			return &backends.Failure{Class: f.Class, Err: err}
		}
	}
	return err
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

// refusal is why the cluster makes no pods of the Job, where it says so and we may read it:
// a quota or a rule of the cluster stands in the events of the Job alone.
func (f *Fleet) refusal(ctx context.Context) string {
	var page struct {
		Items []struct{ Reason, Message string } `json:"items"`
	}
	query := url.Values{"fieldSelector": {"involvedObject.name=" + f.jobName()}}
	if err := f.API.Get(ctx, f.path("/api/v1", "events")+"?"+query.Encode(), &page); err != nil {
		return ""
	}
	for _, e := range slices.Backward(page.Items) {
		if e.Reason == "FailedCreate" {
			return e.Message
		}
	}
	return ""
}
