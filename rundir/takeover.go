package rundir

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"sweep.dev/sweep/result"
)

// TakeOver commits a trial that the run directory from has committed as c, under
// the same numbers: its files byte by byte, each held against its digest, and its
// outcome as change leaves it. from is only read.
//
// An attempt that was not taken over whole is discarded, and its number may be
// used again, as what it stands for is the same.
func (d *Dir) TakeOver(ctx context.Context, from string, c Commit, change func(*result.Outcome) error) (err error) {
	root, err := os.OpenRoot(from)
	if err != nil {
		return err
	}
	defer root.Close() // read only
	at := AttemptKey{c.Key, c.Attempt}
	s, err := readResult(root, at, c.SHA256)
	if err != nil {
		return fmt.Errorf("take over %s: %w", at, err)
	}
	a, err := d.Begin(ctx, c.Key, c.Attempt)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, a.Discard(ctx, "it could not be taken over"))
		}
	}()
	for _, f := range s.Files {
		if err := a.copyFrom(root, f); err != nil {
			return fmt.Errorf("take over %s: %w", at, err)
		}
	}
	if err := change(&s.Outcome); err != nil {
		return fmt.Errorf("take over %s: %w", at, err)
	}
	return a.Commit(ctx, &s.Outcome, c.Digest)
}

func (a *Attempt) copyFrom(root *os.Root, f result.File) (err error) {
	w, err := a.Create(f.Name)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.Close()) }()
	return copyFile(w, root, filepath.Join(attemptName(a.key), f.Name), f)
}
