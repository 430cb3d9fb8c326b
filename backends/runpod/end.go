package runpod

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"sweep.dev/sweep/backends"
	"sweep.dev/sweep/internal/runpodapi"
)

// fresh is how long a pod that was just made may be unknown to the API's own
// reads.
const fresh = time.Minute

// Terminate deletes what ref names and returns when it is seen to be gone. A
// ref without an id is looked for by its name until the patience is over.
func (b *Backend) Terminate(ctx context.Context, ref backends.Ref) error {
	if err := b.mine(ref); err != nil {
		return err
	}
	switch {
	case ref.ID != "":
		return b.end(ctx, ref.ID, ref.Name, 0, time.Time{})
	case ref.Name == "":
		return fmt.Errorf("%w: a ref without an id and a name", backends.ErrNotFound)
	}
	p, _, err := b.look(ctx, ref.Name)
	if err != nil {
		return fmt.Errorf("whether pod %s exists is not known: %w", ref.Name, err)
	}
	if p.ID == "" {
		return nil
	}
	return b.end(ctx, p.ID, ref.Name, p.Cost, time.Time{})
}

// end deletes a pod, and everything else of its name, until it is seen to be
// gone: the DELETE was answered, and two successive lists that began after the
// answer do not have it. It gives up only with ctx. made is when the pod was
// created, zero for long ago: what is fresh may be missing from a list though it
// lives.
func (b *Backend) end(ctx context.Context, id, name string, price float64, made time.Time) error {
	ids := map[string]bool{id: false} // whether a DELETE of it went well
	var dead time.Time                // since when what is still listed is TERMINATED
	for try := 0; ; try++ {
		unknown, err := b.remove(ctx, ids)
		if err == nil {
			var left []runpodapi.Pod
			left, err = b.absent(ctx, ids, name)
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
					if _, known := ids[p.ID]; !known {
						ids[p.ID] = false // a twin, for the next round
					}
				}
			case err == nil && unknown && time.Since(made) < b.freshness():
				err = errors.New("it is too new for its absence to mean something")
			case err == nil && name != "" && time.Since(made) < b.freshness():
				// One create may have made two, and the other not be listed yet.
				// It is worth a look while nobody is in a hurry.
				if cut := runpodapi.Sleep(ctx, runpodapi.Jitter(b.Poll)); cut != nil {
					return nil //nolint:nilerr // what was to be ended is seen to be gone
				}
				continue
			case err == nil:
				return nil
			}
		}
		if errors.Is(err, backends.ErrRefused) || ctx.Err() != nil {
			return stillThere(id, name, price, errors.Join(context.Cause(ctx), err))
		}
		if cut := runpodapi.Sleep(ctx, min(runpodapi.Backoff(try), runpodapi.Jitter(b.Poll))); cut != nil {
			return stillThere(id, name, price, errors.Join(cut, err))
		}
	}
}

// freshness is how long absence means nothing for a pod that was just made.
func (b *Backend) freshness() time.Duration { return min(fresh, b.Patience*2/3) }

func stillThere(id, name string, price float64, err error) error {
	cost := ""
	if price > 0 {
		cost = fmt.Sprintf(", $%.2f/h", price)
	}
	return fmt.Errorf("runpod: pod %s (%s%s) is not seen to be gone: %w", id, name, cost, err)
}

// remove sends the DELETEs. unknown says that for one there was never another
// answer than 404, which for a new pod is no proof.
func (b *Backend) remove(ctx context.Context, ids map[string]bool) (unknown bool, err error) {
	for id, deleted := range ids {
		switch e := b.client.Delete(ctx, id); {
		case e == nil:
			ids[id] = true
		case errors.Is(e, backends.ErrNotFound):
			unknown = unknown || !deleted
		default:
			err = errors.Join(err, e)
		}
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
// still has: with one of ids, or with the name.
func (b *Backend) absent(ctx context.Context, ids map[string]bool, name string) (left []runpodapi.Pod, err error) {
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
			if _, ours := ids[p.ID]; ours || name != "" && p.Name == name {
				left = append(left, p)
			}
		}
		if len(left) > 0 {
			break
		}
	}
	return left, nil
}
