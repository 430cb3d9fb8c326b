package executor

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"sweep.dev/sweep/backends"
	"sweep.dev/sweep/executor/event"
)

// A searching backend finds the pods whose create got no answer only once all
// DELETEs have come in, and lists only then too.
type searching struct {
	*fakeBackend
	deletes *sync.WaitGroup
}

func (b searching) List(ctx context.Context, owner string) ([]backends.Listed, error) {
	b.deletes.Wait()
	return b.fakeBackend.List(ctx, owner)
}

func (b searching) Terminate(ctx context.Context, ref backends.Ref) error {
	if ref.ID == "" {
		b.deletes.Wait()
		b.called("search %s", ref.Name)
		return nil
	}
	err := b.fakeBackend.Terminate(ctx, ref)
	b.deletes.Done()
	b.deletes.Wait() // seen to be gone after all others were sent
	return err
}

// owing writes pods into the journal: each is created, but for those that are
// lost, whose create got no answer.
func (w *world) owing(created, lost int) {
	w.t.Helper()
	d, _ := w.open()
	l := d.Ledger()
	record := func(a backends.Transition) {
		if err := l.Record(context.Background(), a); err != nil {
			w.t.Fatal(err)
		}
	}
	for i := range created + lost {
		pod := fmt.Sprintf("d%d-l01", i)
		record(backends.Transition{Pod: pod, State: backends.Intended, Kind: "fake", Name: "sw-" + pod, USDPerHour: 1})
		record(backends.Transition{Pod: pod, State: backends.Sent})
		if i >= lost { // the lost ones first
			record(backends.Transition{Pod: pod, State: backends.Created, Ref: &backends.Ref{Kind: "fake", RunID: testRun, Pod: pod, ID: "id-" + pod}})
		}
	}
	if err := d.Close(); err != nil {
		w.t.Fatal(err)
	}
}

// All pods of an earlier run are ended at once: neither the search for one whose
// create got no answer, nor the list, holds up a DELETE. The test hangs if one
// waits for another.
func TestReclaim_atOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	const created, lost = 5, 2
	w.owing(created, lost)
	var deletes sync.WaitGroup
	deletes.Add(created)
	w.must(func(c *Config) { c.Backend = searching{w.backend, &deletes} })
	want(t, "deleted", w.backend.count("terminate"), created)
	want(t, "searched", w.backend.count("search"), lost)
	want(t, "owed", len(w.state().Owed), 0)
}

// Without a list the known pods are deleted all the same, and stay owed.
func TestReclaim_noList(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.owing(2, 0)
	no := errors.New("no list")
	rep, err := w.run(t.Context(), func(c *Config) { c.Backend = unlisted{w.backend, no} })
	if !errors.Is(err, no) || !errors.Is(rep.Left.Cleanup, no) {
		t.Errorf("%v, %+v", err, rep)
	}
	want(t, "deleted", w.backend.count("terminate"), 2)
	want(t, "launched", w.backend.count("launch"), 0)
	want(t, "owed", len(w.state().Owed), 2)
	want(t, "said", len(rep.Left.Owed), 2)
}

type unlisted struct {
	*fakeBackend
	err error
}

func (b unlisted) List(context.Context, string) ([]backends.Listed, error) { return nil, b.err }

// Reclaim starts nothing, and leaves a later run nothing to end.
func TestReclaim_alone(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.owing(2, 1)
	d, st := w.open()
	rep, err := Reclaim(t.Context(), Config{Plan: w.plan, Dir: d, State: st, Path: w.dir, Backend: w.backend, Teardown: t.Context()})
	if err != nil || rep.Left.Cleanup != nil || len(rep.Left.Owed) != 0 {
		t.Errorf("%v, %+v", err, rep)
	}
	if err := d.Close(); err != nil {
		t.Error(err)
	}
	want(t, "ended", w.backend.count("terminate"), 3)
	want(t, "launched", w.backend.count("launch"), 0)
	want(t, "owed", len(w.state().Owed), 0)
	for _, e := range w.state().Events {
		if e.Type == string(event.RunStarted) {
			t.Error("a run began")
		}
	}
	w.must()
	want(t, "ended again", w.backend.count("terminate"), 3)
}
