package rundir

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"sweep.dev/sweep/internal/effect"
	"sweep.dev/sweep/internal/layout"
	"sweep.dev/sweep/result"
	"sweep.dev/sweep/result/col"
)

// Begin starts an attempt: journals it, and makes a temporary folder for its
// files. End it with Commit or Discard.
func (d *Dir) Begin(ctx context.Context, k Key, attempt int) (*Attempt, error) {
	a := AttemptKey{k, attempt}
	if err := checkKey(a); err != nil {
		return nil, fmt.Errorf("begin: %w", err)
	}
	if ctx.Err() != nil {
		return nil, fmt.Errorf("begin %s: %w", a, context.Cause(ctx))
	}
	if _, err := d.root.Lstat(attemptName(a)); err == nil {
		return nil, fmt.Errorf("%w: %s is there and the journal, whose end must be missing, does not know it", ErrDamaged, attemptName(a))
	}
	if err := d.journal.append(effect.BeginJournal, typeBegun, a); err != nil {
		return nil, err
	}
	if err := d.mkdirNew(effect.AttemptMkdir, tempName(a)); err != nil {
		return nil, fmt.Errorf("begin %s: %w", a, err)
	}
	return &Attempt{d: d, key: a, files: map[string]*attemptFile{}, dirs: map[string]bool{}}, nil
}

// An Attempt is one attempt at a trial that is being written. Its methods may
// be called concurrently, each file's from one goroutine at a time.
type Attempt struct {
	d   *Dir
	key AttemptKey

	mu    sync.Mutex
	files map[string]*attemptFile
	dirs  map[string]bool // below the temporary folder
	phase phase
}

// phase is how far an attempt has come.
type phase int

const (
	writing   phase = iota
	stopped         // a commit failed; its files may have their final name
	committed       // for good
	discarded       // for good
)

// Create makes a file of the attempt; closing it makes it durable. name is a
// plain word, or up to three of them joined by '/'. Every file must be closed
// before the commit, and a file that could not be written whole forbids it.
func (a *Attempt) Create(name string) (io.WriteCloser, error) {
	if err := checkFile(name); err != nil {
		return nil, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.phase != writing {
		return nil, fmt.Errorf("%s: the attempt is over", a.key)
	}
	if _, ok := a.files[name]; ok {
		return nil, fmt.Errorf("%s: %s is there already", a.key, name)
	}
	f, err := a.create(name)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", a.key, err)
	}
	a.files[name] = f
	return f, nil
}

func (a *Attempt) create(name string) (*attemptFile, error) {
	if err := a.mkdir(path.Dir(name)); err != nil {
		return nil, err
	}
	f, err := a.d.files.Create(effect.AttemptCreate, filepath.Join(tempName(a.key), name))
	if err != nil {
		return nil, err
	}
	return &attemptFile{f: f, sum: sha256.New()}, nil
}

// mkdir makes a folder below the temporary one. The commit makes it durable.
func (a *Attempt) mkdir(dir string) error {
	if dir == "." || a.dirs[dir] {
		return nil
	}
	if err := a.mkdir(path.Dir(dir)); err != nil {
		return err
	}
	if err := a.d.files.Mkdir(effect.AttemptMkdir, filepath.Join(tempName(a.key), dir)); err != nil {
		return err
	}
	a.dirs[dir] = true
	return nil
}

// An attemptFile digests what is written to it.
type attemptFile struct {
	mu     sync.Mutex // Commit and Discard look at it while others write
	f      *effect.File
	sum    hash.Hash
	size   int64
	closed bool
	err    error // the first
}

func (f *attemptFile) Write(b []byte) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	n, err := f.f.Write(b)
	_, _ = f.sum.Write(b[:n]) // never fails
	f.size += int64(n)
	f.keep(err)
	return n, err
}

// Close fsyncs the file and closes it. A second Close says what the first said.
func (f *attemptFile) Close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.closed {
		f.closed = true
		f.keep(f.f.Sync())
		f.keep(f.f.Close())
	}
	return f.err
}

func (f *attemptFile) keep(err error) {
	if f.err == nil {
		f.err = err
	}
}

// abandon closes a file that will not be read.
func (f *attemptFile) abandon() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.closed {
		f.closed = true
		f.keep(errors.New("abandoned"))
		_ = f.f.Close()
	}
}

