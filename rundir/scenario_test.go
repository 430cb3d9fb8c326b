package rundir_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sweep.dev/sweep/backends"
	"sweep.dev/sweep/internal/effect"
	"sweep.dev/sweep/internal/layout"
	"sweep.dev/sweep/result"
	"sweep.dev/sweep/rundir"
	"sweep.dev/sweep/rundir/rundirtest"
)

// A scenario is a small run that does everything a run does to its directory.
// Done again on the same directory, it resumes.
type scenario struct {
	fx  *effect.Effects
	dir string
	// acked hears of every trial whose Commit returned nil.
	acked func(rundir.Key)
}

var planned = []rundir.Key{{Cell: "c1", Trial: 1}, {Cell: "c1", Trial: 2}, {Cell: "c2", Trial: 1}}

func (s scenario) run(ctx context.Context) (err error) {
	d, st, err := s.open()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	if _, err := os.Stat(filepath.Join(s.dir, layout.Calibration)); err != nil {
		if err := d.WriteCalibration(map[string]int{"ceiling": 100_000}); err != nil {
			return err
		}
	}
	if err := d.Append(ctx, "run_started", nil); err != nil {
		return err
	}
	for _, o := range st.Owed {
		if err := d.Ledger().Record(ctx, backends.Transition{Pod: o.Pod, State: backends.Gone}); err != nil {
			return err
		}
	}
	pod, err := s.launch(ctx, d, st.Launches["d1"]+1)
	if err != nil {
		return err
	}
	for _, k := range planned {
		if _, done := st.Committed[k]; done {
			continue
		}
		if err := s.trial(ctx, d, k, st.Attempts[k]+1); err != nil {
			return err
		}
	}
	if err := s.derive(d); err != nil {
		return err
	}
	for _, state := range []backends.State{backends.Ready, backends.Kept, backends.Stopped, backends.Draining, backends.DeleteSent, backends.Gone} {
		if err := d.Ledger().Record(ctx, backends.Transition{Pod: pod, State: state}); err != nil {
			return err
		}
	}
	return d.Append(ctx, "run_finished", map[string]any{"exit": 0})
}

func (s scenario) open() (*rundir.Dir, *rundir.State, error) {
	d, st, err := rundir.Open(s.fx, s.dir)
	if !errors.Is(err, rundir.ErrNoRun) {
		return d, st, err
	}
	m := rundir.Manifest{RunID: "r1", Plan: "p", Trials: len(planned), Rehearsed: true}
	d, err = rundir.Create(s.fx, s.dir, m, []byte("plan"), []byte("{}"), rundir.File{Name: layout.Rehearsal, Data: []byte("{}")})
	return d, &rundir.State{}, err
}

func (s scenario) launch(ctx context.Context, d *rundir.Dir, n int) (pod string, err error) {
	if _, err := d.LaunchDir("d1", n); err != nil {
		return "", err
	}
	if err := d.WriteLaunch("d1", n, map[string]string{"engine": "sim"}); err != nil {
		return "", err
	}
	pod = fmt.Sprintf("d1-l%02d", n)
	for _, state := range []backends.State{backends.Intended, backends.Sent} {
		if err := d.Ledger().Record(ctx, backends.Transition{Pod: pod, State: state, Kind: "sim"}); err != nil {
			return "", err
		}
	}
	return pod, d.Ledger().Record(ctx, backends.Transition{Pod: pod, State: backends.Created, Ref: &backends.Ref{Kind: "sim", Pod: pod, ID: "7"}})
}

// trial gives one attempt away, so that discarding is a part of every run.
func (s scenario) trial(ctx context.Context, d *rundir.Dir, k rundir.Key, attempt int) error {
	if k == planned[1] && attempt == 1 {
		a, err := d.Begin(ctx, k, attempt)
		if err != nil {
			return err
		}
		if err := writeFiles(a, k, attempt); err != nil {
			return errors.Join(err, a.Discard(ctx, "a file failed"))
		}
		if err := a.Discard(ctx, "the server died"); err != nil {
			return err
		}
		attempt++
	}
	a, err := d.Begin(ctx, k, attempt)
	if err != nil {
		return err
	}
	err = writeFiles(a, k, attempt)
	if err == nil {
		err = a.Commit(ctx, outcome(), "digest")
	}
	if err != nil {
		return errors.Join(err, a.Discard(ctx, "it failed"))
	}
	s.acked(k)
	return nil
}

