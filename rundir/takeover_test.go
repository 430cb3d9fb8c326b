package rundir_test

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sweep.dev/sweep/internal/effect"
	"sweep.dev/sweep/internal/layout"
	"sweep.dev/sweep/result"
	"sweep.dev/sweep/rundir"
	"sweep.dev/sweep/rundir/rundirtest"
)

// takeAll takes over what dir does not have yet of a finished run.
func takeAll(t *testing.T, fx *effect.Effects, dir, from string, st *rundir.State) (err error) {
	t.Helper()
	d, have, err := rundir.Open(fx, dir)
	if errors.Is(err, rundir.ErrNoRun) {
		have = &rundir.State{}
		d, err = rundir.Create(fx, dir, rundir.Manifest{RunID: "r2", Plan: "p"}, []byte("plan"), []byte("{}"))
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	for _, k := range planned {
		if _, done := have.Committed[k]; done {
			continue
		}
		err := d.TakeOver(t.Context(), from, st.Committed[k], func(o *result.Outcome) error {
			o.Row["reused_from"] = "there"
			return nil
		})
		if err != nil {
			return err
		}
	}
	return d.Append(t.Context(), "reused", nil)
}

// takenOver holds what was taken over against where it is from.
func takenOver(t *testing.T, dir, from string, st *rundir.State) {
	t.Helper()
	if err := rundirtest.Check(dir); err != nil {
		t.Error(err)
	}
	got, err := rundir.Read(dir)
	if err != nil {
		t.Fatal(err)
	}
	if !got.Reused || len(got.Committed) != len(planned) {
		t.Errorf("reused %v, committed %v", got.Reused, got.Committed)
	}
	for _, k := range planned {
		c, was := got.Committed[k], st.Committed[k]
		if c.Attempt != was.Attempt || c.Digest != was.Digest || c.Status != was.Status {
			t.Errorf("%s: committed as %+v, there as %+v", k, c, was)
		}
		o, err := rundir.Outcome(dir, c)
		if err != nil {
			t.Fatal(err)
		}
		if o.Row["reused_from"] != "there" {
			t.Errorf("%s: the row is %v", k, o.Row)
		}
		for _, f := range o.Files {
			a := must[[]byte](t)(os.ReadFile(filepath.Join(rundir.AttemptDir(dir, c), f.Name)))
			b := must[[]byte](t)(os.ReadFile(filepath.Join(rundir.AttemptDir(from, was), f.Name)))
			if string(a) != string(b) {
				t.Errorf("%s: %s is not the same", k, f.Name)
			}
		}
	}
}

// Trials are taken over whole, however often that is stopped: at every operation
// nothing more gets to the disk, which is what a kill leaves of it, and the next
// process goes on. The directory they are from stays as it is.
func TestTakeOver(t *testing.T) {
	t.Parallel()
	from, st := finishedRun(t)
	before := treeOf(t, from)
	for n := 1; ; n++ {
		dir := filepath.Join(t.TempDir(), "run")
		fx := must[*effect.Effects](t)(effect.New(fmt.Sprintf("op:err=EIO@%d+", n)))
		first := takeAll(t, fx, dir, from, st)
		if err := takeAll(t, nil, dir, from, st); err != nil {
			t.Fatalf("stopped at operation %d (%v): %v", n, first, err)
		}
		takenOver(t, dir, from, st)
		if t.Failed() {
			t.Fatalf("stopped at operation %d (%v)", n, first)
		}
		_ = os.RemoveAll(dir)
		if fx.Ops() < uint64(n) {
			if n < 50 {
				t.Errorf("only %d operations", n)
			}
			break
		}
	}
	if after := treeOf(t, from); !maps.Equal(before, after) {
		t.Errorf("the directory was changed:\n%v\n%v", before, after)
	}
}

// A file that is not what was committed is not taken over.
func TestTakeOver_damaged(t *testing.T) {
	for name, damage := range map[string]func(t *testing.T, attempt string){
		"a file":      func(t *testing.T, attempt string) { appendTo(t, filepath.Join(attempt, "requests.parquet"), "x") },
		"its outcome": func(t *testing.T, attempt string) { appendTo(t, filepath.Join(attempt, layout.Result), " ") },
		"no file":     func(t *testing.T, attempt string) { remove(t, filepath.Join(attempt, "requests.parquet")) },
	} {
		t.Run(name, func(t *testing.T) {
			from, st := finishedRun(t)
			damage(t, rundir.AttemptDir(from, st.Committed[planned[0]]))
			dir := filepath.Join(t.TempDir(), "run")
			err := takeAll(t, nil, dir, from, st)
			if err == nil || !strings.Contains(err.Error(), planned[0].String()) {
				t.Errorf("%v", err)
			}
			if got := reopen(t, dir); len(got.Committed) != 0 || got.Reused {
				t.Errorf("committed %v, reused %v", got.Committed, got.Reused)
			}
			if err := rundirtest.Check(dir); err != nil {
				t.Error(err)
			}
		})
	}
}

// treeOf returns every file below a folder with its content.
func treeOf(t *testing.T, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, e os.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		files[path] = string(b)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}
