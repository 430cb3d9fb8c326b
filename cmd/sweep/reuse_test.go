package main

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"sweep.dev/sweep/internal/effect"
	"sweep.dev/sweep/rundir"
	"sweep.dev/sweep/rundir/rundirtest"
)

// TestReuse_killed kills a run while it takes trials over, at every fault point of
// that, and resumes it: everything is there, from the directory it was to come
// from, nothing was launched, and that directory is as it was.
func TestReuse_killed(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "crash.yaml"), crashPlan)
	if got := sweep(t, dir, nil, "run", "-o", "first", "crash.yaml"); got.code != exitOK {
		t.Fatalf("the first run ended with %d\n%s", got.code, got.stderr)
	}
	before := filesOf(t, filepath.Join(dir, "first"))
	want := grid(t, filepath.Join(dir, "first"))
	for n, p := range []effect.Point{
		effect.BeginJournal, effect.AttemptMkdir, effect.AttemptCreate, effect.AttemptWrite, effect.AttemptSync,
		effect.AttemptDirsync, effect.AttemptRename, effect.CommitJournal, effect.EventJournal,
	} {
		for _, phase := range phases(n) {
			at := 2 // in the second trial or file
			if p == effect.EventJournal {
				at = 1
			}
			fault := fmt.Sprintf("%s:%s:kill@%d", p, phase, at)
			t.Run(strings.ReplaceAll(fault, ":", "_"), func(t *testing.T) {
				t.Parallel()
				out := filepath.Join(t.TempDir(), "run")
				got := sweep(t, dir, []string{"SWEEP_FAULT=" + fault}, "run", "--reuse", "first", "-o", out, "crash.yaml")
				if got.code != -1 {
					t.Fatalf("it ended with %d and was not killed\n%s", got.code, got.stderr)
				}
				taken, err := rundirtest.Trials(out)
				if err != nil {
					t.Fatal(err)
				}
				got = sweep(t, dir, nil, "resume", out)
				if got.code != exitOK {
					t.Fatalf("the resume ended with %d\n%s", got.code, got.stderr)
				}
				if err := rundirtest.Check(out); err != nil {
					t.Error(err)
				}
				after, err := rundirtest.Trials(out)
				if err != nil {
					t.Fatal(err)
				}
				rundirtest.Unchanged(t, taken, after)
				if got := grid(t, out); !slices.Equal(got, want) {
					t.Errorf("the grid is\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
				}
				st, err := rundir.Read(out)
				if err != nil {
					t.Fatal(err)
				}
				for _, c := range st.Committed {
					o, err := rundir.Outcome(out, c)
					if err != nil {
						t.Fatal(err)
					}
					if o.Row["reused_from"] != "first" {
						t.Errorf("%s is from %v", c.Key, o.Row["reused_from"])
					}
				}
				if _, err := os.Stat(filepath.Join(out, "deployments")); err == nil {
					t.Error("something was launched")
				}
			})
		}
	}
	t.Cleanup(func() {
		if after := filesOf(t, filepath.Join(dir, "first")); !maps.Equal(before, after) {
			t.Errorf("the directory has changed: %v files of %v", len(after), len(before))
		}
	})
}

// TestResume_upgraded: a server that has become another one since its first trial is
// measured no further, neither by a resume nor by a run that takes the trial over.
func TestResume_upgraded(t *testing.T) {
	t.Parallel()
	s := newGivenServer(t, func(*givenServer) {})
	dir := t.TempDir()
	write(t, filepath.Join(dir, "plan.yaml"), fmt.Sprintf(`version: 1
name: given
model: m
matrix: {engine: vllm, concurrency: [2, 4]}
backend: {kind: endpoint, url: %q}
load: %s
`, s.URL, givenLoad))
	args := append(append([]string{"run", "-o", "first"}, rehearsal...), "plan.yaml")
	if got := sweep(t, dir, []string{"SWEEP_FAULT=commit.journal:after:kill"}, args...); got.code != -1 {
		t.Fatalf("it ended with %d and was not killed\n%s", got.code, got.stderr)
	}
	s.upgrade("2.0")
	const completions = "POST /v1/chat/completions"
	for _, args := range [][]string{
		{"resume", "first"},
		append(append([]string{"run", "--reuse", "first", "-o", "second"}, rehearsal...), "plan.yaml"),
	} {
		before := s.got()[completions]
		got := sweep(t, dir, nil, args...)
		if got.code != exitResume {
			t.Errorf("%v ended with %d, want %d\n%s", args, got.code, exitResume, got.stderr)
		}
		for _, text := range []string{"engine version is 2.0", "has 1.0", "start a new run"} {
			if !strings.Contains(got.stderr, text) {
				t.Errorf("%v does not say %q\n%s", args, text, got.stderr)
			}
		}
		if n := s.got()[completions] - before; n != 1 { // which shows that it is ready
			t.Errorf("%v sent %d completions", args, n)
		}
	}
	s.upgrade("1.0")
	for _, run := range []string{"first", "second"} {
		if got := sweep(t, dir, nil, "resume", run); got.code != exitOK {
			t.Errorf("with the earlier version again: %s ended with %d\n%s", run, got.code, got.stderr)
		}
	}
}

// filesOf returns every file below a folder with its content and the time of its last
// change.
func filesOf(t *testing.T, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, e os.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		b, err := os.ReadFile(path)
		files[path] = info.ModTime().String() + string(b)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}
