package rented

import (
	"context"
	"maps"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"sweep.dev/sweep/backends"
	"sweep.dev/sweep/internal/effect"
	"sweep.dev/sweep/rundir"
	"sweep.dev/sweep/rundir/podledger"
)

// A cloud lists pods until they are terminated.
type cloud struct {
	backends.Backend
	mu   sync.Mutex
	pods map[string]backends.Listed // by name
}

func (c *cloud) List(context.Context, string) ([]backends.Listed, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Collect(maps.Values(c.pods)), nil
}

func (c *cloud) Terminate(_ context.Context, ref backends.Ref) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.pods, ref.Name)
	return nil
}

// nowhere is a journal that is not looked at.
type nowhere struct{}

func (nowhere) Record(context.Context, backends.Transition) error { return nil }

// A run that begins ends what runs that are over have left, and what it was taking over when
// it died; nothing that a run at work has, or that its own journal owes.
func TestEndLeftovers(t *testing.T) {
	t.Parallel()
	fx, err := effect.New("")
	if err != nil {
		t.Fatal(err)
	}
	base := t.TempDir()
	env := func(name string) (string, bool) { return filepath.Join(base, "ledger"), name == "SWEEP_STATE_DIR" }
	ledger, err := OpenLedger(fx, env)
	if err != nil {
		t.Fatal(err)
	}
	account := &cloud{pods: map[string]backends.Listed{}}
	rent := func(owner, run, pod string) {
		expires := time.Now().Add(time.Hour)
		name := backends.NewName(owner, run, expires).String()
		ref := backends.Ref{Kind: "cloud", RunID: run, Pod: pod, ID: "id-" + pod, Name: name}
		l := ledger.Ledger(podledger.Run{ID: run, Owner: owner, Dir: filepath.Join(base, run)}, "d", nowhere{})
		for _, a := range []backends.Transition{
			{Pod: pod, State: backends.Intended, Kind: "cloud", Name: name, Expires: &expires},
			{Pod: pod, State: backends.Created, Ref: &ref},
		} {
			if err := l.Record(t.Context(), a); err != nil {
				t.Fatal(err)
			}
		}
		account.pods[name] = backends.Listed{Ref: ref, Owner: owner}
	}
	for _, run := range []string{"own", "live", "over"} {
		d, err := rundir.Create(fx, filepath.Join(base, run), rundir.Manifest{RunID: run}, []byte("plan"), []byte("{}"))
		if err != nil {
			t.Fatal(err)
		}
		if run == "over" {
			err = d.Close()
		} else {
			defer d.Close()
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	rent(me, "own", "owed")
	rent(me, "own", "taken")
	rent(me, "live", "busy")
	rent(me, "over", "left")
	rent(me, "elsewhere", "unseen")
	rent(stranger, "over", "foreign")

	sources := Sources{Env: env, Effects: fx}
	ended, err := sources.EndLeftovers(t.Context(), Run{
		ID: "own", Owner: me, Factory: backends.Factory{Kind: "cloud", Outlives: true}, Backend: account,
		Owed: []rundir.Owed{{Pod: "owed"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	var gone, stand []string
	for _, e := range ended {
		if e.Err != nil {
			t.Errorf("%s: %v", e.Pod.Pod, e.Err)
		}
		gone = append(gone, e.Pod.Pod)
	}
	for _, l := range account.pods {
		stand = append(stand, l.Pod)
	}
	slices.Sort(gone)
	slices.Sort(stand)
	if want := []string{"left", "taken"}; !slices.Equal(gone, want) {
		t.Errorf("ended %v, want %v", gone, want)
	}
	if want := []string{"busy", "foreign", "owed", "unseen"}; !slices.Equal(stand, want) {
		t.Errorf("left %v, want %v", stand, want)
	}
}
