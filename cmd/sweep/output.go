package main

import (
	"errors"
	"io"
	"sync"
	"syscall"
)

// An output is the standard output of a command. It keeps the first error of writing and
// returns it from then on, so that what only prints ends with it, and what has more to do
// goes on: main tells the error in any case, and neither of them hides what was not done.
type output struct {
	w io.Writer

	mu   sync.Mutex
	err  error
	told bool
}

func (o *output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.err != nil {
		return 0, o.err
	}
	n, err := o.w.Write(b)
	o.err = err
	return n, err
}

// failed returns the error of writing; nil if there was none.
func (o *output) failed() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.err
}

// unwritten returns the exit code of what could not be written to stdout, and says so once. A
// reader that has left (sweep cells | head) has all that it wanted.
func (a *app) unwritten() int {
	o, ok := a.out.(*output)
	if !ok || o.failed() == nil || errors.Is(o.failed(), syscall.EPIPE) {
		return exitOK
	}
	o.mu.Lock()
	told := o.told
	o.told = true
	o.mu.Unlock()
	if !told {
		a.complain(o.failed())
	}
	return exitInternal
}

// beside returns what is left of an error without that of writing to stdout, which
// [app.unwritten] tells; nil if it was nothing else.
func (a *app) beside(err error) error {
	if o, ok := a.out.(*output); ok && o.failed() != nil && errors.Is(err, o.failed()) {
		return without(err, func(part error) bool { return part == o.failed() }) //nolint:errorlint // one by one
	}
	return err
}

// without returns what is left of an error without those of its tree that are said elsewhere;
// nil if it was nothing else.
func without(err error, said func(error) bool) error {
	if err == nil || said(err) {
		return nil
	}
	switch e := err.(type) { //nolint:errorlint // the tree is walked
	case *statusError:
		return &statusError{e.code, without(e.err, said)}
	case interface{ Unwrap() []error }:
		var left []error
		for _, part := range e.Unwrap() {
			left = append(left, without(part, said))
		}
		return errors.Join(left...)
	}
	if inner := errors.Unwrap(err); inner != nil && without(inner, said) == nil {
		return nil
	}
	return err
}
