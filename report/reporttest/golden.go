package reporttest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/tools/txtar"

	"sweep.dev/sweep/report"
)

// Golden holds each archive that pattern finds in a parallel test of its name. open makes
// a run of the first file, as [Described] does; the other files are what write says of the
// run. write fails the test if it does not know the name of a file. With update the files
// are written anew.
func Golden(t *testing.T, pattern string, update bool, open func(t *testing.T, f txtar.File) *report.Run, write func(t *testing.T, name string, run *report.Run) string) {
	t.Helper()
	paths, err := filepath.Glob(pattern)
	if err != nil || len(paths) == 0 {
		t.Fatalf("no golden files: %v", err)
	}
	for _, path := range paths {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".txtar"), func(t *testing.T) {
			t.Parallel()
			archive, err := txtar.ParseFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if len(archive.Files) < 2 {
				t.Fatalf("%s: %d files, want a run and what is said of it", path, len(archive.Files))
			}
			run := open(t, archive.Files[0])
			for i, f := range archive.Files[1:] {
				got := write(t, f.Name, run)
				if update {
					archive.Files[1+i].Data = []byte(got)
				} else if diff := cmp.Diff(string(f.Data), got); diff != "" {
					t.Errorf("%s (-want +got; -update writes it anew):\n%s", f.Name, diff)
				}
			}
			if !update {
				return
			}
			if err := os.WriteFile(path, txtar.Format(archive), 0o644); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// Described returns the run that the first file of an archive describes. A file that is called
// shipped stands for [ChatAndBatch], of which several archives say something.
func Described(t *testing.T, f txtar.File) *report.Run {
	t.Helper()
	switch f.Name {
	case "run":
		return MadeUp(t, string(f.Data))
	case "shipped":
		return MadeUp(t, ChatAndBatch)
	}
	t.Fatalf("the file %s stands first, want run or shipped", f.Name)
	return nil
}
