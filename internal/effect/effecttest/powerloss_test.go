package effecttest_test

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"testing"

	"sweep.dev/sweep/internal/effect"
	"sweep.dev/sweep/internal/effect/effecttest"
)

// write makes the file f in base; each flag leaves one step of the recipe out.
func write(t *testing.T, base string, sync, rename, dirsync bool) []effect.Op {
	t.Helper()
	var log effect.Log
	fx, err := effect.New("", effect.Record(&log))
	if err != nil {
		t.Fatal(err)
	}
	temp := filepath.Join(base, "temp")
	f, err := fx.Create(effect.AttemptCreate, temp)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Write(bytes.Repeat([]byte("x"), 2000)); err != nil {
		t.Fatal(err)
	}
	if sync {
		if err := f.Sync(); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if rename {
		if err := fx.Rename(effect.AttemptRename, temp, filepath.Join(base, "f")); err != nil {
			t.Fatal(err)
		}
	}
	if dirsync {
		if err := fx.SyncDir(effect.AttemptDirsync, base); err != nil {
			t.Fatal(err)
		}
	}
	return log.Ops()
}

// Each step of "write, fsync, rename, fsync the folder" is needed: the model
// must lose something if one is left out, or it proves nothing.
func TestPowerLoss_everyStepCounts(t *testing.T) {
	for _, tc := range []struct {
		name                  string
		sync, rename, dirsync bool
		keep                  int
		file                  string
		want                  int // bytes; -1: no file
	}{
		{"all steps", true, true, true, 0, "f", 2000},
		{"no fsync", false, true, true, 0, "f", 0},
		{"no fsync, all of it kept", false, true, true, 100, "f", 2000},
		{"no fsync of the folder", true, true, false, 0, "f", -1},
		{"no fsync of the folder, all of it kept", true, true, false, 100, "f", 2000},
		{"no rename", true, false, true, 0, "temp", 2000},
	} {
		base, dst := t.TempDir(), filepath.Join(t.TempDir(), "dst")
		ops := write(t, base, tc.sync, tc.rename, tc.dirsync)
		if err := effecttest.PowerLoss(ops, base, dst, tc.keep, 1); err != nil {
			t.Fatal(err)
		}
		got := -1
		if b, err := os.ReadFile(filepath.Join(dst, tc.file)); err == nil {
			got = len(b)
		}
		if got != tc.want {
			t.Errorf("%s: %d bytes, want %d", tc.name, got, tc.want)
		}
	}
}

// Half of the sectors leave holes: some seed must show a file that is neither empty nor whole.
func TestPowerLoss_tearsData(t *testing.T) {
	base := t.TempDir()
	ops := write(t, base, false, true, true)
	torn := 0
	for seed := range uint64(20) {
		dst := filepath.Join(t.TempDir(), "dst")
		if err := effecttest.PowerLoss(ops, base, dst, 50, seed); err != nil {
			t.Fatal(err)
		}
		b, err := os.ReadFile(filepath.Join(dst, "f"))
		if err != nil {
			t.Fatal(err)
		}
		if x := bytes.Count(b, []byte("x")); x > 0 && x < 2000 {
			torn++
		}
	}
	if torn == 0 {
		t.Error("no seed tears the file")
	}
}

// With everything kept, the replay is the directory itself, whatever was done to it.
func TestPowerLoss_keepAllIsIdentity(t *testing.T) {
	base := t.TempDir()
	var log effect.Log
	fx, err := effect.New("", effect.Record(&log))
	if err != nil {
		t.Fatal(err)
	}
	in := func(name string) string { return filepath.Join(base, name) }
	steps := []error{
		fx.MkdirAll(effect.AttemptMkdir, in("a/b/c")),
		fx.WriteFileAtomic(effect.DeriveCreate, in("a/one"), text("one")),
		fx.WriteFileAtomic(effect.DeriveCreate, in("a/one"), text("two")),
		fx.WriteFileAtomic(effect.DeriveCreate, in("a/b/gone"), text("gone")),
		fx.Remove(effect.AttemptRemove, in("a/b/gone")),
		fx.WriteFileAtomic(effect.DeriveCreate, in("a/b/c/deep"), text("deep")),
		fx.Rename(effect.AttemptRename, in("a/b"), in("a/B")),
		fx.MkdirAll(effect.AttemptMkdir, in("x/y")),
		fx.RemoveAll(effect.AttemptRemove, in("x")),
	}
	for i, err := range steps {
		if err != nil {
			t.Fatalf("step %d: %v", i, err)
		}
	}
	f, err := fx.OpenAppend(effect.JournalCreate, in("a/one"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(f, "-three"); err != nil {
		t.Fatal(err)
	}
	if err := f.Truncate(5); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	dst := filepath.Join(t.TempDir(), "dst")
	if err := effecttest.PowerLoss(log.Ops(), base, dst, 100, 1); err != nil {
		t.Fatal(err)
	}
	if got, want := list(t, dst), list(t, base); got != want {
		t.Errorf("replayed:\n%s\nwant:\n%s", got, want)
	}
	if b, _ := os.ReadFile(filepath.Join(dst, "a/one")); string(b) != "two-t" {
		t.Errorf("a/one holds %q", b)
	}
}

func text(s string) func(io.Writer) error {
	return func(w io.Writer) error {
		_, err := io.WriteString(w, s)
		return err
	}
}

func list(t *testing.T, dir string) string {
	t.Helper()
	var b bytes.Buffer
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(dir, path)
		b.WriteString(rel + "\n")
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return b.String()
}
