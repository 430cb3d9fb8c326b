package rundir

import (
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"sweep.dev/sweep/internal/effect"
	"sweep.dev/sweep/internal/layout"
	"sweep.dev/sweep/result"
	"sweep.dev/sweep/result/col"
)

// An adoption is the data of a commit line that recovery has written.
type adoption struct {
	Commit
	Adopted bool `json:"adopted"`
}

// recover makes a directory whose last process may have died at any moment fit
// for the next. It may itself die at any moment and be started again.
func (d *Dir) recover() (*State, error) {
	data, err := d.root.ReadFile(layout.Journal)
	if err != nil {
		return nil, err
	}
	st, s, err := replay(data)
	if err != nil {
		return nil, err
	}
	if err := d.openJournal(uint64(len(s.events)), s.end); err != nil {
		return nil, err
	}
	if err := d.reserveAgain(); err != nil {
		return nil, err
	}
	var notes []string
	if s.torn > 0 {
		notes = append(notes, s.warning()+": they were cut off")
	}
	found, err := d.repair(st)
	if err != nil {
		return nil, err
	}
	notes = append(notes, found...)

	// The lines that recovery appended are a part of the state.
	if data, err = d.root.ReadFile(layout.Journal); err != nil {
		return nil, err
	}
	after, _, err := replay(data)
	if err != nil {
		return nil, err
	}
	after.Adopted = st.Adopted
	for k, n := range st.Attempts { // attempts that stand on disk alone
		after.Attempts[k] = max(after.Attempts[k], n)
	}
	if err := d.countLaunches(after); err != nil {
		return nil, err
	}
	d.verifyAll(after)
	for _, b := range after.Broken {
		notes = append(notes, fmt.Sprintf("%s was committed, but its files have changed (%s): it no longer counts", AttemptKey{b.Key, b.Attempt}, b.Reason))
	}
	after.Warning = strings.Join(notes, "; ")
	return after, nil
}

// reserveAgain makes the reserved space again. A disk that has no room for it is no reason
// to refuse: there may be pods to give back.
func (d *Dir) reserveAgain() error {
	err := d.journal.reserve()
	if effect.IsFull(err) {
		return d.journal.freeReserved()
	}
	return err
}

// repair settles every attempt on disk and every one that the journal has as
// pending: each is adopted or discarded. It says in words what it did.
func (d *Dir) repair(st *State) ([]string, error) {
	attempts, notes, err := d.survey(st)
	if err != nil {
		return nil, err
	}
	known, err := fates(st.Events)
	if err != nil {
		return nil, err
	}
	for _, a := range attempts {
		note, err := d.decide(st, a, known[a])
		if err != nil {
			return nil, err
		}
		if note != "" {
			notes = append(notes, note)
		}
	}
	for _, a := range st.Pending {
		if slices.ContainsFunc(st.Adopted, func(c Commit) bool { return AttemptKey{c.Key, c.Attempt} == a }) {
			continue
		}
		if err := d.discard(effect.RecoverRemove, a, "the process ended before the attempt did"); err != nil {
			return nil, err
		}
		notes = append(notes, fmt.Sprintf("%s was not finished and was discarded", a))
	}
	return notes, nil
}

// survey removes temporary files and folders that no pending attempt owns, and
// returns the attempts that have their final name, in order.
func (d *Dir) survey(st *State) (attempts []AttemptKey, notes []string, err error) {
	for _, pattern := range []string{".*", layout.Deployments + "/*/l*/.*"} {
		files, err := fs.Glob(d.root.FS(), pattern)
		if err != nil {
			return nil, nil, err
		}
		for _, name := range files {
			if isTempFile(path.Base(name)) {
				if err := d.files.Remove(effect.RecoverRemove, name); err != nil {
					return nil, nil, err
				}
			}
		}
	}
	names, err := fs.Glob(d.root.FS(), layout.AnyAttempt)
	if err != nil {
		return nil, nil, err
	}
	for _, name := range names {
		a, temp, ok := parseAttempt(name)
		switch {
		case !ok:
			notes = append(notes, name+" is not of this run and was left alone")
		case !temp:
			attempts = append(attempts, a)
		case !slices.Contains(st.Pending, a):
			if err := d.files.RemoveAll(effect.RecoverRemove, name); err != nil {
				return nil, nil, err
			}
		}
	}
	return attempts, notes, nil
}

