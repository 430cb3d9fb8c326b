package logs

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	"sweep.dev/sweep/internal/kubeapi"
)

// How often the pods are listed: at least, and at most if somebody waits for it.
const (
	listEvery   = 2 * time.Second
	listSpacing = 200 * time.Millisecond
)

// A pod is the state of one pod's containers.
type pod struct {
	name       string
	order      []string // of its containers, as they start
	containers map[string]state
}

// A state says which runs of a container have a log.
type state struct {
	run      string // ID of the one that is there now; "" while none is
	ended    bool   // and it is over
	previous string // ID of the one before that, "" if there was none
	restarts int
	waiting  string // why none is there: ImagePullBackOff, CrashLoopBackOff
}

// A snapshot is the pods as one list had them, by UID.
type snapshot struct {
	n    int // of the list
	pods map[string]*pod
}

func (s *snapshot) of(c *Container) (st state, there bool) {
	p := s.pods[c.UID]
	if p == nil {
		return state{}, false
	}
	return p.containers[c.Name], true
}

// A podList lists the pods of a namespace again and again.
type podList struct {
	api   *kubeapi.Client
	path  string
	final bool // an error ends it, whatever it is
	say   func(string)
	kick  chan struct{}

	mu      sync.Mutex // guards what follows
	begun   int        // lists
	latest  *snapshot
	err     error         // why there will be no more
	changed chan struct{} // closed when latest or err changes
}

func newPodList(api *kubeapi.Client, path string, final bool, say func(string)) *podList {
	return &podList{api: api, path: path, final: final, say: say, kick: make(chan struct{}, 1), changed: make(chan struct{})}
}

// keep lists until the context ends, or the server refuses for good.
func (l *podList) keep(ctx context.Context) {
	failing := false
	for ctx.Err() == nil {
		l.mu.Lock()
		l.begun++
		n := l.begun
		l.mu.Unlock()
		pods, err := l.list(ctx)
		switch {
		case err == nil:
			l.set(&snapshot{n: n, pods: pods}, nil)
			if failing {
				l.say("the pods are listed again")
			}
			failing = false
		case ctx.Err() != nil:
			return
		case l.final || n == 1 || refused(err):
			l.set(nil, err)
			return
		case !failing:
			failing = true
			l.say(fmt.Sprintf("the pods cannot be listed, trying again: %v", err))
		}
		if !sleep(ctx, listSpacing) {
			return
		}
		select {
		case <-ctx.Done():
		case <-l.kick:
		case <-time.After(listEvery - listSpacing):
		}
	}
}

func (l *podList) set(s *snapshot, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if s != nil {
		l.latest = s
	}
	l.err = err
	close(l.changed)
	l.changed = make(chan struct{})
}

// fresh returns a list that was begun after the call.
func (l *podList) fresh(ctx context.Context) (*snapshot, error) {
	l.mu.Lock()
	n := l.begun
	l.mu.Unlock()
	select {
	case l.kick <- struct{}{}:
	default:
	}
	return l.later(ctx, n)
}

// after returns a list that was begun after this one; after nil, it is any.
func (l *podList) after(ctx context.Context, s *snapshot) (*snapshot, error) {
	if s == nil {
		return l.later(ctx, 0)
	}
	return l.later(ctx, s.n)
}

func (l *podList) later(ctx context.Context, n int) (*snapshot, error) {
	for {
		l.mu.Lock()
		latest, err, changed := l.latest, l.err, l.changed
		l.mu.Unlock()
		if err != nil {
			return nil, err
		}
		if latest != nil && latest.n > n {
			return latest, nil
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-changed:
		}
	}
}

// The objects of the API, as far as they are read.
type (
	object struct {
		Metadata kubeapi.Meta `json:"metadata"`
		Status   struct {
			Containers []status `json:"containerStatuses"`
			Init       []status `json:"initContainerStatuses"`
			Ephemeral  []status `json:"ephemeralContainerStatuses"`
		} `json:"status"`
	}
	status struct {
		Name     string   `json:"name"`
		ID       string   `json:"containerID"`
		Restarts int      `json:"restartCount"`
		State    runState `json:"state"`
		Last     runState `json:"lastState"`
	}
	runState struct {
		Waiting *struct {
			Reason string `json:"reason"`
		} `json:"waiting"`
		Running    *struct{} `json:"running"`
		Terminated *struct {
			ID string `json:"containerID"`
		} `json:"terminated"`
	}
)

func (l *podList) list(ctx context.Context) (map[string]*pod, error) {
	all, err := kubeapi.List[object](ctx, l.api, l.path)
	if err != nil {
		return nil, err
	}
	pods := make(map[string]*pod, len(all))
	for i := range all {
		o := &all[i]
		p := &pod{name: o.Metadata.Name, containers: map[string]state{}}
		for _, s := range slices.Concat(o.Status.Init, o.Status.Containers, o.Status.Ephemeral) {
			p.order = append(p.order, s.Name)
			p.containers[s.Name] = s.state()
		}
		pods[o.Metadata.UID] = p
	}
	return pods, nil
}

func (s *status) state() state {
	out := state{restarts: s.Restarts}
	switch {
	case s.State.Running != nil:
		out.run = s.ID
	case s.State.Terminated != nil:
		out.run, out.ended = s.State.Terminated.ID, true
	case s.State.Waiting != nil:
		out.waiting = s.State.Waiting.Reason
	}
	if s.Last.Terminated != nil {
		out.previous = s.Last.Terminated.ID
	}
	return out
}

// refused reports whether asking again is of no use.
func refused(err error) bool {
	if _, denied := errors.AsType[*kubeapi.Denied](err); denied {
		return true
	}
	at, ok := errors.AsType[*kubeapi.StatusError](err)
	return ok && at.Code == http.StatusUnauthorized
}

// sleep waits, and says whether the context has not ended.
func sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}
