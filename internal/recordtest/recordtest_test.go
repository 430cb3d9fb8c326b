package recordtest

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// A fake notes how a test was ended, which it is not.
type fake struct {
	testing.TB
	skipped, failed string
}

func (f *fake) Helper() {}

func (f *fake) Skip(args ...any) { f.skipped = args[0].(error).Error() }

func (f *fake) Fatal(args ...any) { f.failed = args[0].(error).Error() }

// beside moves the test into a package of a checkout, which has or lacks the folder.
func beside(t *testing.T, present bool) (folder string) {
	t.Helper()
	base, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	at := filepath.Join(base, "checkout", "sim", "fleet")
	if err := os.MkdirAll(at, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(base, "checkout", "go.mod"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	folder = filepath.Join(base, "shared", "fixtures")
	if present {
		if err := os.MkdirAll(folder, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Mkdir(filepath.Join(folder, "b__sessions"), 0o755); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"b__load.txt", "b__idle.txt", "a.txt", "recorded__toy.txt"} {
			if err := os.WriteFile(filepath.Join(folder, name), []byte("of "+name), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	t.Chdir(at)
	return folder
}

// Without the folder a test skips with a sentence that names the file and its place, and
// fails if it is required.
func TestFolder_absent(t *testing.T) {
	folder := beside(t, false)
	for setting, fails := range map[string]bool{"": false, "required": true} {
		t.Setenv(variable, setting)
		for name, ask := range map[string]func(f *fake){
			"a.txt":  func(f *fake) { Read(f, "a.txt") },
			"b__*":   func(f *fake) { Names(f, "b__*") },
			"lookup": func(f *fake) { Lookup(f, "lookup") },
		} {
			var f fake
			ask(&f)
			want := "the recording " + name + " is not here: it is expected in " + folder + ", which is absent"
			switch {
			case fails:
				if want += ", and SWEEP_TEST_RECORDINGS=required"; f.failed != want || f.skipped != "" {
					t.Errorf("%s, required: failed with %q, skipped with %q", name, f.failed, f.skipped)
				}
			case name == "lookup":
				if f.failed+f.skipped != "" {
					t.Errorf("a lookup ended the test: %q, %q", f.failed, f.skipped)
				}
			case f.skipped != want || f.failed != "":
				t.Errorf("%s: skipped with %q, failed with %q", name, f.skipped, f.failed)
			}
		}
	}
	t.Setenv(variable, "")
	if _, ok := Lookup(new(fake), "a.txt"); ok {
		t.Error("a recording was found in no folder")
	}
}

// If the folder is there, all that a test asks for must be.
func TestFolder_present(t *testing.T) {
	beside(t, true)
	t.Setenv(variable, required)
	if got := string(Read(t, "a.txt")); got != "of a.txt" {
		t.Errorf("read %q", got)
	}
	if got, ok := Lookup(t, "b__load.txt"); !ok || string(got) != "of b__load.txt" {
		t.Errorf("found %q, %t", got, ok)
	}
	if got := Names(t, "b__*"); !slices.Equal(got, []string{"b__idle.txt", "b__load.txt"}) {
		t.Errorf("names are %q", got)
	}
	// Our own are in the tree, wherever else they are.
	if got := Names(t, "*"); !slices.Equal(got, []string{"a.txt", "b__idle.txt", "b__load.txt"}) {
		t.Errorf("names are %q", got)
	}
	t.Setenv(variable, "")
	for name, ask := range map[string]func(f *fake){
		"c.txt":         func(f *fake) { Read(f, "c.txt") },
		"c.txt, lookup": func(f *fake) { Lookup(f, "c.txt") },
		"c__*":          func(f *fake) { Names(f, "c__*") },
	} {
		var f fake
		if ask(&f); f.skipped != "" || !strings.Contains(f.failed, name[:4]) {
			t.Errorf("%s: failed with %q, skipped with %q", name, f.failed, f.skipped)
		}
	}
}

// Our own are found wherever the test runs, and no test skips for them.
func TestOwn(t *testing.T) {
	beside(t, false)
	names := Names(t, "recorded__*")
	if len(names) < 11 {
		t.Errorf("%d recordings: %q", len(names), names)
	}
	for _, name := range names {
		if len(Read(t, name)) < 1000 {
			t.Errorf("%s is cut off", name)
		}
	}
	var f fake
	if Read(&f, "recorded__toy"); !strings.Contains(f.failed, "recorded__toy") {
		t.Errorf("failed with %q", f.failed)
	}
}

// Nothing is in the tree that may not be copied, and a recording that is also in the
// folder is equal there.
func TestOwn_copies(t *testing.T) {
	tree, err := own.ReadDir("testdata")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range tree {
		if !strings.HasPrefix(e.Name(), ownPrefix) {
			t.Errorf("%s is not a recording of our own", e.Name())
		}
	}
	root, err := checkout()
	if err != nil {
		t.Fatal(err)
	}
	folder := filepath.Join(root, "..", "shared", "fixtures")
	for _, name := range Names(t, ownPrefix+"*") {
		there, err := os.ReadFile(filepath.Join(folder, name))
		if err != nil {
			continue // ours need not be there
		}
		if string(there) != string(Read(t, name)) {
			t.Errorf("%s differs from the one in %s", name, folder)
		}
	}
}