// countLaunches counts the launches that stand on disk alone, so that no number
// is given twice.
func (d *Dir) countLaunches(st *State) error {
	names, err := fs.Glob(d.root.FS(), layout.AnyLaunch)
	if err != nil {
		return err
	}
	for _, name := range names {
		parts := strings.Split(name, "/")
		if n, ok := layout.ParseLaunch(parts[2]); ok && slug.MatchString(parts[1]) {
			st.Launches[parts[1]] = max(st.Launches[parts[1]], n)
		}
	}
	return nil
}

// parseAttempt reads "cells/<cell>/t01/a01", or with ".tmp" behind it.
func parseAttempt(name string) (a AttemptKey, temp, ok bool) {
	parts := strings.Split(name, "/")
	if len(parts) != 4 || !slug.MatchString(parts[1]) {
		return a, false, false
	}
	last, temp := strings.CutSuffix(parts[3], tempSuffix)
	trial, okTrial := layout.ParseTrial(parts[2])
	attempt, okAttempt := layout.ParseAttempt(last)
	a = AttemptKey{Key{parts[1], trial}, attempt}
	// Only the one spelling that attemptName writes is ours.
	ok = okTrial && okAttempt && strings.TrimSuffix(filepath.FromSlash(name), tempSuffix) == attemptName(a)
	return a, temp, ok
}

// fate is what the journal says of attempts that are not pending.
type fate int

const (
	unknown fate = iota
	counted      // committed, perhaps superseded
	void         // discarded
)

func fates(events []Event) (map[AttemptKey]fate, error) {
	m := map[AttemptKey]fate{}
	for _, e := range events {
		var f fate
		switch e.Type {
		case typeCommitted:
			f = counted
		case typeDiscarded:
			f = void
		default:
			continue
		}
		a, err := into[AttemptKey](e)
		if err != nil {
			return nil, err
		}
		m[a] = f
	}
	return m, nil
}

// decide returns about one attempt that has its final name.
func (d *Dir) decide(st *State, a AttemptKey, f fate) (note string, err error) {
	switch {
	case f == counted:
		return "", nil
	case f == void:
		return "", d.files.RemoveAll(effect.RecoverRemove, attemptName(a))
	case !slices.Contains(st.Pending, a):
		// Its number must not be given to another attempt.
		st.Attempts[a.Key] = max(st.Attempts[a.Key], a.Attempt)
		return fmt.Sprintf("%s is not in the journal and was not touched", a), nil
	case st.Committed[a.Key].Attempt > a.Attempt:
		// The last line counts: this one would change what is committed.
		return "", nil
	}
	s, sum, err := examine(d.root, a)
	if err != nil {
		return fmt.Sprintf("%s could not be adopted (%v)", a, err), nil
	}
	c, err := d.adopt(a, s, sum)
	if err != nil {
		return "", err
	}
	st.Adopted = append(st.Adopted, c)
	return fmt.Sprintf("%s was finished but not in the journal; it was added", a), nil
}

func (d *Dir) adopt(a AttemptKey, s *result.Stored, sum string) (Commit, error) {
	status, _ := s.Outcome.Row[col.Status].(string)
	c := Commit{Key: a.Key, Attempt: a.Attempt, Status: status, SHA256: sum, Digest: s.SpecDigest}
	// The rename is seen, which does not mean that it is durable.
	if err := d.files.SyncDir(effect.AttemptDirsync, trialName(a.Key)); err != nil {
		return Commit{}, err
	}
	if err := d.settle(effect.AttemptDirsync, trialName(a.Key)); err != nil {
		return Commit{}, err
	}
	return c, d.journal.append(effect.AdoptJournal, typeCommitted, adoption{c, true})
}

// verifyAll reads every file of every committed trial, and moves the trials
// whose files do not match from Committed to Broken.
func (d *Dir) verifyAll(st *State) {
	commits := make([]Commit, 0, len(st.Committed))
	for _, c := range st.Committed {
		commits = append(commits, c)
	}
	slices.SortFunc(commits, func(x, y Commit) int { return strings.Compare(x.Key.String(), y.Key.String()) })

	reasons := make([]error, len(commits))
	var g errgroup.Group
	g.SetLimit(4)
	for i, c := range commits {
		g.Go(func() error {
			reasons[i] = verify(d.root, AttemptKey{c.Key, c.Attempt}, c.SHA256)
			return nil
		})
	}
	_ = g.Wait() // never fails: each reason is kept
	for i, c := range commits {
		if reasons[i] == nil {
			continue
		}
		delete(st.Committed, c.Key)
		st.Broken = append(st.Broken, Broken{c, reasons[i].Error()})
	}
}
