package podledger

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"time"

	"sweep.dev/sweep/backends"
	"sweep.dev/sweep/internal/effect"
)

// Ledger writes every transition to inner, the run directory's ledger, and to the
// ledger of the machine. digest is the Spec's; "" leaves what an entry says.
//
// The journal comes first, because the run that resumes reads the journal: a
// crash between the two leaves an intent of which nothing was sent, or an entry
// that says less than the journal and still has the pod's unique name. Gone is
// the other way of the same order: the entry is removed after the journal has
// it, so a crash in between leaves a pod that is asked about once too often.
// In no case is a side effect begun before both are durable, and an error of
// either is an error of Record.
func (b *Ledger) Ledger(run Run, digest string, inner backends.Ledger) backends.Ledger {
	return recorder{b, run, digest, inner}
}

type recorder struct {
	pods   *Ledger
	run    Run
	digest string
	inner  backends.Ledger
}

// Record implements [backends.Ledger].
func (l recorder) Record(ctx context.Context, a backends.Transition) error {
	err := l.inner.Record(ctx, a)
	switch a.State {
	case backends.Intended:
		if err != nil {
			return err
		}
		if err := l.pods.apply(l.run, l.digest, a); err != nil {
			// Nothing was sent, and nothing will be.
			none := backends.Transition{Pod: a.Pod, State: backends.Gone}
			return errors.Join(err, l.inner.Record(context.WithoutCancel(ctx), none))
		}
		return nil
	case backends.Sent, backends.Gone:
		if err != nil {
			return err // nothing is sent; and what the journal owes, the ledger does too
		}
		return l.pods.apply(l.run, l.digest, a)
	default:
		// It has happened, or it will whatever the disk says: one of the two
		// knowing is better than neither.
		return errors.Join(err, l.pods.apply(l.run, l.digest, a))
	}
}

// apply takes one transition of a run's own pod.
func (b *Ledger) apply(run Run, digest string, a backends.Transition) error {
	name, err := fileName(run.ID, a.Pod)
	if err != nil {
		return err
	}
	return b.locked(func(f folder) error {
		if a.State == backends.Gone {
			return f.remove(name)
		}
		e, err := f.read(name)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			e = Entry{file: name}
		case err != nil:
			return err
		case e.RunID != run.ID:
			return fmt.Errorf("%s is of the run %s", name, e.RunID)
		case a.State == backends.Intended && e.Name != a.Name:
			// Its name is all that finds the other one again.
			return fmt.Errorf("pod %s is still recorded as %s: end it with sweep gc --run %s", e.Pod, e.Name, run.ID)
		}
		e.RunID, e.Owner, e.Dir = run.ID, run.Owner, run.Dir
		if digest != "" {
			e.Digest = digest
		}
		e.Apply(a, time.Now())
		_, err = f.write(e)
		return err
	})
}

// Update writes down what has become of a pod that no run of this process
// holds; Gone takes it out. It returns the entry as it then stands, and
// [ErrChanged] where e is not what the ledger says any more.
func (b *Ledger) Update(e Entry, a backends.Transition) (Entry, error) {
	if a.Pod != e.Pod {
		return e, fmt.Errorf("ledger: a transition of the pod %q is not one of %q", a.Pod, e.Pod)
	}
	err := b.locked(func(f folder) error {
		if err := f.unchanged(e); err != nil {
			return err
		}
		if a.State == backends.Gone {
			return f.remove(e.file)
		}
		e.Apply(a, time.Now())
		var err error
		e, err = f.write(e)
		return err
	})
	return e, err
}

// Take makes a kept pod the run's own, as if the run had created it. Of any
// number of processes that try, one succeeds; the others get [ErrChanged].
//
// The file is renamed to the run's before it is rewritten: a crash in between
// leaves it kept, and still one file.
func (b *Ledger) Take(e Entry, run Run) (Entry, error) {
	name, err := fileName(run.ID, e.Pod)
	if err != nil {
		return e, err
	}
	if e.State != backends.Kept {
		return e, fmt.Errorf("pod %s of run %s is %s: only a kept pod can be taken over", e.Pod, e.RunID, e.State)
	}
	err = b.locked(func(f folder) error {
		if err := f.unchanged(e); err != nil {
			return err
		}
		if name != e.file {
			if exists(f.root, name) {
				return fmt.Errorf("the run %s has a pod %s of its own", run.ID, e.Pod)
			}
			if err := f.files.Rename(effect.PodLedgerRename, e.file, name); err != nil {
				return err
			}
			if err := f.files.SyncDir(effect.PodLedgerDirsync, "."); err != nil {
				return err
			}
			e.file = name
		}
		if e.RunID != run.ID {
			e.Former = append(slices.Clone(e.Former), e.RunID)
		}
		e.RunID, e.Owner, e.Dir = run.ID, run.Owner, run.Dir
		e.State, e.Changed = backends.Created, time.Now()
		e, err = f.write(e)
		return err
	})
	return e, err
}
