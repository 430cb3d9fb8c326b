package runpod

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"sweep.dev/sweep/backends"
	"sweep.dev/sweep/backends/bootstrap"
	"sweep.dev/sweep/backends/runpodapi"
)

// fresh is how long a pod that was just made may be unknown to the API's own
// reads.
const fresh = time.Minute

// giveBack returns how a pod ends itself, with the id and the key that RunPod gives it;
// it asks to be stopped where that key may not delete.
func giveBack(base string) []bootstrap.Request {
	const header = "Authorization: Bearer ${RUNPOD_API_KEY}"
	pod := base + "/pods/${RUNPOD_POD_ID}"
	return []bootstrap.Request{
		{Method: http.MethodDelete, URL: pod, Header: header, Done: []int{200, 201, 202, 204, 404}, Did: "deleted"},
		{
			Method: http.MethodPost, URL: pod + "/action", Header: header, Body: `{"action":"stop"}`,
			Done: []int{200, 201, 202, 204}, Did: "stopped, and its disk is still billed",
		},
	}
}

// A termination is a pod to give back, with everything else that its create made.
type termination struct {
	id     string
	name   string    // other pods of this name are deleted too; "" for none
	price  float64   // USD per hour, for messages; 0: unknown
	made   time.Time // when it was created; zero: long ago
	listed time.Time // when a list first had it; zero: no list had it yet
}

// end deletes a pod, and everything else of its name, until it is seen to be
// gone: the DELETE was answered, and two successive lists that began after the
// answer do not have it. It gives up only with ctx. A fresh pod may be missing
// from a list though it lives.
//
// All DELETEs are sent at once. One that went well is sent again only if a later
// list still has the pod: each takes a call from the account's quota, for which
// the lists then wait.
func (b *Backend) end(ctx context.Context, t termination) error {
	pods := map[string]*removal{t.id: {due: true}}
	var dead time.Time // since when what is still listed is TERMINATED
	for try := 0; ; try++ {
		unknown, err := b.remove(ctx, pods)
		if err == nil {
			var left []runpodapi.Pod
			left, err = b.absent(ctx, pods, t.name)
			switch {
			case len(left) > 0:
				err = fmt.Errorf("still listed: %s", describe(left))
				alive := slices.ContainsFunc(left, runpodapi.Pod.Alive)
				if alive || dead.IsZero() {
					dead = time.Now()
				}
				if !alive && time.Since(dead) > b.freshness() {
					return nil // TERMINATED is for good; how long it is listed is RunPod's business
				}
				for _, p := range left {
					if pods[p.ID] == nil {
						pods[p.ID] = &removal{} // a duplicate
					}
					pods[p.ID].due = true
				}
			case err == nil && unknown && time.Since(t.made) < b.freshness():
				err = errors.New("it is too new to conclude from its absence in the list")
			case err == nil && t.name != "" && time.Until(b.duplicatesListed(t)) > 0:
				// A duplicate may not be listed yet.
				if cut := runpodapi.Sleep(ctx, min(runpodapi.Jitter(b.Poll), time.Until(b.duplicatesListed(t)))); cut != nil {
					return nil //nolint:nilerr // the pods of t are gone
				}
				continue
			case err == nil:
				return nil
			}
		}
		if errors.Is(err, backends.ErrRefused) || ctx.Err() != nil {
			return stillThere(t, errors.Join(context.Cause(ctx), err))
		}
		if cut := runpodapi.Sleep(ctx, min(runpodapi.Backoff(try), runpodapi.Jitter(b.Poll))); cut != nil {
			return stillThere(t, errors.Join(cut, err))
		}
	}
}

// duplicatesListed returns when a list would have a second pod that the same create made:
// twice as long after the create as the pod itself took to be listed, at least two
// polls. If no list ever had the pod, it is the freshness.
func (b *Backend) duplicatesListed(t termination) time.Time {
	lag := b.freshness()
	if !t.listed.IsZero() {
		lag = min(lag, max(2*b.Poll, 2*t.listed.Sub(t.made)))
	}
	return t.made.Add(lag)
}

// freshness returns how long absence means nothing for a pod that was just made.
func (b *Backend) freshness() time.Duration { return min(fresh, b.Patience*2/3) }

func stillThere(t termination, err error) error {
	cost := ""
	if t.price > 0 {
		cost = fmt.Sprintf(", $%.2f/h", t.price)
	}
	return fmt.Errorf("runpod: pod %s (%s%s) is not confirmed gone: %w", t.id, t.name, cost, err)
}

// A removal is the state of one pod's DELETE.
type removal struct {
	due bool // it is to be sent, for the first time or again
	met bool // a DELETE went well: the API knew the pod
}

// remove sends the DELETEs that are due, all at once. unknown says that one pod
// was only ever answered with 404, which for a new pod is no proof.
func (b *Backend) remove(ctx context.Context, pods map[string]*removal) (unknown bool, err error) {
	var mu sync.Mutex
	var sent sync.WaitGroup
	for id, r := range pods {
		if !r.due {
			continue
		}
		sent.Go(func() {
			e := b.client.Delete(ctx, id)
			mu.Lock()
			defer mu.Unlock()
			switch {
			case e == nil:
				r.due, r.met = false, true
			case errors.Is(e, backends.ErrNotFound):
				r.due = !r.met // until a list proves that it is gone
			default:
				err = errors.Join(err, e)
			}
		})
	}
	sent.Wait()
	for _, r := range pods {
		unknown = unknown || !r.met
	}
	return unknown, err
}

func describe(pods []runpodapi.Pod) string {
	var parts []string
	for _, p := range pods {
		parts = append(parts, p.ID+" "+p.Status)
	}
	return strings.Join(parts, ", ")
}

// absent makes two lists of the account and returns the pods that one of them
// still has: one of pods, or one with the name.
func (b *Backend) absent(ctx context.Context, pods map[string]*removal, name string) (left []runpodapi.Pod, err error) {
	since := time.Now()
	for round := range 2 {
		if round > 0 {
			if err := runpodapi.Sleep(ctx, time.Until(since.Add(min(b.Poll, time.Second)))); err != nil {
				return nil, err
			}
		}
		seen, err := b.account.After(ctx, since)
		if err != nil {
			return nil, err
		}
		since = seen.Began
		for _, p := range seen.Pods {
			if pods[p.ID] != nil || name != "" && p.Name == name {
				left = append(left, p)
			}
		}
		if len(left) > 0 {
			break
		}
	}
	return left, nil
}
