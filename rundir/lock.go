package rundir

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"sweep.dev/sweep/internal/effect"
	"sweep.dev/sweep/internal/layout"
)

// A Holder is the process that has a run directory locked.
type Holder struct {
	PID     int       `json:"pid"`
	Host    string    `json:"host"`
	Started time.Time `json:"started"` // when it took the lock
}

// A LockedError says who has the directory. It is [ErrLocked].
type LockedError struct {
	Dir string
	// Holder is what the lock file says; a zero PID where it says nothing.
	Holder Holder
}

func (e *LockedError) Error() string {
	if e.Holder.PID == 0 {
		return fmt.Sprintf("%s is locked by another process", e.Dir)
	}
	return fmt.Sprintf("%s is locked by process %d on %s since %s",
		e.Dir, e.Holder.PID, e.Holder.Host, e.Holder.Started.Format(time.RFC3339))
}

// Is makes errors.Is(err, ErrLocked) hold.
func (e *LockedError) Is(target error) bool { return target == ErrLocked }

// One refusal does not mean that a run has the directory: a reader that asks
// (see LockHolder) holds the lock for an instant, and so does a child of a
// process that was just killed, between its fork and its exec.
const (
	lockTries = 5
	lockPause = 20 * time.Millisecond
)

// acquire locks the directory for this process. The lock belongs to the open
// file: it ends with the process, however that ends, and the file stays where
// it is, since removing it would let two processes lock two files of one name.
func acquire(files *effect.Root, path string) (_ *effect.File, err error) {
	lock, err := files.OpenAppend(effect.LockCreate, layout.Lock)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			_ = lock.Close() // holds nothing that has to last
		}
	}()
	for try := 1; ; try++ {
		ok, err := lock.TryLock()
		if err != nil {
			return nil, err
		}
		if ok {
			return lock, sign(lock)
		}
		if try == lockTries {
			return nil, &LockedError{Dir: path, Holder: readHolder(lock.OS())}
		}
		time.Sleep(lockPause)
	}
}

// sign writes the holder into the lock file. It need not last: it is read
// while the holder lives.
func sign(lock *effect.File) error {
	host, err := os.Hostname()
	if err != nil {
		host = "an unnamed host"
	}
	line, err := json.Marshal(Holder{PID: os.Getpid(), Host: host, Started: time.Now().UTC().Truncate(time.Millisecond)})
	if err != nil {
		return err
	}
	if err := lock.Truncate(0); err != nil {
		return err
	}
	_, err = lock.Write(append(line, '\n'))
	if effect.IsFull(err) {
		return nil // a name is not worth a refusal: recovery needs no space
	}
	return err
}

func readHolder(f *os.File) Holder {
	b := make([]byte, 4096)
	n, _ := f.ReadAt(b, 0) // what cannot be read is not known
	var h Holder
	if json.Unmarshal(b[:n], &h) != nil {
		return Holder{}
	}
	return h
}

// LockHolder returns the process that has the run directory locked; nil if it is not
// locked.
func LockHolder(dir string) (*Holder, error) {
	f, err := os.Open(filepath.Join(dir, layout.Lock))
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	switch err := unix.Flock(int(f.Fd()), unix.LOCK_SH|unix.LOCK_NB); { //nolint:forbidigo // a look: what it takes ends with f
	case err == nil:
		return nil, nil
	case errors.Is(err, unix.EWOULDBLOCK):
		h := readHolder(f)
		return &h, nil
	default:
		return nil, fmt.Errorf("lock %s: %w", f.Name(), err)
	}
}

// release gives the lock back, and everything else that the Dir holds open.
func (d *Dir) release() error {
	var err error
	if d.journal != nil {
		err = d.journal.close()
	}
	_ = d.lock.Truncate(0) // only tidies: who reads the name asks for the lock first
	return errors.Join(err, d.lock.Unlock(), d.lock.Close(), d.root.Close())
}
