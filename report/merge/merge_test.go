package merge_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sweep.dev/sweep/backends"
	"sweep.dev/sweep/internal/effect"
	"sweep.dev/sweep/report"
	"sweep.dev/sweep/report/merge"
	"sweep.dev/sweep/result"
	"sweep.dev/sweep/result/col"
	"sweep.dev/sweep/rundir"
)

// A made run has trials of cells, by their status.
type made struct {
	id     string
	cells  []string
	status map[string]string // of cells that are not ok; "" has no outcome
	plan   string
	change func(*rundir.Manifest)
	after  func(t *testing.T, d *rundir.Dir)
}

var began = time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)

func (m made) make(t *testing.T, dir string) string {
	t.Helper()
	fx, err := effect.New("")
	if err != nil {
		t.Fatal(err)
	}
	if m.plan == "" {
		m.plan = `{"load": {"requests": 10}, "seed": 1}`
	}
	resolved := report.Resolved{Plan: json.RawMessage(m.plan), Repeats: 1}
	for _, id := range m.cells {
		resolved.Cells = append(resolved.Cells, report.Cell{ID: id, Index: int(id[1] - '0'), Deployment: "d", Label: "cell " + id})
	}
	b, err := json.Marshal(resolved)
	if err != nil {
		t.Fatal(err)
	}
	man := rundir.Manifest{
		RunID: m.id, Plan: "p", PlanDigest: m.plan, Method: result.Method, Version: "1", Host: "h" + m.id, CreatedAt: began, Trials: len(m.cells),
		Only: "gpu == \"" + m.id + "\"",
	}
	if m.change != nil {
		m.change(&man)
	}
	d, err := rundir.Create(fx, dir, man, []byte("plan"), b)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	}()
	if _, err := d.LaunchDir("d", 1); err != nil {
		t.Fatal(err)
	}
	for _, cell := range m.cells {
		status, special := m.status[cell]
		if special && status == "" {
			continue
		}
		if status == "" {
			status = result.StatusOK
		}
		a, err := d.Begin(t.Context(), rundir.Key{Cell: cell, Trial: 1}, 1)
		if err != nil {
			t.Fatal(err)
		}
		row := result.Row{col.RunID: m.id, col.CellID: cell, col.Trial: int64(1), col.Status: status, col.Launch: int64(1)}
		if err := a.Commit(t.Context(), &result.Outcome{CellID: cell, Trial: 1, Attempt: 1, Row: row}, "digest"); err != nil {
			t.Fatal(err)
		}
	}
	if m.after != nil {
		m.after(t, d)
	}
	return dir
}

func both(t *testing.T, a, b made) (dirs []string) {
	t.Helper()
	folder := t.TempDir()
	return []string{a.make(t, filepath.Join(folder, "a")), b.make(t, filepath.Join(folder, "b"))}
}

func TestInto(t *testing.T) {
	// The cells of the two are mixed in the plan's order, one was skipped in the first,
	// and both launched the same deployment.
	dirs := both(t,
		made{id: "aaaa", cells: []string{"c1", "c3", "c4"}, status: map[string]string{"c3": "", "c4": result.StatusSkipped}},
		made{id: "bbbb", cells: []string{"c2", "c4"}})
	set, err := merge.Open(dirs)
	if err != nil {
		t.Fatal(err)
	}
	fx, err := effect.New("")
	if err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(t.TempDir(), "out")
	if err := set.Into(t.Context(), fx, out); err != nil {
		t.Fatal(err)
	}
	run, err := report.Open(out)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, trial := range run.Trials {
		text := trial.Cell.ID + " -"
		if trial.Outcome != nil {
			row := trial.Outcome.Row
			text = strings.Join([]string{trial.Cell.ID, row[col.RunID].(string), row[col.Status].(string)}, " ")
			if want := map[any]int64{"aaaa": 1, "bbbb": 2}[row[col.RunID]]; row[col.Launch] != want {
				t.Errorf("%s is of launch %v, want %d", text, row[col.Launch], want)
			}
			if err := rundir.Verify(out, trial.Commit); err != nil {
				t.Error(err)
			}
		}
		got = append(got, text)
	}
	if text := strings.Join(got, ", "); text != "c1 aaaa ok, c2 bbbb ok, c3 -, c4 bbbb ok" {
		t.Errorf("merged: %s", text)
	}
	m := run.State.Manifest
	if m.Trials != 4 || m.Host != "haaaa, hbbbb" || m.Only != `(gpu == "aaaa") or (gpu == "bbbb")` || len(m.RunID) != 4 {
		t.Errorf("manifest: %+v", m)
	}
	if len(m.Merged) != 2 || m.Merged[0].RunID != "aaaa" || m.Merged[0].Trials != 1 || m.Merged[1].Trials != 2 || len(m.Merged[1].Journal) != 64 {
		t.Errorf("sources: %+v", m.Merged)
	}
	if notes := strings.Join(set.Notes(), "\n"); !strings.Contains(notes, "2 clients (haaaa, hbbbb)") || !strings.Contains(notes, "a has 1 trial without an outcome") {
		t.Errorf("notes: %s", notes)
	}
	// A part of a merged run is not taken twice.
	if _, err := merge.Open([]string{out, dirs[0]}); err == nil || !strings.Contains(err.Error(), "both have the run aaaa") {
		t.Errorf("a run and one that was made of it: %v", err)
	}
}

