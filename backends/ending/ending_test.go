package ending

import (
	"context"
	"errors"
	"testing"
)

func closed(e *Ending) bool {
	select {
	case <-e.Done():
		return true
	default:
		return false
	}
}

func TestEnding(t *testing.T) {
	first, second := errors.New("first"), errors.New("second")
	e := New()
	if closed(e) || e.Err() != nil {
		t.Errorf("it has ended before it did: %v", e.Err())
	}
	e.Ended(first)
	e.Ended(second)
	e.Ask()
	if !closed(e) || !errors.Is(e.Err(), first) {
		t.Errorf("%v, want the first end", e.Err())
	}

	e = New()
	e.Ask()
	e.Ended(first)
	if closed(e) || e.Err() != nil {
		t.Errorf("an end that was asked for is noted: %v", e.Err())
	}
}

// A Stop or Keep waits for the one at work until its own context ends.
func TestEnding_oneAtATime(t *testing.T) {
	e := New()
	working, release := make(chan struct{}), make(chan struct{})
	first := make(chan error)
	go func() {
		first <- e.KeepWith(t.Context(), func() error {
			close(working)
			<-release
			return errors.New("the pod does not answer")
		})
	}()
	<-working
	enough := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(enough)
	calls := 0
	call := func() error { calls++; return nil }
	for _, last := range []func(context.Context, func() error) error{e.StopWith, e.KeepWith} {
		if err := last(ctx, call); !errors.Is(err, enough) || calls != 0 {
			t.Errorf("while another is at work: %v, %d calls", err, calls)
		}
	}
	close(release)
	if err := <-first; err == nil {
		t.Error("a Keep that failed: no error")
	}
	// One that failed may be made up for, even when there is no time left.
	for range 2 {
		if err := e.StopWith(ctx, call); err != nil || calls != 1 {
			t.Errorf("the one Stop: %v, %d calls", err, calls)
		}
	}
	if err := e.KeepWith(t.Context(), call); err == nil || calls != 1 {
		t.Errorf("Keep of what is stopped: %v, %d calls", err, calls)
	}
}
