package rundir_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"sweep.dev/sweep/internal/effect"
	"sweep.dev/sweep/internal/layout"
	"sweep.dev/sweep/result"
	"sweep.dev/sweep/rundir"
	"sweep.dev/sweep/rundir/rundirtest"
)

// assembled makes folder/out of folder/a and folder/b: c1 of one and c2 of the other.
func assembled(fx *effect.Effects, folder string) error {
	var parts []rundir.Part
	for i, name := range []string{"a", "b"} {
		dir := filepath.Join(folder, name)
		st, err := rundir.Read(dir)
		if err != nil {
			return err
		}
		parts = append(parts, rundir.Part{
			Dir: dir, State: st, Shift: map[string]int{"d1": i * st.Launches["d1"]},
			Takes:  func(k rundir.Key) bool { return k.Cell == fmt.Sprint("c", i+1) },
			Change: func(*result.Outcome) bool { return false },
		})
	}
	m := rundir.Manifest{RunID: "r1", Plan: "p", Trials: len(planned), Merged: []rundir.Merged{{RunID: "a"}, {RunID: "b"}}}
	return rundir.Assemble(noContext(), fx, filepath.Join(folder, "out"), m, []byte("plan"), []byte("{}"), parts)
}

func twoRuns(t *testing.T) string {
	t.Helper()
	folder := t.TempDir()
	for _, name := range []string{"a", "b"} {
		fx := must[*effect.Effects](t)(effect.New(""))
		if err := (scenario{fx, filepath.Join(folder, name), ignore}).run(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	return folder
}

func whole(t *testing.T, folder string) {
	t.Helper()
	out := filepath.Join(folder, "out")
	if err := rundirtest.Check(out); err != nil {
		t.Fatal(err)
	}
	st := must[*rundir.State](t)(rundir.Read(out))
	if len(st.Committed) != len(planned) || len(st.Owed) > 0 || !st.Finished || len(st.Manifest.Merged) != 2 || st.Launches["d1"] != 2 {
		t.Errorf("%d committed, %d owed, finished %v, launches %v, made of %v", len(st.Committed), len(st.Owed), st.Finished, st.Launches, st.Manifest.Merged)
	}
	before := must[map[rundir.Key]string](t)(rundirtest.Trials(filepath.Join(folder, "a")))
	after := must[map[rundir.Key]string](t)(rundirtest.Trials(out))
	rundirtest.Unchanged(t, before, after)
	if _, err := os.Stat(filepath.Join(folder, layout.Merging("out"))); err == nil {
		t.Error("the directory it was made in was left")
	}
}

func TestAssemble(t *testing.T) {
	folder := twoRuns(t)
	if err := assembled(must[*effect.Effects](t)(effect.New("")), folder); err != nil {
		t.Fatal(err)
	}
	whole(t, folder)
	// The times are those of then.
	work := func(name string) (d time.Duration) {
		var from time.Time
		for _, e := range must[*rundir.State](t)(rundir.Read(filepath.Join(folder, name))).Events {
			switch e.Type {
			case "run_started":
				from = e.Time
			case "run_finished":
				d += e.Time.Sub(from)
			}
		}
		return d
	}
	if got, want := work("out"), work("a")+work("b"); got != want {
		t.Errorf("the work took %s, want %s", got, want)
	}
	if err := assembled(must[*effect.Effects](t)(effect.New("")), folder); !errors.Is(err, rundir.ErrExists) {
		t.Errorf("into a directory that is there: %v", err)
	}
}

// A file that was changed since it was committed is not taken over.
func TestAssemble_Damaged(t *testing.T) {
	folder := twoRuns(t)
	st := must[*rundir.State](t)(rundir.Read(filepath.Join(folder, "b")))
	files, err := filepath.Glob(filepath.Join(rundir.AttemptDir(filepath.Join(folder, "b"), st.Committed[planned[2]]), "*"))
	if err != nil || len(files) < 2 {
		t.Fatal(files, err)
	}
	for _, f := range files {
		if info, err := os.Stat(f); err == nil && info.Mode().IsRegular() && filepath.Base(f) != layout.Result {
			appendTo(t, f, "x")
		}
	}
	if err := assembled(must[*effect.Effects](t)(effect.New("")), folder); err == nil {
		t.Error("a changed file was taken over")
	}
	for _, name := range []string{"out", layout.Merging("out")} {
		if _, err := os.Stat(filepath.Join(folder, name)); err == nil {
			t.Errorf("%s was left", name)
		}
	}
}

// Nothing more gets to the disk from an operation on, which is what a kill leaves of it,
// at every one: there is no directory of the name, or the whole one; and the same command
// again makes it.
func TestKillAssembleAtEveryOperation(t *testing.T) {
	t.Parallel()
	folder := twoRuns(t)
	fx := must[*effect.Effects](t)(effect.New(""))
	if err := assembled(fx, folder); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(filepath.Join(folder, "out")); err != nil {
		t.Fatal(err)
	}
	if fx.Ops() < 50 {
		t.Errorf("only %d operations", fx.Ops())
	}
	for i := 1; i <= int(fx.Ops()); i++ {
		dying := must[*effect.Effects](t)(effect.New(fmt.Sprintf("op:err=EIO@%d+", i)))
		_ = assembled(dying, folder) // if only the end of its fsyncs failed, it may be whole
		if _, err := os.Stat(filepath.Join(folder, "out")); err != nil {
			if err := assembled(must[*effect.Effects](t)(effect.New("")), folder); err != nil {
				t.Fatal(err)
			}
		}
		whole(t, folder)
		if t.Failed() {
			t.Fatalf("killed at operation %d", i)
		}
		if err := os.RemoveAll(filepath.Join(folder, "out")); err != nil {
			t.Fatal(err)
		}
	}
}
