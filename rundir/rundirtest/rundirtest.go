// Package rundirtest checks run directories from outside, for tests that stop
// a run at any moment: what must hold after every crash, and whether what was
// committed before it is still the same, byte by byte.
package rundirtest

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"sweep.dev/sweep/internal/layout"
	"sweep.dev/sweep/rundir"
)

// Check returns everything that is wrong with a run directory that no process
// has open and that was recovered and closed: nil for nothing.
func Check(dir string) error {
	st, err := rundir.Read(dir)
	if err != nil {
		return err
	}
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }

	if st.Warning != "" {
		bad("the journal was not left whole: %s", st.Warning)
	}
	for _, a := range st.Pending {
		bad("%s is neither committed nor discarded", a)
	}
	for i, e := range st.Events {
		if e.Seq != uint64(i+1) {
			bad("line %d has the number %d", i+1, e.Seq)
		}
	}
	for _, c := range st.Committed {
		if err := rundir.Verify(dir, c); err != nil {
			bad("committed trial %s: %w", c.Key, err)
		}
		if n := st.Attempts[c.Key]; n < c.Attempt {
			bad("%s is committed by attempt %d, and %d were begun", c.Key, c.Attempt, n)
		}
	}
	if h, err := rundir.LockHolder(dir); err != nil || h != nil {
		bad("the lock is held by %v (%w)", h, err)
	}
	if b, err := os.ReadFile(filepath.Join(dir, layout.Calibration)); err == nil && !json.Valid(b) {
		bad("%s is cut: %q", layout.Calibration, b)
	}
	if b, err := os.ReadFile(filepath.Join(dir, layout.Rehearsal)); st.Manifest.Rehearsed && !json.Valid(b) {
		bad("%s was kept before the run began, and is %q (%w)", layout.Rehearsal, b, err)
	}
	errs = append(errs, leftovers(dir, st)...)
	return errors.Join(errs...)
}

// leftovers finds files that belong to nothing.
func leftovers(dir string, st *rundir.State) (errs []error) {
	known := map[string]bool{}
	for _, e := range st.Events {
		if e.Type == "trial_committed" {
			var c rundir.Commit
			if err := json.Unmarshal(e.Data, &c); err != nil {
				errs = append(errs, err)
			}
			known[rundir.AttemptDir(".", c)] = true
		}
	}
	err := fs.WalkDir(os.DirFS(dir), ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if strings.HasSuffix(path, ".tmp") || path == layout.Reserved {
			errs = append(errs, fmt.Errorf("%s was left behind", path))
		}
		if attempt, _ := filepath.Match(layout.AnyAttempt, path); attempt && !known[path] {
			errs = append(errs, fmt.Errorf("%s is not committed", path))
		}
		return nil
	})
	return append(errs, err)
}

// Trials returns a digest of all files of each committed trial, names included.
// A directory without a run has none.
func Trials(dir string) (map[rundir.Key]string, error) {
	st, err := rundir.Read(dir)
	if errors.Is(err, rundir.ErrNoRun) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	sums := make(map[rundir.Key]string, len(st.Committed))
	for k, c := range st.Committed {
		if sums[k], err = tree(rundir.AttemptDir(dir, c)); err != nil {
			return nil, err
		}
	}
	return sums, nil
}

// Unchanged fails the test if a trial of before is missing or different in after.
func Unchanged(t testing.TB, before, after map[rundir.Key]string) {
	t.Helper()
	for _, k := range slices.SortedFunc(maps.Keys(before), func(a, b rundir.Key) int {
		return strings.Compare(a.String(), b.String())
	}) {
		switch sum, ok := after[k]; {
		case !ok:
			t.Errorf("%s was committed and is gone", k)
		case sum != before[k]:
			t.Errorf("%s was committed and has changed", k)
		}
	}
}

// tree digests a folder: the names and the bytes of all files below it.
func tree(dir string) (string, error) {
	h := sha256.New()
	err := fs.WalkDir(os.DirFS(dir), ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		f, err := os.Open(filepath.Join(dir, path))
		if err != nil {
			return err
		}
		defer f.Close()
		fmt.Fprintf(h, "%q\n", path)
		n, err := io.Copy(h, f)
		fmt.Fprintf(h, "\n%d\n", n)
		return err
	})
	return hex.EncodeToString(h.Sum(nil)), err
}
