package rundir

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// followPause is how often Follow looks for new lines.
const followPause = 200 * time.Millisecond

// Follow calls f with every line of a journal, from the first, and then with
// each new one until ctx is done (its cause is returned) or f fails (its error
// is returned). It neither locks nor changes anything. The journal may not
// exist yet. Damage in the middle of it is ErrDamaged.
func Follow(ctx context.Context, dir string, f func(Event) error) error {
	tick := time.NewTicker(followPause)
	defer tick.Stop()
	var at position
	for {
		if err := at.catchUp(filepath.Join(dir, JournalFile), f); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-tick.C:
		}
	}
}

// A position is how far a journal has been read: only over whole lines, which
// no recovery takes back.
type position struct {
	seq    uint64
	offset int64
}

func (p *position) catchUp(path string, f func(Event) error) error {
	file, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer file.Close() // read only
	data, err := io.ReadAll(io.NewSectionReader(file, p.offset, 1<<62))
	if err != nil {
		return err
	}
	for {
		line, _, terminated := bytes.Cut(data, []byte{'\n'})
		if !terminated {
			return nil
		}
		e, err := decodeLine(line)
		if err != nil || e.Seq != p.seq+1 {
			if holdsLine(data) {
				return &DamagedError{p.offset, "a bad line, and good lines follow"}
			}
			return nil // a torn tail: the next Open cuts it off
		}
		p.seq, p.offset = e.Seq, p.offset+int64(len(line))+1
		data = data[len(line)+1:]
		if err := f(e); err != nil {
			return err
		}
	}
}