// Trials of one cell with the same bytes are one.
func TestOpen_SameBytes(t *testing.T) {
	dirs := both(t, made{id: "aaaa", cells: []string{"c1"}}, made{id: "aaaa", cells: []string{"c1", "c2"}, change: func(m *rundir.Manifest) { m.RunID = "bbbb" }, status: map[string]string{"c2": ""}})
	set, err := merge.Open(dirs)
	if err != nil {
		t.Fatal(err)
	}
	if done, planned := set.Trials(); done != 1 || planned != 2 {
		t.Errorf("%d of %d trials", done, planned)
	}
}

func TestOpen_Refuses(t *testing.T) {
	a := made{id: "aaaa", cells: []string{"c1"}}
	for name, c := range map[string]struct {
		b    made
		want string
	}{
		"plan":    {made{id: "bbbb", cells: []string{"c2"}, plan: `{"load": {"requests": 20}, "seed": 1}`}, "runs of different plans: load.requests 10 and 20"},
		"method":  {made{id: "bbbb", cells: []string{"c2"}, change: func(m *rundir.Manifest) { m.Method = 1 }}, "differ in how figures are made: method"},
		"version": {made{id: "bbbb", cells: []string{"c2"}, change: func(m *rundir.Manifest) { m.Version = "2" }}, "differ in the version of sweep: 1 and 2"},
		"env":     {made{id: "bbbb", cells: []string{"c2"}, change: func(m *rundir.Manifest) { m.Variables = "x" }}, "an environment variable"},
		"decide":  {made{id: "bbbb", cells: []string{"c2"}, change: func(m *rundir.Manifest) { m.Decide = rundir.DecideBound }}, "differ in how objectives are decided: point and bound"},
		"twice":   {made{id: "aaaa", cells: []string{"c2"}}, "both have the run aaaa"},
		"cell":    {made{id: "bbbb", cells: []string{"c1"}}, "have measured the cell c1 (cell c1), with different results"},
		"owes": {made{id: "bbbb", cells: []string{"c2"}, after: func(t *testing.T, d *rundir.Dir) {
			if err := d.Ledger().Record(t.Context(), backends.Transition{Pod: "d-l01", State: backends.Intended, Kind: "sim"}); err != nil {
				t.Fatal(err)
			}
		}}, "b owes 1 pod"},
		"killed": {made{id: "bbbb", cells: []string{"c2"}, after: func(t *testing.T, d *rundir.Dir) {
			if _, err := d.Begin(t.Context(), rundir.Key{Cell: "c2", Trial: 2}, 1); err != nil {
				t.Fatal(err)
			}
		}}, "was killed"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := merge.Open(both(t, a, c.b))
			refused, ok := errors.AsType[*merge.Refused](err)
			if !ok || !strings.Contains(refused.Reason, c.want) || refused.Hint == "" {
				t.Errorf("%v, want %q", err, c.want)
			}
		})
	}
}

func TestOpen_Locked(t *testing.T) {
	dirs := both(t, made{id: "aaaa", cells: []string{"c1"}}, made{id: "bbbb", cells: []string{"c2"}})
	fx, err := effect.New("")
	if err != nil {
		t.Fatal(err)
	}
	d, _, err := rundir.Open(fx, dirs[1])
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	if _, err := merge.Open(dirs); !errors.Is(err, rundir.ErrLocked) {
		t.Errorf("a run that is at work: %v", err)
	}
}

// TestInto_added holds that trials that a resume has added come along, with or without an
// outcome, and only those of cells that are taken.
func TestInto_added(t *testing.T) {
	add := func(t *testing.T, d *rundir.Dir) {
		if err := d.AddTrials([]rundir.Key{{Cell: "c1", Trial: 2}, {Cell: "c2", Trial: 2}, {Cell: "c1", Trial: 3}}); err != nil {
			t.Fatal(err)
		}
		a, err := d.Begin(t.Context(), rundir.Key{Cell: "c1", Trial: 2}, 1)
		if err != nil {
			t.Fatal(err)
		}
		row := result.Row{col.RunID: "aaaa", col.CellID: "c1", col.Trial: int64(2), col.Status: result.StatusOK, col.Launch: int64(1)}
		if err := a.Commit(t.Context(), &result.Outcome{CellID: "c1", Trial: 2, Attempt: 1, Row: row}, "digest"); err != nil {
			t.Fatal(err)
		}
	}
	dirs := both(t,
		made{id: "aaaa", cells: []string{"c1", "c2"}, status: map[string]string{"c2": ""}, after: add},
		made{id: "bbbb", cells: []string{"c2"}})
	set, err := merge.Open(dirs)
	if err != nil {
		t.Fatal(err)
	}
	if done, planned := set.Trials(); done != 3 || planned != 4 {
		t.Errorf("%d of %d trials, want 3 of 4", done, planned)
	}
	if notes := strings.Join(set.Notes(), "\n"); !strings.Contains(notes, "a has 3 trials without an outcome") {
		t.Errorf("notes: %s", notes)
	}
	fx, err := effect.New("")
	if err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(t.TempDir(), "out")
	if err := set.Into(t.Context(), fx, out); err != nil {
		t.Fatal(err)
	}
	run, err := report.Open(out)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, trial := range run.Trials {
		got = append(got, fmt.Sprintf("%s %v", trial.Key, trial.Outcome != nil))
	}
	if text := strings.Join(got, ", "); text != "c1/t01 true, c1/t02 true, c1/t03 false, c2/t01 true" {
		t.Errorf("merged: %s", text)
	}
}
