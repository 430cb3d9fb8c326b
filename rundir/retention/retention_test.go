package retention_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sweep.dev/sweep/backends"
	"sweep.dev/sweep/rundir"
	"sweep.dev/sweep/rundir/retention"
)

// create makes a run of a day.
func create(t *testing.T, dir, plan string, day int) *rundir.Dir {
	t.Helper()
	d, err := rundir.Create(nil, dir, rundir.Manifest{RunID: filepath.Base(dir), Plan: plan, CreatedAt: time.Date(2026, 1, day, 0, 0, 0, 0, time.UTC)}, nil, []byte("{}"))
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func closed(t *testing.T, d *rundir.Dir) {
	t.Helper()
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestPrune(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	at := func(name string) string { return filepath.Join(folder, name) }
	for day, name := range []string{"oldest", "baseline", "owing", "damaged", "old", "new", "newest"} {
		d := create(t, at(name), "p", day+1)
		if name == "owing" {
			if err := d.Ledger().Record(t.Context(), backends.Transition{Pod: "pod", State: backends.Intended, Kind: "process"}); err != nil {
				t.Fatal(err)
			}
		}
		closed(t, d)
	}
	closed(t, create(t, at("other"), "q", 1))
	locked := create(t, at("locked"), "p", 1)
	t.Cleanup(func() { closed(t, locked) })
	journal := at("damaged/journal.jsonl")
	text, _ := os.ReadFile(journal)
	if err := os.WriteFile(journal, []byte("x\n"+string(text)), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"no run", ".pruned-half"} {
		if err := os.MkdirAll(at(name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(at("oldest"), at("link")); err != nil {
		t.Fatal(err)
	}
	runs, err := retention.Decide(folder, 2, []string{at("baseline")})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{
		"newest": "latest of its plan", "new": "latest of its plan", "other": "latest of its plan", "baseline": "a baseline",
		"owing": "owes 1 pod", "locked": "locked by process", "damaged": "damaged", "old": "older than", "oldest": "older than", ".pruned-half": "left by a prune",
	}
	if len(runs) != len(want) {
		t.Errorf("%d runs, want %d", len(runs), len(want))
	}
	for _, r := range runs {
		name := filepath.Base(r.Dir)
		remove := name == "old" || name == "oldest" || name == ".pruned-half"
		if r.Remove != remove || !strings.Contains(r.Why, want[name]) || want[name] == "" {
			t.Errorf("%s: %v, %q, want %q", name, r.Remove, r.Why, want[name])
		}
		if !r.Remove {
			continue
		}
		if name == "old" { // somebody resumes it before it is removed
			d, _, err := rundir.Open(nil, r.Dir)
			if err != nil {
				t.Fatal(err)
			}
			if err := retention.Remove(nil, r); err == nil {
				t.Error("a locked run was removed")
			}
			closed(t, d)
		}
		if name == "oldest" { // a resume of it has rented meanwhile, and was killed
			owes(t, r.Dir, backends.Intended, backends.Sent)
			if err := retention.Remove(nil, r); err == nil || !strings.Contains(err.Error(), "owes 1 pod") {
				t.Errorf("a run that owes a pod: %v", err)
			}
			owes(t, r.Dir, backends.Gone)
		}
		if err := retention.Remove(nil, r); err != nil {
			t.Error(err)
		}
		if _, err := os.Stat(r.Dir); err == nil {
			t.Errorf("%s is there", name)
		}
	}
	left, _ := os.ReadDir(folder)
	if len(left) != len(want)-3+2 {
		t.Errorf("%d entries are left: %v", len(left), left)
	}
	if _, err := retention.Decide(folder, 2, []string{at("nosuch")}); err == nil {
		t.Error("a baseline that is not there is no error")
	}
}

// owes writes transitions of a pod into a run.
func owes(t *testing.T, dir string, states ...backends.State) {
	t.Helper()
	d, _, err := rundir.Open(nil, dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, state := range states {
		if err := d.Ledger().Record(t.Context(), backends.Transition{Pod: "p", State: state}); err != nil {
			t.Error(err)
		}
	}
	closed(t, d)
}
