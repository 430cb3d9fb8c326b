package rundir_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sweep.dev/sweep/internal/effect"
	"sweep.dev/sweep/rundir"
	"sweep.dev/sweep/rundir/rundirtest"
)

func finishedRun(t *testing.T) (dir string, st *rundir.State) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "run")
	if err := (scenario{nil, dir, ignore}).run(t.Context()); err != nil {
		t.Fatal(err)
	}
	return dir, must[*rundir.State](t)(rundir.Read(dir))
}

// A committed trial whose files do not match is loud, and is run again under a
// new number; the others stay.
func TestOpen_broken(t *testing.T) {
	for name, tc := range map[string]struct {
		harm func(t *testing.T, attempt string)
		want string
	}{
		"a file changed":     {func(t *testing.T, a string) { rewrite(t, a+"/requests.parquet", "c1", "cX") }, "requests.parquet has the digest"},
		"a file shorter":     {func(t *testing.T, a string) { rewrite(t, a+"/requests.parquet", "c1", "c") }, "requests.parquet has"},
		"a file gone":        {func(t *testing.T, a string) { remove(t, a+"/scrapes/before.prom") }, "no such file"},
		"the result changed": {func(t *testing.T, a string) { rewrite(t, a+"/result.json", "12.0", "11.0") }, "result.json has the digest"},
		"the result gone":    {func(t *testing.T, a string) { remove(t, a+"/result.json") }, "no such file"},
		"the folder gone":    {func(t *testing.T, a string) { remove(t, a) }, "no such file"},
		"a file a link out": {func(t *testing.T, a string) {
			remove(t, a+"/requests.parquet")
			if err := os.Symlink("/etc/hostname", a+"/requests.parquet"); err != nil {
				t.Fatal(err)
			}
		}, "escapes"},
	} {
		t.Run(name, func(t *testing.T) {
			dir, st := finishedRun(t)
			k := planned[0]
			c := st.Committed[k]
			before := must[map[rundir.Key]string](t)(rundirtest.Trials(dir))
			tc.harm(t, rundir.AttemptDir(dir, c))
			if err := rundirtest.Check(dir); err == nil {
				t.Error("Check finds nothing")
			}

			st = reopen(t, dir)
			if !strings.Contains(st.Warning, k.String()) || !strings.Contains(st.Warning, tc.want) {
				t.Errorf("warning %q", st.Warning)
			}
			if len(st.Broken) != 1 || st.Broken[0].Key != k || !strings.Contains(st.Broken[0].Reason, tc.want) {
				t.Errorf("broken: %+v, want %q", st.Broken, tc.want)
			}
			if _, ok := st.Committed[k]; ok || len(st.Committed) != len(planned)-1 {
				t.Errorf("committed: %v", st.Committed)
			}
			if err := (scenario{nil, dir, ignore}).run(t.Context()); err != nil {
				t.Fatal(err)
			}
			st = reopen(t, dir)
			if got := st.Committed[k]; got.Attempt != c.Attempt+1 || len(st.Broken) != 0 {
				t.Errorf("made again as %+v, broken %v", got, st.Broken)
			}
			delete(before, k)
			rundirtest.Unchanged(t, before, must[map[rundir.Key]string](t)(rundirtest.Trials(dir)))
		})
	}
}

func rewrite(t *testing.T, path, from, to string) {
	t.Helper()
	b := must[[]byte](t)(os.ReadFile(path))
	changed := strings.Replace(string(b), from, to, 1)
	if changed == string(b) {
		t.Fatalf("%s does not hold %q", path, from)
	}
	if err := os.WriteFile(path, []byte(changed), 0o600); err != nil {
		t.Fatal(err)
	}
}

func remove(t *testing.T, path string) {
	t.Helper()
	if err := os.RemoveAll(path); err != nil {
		t.Fatal(err)
	}
}

// crashed makes a run that dies with spec.
func crashed(t *testing.T, spec string) (dir string) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "run")
	if killed, _ := runScenario(t, spec, dir); !killed {
		t.Fatalf("%s did not kill", spec)
	}
	return dir
}

