package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"sweep.dev/sweep/backends/host"
	"sweep.dev/sweep/backends/kubernetes/stack"
	"sweep.dev/sweep/result"
	"sweep.dev/sweep/result/col"
	"sweep.dev/sweep/result/finding"
)

// A watcher compares a stack with what it was when the watcher began.
type watcher struct {
	d      *deployment
	begun  time.Time
	before *stack.Stack // nil: it could not be read
	unread error        // why

	mu      sync.Mutex
	changes []string // each once, with the time at which it was seen
	seen    map[string]bool
	err     error // of the last look; nil if it succeeded
}

// Watch implements [backends.Watched]: it compares the pods before, every five seconds
// during, and after a trial.
func (d *deployment) Watch(ctx context.Context) func(context.Context) (result.Row, []result.Finding) {
	w := &watcher{d: d, begun: time.Now(), seen: map[string]bool{}}
	w.first(ctx)
	live, stop := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(d.b.every.poll)
		defer tick.Stop()
		for {
			select {
			case <-live.Done():
				return
			case <-tick.C:
				w.look(live)
			}
		}
	}()
	return func(ctx context.Context) (result.Row, []result.Finding) {
		stop()
		<-done
		w.last(ctx)
		return w.row(), w.findings()
	}
}

// firstLook bounds the look before a trial.
const firstLook = 30 * time.Second

// first reads the whole stack, and finds its servers by now.
func (w *watcher) first(ctx context.Context) {
	ctx, cancel := context.WithTimeoutCause(ctx, firstLook, fmt.Errorf("no answer within %v", firstLook))
	defer cancel()
	s, err := w.d.look(ctx, w.d.view.Look)
	if err != nil {
		w.unread = err
		return
	}
	w.before = s
	w.d.find(ctx, s)
}

// last looks after the trial, a few times if it fails.
func (w *watcher) last(ctx context.Context) {
	for range lastLooks {
		if w.look(ctx) {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(w.d.b.every.poll):
		}
	}
}

// lastLooks bounds the looks after a trial: one that fails makes the trial INVALID.
const lastLooks = 3

// look compares the pods with those before, and reports whether it saw what there is.
func (w *watcher) look(ctx context.Context) bool {
	s, err := w.d.look(ctx, w.d.view.LookAtPods)
	var changes []string
	switch {
	case ctx.Err() != nil:
		return false // the trial ended meanwhile
	case errors.Is(err, stack.ErrNoPods):
		changes, err = []string{"no pod is left of it"}, nil
	case err == nil && w.before != nil:
		changes = stack.Changes(w.before, s)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.err = err
	for _, c := range changes {
		if !w.seen[c] {
			w.seen[c] = true
			w.changes = append(w.changes, fmt.Sprintf("%s (seen after %.0f s)", c, time.Since(w.begun).Seconds()))
		}
	}
	return err == nil
}

// maxChanges bounds the changes in one finding.
const maxChanges = 6

func (w *watcher) findings() (all []result.Finding) {
	w.mu.Lock()
	defer w.mu.Unlock()
	add := func(code finding.Code, format string, args ...any) {
		all = append(all, result.Finding{Code: code, Text: fmt.Sprintf(format, args...)})
	}
	if n := len(w.changes); n > 0 {
		text := strings.Join(w.changes[:min(n, maxChanges)], "; ")
		if n > maxChanges {
			text += fmt.Sprintf("; and %d more", n-maxChanges)
		}
		add(finding.StackChanged, "%s: the stack that was measured is not one stack; run the cell again when it is at rest", text)
	}
	// The pods before and after, with their restarts, prove what looks in between that failed
	// would have shown.
	switch {
	case w.before == nil:
		add(finding.StackUnwatched, "the pods could not be looked at before the trial: %v", w.unread)
	case w.err != nil:
		add(finding.StackUnwatched, "the pods could not be looked at after the trial: %v", w.err)
	}
	if f, broken := w.d.logs.finding(); broken {
		all = append(all, f)
	}
	switch by := w.d.entry.host.Path(); by {
	case host.Tunnel:
		add(finding.Tunnelled, "%s is an address of this machine, and no pod of the stack is here: a port-forward carries all requests over one connection, so its latencies and its limit are not the stack's; run sweep in the cluster, or give the address of its gateway", w.d.entry.host.URL())
	case host.Proxy:
		add(finding.Tunnelled, "%s is the proxy of the API server, whose latencies and limits are not the stack's; run sweep in the cluster, or give the address of its gateway", w.d.entry.host.URL())
	}
	return all
}

// row counts the pods and their restarts, of all and by role.
func (w *watcher) row() result.Row {
	row := result.Row{}
	if w.before == nil {
		return row
	}
	pods, restarts := map[string]int64{}, map[string]int64{}
	for i := range w.before.Roles {
		role := &w.before.Roles[i]
		name := profileRole(&w.d.spec, role.Name)
		for j := range role.Pods {
			n := int64(role.Pods[j].Restarts())
			for _, of := range slices.Compact([]string{"", name}) {
				pods[of]++
				restarts[of] += n
			}
		}
	}
	several := len(w.d.spec.Roles) > 1
	for _, of := range slices.Sorted(maps.Keys(pods)) {
		switch {
		case of == "":
			row[col.Pods], row[col.PodRestarts] = pods[of], restarts[of]
		case several:
			row[col.OfRole(of, col.Pods)], row[col.OfRole(of, col.PodRestarts)] = pods[of], restarts[of]
		}
	}
	return row
}
