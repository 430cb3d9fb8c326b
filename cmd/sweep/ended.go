package main

import (
	"errors"
	"fmt"

	"sweep.dev/sweep/executor"
	"sweep.dev/sweep/executor/serving"
	"sweep.dev/sweep/executor/serving/budget"
	"sweep.dev/sweep/internal/plaintext"
	"sweep.dev/sweep/plan"
	"sweep.dev/sweep/report"
	"sweep.dev/sweep/result"
	"sweep.dev/sweep/result/col"
	"sweep.dev/sweep/result/objective"
)

// verdict says how the run ended: the exit code, the worst of those that apply, and on the
// last line the next command. run may be nil beside an error.
func (a *app) verdict(j job, run *report.Run, rep executor.Report, err error) error {
	var sig signalled
	var panicked *serving.Panic
	dir := plaintext.Word(j.path)
	resume, show := "sweep resume "+dir, "sweep report "+dir
	// The last line is the next command, so all else stands before it.
	ended := func(code int, next string) error {
		if j.notifyFinish != nil {
			j.notifyFinish(finished(j, code, run, rep))
		}
		return a.ended(code, next)
	}
	failed := func(code int, err error) error {
		if err != nil {
			a.complain(err)
		}
		return ended(code, resume)
	}
	// An error that only passes on how the run ended is not said again.
	besides := func(said error) error {
		if errors.Is(err, said) {
			return nil
		}
		return err
	}
	interrupted := errors.As(rep.Interrupted, &sig)
	var codes []int
	if rep.Left.Cleanup != nil {
		codes = append(codes, exitCleanup)
	}
	if interrupted {
		codes = append(codes, signalCode(sig.sig))
	}
	if isBudget(rep.Interrupted) {
		codes = append(codes, exitBudget)
	}
	switch code := exitCode(err); {
	case err == nil:
	case errors.As(err, &panicked):
		codes = append(codes, exitInternal)
	case code == exitInternal: // a fault of the disk, say: a resume goes on
		codes = append(codes, exitIncomplete)
	default:
		codes = append(codes, code)
	}
	switch code := worst(codes...); {
	case rep.Left.Cleanup != nil:
		resume += "   # ends what could not be stopped, then goes on"
		if text, command := owedText(j.state.Manifest, rep.Left.Owed); j.leaves() && text != "" {
			a.complain(errors.New(text))
			fmt.Fprintf(a.err, "to end them: %s\n", command)
		}
		return failed(exitCleanup, errors.Join(
			fmt.Errorf("clean-up not verified, something may still be running: %w", rep.Left.Cleanup), besides(rep.Left.Cleanup)))
	case interrupted:
		return failed(code, besides(sig))
	case code == exitBudget:
		return failed(code, errors.Join(rep.Interrupted, besides(rep.Interrupted)))
	case code != exitOK:
		return failed(code, err)
	}
	broken, invalid := count(run)
	missed, undecided, unchecked := objectives(run, j.strict)
	if len(run.Resolved.Searches) > 0 && rep.Missing == 0 {
		return ended(searchExit(run, j.strict), show)
	}
	switch {
	case rep.Missing > 0 || broken > 0 || invalid > 0 || unchecked > 0 || j.strict && undecided > 0:
		switch {
		case broken+invalid > 0:
			resume = fmt.Sprintf("sweep resume --retry invalid,failed %s", dir)
		case rep.Missing == 0: // nothing to go on with but what is undecided
			resume = run.Next()
		}
		return ended(exitIncomplete, resume)
	case missed > 0:
		return ended(exitSLO, run.Next())
	}
	return ended(exitOK, run.Next())
}

// ended prints the last line of a run: the next command, and how it ended if that is
// not with 0.
func (a *app) ended(code int, next string) error {
	if code == exitOK {
		a.next(next)
		return nil
	}
	fmt.Fprintf(a.err, "exit %d (%s)   next: %s\n", code, exitName(code), next)
	return exitWith(code)
}

// isBudget reports whether a run ended because it had used up what it may.
func isBudget(cause error) bool {
	return errors.Is(cause, executor.ErrMaxTime) || errors.Is(cause, budget.ErrMaxCost) || errors.Is(cause, budget.ErrLifetime)
}

func (a *app) next(command string) { fmt.Fprintf(a.err, "next: %s\n", command) }

// count returns how many trials of a run have no numbers to use.
func count(run *report.Run) (failed, invalid int) {
	for _, o := range unchosen(run) {
		switch o.Row[col.Status] {
		case result.StatusFailed:
			if !o.StartFailure || !run.Resolved.RecordStarts {
				failed++
			}
		case result.StatusInvalid:
			invalid++
		}
	}
	return failed, invalid
}

// objectives returns how many of severity fail the cells of a run do not meet, by why. Strictly,
// one that passes by too few requests is undecided.
func objectives(run *report.Run, strict bool) (missed, undecided, unchecked int) {
	for _, cell := range objective.OfCells(unchosen(run)) {
		for _, o := range cell {
			switch {
			case o.Severity == plan.SeverityWarn:
			case o.Verdict == result.SLOFail:
				missed++
			case o.Verdict == result.SLOUndecided, strict && objective.Thin(o):
				undecided++
			case o.Verdict == "":
				unchecked++
			}
		}
	}
	return missed, undecided, unchecked
}
