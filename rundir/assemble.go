package rundir

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"sweep.dev/sweep/internal/effect"
	"sweep.dev/sweep/internal/layout"
	"sweep.dev/sweep/result"
)

// A Part is what [Assemble] takes of one run directory, which is only read.
type Part struct {
	Dir   string
	State *State
	Takes func(Key) bool // of State.Committed
	// Shift is what is added to the numbers of a deployment's launches, so that those of
	// two parts stay apart.
	Shift map[string]int
	// Change makes an outcome fit the new numbers, and says whether it changed it: one
	// that it did not keeps its bytes.
	Change func(*result.Outcome) bool
}

// Assemble makes a run directory of parts of others: their committed trials and their
// launches, each file held against the digest it was committed with, and a journal of
// what those processes did, one run after the other at the times of then. Attempts that
// do not count, and what was told beside them, stay with the parts.
//
// It fails with ErrExists if there is anything at dir. The directory is made beside it
// under the name [layout.Merging], its journal last, and renamed once all of it is
// durable: a crash leaves no directory of this name, or the whole one. What an earlier
// crash left is removed.
func Assemble(ctx context.Context, fx *effect.Effects, dir string, m Manifest, plan, resolved []byte, parts []Part) (err error) {
	dir = filepath.Clean(dir)
	if _, err := os.Lstat(dir); !errors.Is(err, fs.ErrNotExist) {
		return errors.Join(fmt.Errorf("%s: %w: there is something of this name", dir, ErrExists), err)
	}
	temp := filepath.Join(filepath.Dir(dir), layout.Merging(filepath.Base(dir)))
	if holder, err := LockHolder(temp); err != nil {
		return err
	} else if holder != nil {
		return &LockedError{Dir: temp, Holder: *holder}
	}
	if err := fx.RemoveAll(effect.MergeRemove, temp); err != nil {
		return err
	}
	if err := fx.MkdirAll(effect.RunMkdir, temp); err != nil {
		return fmt.Errorf("create run directory: %w", err)
	}
	d, err := attach(fx, temp)
	if err != nil {
		return err
	}
	defer func() {
		err = errors.Join(err, d.release())
		if err != nil {
			err = errors.Join(err, fx.RemoveAll(effect.MergeRemove, temp))
		}
	}()
	a := assembly{d: d, dirs: map[string]bool{".": true}}
	if err := a.line(Event{Time: time.Now().UTC().Truncate(time.Millisecond), Type: typeCreated}, m); err != nil {
		return err
	}
	for _, p := range parts {
		if err := a.part(ctx, p); err != nil {
			return fmt.Errorf("%s: %w", p.Dir, err)
		}
	}
	for _, f := range []struct {
		name string
		data []byte
	}{{layout.Plan, plan}, {layout.Resolved, resolved}} {
		if err := a.atomic(f.name, f.data); err != nil {
			return err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(a.dirs)) {
		if err := d.files.SyncDir(effect.MergeDirsync, name); err != nil {
			return err
		}
	}
	if err := a.atomic(layout.Journal, a.journal.Bytes()); err != nil {
		return err
	}
	if err := fx.Rename(effect.MergeRename, temp, dir); err != nil {
		return err
	}
	return fx.SyncDir(effect.MergeDirsync, filepath.Dir(dir))
}

// An assembly is a directory that is being made of parts.
type assembly struct {
	d       *Dir
	dirs    map[string]bool // that were made
	journal bytes.Buffer
	seq     uint64
}

func (a *assembly) atomic(name string, data []byte) error {
	err := a.d.files.WriteFileAtomic(effect.SetupCreate, name, func(w io.Writer) error {
		_, err := w.Write(data)
		return err
	})
	if err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	return nil
}

// line adds a line to the journal, with the time of an event and other data if it is not
// nil.
func (a *assembly) line(e Event, data any) error {
	if data != nil {
		raw, err := marshalObject(data)
		if err != nil {
			return err
		}
		e.Data = raw
	}
	a.seq++
	e.Seq = a.seq
	line, err := encodeLine(e)
	if err != nil {
		return fmt.Errorf("append %s: %w", e.Type, err)
	}
	a.journal.Write(line)
	return nil
}

func (a *assembly) part(ctx context.Context, p Part) error {
	root, err := os.OpenRoot(p.Dir)
	if err != nil {
		return err
	}
	defer root.Close() // read only
	if err := a.launches(root, p); err != nil {
		return err
	}
	// Trials taken over before the run began to work are reported after its beginning: the
	// time before it is no work.
	var early []Event
	began := false
	for _, e := range p.State.Events {
		switch e.Type {
		case typeRunStarted:
			if err := a.line(e, nil); err != nil {
				return err
			}
			for _, e := range early {
				if err := a.event(ctx, root, p, e); err != nil {
					return err
				}
			}
			early, began = nil, true
			continue
		case typeRunFinished, typePod, typeLaunch, typeAnswered, typeCommitted, typeAdded:
		default:
			continue
		}
		if !began {
			early = append(early, e)
		} else if err := a.event(ctx, root, p, e); err != nil {
			return err
		}
	}
	for _, e := range early { // of a run that never began to work
		if err := a.event(ctx, root, p, e); err != nil {
			return err
		}
	}
	return nil
}

func (a *assembly) event(ctx context.Context, root *os.Root, p Part, e Event) error {
	switch e.Type {
	case typeLaunch:
		l, err := into[launch](e)
		if err != nil {
			return err
		}
		l.N += p.Shift[l.Deployment]
		return a.line(e, l)
	case typeAnswered:
		l, err := into[answered](e)
		if err != nil {
			return err
		}
		l.N += p.Shift[l.Deployment]
		return a.line(e, l)
	case typeAdded:
		more, err := into[added](e)
		if err != nil {
			return err
		}
		more.Trials = slices.DeleteFunc(more.Trials, func(k Key) bool { return !p.Takes(k) })
		if len(more.Trials) == 0 {
			return nil
		}
		return a.line(e, more)
	case typeCommitted:
		c, err := into[Commit](e)
		if err != nil {
			return err
		}
		if p.State.Committed[c.Key] != c || !p.Takes(c.Key) {
			return nil
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		begun := e
		begun.Type = typeBegun
		if err := a.line(begun, AttemptKey{c.Key, c.Attempt}); err != nil {
			return err
		}
		if c.SHA256, err = a.attempt(root, c, p.Change); err != nil {
			return fmt.Errorf("%s: %w", c.Key, err)
		}
		return a.line(e, c)
	}
	return a.line(e, nil)
}

// attempt copies the files of a committed trial, and returns the digest of its result.
func (a *assembly) attempt(root *os.Root, c Commit, change func(*result.Outcome) bool) (string, error) {
	at := AttemptKey{c.Key, c.Attempt}
	sum := c.SHA256
	s, err := readResult(root, at, sum)
	if err != nil {
		return "", err
	}
	dir := attemptName(at)
	for _, f := range s.Files {
		if err := checkFile(f.Name); err != nil {
			return "", err
		}
		name := filepath.Join(dir, f.Name)
		err := a.create(effect.AttemptMkdir, effect.AttemptCreate, name, func(w io.Writer) error { return copyFile(w, root, name, f) })
		if err != nil {
			return "", err
		}
	}
	name := filepath.Join(dir, layout.Result)
	b, err := root.ReadFile(name)
	if err != nil {
		return "", err
	}
	if change(&s.Outcome) {
		if b, err = encodeOutcome(&s.Outcome, s.SpecDigest); err != nil {
			return "", err
		}
		sum = hexSum(b)
	}
	return sum, a.create(effect.AttemptMkdir, effect.AttemptCreate, name, func(w io.Writer) error {
		_, err := w.Write(b)
		return err
	})
}

// launches copies what launches left, under their new numbers.
func (a *assembly) launches(root *os.Root, p Part) error {
	names, err := fs.Glob(root.FS(), layout.AnyLaunch)
	if err != nil {
		return err
	}
	for _, from := range names {
		deployment := path.Base(path.Dir(from))
		n, ok := layout.ParseLaunch(path.Base(from))
		if !ok || !slug.MatchString(deployment) {
			continue
		}
		to := layout.LaunchDir(deployment, n+p.Shift[deployment])
		err := fs.WalkDir(root.FS(), from, func(name string, e fs.DirEntry, err error) error {
			if err != nil || !e.Type().IsRegular() || isTempFile(path.Base(name)) {
				return err
			}
			f, err := root.Open(name)
			if err != nil {
				return err
			}
			defer f.Close() // read only
			var in io.Reader = f
			if path.Base(name) == layout.Quality {
				text, err := io.ReadAll(f)
				if err == nil {
					err = p.State.Untouched(name, text)
				}
				if err != nil {
					return fmt.Errorf("%s: %w", name, err)
				}
				in = bytes.NewReader(text)
			}
			return a.create(effect.LaunchMkdir, effect.LaunchCreate, to+strings.TrimPrefix(name, from), func(w io.Writer) error {
				_, err := io.Copy(w, in)
				return err
			})
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// create makes a file and its folders, durable but for the folders' entries.
func (a *assembly) create(mkdir, create effect.Point, name string, write func(io.Writer) error) error {
	dir := filepath.Dir(name)
	if err := a.d.mkdirAll(mkdir, dir); err != nil {
		return err
	}
	for ; dir != "."; dir = filepath.Dir(dir) {
		a.dirs[dir] = true
	}
	f, err := a.d.files.Create(create, name)
	if err != nil {
		return err
	}
	err = write(f)
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}
