// Package podledger is the ledger of this machine outside of run directories: what
// its runs have rented and not yet given back, one file for each pod, so that
// a pod is found again when its run directory is gone.
//
// A file is <tag of the run>-<pod>.json and holds an [Entry]. It is made before
// the pod may exist, rewritten at every transition of the pod's life, and removed
// when the pod is seen to be gone. Every change is atomic and durable, and made
// under a lock on the folder (flock on .lock), so that two processes never
// change one pod at once; a reader sees each file as it was or as it will be.
package podledger

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"sweep.dev/sweep/internal/effect"
)

// Errors a caller branches on.
var (
	// ErrChanged: since an entry was read its pod was taken over, given back or
	// changed by another process.
	ErrChanged = errors.New("another process has changed the entry meanwhile")
	// ErrDamaged: a file of the ledger does not say what is owed. The error
	// names the file.
	ErrDamaged = errors.New("ledger entry is damaged")
)

const (
	lockFile = ".lock"
	suffix   = ".json"
	// lockPoint is the lock file's: it has no fault points of its own, and is
	// counted like everything else.
	lockPoint effect.Point = "podledger.lock"
)

// Who has the lock holds it for one small file, and on a busy machine several
// want it. One that is stopped in the middle must not keep others from giving back
// their pods for long.
const (
	patience  = 10 * time.Second
	lockPause = 5 * time.Millisecond
)

// DefaultDir returns where this person's ledger is: $SWEEP_STATE_DIR, else
// sweep/ledger below $XDG_STATE_HOME where that is an absolute path, else below
// ~/.local/state.
func DefaultDir(env func(string) (string, bool)) (string, error) {
	if dir, _ := env("SWEEP_STATE_DIR"); dir != "" {
		return dir, nil
	}
	if dir, _ := env("XDG_STATE_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "sweep", "ledger"), nil
	}
	if home, _ := env("HOME"); filepath.IsAbs(home) {
		return filepath.Join(home, ".local", "state", "sweep", "ledger"), nil
	}
	return "", errors.New("no place for the ledger of rented pods: set SWEEP_STATE_DIR to a folder that outlives this machine's runs")
}

// A Ledger is the ledger in one folder. Its methods may be called concurrently,
// and so may those of other processes' Ledgers on the same folder.
type Ledger struct {
	fx  *effect.Effects
	dir string // absolute

	mu sync.Mutex // flock tells processes apart, not goroutines
}

// Open makes the folder where it is missing. There is nothing to close.
func Open(fx *effect.Effects, dir string) (*Ledger, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	if err := fx.MkdirAll(effect.PodLedgerMkdir, dir); err != nil {
		return nil, fmt.Errorf("open the ledger of rented pods: %w", err)
	}
	return &Ledger{fx: fx, dir: dir}, nil
}

// Dir returns the folder, absolute.
func (b *Ledger) Dir() string { return b.dir }

// Entries returns everything that is owed, the oldest first. Beside an error
// that is [ErrDamaged] they are all that could be read; the error names every
// file that could not.
func (b *Ledger) Entries() (list []Entry, err error) {
	err = b.locked(func(f folder) error {
		files, err := fs.ReadDir(f.root.FS(), ".")
		if err != nil {
			return err
		}
		var damaged []error
		for _, file := range files {
			if strings.HasPrefix(file.Name(), ".") || !strings.HasSuffix(file.Name(), suffix) {
				continue
			}
			e, err := f.read(file.Name())
			if err != nil {
				damaged = append(damaged, err)
				continue
			}
			list = append(list, e)
		}
		return errors.Join(damaged...)
	})
	slices.SortStableFunc(list, func(a, b Entry) int {
		return cmp.Or(a.Since.Compare(b.Since), strings.Compare(a.file, b.file))
	})
	return list, err
}

// A folder is the ledger's folder while this process has it locked.
type folder struct {
	root  *os.Root
	files *effect.Root
}

// locked does f with the folder locked. Names in it cannot lead out of it.
func (b *Ledger) locked(f func(folder) error) (err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	defer func() {
		if err != nil {
			err = fmt.Errorf("ledger %s: %w", b.dir, err)
		}
	}()
	root, err := os.OpenRoot(b.dir)
	if err != nil {
		return err
	}
	defer root.Close() // nothing is written through it alone
	in := folder{root, b.fx.In(root)}
	lock, err := in.files.OpenAppend(lockPoint, lockFile)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	if err := wait(lock); err != nil {
		return err
	}
	// An error of the unlock changes nothing: f has done its work.
	defer func() { _ = lock.Unlock() }()
	return f(in)
}

func wait(lock *effect.File) error {
	for end := time.Now().Add(patience); ; time.Sleep(lockPause) {
		ok, err := lock.TryLock()
		if ok || err != nil {
			return err
		}
		if time.Now().After(end) {
			return fmt.Errorf("another process has held it for %v", patience)
		}
	}
}

// read reads one entry; [fs.ErrNotExist] where it is not there.
func (f folder) read(name string) (Entry, error) {
	raw, err := f.root.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return Entry{}, err
	}
	if err != nil {
		return Entry{}, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	e, err := decode(raw)
	if err != nil {
		return Entry{}, fmt.Errorf("%w: %s: %w", ErrDamaged, name, err)
	}
	e.file, e.raw = name, string(raw)
	return e, nil
}

// write makes e durable and returns it as it now stands.
func (f folder) write(e Entry) (Entry, error) {
	raw, err := encode(e)
	if err != nil {
		return e, err
	}
	err = f.files.WriteFileAtomic(effect.PodLedgerCreate, e.file, func(w io.Writer) error {
		_, err := w.Write(raw)
		return err
	})
	e.raw = string(raw)
	return e, err
}

// remove takes an entry out, durably, with what a killed writer may have left of
// it. One that is not there is a success.
func (f folder) remove(name string) error {
	if temp := effect.Temp(name); exists(f.root, temp) {
		if err := f.files.Remove(effect.PodLedgerRemove, temp); err != nil {
			return err
		}
	}
	if err := f.files.Remove(effect.PodLedgerRemove, name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return f.files.SyncDir(effect.PodLedgerDirsync, ".")
}

// unchanged fails with [ErrChanged] where e is not what the folder says now.
func (f folder) unchanged(e Entry) error {
	now, err := f.read(e.file)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("pod %s of run %s: %w: it is not in the ledger any more", e.Pod, e.RunID, ErrChanged)
	case err != nil:
		return err
	case now.raw != e.raw:
		return fmt.Errorf("pod %s of run %s: %w: it is %s", e.Pod, e.RunID, ErrChanged, now.State)
	}
	return nil
}

func exists(root *os.Root, name string) bool {
	_, err := root.Lstat(name)
	return err == nil
}
