package rundir_test

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"golang.org/x/sync/errgroup"

	"sweep.dev/sweep/backends"
	"sweep.dev/sweep/internal/effect"
	"sweep.dev/sweep/internal/layout"
	"sweep.dev/sweep/rundir"
	"sweep.dev/sweep/rundir/rundirtest"
)

func create(t *testing.T, fx *effect.Effects) *rundir.Dir {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "runs", "run")
	d, err := rundir.Create(fx, dir, rundir.Manifest{RunID: "r1", Plan: "p"}, []byte("the plan"), []byte("{}"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Close() }) // most tests have closed it
	return d
}

func reopen(t *testing.T, dir string) *rundir.State {
	t.Helper()
	d, st, err := rundir.Open(nil, dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	return st
}

func TestCreate(t *testing.T) {
	d := create(t, nil)
	for name, want := range map[string]string{layout.Plan: "the plan", layout.Resolved: "{}"} {
		if b, err := os.ReadFile(filepath.Join(d.Path(), name)); err != nil || string(b) != want {
			t.Errorf("%s holds %q (%v)", name, b, err)
		}
	}
	if !filepath.IsAbs(d.Path()) {
		t.Errorf("path %s", d.Path())
	}
	if _, err := rundir.Create(nil, d.Path(), rundir.Manifest{}, nil, nil); !errors.Is(err, rundir.ErrLocked) {
		t.Errorf("while it is open: %v", err)
	}
	if err := rundir.Vacant(d.Path()); err != nil {
		t.Errorf("while it is open only Create says who has it: %v", err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := rundir.Create(nil, d.Path(), rundir.Manifest{}, nil, nil); !errors.Is(err, rundir.ErrExists) {
		t.Errorf("over a run: %v", err)
	}
	if err := rundir.Vacant(d.Path()); !errors.Is(err, rundir.ErrExists) {
		t.Errorf("a run is vacant: %v", err)
	}
	for _, free := range []string{t.TempDir(), filepath.Join(t.TempDir(), "new")} {
		if err := rundir.Vacant(free); err != nil {
			t.Error(err)
		}
	}
	foreign := t.TempDir()
	if err := os.WriteFile(filepath.Join(foreign, "thesis.tex"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := rundir.Create(nil, foreign, rundir.Manifest{}, nil, nil); !errors.Is(err, rundir.ErrExists) || !strings.Contains(err.Error(), "thesis.tex") || exists(filepath.Join(foreign, layout.Lock)) {
		t.Errorf("over something else: %v", err)
	}
}

func TestOpen_noRun(t *testing.T) {
	dir := t.TempDir()
	for _, dir := range []string{dir, filepath.Join(dir, "absent")} {
		if _, _, err := rundir.Open(nil, dir); !errors.Is(err, rundir.ErrNoRun) {
			t.Errorf("Open: %v", err)
		}
		if _, err := rundir.Read(dir); !errors.Is(err, rundir.ErrNoRun) {
			t.Errorf("Read: %v", err)
		}
	}
	if entries, _ := os.ReadDir(dir); len(entries) != 0 {
		t.Errorf("Open left %v in a folder that is no run", entries)
	}
}

func TestState(t *testing.T) {
	ctx := t.Context()
	d := create(t, nil)
	ref := backends.Ref{Kind: "sim", Pod: "b", ID: "9", Details: map[string]string{"x": "y"}}
	for i, err := range []error{
		d.Append(ctx, "run_started", nil),
		d.Ledger().Record(ctx, backends.Transition{Pod: "a", State: backends.Intended, Kind: "sim"}),
		d.Ledger().Record(ctx, backends.Transition{Pod: "b", State: backends.Intended, Kind: "sim"}),
		d.Ledger().Record(ctx, backends.Transition{Pod: "b", State: backends.Created, Ref: &ref}),
		d.Ledger().Record(ctx, backends.Transition{Pod: "c", State: backends.Intended, Kind: "sim"}),
		d.Ledger().Record(ctx, backends.Transition{Pod: "c", State: backends.Gone}),
		d.Append(ctx, "server_ready", map[string]int{"ms": 12}),
	} {
		if err != nil {
			t.Fatalf("step %d: %v", i, err)
		}
	}
	for _, n := range []int{1, 2} {
		dir := must[string](t)(d.LaunchDir("dep", n))
		if info, err := os.Stat(dir); err != nil || !info.IsDir() || !strings.HasSuffix(dir, "deployments/dep/l0"+string(rune('0'+n))) {
			t.Errorf("launch %d: %s, %v", n, dir, err)
		}
	}
	k := rundir.Key{Cell: "c", Trial: 1}
	must[*rundir.Attempt](t)(d.Begin(ctx, k, 1))

	st := must[*rundir.State](t)(rundir.Read(d.Path()))
	want := []rundir.Owed{{Pod: "a", Kind: "sim", State: backends.Intended}, {Pod: "b", Kind: "sim", State: backends.Created, Ref: &ref}}
	times := cmpopts.IgnoreFields(rundir.Owed{}, "Since", "Changed")
	if diff := cmp.Diff(want, st.Owed, times); diff != "" {
		t.Errorf("owed:\n%s", diff)
	}
	if st.Launches["dep"] != 2 || st.Attempts[k] != 1 || st.Finished || st.Manifest.Plan != "p" {
		t.Errorf("%+v", st)
	}
	if diff := cmp.Diff([]rundir.AttemptKey{{Key: k, Attempt: 1}}, st.Pending); diff != "" {
		t.Errorf("pending:\n%s", diff)
	}
	if e := st.Events[7]; e.Type != "server_ready" || string(e.Data) != `{"ms":12}` {
		t.Errorf("event %+v", e)
	}

	for _, more := range [][]rundir.Key{{{Cell: "c", Trial: 2}, {Cell: "d", Trial: 2}}, {{Cell: "c", Trial: 3}}} {
		if err := d.AddTrials(more); err != nil {
			t.Fatal(err)
		}
	}
	st = must[*rundir.State](t)(rundir.Read(d.Path()))
	if !slices.Equal(st.AddedTo("c"), []int{2, 3}) || !slices.Equal(st.AddedTo("d"), []int{2}) || st.AddedTo("e") != nil || st.Planned() != st.Manifest.Trials+3 {
		t.Errorf("added: %v, planned %d", st.Added, st.Planned())
	}

	// The run goes on until its end, then again.
	if err := d.Append(ctx, "run_finished", nil); err != nil {
		t.Fatal(err)
	}
	if st := must[*rundir.State](t)(rundir.Read(d.Path())); !st.Finished {
		t.Error("not finished")
	}
	if err := d.Append(ctx, "run_started", nil); err != nil {
		t.Fatal(err)
	}
	if st := must[*rundir.State](t)(rundir.Read(d.Path())); st.Finished {
		t.Error("still finished")
	}
}

// A cancelled run still writes events that have happened, and begins nothing new.
func TestCancelled(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	d := create(t, nil)
	a := must[*rundir.Attempt](t)(d.Begin(ctx, rundir.Key{Cell: "c", Trial: 1}, 1))
	why := errors.New("the user said so")
	cancel(why)
	for name, err := range map[string]error{
		"Begin":  func() error { _, err := d.Begin(ctx, rundir.Key{Cell: "c", Trial: 2}, 1); return err }(),
		"Commit": a.Commit(ctx, outcome(), ""),
		"Intent": d.Ledger().Record(ctx, backends.Transition{Pod: "p", State: backends.Intended, Kind: "sim"}),
	} {
		if !errors.Is(err, why) {
			t.Errorf("%s: %v, want the cause", name, err)
		}
	}
	for name, err := range map[string]error{
		"Append":  d.Append(ctx, "x", nil),
		"Discard": a.Discard(ctx, "interrupted"),
		"Gone":    d.Ledger().Record(ctx, backends.Transition{Pod: "p", State: backends.Gone}),
	} {
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A retry of a committed trial takes its place, and only when it is committed.
func TestCommit_theLastCounts(t *testing.T) {
	ctx := t.Context()
	d := create(t, nil)
	k := rundir.Key{Cell: "c", Trial: 1}
	for n, status := range []string{"invalid", "ok", ""} {
		a := must[*rundir.Attempt](t)(d.Begin(ctx, k, n+1))
		if status == "" {
			if err := a.Discard(ctx, "interrupted"); err != nil {
				t.Fatal(err)
			}
			continue
		}
		o := outcome()
		o.Row["status"] = status
		if err := a.Commit(ctx, o, "dig"); err != nil {
			t.Fatal(err)
		}
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	st := reopen(t, d.Path())
	c := st.Committed[k]
	if c.Attempt != 2 || c.Status != "ok" || c.Digest != "dig" || st.Attempts[k] != 3 || len(st.Broken) != 0 {
		t.Errorf("%+v of %+v", c, st)
	}
	if o, err := rundir.Outcome(d.Path(), c); err != nil || o.Attempt != 2 || o.CellID != "c" {
		t.Errorf("%+v, %v", o, err)
	}
}

func TestCommit_refuses(t *testing.T) {
	ctx := t.Context()
	fx := must[*effect.Effects](t)(effect.New("attempt.sync:err=EIO"))
	d := create(t, fx)
	begin := func(trial int) *rundir.Attempt {
		return must[*rundir.Attempt](t)(d.Begin(ctx, rundir.Key{Cell: "c", Trial: trial}, 1))
	}
	for _, tc := range []struct {
		name, want string
		do         func(*rundir.Attempt) error
	}{
		{"a file that was not synced", "not whole", func(a *rundir.Attempt) error {
			if err := writeFiles(a, rundir.Key{}, 1); err == nil {
				t.Error("the fault was not reported")
			}
			return a.Commit(ctx, outcome(), "")
		}},
		{"an open file", "still open", func(a *rundir.Attempt) error {
			must[io.WriteCloser](t)(a.Create("f"))
			return a.Commit(ctx, outcome(), "")
		}},
		{"no status", "no status", func(a *rundir.Attempt) error {
			o := outcome()
			delete(o.Row, "status")
			return a.Commit(ctx, o, "")
		}},
		{"a value of no type", "a row holds no int", func(a *rundir.Attempt) error {
			o := outcome()
			o.Row["requests"] = 3
			return a.Commit(ctx, o, "")
		}},
		{"a file twice", "there already", func(a *rundir.Attempt) error {
			must[io.WriteCloser](t)(a.Create("f"))
			_, err := a.Create("f")
			return err
		}},
		{"a second commit", "is over", func(a *rundir.Attempt) error {
			if err := a.Commit(ctx, outcome(), ""); err != nil {
				return err
			}
			return a.Commit(ctx, outcome(), "")
		}},
		{"discarding what is committed", "is over", func(a *rundir.Attempt) error {
			if err := a.Commit(ctx, outcome(), ""); err != nil {
				return err
			}
			return a.Discard(ctx, "")
		}},
	} {
		trial := len(must[*rundir.State](t)(rundir.Read(d.Path())).Attempts) + 1
		a := begin(trial)
		if err := tc.do(a); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v, want %q", tc.name, err, tc.want)
		}
		_ = a.Discard(ctx, "")
	}
	if _, err := d.Begin(ctx, rundir.Key{Cell: "c", Trial: 6}, 1); err == nil {
		t.Error("an attempt that is there was begun again")
	}
}

func TestAppend_refuses(t *testing.T) {
	d := create(t, nil)
	for _, tc := range []struct {
		typ  string
		data any
	}{
		{"trial_committed", nil},
		{"pod", nil},
		{"Bad", nil},
		{"", nil},
		{"x", []int{1}},
		{"x", "text"},
		{"x", func() {}},
	} {
		if err := d.Append(t.Context(), tc.typ, tc.data); err == nil {
			t.Errorf("%q %T was appended", tc.typ, tc.data)
		}
	}
	if st := must[*rundir.State](t)(rundir.Read(d.Path())); len(st.Events) != 1 {
		t.Errorf("%d lines", len(st.Events))
	}
}

// After a failed fsync it is unknown what is on disk: nothing more is promised.
func TestAppend_failedSyncEndsTheJournal(t *testing.T) {
	d := create(t, must[*effect.Effects](t)(effect.New("journal.sync:err=EIO@2")))
	first := d.Append(t.Context(), "x", nil)
	second := d.Append(t.Context(), "y", nil)
	if first == nil || second == nil || !strings.Contains(second.Error(), "an earlier write") {
		t.Errorf("first: %v\nsecond: %v", first, second)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	if st := reopen(t, d.Path()); len(st.Events) != 1 {
		t.Errorf("%d lines", len(st.Events))
	}
}

var badNames = []string{"", ".", "..", "../x", "/etc", "a/b", "a\\b", "-x", ".hidden", "a b", "a\x00", "a\n", "ü", strings.Repeat("a", 200)}

func TestNames(t *testing.T) {
	ctx := t.Context()
	d := create(t, nil)
	a := must[*rundir.Attempt](t)(d.Begin(ctx, rundir.Key{Cell: "c", Trial: 1}, 1))
	before := len(must[*rundir.State](t)(rundir.Read(d.Path())).Events)
	for _, name := range badNames {
		if _, err := d.Begin(ctx, rundir.Key{Cell: name, Trial: 1}, 1); err == nil {
			t.Errorf("cell %q", name)
		}
		if _, err := d.LaunchDir(name, 1); err == nil {
			t.Errorf("deployment %q", name)
		}
		if err := d.Derive(name, func(io.Writer) error { return nil }); err == nil {
			t.Errorf("derived %q", name)
		}
		if _, err := a.Create(name); err == nil && name != "a/b" {
			t.Errorf("file %q", name)
		}
	}
	for _, name := range []string{"a/../b", "a/b/c/d", "scrapes/", "/a", "result.json"} {
		if _, err := a.Create(name); err == nil {
			t.Errorf("file %q", name)
		}
	}
	for _, name := range []string{layout.Journal, layout.Lock, layout.Plan, layout.Resolved, "cells"} {
		if err := d.Derive(name, func(io.Writer) error { return nil }); err == nil {
			t.Errorf("derived %q", name)
		}
	}
	for _, n := range []int{0, -1, 1 << 40} {
		if _, err := d.Begin(ctx, rundir.Key{Cell: "c", Trial: n}, 1); err == nil {
			t.Errorf("trial %d", n)
		}
		if _, err := d.Begin(ctx, rundir.Key{Cell: "c", Trial: 2}, n); err == nil {
			t.Errorf("attempt %d", n)
		}
		if _, err := d.LaunchDir("d", n); err == nil {
			t.Errorf("launch %d", n)
		}
	}
	if after := len(must[*rundir.State](t)(rundir.Read(d.Path())).Events); after != before {
		t.Errorf("%d lines of refused names", after-before)
	}
}

func FuzzSlug(f *testing.F) {
	for _, name := range badNames {
		f.Add(name)
	}
	f.Add("scrapes/x")
	dir := filepath.Join(f.TempDir(), "outer", "run")
	d, err := rundir.Create(nil, dir, rundir.Manifest{}, nil, nil)
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { _ = d.Close() })
	f.Fuzz(func(t *testing.T, name string) {
		_ = d.Derive(name, func(io.Writer) error { return nil })
		if entries, _ := os.ReadDir(filepath.Dir(dir)); len(entries) != 1 {
			t.Fatalf("%q left the run directory: %v", name, entries)
		}
		for _, own := range []string{layout.Journal, layout.Plan} {
			if info, err := os.Stat(filepath.Join(dir, own)); err != nil || own == layout.Journal && info.Size() == 0 {
				t.Fatalf("%q took %s away", name, own)
			}
		}
	})
}

// Symbolic links that somebody planted lead nothing out of the directory.
func TestSymlinks(t *testing.T) {
	for _, link := range []string{
		"cells", "cells/c", "cells/c/t01", "deployments", "cells.csv", ".cells.csv.tmp",
		layout.Journal, layout.Lock, ".ballast",
	} {
		t.Run(strings.ReplaceAll(link, "/", "_"), func(t *testing.T) {
			d := create(t, nil)
			if err := d.Close(); err != nil {
				t.Fatal(err)
			}
			outside := t.TempDir()
			target := outside
			if strings.Contains(link, ".") {
				target = filepath.Join(outside, "file")
				if err := os.WriteFile(target, []byte("precious"), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			path := filepath.Join(d.Path(), link)
			if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
				t.Fatal(err)
			}
			if link == layout.Journal {
				// A journal of ours, so that only its place is wrong.
				if err := os.Rename(path, target); err != nil {
					t.Fatal(err)
				}
			}
			_ = os.Remove(path)
			if err := os.Symlink(target, path); err != nil {
				t.Fatal(err)
			}
			before := snapshot(t, outside)
			_ = scenario{nil, d.Path(), ignore}.run(t.Context()) // may fail, must not leave
			if diff := cmp.Diff(before, snapshot(t, outside)); diff != "" {
				t.Errorf("outside has changed:\n%s", diff)
			}
		})
	}
}

func snapshot(t *testing.T, dir string) map[string]string {
	t.Helper()
	m := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, e os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		m[path] = ""
		if e.Type().IsRegular() {
			b, err := os.ReadFile(path)
			m[path] = string(b)
			return err
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// Deployments run side by side: their attempts, events and views do not get in
// each other's way.
func TestConcurrently(t *testing.T) {
	ctx := t.Context()
	d := create(t, nil)
	const deployments, trials = 4, 10
	var g errgroup.Group
	for n := range deployments {
		g.Go(func() error {
			for trial := 1; trial <= trials; trial++ {
				k := rundir.Key{Cell: []string{"c", "d"}[n%2], Trial: trial + n*trials}
				a, err := d.Begin(ctx, k, 1)
				if err != nil {
					return err
				}
				if err := writeFiles(a, k, 1); err != nil {
					return err
				}
				if err := d.Append(ctx, "note", map[string]int{"n": n}); err != nil {
					return err
				}
				if err := a.Commit(ctx, outcome(), ""); err != nil {
					return err
				}
				if err := d.Derive("cells.csv", func(w io.Writer) error {
					_, err := io.WriteString(w, k.String())
					return err
				}); err != nil {
					return err
				}
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	if st := reopen(t, d.Path()); len(st.Committed) != deployments*trials || len(st.Broken) != 0 || st.Warning != "" {
		t.Errorf("%d committed, broken %v, warning %q", len(st.Committed), st.Broken, st.Warning)
	}
	if err := rundirtest.Check(d.Path()); err != nil {
		t.Error(err)
	}
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