// Commit writes result.json with the digests of all other files, makes the
// folder durable under its final name cells/<cell>/tNN/aNN and journals the
// commit. After it returns nil the trial survives anything. It fills in the
// outcome's identity and Files; Row["status"] must be set.
//
// If it fails, call Discard: the journal then says that the attempt does not
// count, even if a part of it is on disk.
func (a *Attempt) Commit(ctx context.Context, o *result.Outcome, digest string) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if ctx.Err() != nil {
		return fmt.Errorf("commit %s: %w", a.key, context.Cause(ctx))
	}
	if a.phase != writing {
		return fmt.Errorf("commit %s: the attempt is over", a.key)
	}
	if err := a.commit(o, digest); err != nil {
		a.phase = stopped
		return fmt.Errorf("commit %s: %w", a.key, err)
	}
	a.phase = committed
	return nil
}

func (a *Attempt) commit(o *result.Outcome, digest string) error {
	status, ok := o.Row[col.Status].(string)
	if !ok || status == "" {
		return errors.New("the outcome's row has no status")
	}
	files, err := a.listFiles()
	if err != nil {
		return err
	}
	o.CellID, o.Trial, o.Attempt, o.Files = a.key.Cell, a.key.Trial, a.key.Attempt, files
	text, err := encodeOutcome(o, digest)
	if err != nil {
		return err
	}
	if err := a.writeResult(text); err != nil {
		return err
	}
	if err := a.publish(); err != nil {
		return err
	}
	return a.d.journal.append(effect.CommitJournal, typeCommitted, Commit{
		Key: a.key.Key, Attempt: a.key.Attempt,
		Status: status, SHA256: hexSum(text), Digest: digest,
	})
}

func (a *Attempt) listFiles() ([]result.File, error) {
	list := make([]result.File, 0, len(a.files))
	for name, f := range a.files {
		f.mu.Lock()
		closed, err, size, sum := f.closed, f.err, f.size, f.sum.Sum(nil)
		f.mu.Unlock()
		switch {
		case !closed:
			return nil, fmt.Errorf("%s is still open", name)
		case err != nil:
			return nil, fmt.Errorf("%s is not whole: %w", name, err)
		}
		list = append(list, result.File{Name: name, Bytes: size, SHA256: hex.EncodeToString(sum)})
	}
	slices.SortFunc(list, func(x, y result.File) int { return strings.Compare(x.Name, y.Name) })
	return list, nil
}

func (a *Attempt) writeResult(text []byte) error {
	f, err := a.create(layout.Result)
	if err != nil {
		return err
	}
	if _, err := f.Write(text); err != nil {
		f.abandon()
		return err
	}
	return f.Close()
}

// publish makes the folder durable, inside first, and gives it its final name.
func (a *Attempt) publish() error {
	temp, final := tempName(a.key), attemptName(a.key)
	for dir := range a.dirs {
		if err := a.d.files.SyncDir(effect.AttemptDirsync, filepath.Join(temp, dir)); err != nil {
			return err
		}
	}
	if err := a.d.files.SyncDir(effect.AttemptDirsync, temp); err != nil {
		return err
	}
	if err := a.d.files.Rename(effect.AttemptRename, temp, final); err != nil {
		return err
	}
	if err := a.d.files.SyncDir(effect.AttemptDirsync, filepath.Dir(final)); err != nil {
		return err
	}
	return a.d.settle(effect.AttemptDirsync, filepath.Dir(final))
}

// Discard journals that the attempt does not count and removes its files. It
// works at any time before a commit has succeeded; after one, and a second
// time, it is an error and does nothing.
func (a *Attempt) Discard(_ context.Context, reason string) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.phase == committed || a.phase == discarded {
		return fmt.Errorf("discard %s: the attempt is over", a.key)
	}
	for _, f := range a.files {
		f.abandon()
	}
	if err := a.d.discard(effect.AttemptRemove, a.key, reason); err != nil {
		return err
	}
	a.phase = discarded
	return nil
}

// discard journals that an attempt does not count, then removes what there is
// of it. Nothing needs to be durable about the removal: the journal tells
// recovery to remove it again.
func (d *Dir) discard(p effect.Point, a AttemptKey, reason string) error {
	if err := d.journal.append(effect.DiscardJournal, typeDiscarded, discard{a, reason}); err != nil {
		return err
	}
	for _, name := range []string{tempName(a), attemptName(a)} {
		if err := d.files.RemoveAll(p, name); err != nil {
			return fmt.Errorf("discard %s: %w", a, err)
		}
	}
	return nil
}
