package rundir

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"sync"
	"time"

	"sweep.dev/sweep/internal/effect"
	"sweep.dev/sweep/internal/layout"
)

// reservedSize is the space set aside for the last lines of a run on a full
// disk, in bytes.
const reservedSize = 1 << 20

// A journal appends lines. Its methods may be called concurrently.
type journal struct {
	fx    *effect.Effects
	files *effect.Root

	mu       sync.Mutex
	f        *effect.File
	seq      uint64 // of the last line
	end      int64  // where it ends
	failed   error  // why nothing more may be appended
	reserved bool
}

// openJournal opens the journal for appending after the line seq, which ends
// at end; it cuts off the bytes behind that.
func (d *Dir) openJournal(seq uint64, end int64) error {
	f, err := d.files.OpenAppend(effect.JournalCreate, layout.Journal)
	if err != nil {
		return err
	}
	d.journal = &journal{fx: d.fx, files: d.files, f: f, seq: seq, end: end}
	info, err := f.OS().Stat()
	if err != nil {
		return err
	}
	if info.Size() == end {
		return nil
	}
	if err := f.Truncate(end); err != nil {
		return err
	}
	return f.Sync()
}

// append writes one line durably, as the operation p. On a full disk it gives
// the reserved space back and tries once more.
func (j *journal) append(p effect.Point, typ string, data any) error {
	raw, err := marshalObject(data)
	if err != nil {
		return fmt.Errorf("append %s: %w", typ, err)
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.failed != nil {
		return fmt.Errorf("append %s: an earlier write to the journal failed: %w", typ, j.failed)
	}
	e := Event{Seq: j.seq + 1, Time: time.Now().UTC().Truncate(time.Millisecond), Type: typ, Data: raw}
	line, err := encodeLine(e)
	if err != nil {
		return fmt.Errorf("append %s: %w", typ, err)
	}
	err = j.fx.Do(p, func() error {
		err := j.put(line)
		if effect.IsFull(err) && j.reserved {
			if j.dropReserved() == nil {
				err = j.put(line)
			}
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("append %s: %w", typ, err)
	}
	return nil
}

// put writes and fsyncs one line, or leaves the journal as it was.
//
// Subtleness ahead! Half a line must not stay where the next line will go: it
// would be damage in the middle, and the run could not be resumed. So the file
// is cut back, and if that fails nothing may be appended any more. After a failed
// fsync it is unknown what is on disk, the cut included, so it ends the journal
// too. A full disk is the exception, if nothing is in doubt: the line was cut off,
// and its bytes are written anew.
func (j *journal) put(line []byte) error {
	_, err := j.f.Write(line)
	wrote := err == nil
	if wrote {
		err = j.f.Sync()
	}
	if err == nil {
		j.seq++
		j.end += int64(len(line))
		return nil
	}
	if cut := j.f.Truncate(j.end); cut != nil {
		err = errors.Join(err, cut)
		j.failed = err
	} else if wrote && !effect.IsFull(err) {
		j.failed = err
	}
	return err
}

// reserve makes the reserved space. It need not be durable: it is for this
// process, and the next one makes its own.
func (j *journal) reserve() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	f, err := j.files.Create(effect.ReservedCreate, layout.Reserved)
	if err != nil {
		return err
	}
	j.reserved = true
	return errors.Join(f.Reserve(reservedSize), f.Close())
}

// freeReserved removes the reserved space, where it is still there.
func (j *journal) freeReserved() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.dropReserved()
}

func (j *journal) dropReserved() error {
	if !j.reserved {
		return nil
	}
	j.reserved = false
	err := j.files.Remove(effect.ReservedRemove, layout.Reserved)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

func (j *journal) close() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.failed == nil {
		j.failed = fs.ErrClosed
	}
	return j.f.Close()
}

// marshalObject encodes data, which must be an object or nothing.
func marshalObject(data any) (json.RawMessage, error) {
	if data == nil {
		return nil, nil
	}
	raw, err := json.Marshal(data)
	if err != nil {
		return nil, err
	}
	if bytes.Equal(raw, []byte("null")) {
		return nil, nil
	}
	if raw[0] != '{' {
		return nil, fmt.Errorf("data must be a JSON object, got %T", data)
	}
	return raw, nil
}