func TestOpen_adopts(t *testing.T) {
	dir := crashed(t, "commit.journal:kill@2")
	st := must[*rundir.State](t)(rundir.Read(dir))
	if len(st.Committed) != 1 || len(st.Pending) != 1 {
		t.Fatalf("after the crash: %+v", st)
	}
	pending := st.Pending[0]
	st = reopen(t, dir)
	if len(st.Adopted) != 1 || st.Adopted[0].Key != pending.Key || len(st.Pending) != 0 || len(st.Committed) != 2 {
		t.Fatalf("adopted %v, pending %v, committed %v", st.Adopted, st.Pending, st.Committed)
	}
	c := st.Committed[pending.Key]
	if c != st.Adopted[0] || c.Status != "ok" || c.Digest != "digest" {
		t.Errorf("%+v", c)
	}
	if !strings.Contains(st.Warning, "was added") {
		t.Errorf("warning %q", st.Warning)
	}
	if st = reopen(t, dir); st.Warning != "" || len(st.Adopted) != 0 || len(st.Committed) != 2 {
		t.Errorf("a second recovery found more: %+v", st)
	}
}

// An attempt that was renamed and does not match itself is not adopted.
func TestOpen_adoptsOnlyWhatMatches(t *testing.T) {
	dir := crashed(t, "commit.journal:kill")
	rewrite(t, filepath.Join(dir, "cells/c1/t01/a01/requests.parquet"), "c1", "cX")
	st := reopen(t, dir)
	if len(st.Adopted) != 0 || len(st.Committed) != 0 || !strings.Contains(st.Warning, "could not be adopted") {
		t.Errorf("%+v", st)
	}
	resumed(t, dir, nil)
}

func TestOpen_discards(t *testing.T) {
	dir := crashed(t, "attempt.sync:kill@3")
	st := reopen(t, dir)
	if len(st.Pending) != 0 || st.Attempts[planned[0]] != 1 || !strings.Contains(st.Warning, "discarded") {
		t.Errorf("%+v", st)
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "cells/*/*/*")); len(left) != 0 {
		t.Errorf("left: %v", left)
	}
}

// An older attempt that was finished but not journaled must not take the place
// of a newer one that is committed.
func TestOpen_doesNotAdoptTheOlder(t *testing.T) {
	// The commit line of attempt 1 fails and so does the line that discards it.
	fx := must[*effect.Effects](t)(effect.New("commit.journal:err=EIO,discard.journal:err=EIO"))
	d := create(t, fx)
	ctx := t.Context()
	k := rundir.Key{Cell: "c", Trial: 1}
	first := must[*rundir.Attempt](t)(d.Begin(ctx, k, 1))
	if err := first.Commit(ctx, outcome(), ""); err == nil {
		t.Fatal("committed")
	}
	if err := first.Discard(ctx, ""); err == nil {
		t.Fatal("discarded")
	}
	second := must[*rundir.Attempt](t)(d.Begin(ctx, k, 2))
	if err := second.Commit(ctx, outcome(), ""); err != nil {
		t.Fatal(err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	st := reopen(t, d.Path())
	if st.Committed[k].Attempt != 2 || len(st.Adopted) != 0 || len(st.Pending) != 0 {
		t.Errorf("%+v", st)
	}
	if err := rundirtest.Check(d.Path()); err != nil {
		t.Error(err)
	}
}

// Foreign files in the cells' folders are left alone, and their numbers are not used.
func TestOpen_leavesForeignFilesAlone(t *testing.T) {
	dir, _ := finishedRun(t)
	for _, name := range []string{"cells/c1/t01/a07", "cells/c1/t01/archive", "cells/c1/t01/a1", "deployments/d9/l03", "cells/c1/trash"} {
		if err := os.MkdirAll(filepath.Join(dir, name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	st := reopen(t, dir)
	if st.Attempts[planned[0]] != 7 || st.Launches["d9"] != 3 || len(st.Committed) != 3 {
		t.Errorf("%+v", st)
	}
	for _, name := range []string{"a07", "archive", "a1"} {
		if !strings.Contains(st.Warning, name) {
			t.Errorf("warning %q does not name %s", st.Warning, name)
		}
		if _, err := os.Stat(filepath.Join(dir, "cells/c1/t01", name)); err != nil {
			t.Error(err)
		}
	}
}
