package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"

	"sweep.dev/sweep/backends"
	"sweep.dev/sweep/executor"
	"sweep.dev/sweep/internal/plaintext"
	"sweep.dev/sweep/plan"
	"sweep.dev/sweep/rundir"
)

// Exit codes. This table is the only place that knows them.
const (
	exitOK         = 0
	exitInternal   = 1
	exitUsage      = 2
	exitIncomplete = 3
	exitCleanup    = 4
	exitBudget     = 5
	exitLocked     = 6
	exitResume     = 7
	exitProvider   = 8
	exitRegression = 98
	exitSLO        = 99
	exitInt        = 130
	exitTerm       = 143
)

var exitDocs = []struct {
	code int
	name string // in a few words, for the last line of a run
	doc  string
}{
	{exitOK, "ok", "every cell ran and is valid, and no SLO failed; some may be undecided"},
	{exitInternal, "internal error", "internal error"},
	{exitUsage, "usage", "usage, or the plan is wrong"},
	{exitIncomplete, "incomplete", "incomplete: cells failed, were invalid or were interrupted, an SLO could not be checked, or with --strict is undecided; judge: a figure must not be used; probe: no server, or no answer of one"},
	{exitCleanup, "clean-up not verified", "clean-up not verified: something may still be running or billing"},
	{exitBudget, "budget reached", "the budget, the time for the run or a pod's lifetime was reached"},
	{exitLocked, "locked", "the run directory is locked by another run"},
	{exitResume, "refused", "resume, reuse or merge refused: plan or environment differ"},
	{exitProvider, "provider refused", "provider refused: credentials, balance or quota"},
	{exitRegression, "regression", "a regression: a figure is certainly worse than --max-regression, or the band of its nights, allows"},
	{exitSLO, "an SLO failed", "an SLO failed"},
	{exitInt, "interrupted", "interrupted, and cleanly torn down"},
	{exitTerm, "terminated", "terminated, and cleanly torn down"},
}

// exitName returns an exit code in a few words.
func exitName(code int) string {
	for _, e := range exitDocs {
		if e.code == code {
			return e.name
		}
	}
	return "unknown"
}

// exitHelp returns the end of every help text: the codes that a command can have,
// or all of them. What each means is a topic of sweep help.
func exitHelp(codes ...int) string {
	var names []string
	for _, e := range exitDocs {
		if len(codes) == 0 || slices.Contains(codes, e.code) {
			names = append(names, fmt.Sprintf("%d %s", e.code, e.name))
		}
	}
	return "\n\nExit status: " + strings.Join(names, ", ") + " (sweep help exit)."
}

// wrapExit breaks the text of an exit code for 80 columns, under its first line.
func wrapExit(doc string) string {
	return plaintext.Wrap(doc, 71, "       ")
}

// A statusError carries an exit code that says something about a run. Without
// an error of its own there is nothing to print: the summary said it.
type statusError struct {
	code int
	err  error
}

func (e *statusError) Error() string {
	if e.err == nil {
		return fmt.Sprintf("exit status %d", e.code)
	}
	return e.err.Error()
}

func (e *statusError) Unwrap() error { return e.err }

// A usage error is a command line that cannot be understood.
type usage struct{ err error }

func (e *usage) Error() string { return e.err.Error() }
func (e *usage) Unwrap() error { return e.err }

// A hinted error says what to do about it.
type hinted struct {
	err  error
	hint string
}

func (e *hinted) Error() string { return e.err.Error() }
func (e *hinted) Unwrap() error { return e.err }

// exitOrder are the codes in the order in which they win where several apply.
var exitOrder = []int{
	exitCleanup, exitInt, exitTerm, exitInternal, exitUsage, exitLocked, exitResume, exitProvider,
	exitBudget, exitIncomplete, exitRegression, exitSLO, exitOK,
}

// worst returns the exit code of a command to which several apply.
func worst(codes ...int) int { return firstOf(exitOrder, codes) }

// worstJudged is worst for compare, gate and night, whose question is the regression: a hole
// does not hide one.
func worstJudged(codes ...int) int {
	order := slices.Clone(exitOrder)
	hole, worse := slices.Index(order, exitIncomplete), slices.Index(order, exitRegression)
	order[hole], order[worse] = order[worse], order[hole]
	return firstOf(order, codes)
}

// firstOf returns the code that comes first in an order; one that it does not have is as an
// internal error.
func firstOf(order, codes []int) int {
	rank := func(code int) int {
		if at := slices.Index(order, code); at >= 0 {
			return at
		}
		return slices.Index(order, exitInternal)
	}
	best := exitOK
	for _, code := range codes {
		if rank(code) < rank(best) {
			best = code
		}
	}
	return best
}

// exitCode maps an error to its exit code, the worst of all that it joins.
func exitCode(err error) int {
	if err == nil {
		return exitOK
	}
	if known := worst(codesIn(err)...); known != exitOK {
		return known
	}
	return exitInternal
}

// codesIn returns the exit codes of the errors in a tree that have one.
func codesIn(err error) (codes []int) {
	switch e := err.(type) { //nolint:errorlint // the tree is walked
	case *statusError:
		return []int{e.code}
	case *plan.Diagnostics, *usage:
		return []int{exitUsage}
	case signalled:
		return []int{signalCode(e.sig)}
	case interface{ Unwrap() []error }:
		for _, part := range e.Unwrap() {
			codes = append(codes, codesIn(part)...)
		}
	case interface{ Unwrap() error }:
		codes = codesIn(e.Unwrap())
	}
	// Sentinels may say so by a method of their own.
	switch {
	case len(codes) > 0:
	case errors.Is(err, rundir.ErrLocked):
		return []int{exitLocked}
	case errors.Is(err, rundir.ErrDamaged):
		return []int{exitUsage}
	case errors.Is(err, executor.ErrDrift):
		return []int{exitResume}
	case errors.Is(err, backends.ErrRefused):
		return []int{exitProvider}
	}
	return codes
}

// printable returns the part of an error that is printed; nil if it has exit statuses alone.
func printable(err error) error {
	return without(err, func(part error) bool {
		s, ok := part.(*statusError) //nolint:errorlint // one by one
		return ok && s.err == nil
	})
}

// exitWith returns the error of an exit code that has been said; nil for 0.
func exitWith(code int) error {
	if code == exitOK {
		return nil
	}
	return &statusError{code, nil}
}

// interrupted returns the error of a command that followed something until a signal came,
// which has been said.
func interrupted(ctx context.Context) error {
	if sig, ok := errors.AsType[signalled](context.Cause(ctx)); ok {
		return exitWith(signalCode(sig.sig))
	}
	return exitWith(exitInt)
}

// signalCode returns the exit code of a run that a signal ended. A terminal that
// went away (SIGHUP) asks for the same as SIGTERM.
func signalCode(s syscall.Signal) int {
	if s == syscall.SIGINT {
		return exitInt
	}
	return exitTerm
}