func writeFiles(a *rundir.Attempt, k rundir.Key, attempt int) error {
	for _, name := range []string{"requests.parquet", "scrapes/before.prom", "empty.log"} {
		f, err := a.Create(name)
		if err != nil {
			return err
		}
		text := strings.Repeat(fmt.Sprintf("%s %d %s\n", k, attempt, name), 40)
		if name == "empty.log" {
			text = ""
		}
		if _, err := io.WriteString(f, text); err != nil {
			return errors.Join(err, f.Close())
		}
		if err := f.Close(); err != nil {
			return err
		}
	}
	return nil
}

func outcome() *result.Outcome {
	return &result.Outcome{
		StartedAt: time.Unix(1_700_000_000, 0).UTC(),
		Row:       result.Row{"status": result.StatusOK, "method": int64(result.Method), "p50_ttft_ms": 12.0},
	}
}

func (s scenario) derive(d *rundir.Dir) error {
	st, err := rundir.Read(s.dir)
	if err != nil {
		return err
	}
	return d.Derive("cells.csv", func(w io.Writer) error {
		for _, k := range planned {
			o, err := rundir.Outcome(s.dir, st.Committed[k])
			if err != nil {
				return err
			}
			if _, err := fmt.Fprintf(w, "%s,%d,%v\n", o.CellID, o.Trial, o.Row["p50_ttft_ms"]); err != nil {
				return err
			}
		}
		return nil
	})
}

func ignore(rundir.Key) {}

// resumed finishes a directory that a crash left, and holds everything against
// it that must hold: acked trials were committed and are byte for byte what
// they were, what they were measured on is there, every planned trial is committed once,
// and nothing is left over.
func resumed(t *testing.T, dir string, acked []rundir.Key) {
	t.Helper()
	launches, err := filepath.Glob(filepath.Join(dir, layout.AnyLaunch, layout.Launch))
	if err != nil || len(acked) > 0 && len(launches) == 0 {
		t.Errorf("%d trials were acknowledged, and %s of their launch is lost: %v", len(acked), layout.Launch, err)
	}
	before, err := rundirtest.Trials(dir)
	if err != nil {
		t.Fatalf("after the crash: %v", err)
	}
	finish(t, dir, acked, before)
}

func finish(t *testing.T, dir string, acked []rundir.Key, before map[rundir.Key]string) {
	t.Helper()
	if err := (scenario{nil, dir, ignore}).run(t.Context()); err != nil {
		t.Fatalf("resume: %v", err)
	}
	if err := rundirtest.Check(dir); err != nil {
		t.Errorf("after the resume: %v", err)
	}
	after, err := rundirtest.Trials(dir)
	if err != nil {
		t.Fatal(err)
	}
	rundirtest.Unchanged(t, before, after)
	for _, k := range acked {
		if _, ok := before[k]; !ok {
			t.Errorf("%s was acknowledged and is not committed after the crash", k)
		}
	}
	if len(after) != len(planned) {
		t.Errorf("%d trials are committed, want %d", len(after), len(planned))
	}
	st, err := rundir.Read(dir)
	if err != nil {
		t.Fatal(err)
	}
	if !st.Finished || len(st.Owed) != 0 {
		t.Errorf("finished %v, owed %v", st.Finished, st.Owed)
	}
	commits := map[rundir.Key]int{}
	for _, e := range st.Events {
		if e.Type == "trial_committed" {
			commits[key(t, e)]++
		}
	}
	for k, c := range commits {
		if c != 1 && !redone(st, k) {
			t.Errorf("%s has %d commit lines", k, c)
		}
	}
	if b, err := os.ReadFile(dir + "/cells.csv"); err != nil || string(b) != "c1,1,12\nc1,2,12\nc2,1,12\n" {
		t.Errorf("cells.csv holds %q (%v)", b, err)
	}
}

// redone reports whether a committed attempt of k was taken back: its writer was
// told that the line had failed.
func redone(st *rundir.State, k rundir.Key) bool {
	for i, e := range st.Events {
		if e.Type != "trial_discarded" {
			continue
		}
		for _, c := range st.Events[:i] {
			if c.Type == "trial_committed" && attempt(c) == attempt(e) && attempt(e).Key == k {
				return true
			}
		}
	}
	return false
}
