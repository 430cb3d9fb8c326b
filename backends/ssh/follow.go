package ssh

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"syscall"
	"time"

	"sweep.dev/sweep/backends"
	"sweep.dev/sweep/backends/provision"
)

// watchEvery is the time between two looks at a log.
const watchEvery = 300 * time.Millisecond

// Follow implements [provision.Remote] with one look after the other.
func (r *remote) Follow(ctx context.Context, _ int, offset int64, to io.Writer) (err error) {
	defer func() {
		if !errors.Is(err, provision.ErrBroken) {
			r.end()
		}
	}()
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	for {
		end, err := r.step(ctx, &offset, to)
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, errLost):
			return fmt.Errorf("%w: %w", provision.ErrBroken, err)
		case asFailure(err) != nil: // the workdir is gone: so is the unit
			return endOf(r.role.Name, r.at.Replica, answer{state: "lost"})
		case err != nil:
			return err
		case end != nil:
			return end
		}
		r.pollDone()
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		case <-r.wake:
		}
	}
}

// step takes over what is new in the log. end is how the server ended, once its log
// is complete; nil while it runs.
func (r *remote) step(ctx context.Context, offset *int64, to io.Writer) (end, err error) {
	for {
		from := *offset
		if r.role.LogPath == nil {
			from = -1
		}
		a, err := r.link.ask(ctx, r.workdir, r.unit, from)
		if err != nil {
			return nil, err
		}
		if len(a.text) > 0 { // until there is nothing new
			if _, err := to.Write(a.text); err != nil {
				return nil, fmt.Errorf("log of a server: %w", err)
			}
			*offset += int64(len(a.text))
			continue
		}
		if a.state == "up" {
			return nil, nil
		}
		return endOf(r.role.Name, r.at.Replica, a), nil
	}
}

// endOf makes an Exit of what a shell says of its child. A process that ended
// without a word was killed, with the shell that waited for it.
func endOf(role string, replica int, a answer) *backends.Exit {
	if a.state != "exited" {
		return &backends.Exit{Role: role, Replica: replica, Code: -1, Signal: syscall.SIGKILL.String(), OOMKilled: a.oom}
	}
	return backends.ShellExit(role, replica, a.code, a.oom)
}

// A follower lets those who read a log wait until it is up to date.
type follower struct {
	ended chan struct{} // closed when nothing more will come
	wake  chan struct{} // asks for a look

	mu     sync.Mutex
	polled chan struct{} // closed and replaced after each look
	over   bool
}

func newFollower() *follower {
	return &follower{ended: make(chan struct{}), wake: make(chan struct{}, 1), polled: make(chan struct{})}
}

// end notes that nothing more will come.
func (f *follower) end() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.over {
		f.over = true
		close(f.ended)
	}
}

// pollDone tells those who wait that a look is done.
func (f *follower) pollDone() {
	f.mu.Lock()
	defer f.mu.Unlock()
	close(f.polled)
	f.polled = make(chan struct{})
}

// syncTimeout bounds sync: a log that is late is still a log.
const syncTimeout = 5 * time.Second

// sync returns when everything is here that the server had written before, or
// when that takes too long.
func (f *follower) sync(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, syncTimeout)
	defer cancel()
	for range 2 { // the look that is under way may have been too early
		f.mu.Lock()
		polled := f.polled
		f.mu.Unlock()
		select {
		case f.wake <- struct{}{}:
		default: // asked for already
		}
		select {
		case <-polled:
		case <-f.ended:
			return
		case <-ctx.Done():
			return
		}
	}
}
