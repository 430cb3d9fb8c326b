package guard

import (
	"errors"
	"os/exec"
	"syscall"
)

// The pipes carry encoding/gob, which keeps strings byte by byte: arguments
// and environments need not be UTF-8.

// A guard is started with this name as its whole command line, its id in
// GuardVar, and two pipes. Both are checked, so that neither a renamed
// executable nor a stray variable makes a guard of a program.
const (
	guardName = "sweep-guard"
	ordersFD  = 3 // orders; the end of file is the parent's death
	reportsFD = 4 // reports
)

// An order goes from the parent to the guard; one field is set. The first
// order is Start.
type order struct {
	Start *Spec
	ID    string // with Start
	Stop  bool
	Kill  bool
}

// A report goes from the guard to its parent; one field is set.
type report struct {
	Started int // pid
	Failed  *failure
	Exited  *Exit
}

// A failure is an error that crossed a pipe.
type failure struct {
	Text     string
	Errno    syscall.Errno
	NotFound bool // exec.ErrNotFound
}

func newFailure(err error) *failure {
	f := &failure{Text: err.Error(), NotFound: errors.Is(err, exec.ErrNotFound)}
	errors.As(err, &f.Errno)
	return f
}

func (f *failure) Error() string { return f.Text }

func (f *failure) Unwrap() error {
	switch {
	case f.NotFound:
		return exec.ErrNotFound
	case f.Errno != 0:
		return f.Errno
	}
	return nil
}
