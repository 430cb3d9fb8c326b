package rundir

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// A fileError names a file that is missing or broken. It is [ErrDamaged].
type fileError struct {
	path string
	err  error
}

func (e *fileError) Error() string {
	if errors.Is(e.err, fs.ErrNotExist) {
		return e.path + " is missing"
	}
	return e.path + ": " + e.err.Error()
}

func (e *fileError) Unwrap() error { return e.err }

// Is makes errors.Is(err, ErrDamaged) hold.
func (e *fileError) Is(target error) bool { return target == ErrDamaged }

// ReadFile reads a file that a run cannot do without, and has take read its content. The
// error is [ErrDamaged] if the file is missing or take refuses it, and names it.
func ReadFile(dir, name string, take func([]byte) error) error {
	path := filepath.Join(dir, name)
	b, err := os.ReadFile(path)
	if err == nil {
		err = take(b)
	} else if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err != nil {
		return &fileError{path, err}
	}
	return nil
}
