package history

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"time"

	"sweep.dev/sweep/internal/effect"
	"sweep.dev/sweep/rundir/crcline"
)

// ErrLocked says that another process was writing the file for as long as one waits for it.
var ErrLocked = errors.New("the history is locked by another process")

// A ForeignError says where a file is no history.
type ForeignError struct {
	Path   string
	Line   int // from 1
	Reason string
}

func (e *ForeignError) Error() string {
	return fmt.Sprintf("%s:%d: not a history of sweep: %s", e.Path, e.Line, e.Reason)
}

// A File is a history, read.
type File struct {
	Nights  []Night // as they stand in the file; of one run and cell the last
	Accepts []Accept
	// Settings are by run.
	Settings map[string]map[string]string
	// Torn is how many bytes at the end are of a line that was not written whole.
	Torn int64

	end    int64 // of the good lines
	lines  int
	number map[place]int // of Nights
}

// place is what one line is of.
type place struct{ run, cell string }

// Read reads a history. A file that does not exist is [fs.ErrNotExist]; one that is no
// history, or damaged before its end, is a [*ForeignError].
func Read(path string) (*File, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return read(path, f)
}

func read(path string, r io.Reader) (*File, error) {
	data, err := io.ReadAll(io.LimitReader(r, maxFile+1))
	if err != nil {
		return nil, err
	}
	if len(data) > maxFile {
		return nil, fmt.Errorf("%s is larger than a history may be (%d MiB): begin a new one", path, maxFile>>20)
	}
	f := &File{number: map[place]int{}, Settings: map[string]map[string]string{}}
	for int(f.end) < len(data) {
		rest := data[f.end:]
		text, _, whole := bytes.Cut(rest, []byte{'\n'})
		reason := "the line is not complete"
		if whole {
			if reason = f.take(text); reason == "" {
				f.end += int64(len(text)) + 1
				f.lines++
				continue
			}
		}
		last := len(rest) <= len(text)+1
		if last && torn(text, whole) && (f.lines > 0 || bytes.HasPrefix(header(), text)) {
			f.Torn = int64(len(rest))
			break
		}
		return nil, &ForeignError{path, f.lines + 1, reason}
	}
	return f, nil
}

// torn reports whether a crash may have left a bad last line: one that is cut off, or that has
// zeros for sectors that were never written. Any other was changed by somebody.
func torn(text []byte, whole bool) bool {
	if bytes.IndexByte(text, 0) >= 0 {
		return true
	}
	begins := bytes.HasPrefix(text, []byte(crcline.Prefix)) || bytes.HasPrefix([]byte(crcline.Prefix), text)
	_, err := crcline.Decode(text)
	return !whole && begins && (err == nil || !json.Valid(text))
}

// take reads the next line. The answer is what is wrong with it.
func (f *File) take(text []byte) string {
	if len(text) > maxLine {
		return fmt.Sprintf("the line has %d bytes, at most %d are allowed", len(text), maxLine)
	}
	object, err := crcline.Decode(text)
	if err != nil {
		return err.Error()
	}
	var l line
	if err := json.Unmarshal(object, &l); err != nil {
		return err.Error()
	}
	if l.Night != nil && (l.Night.Run == "" || l.Night.Cell == "" || l.Night.Date.IsZero()) {
		return "a night without date, run_id or cell_id"
	}
	switch {
	case f.lines == 0 && l.Format != format:
		return fmt.Sprintf("the first line has no %q", format)
	case f.lines == 0 && l.Version != version:
		return fmt.Sprintf("its version is %d, this program reads version %d", l.Version, version)
	case l.Night != nil:
		at := place{l.Night.Run, l.Night.Cell}
		if i, ok := f.number[at]; ok {
			f.Nights[i] = *l.Night
			return ""
		}
		f.number[at] = len(f.Nights)
		f.Nights = append(f.Nights, *l.Night)
	case l.Accept != nil:
		f.Accepts = append(f.Accepts, *l.Accept)
	case l.Settings != nil:
		f.Settings[l.Settings.Run] = l.Settings.Plan
	}
	return "" // a line of a later minor version says what this one need not know
}

func header() []byte { return encode(line{Format: format, Version: version}) }

// encode makes a line of what a program made: JSON takes it.
func encode(l line) []byte {
	object, err := json.Marshal(l)
	if err != nil {
		panic(err) // no float of a night is without a number
	}
	return crcline.Encode(object)
}

// Added is what [Add] has done.
type Added struct{ New, Replaced, Torn int }

// Add appends nights of one run durably, but for those that the file has already as they are,
// with the settings of the run; nil if they are not known. It waits for another writer, not longer than ctx and ten seconds. The file is made if
// there is none, and a line that was cut off at its end is cut away. Nights that are older than
// those of their series are refused with an [*OrderError].
func Add(ctx context.Context, fx *effect.Effects, path string, nights []Night, settings map[string]string) (a Added, err error) {
	err = appendTo(ctx, fx, path, func(f *File) ([]line, error) {
		a.Torn = int(f.Torn)
		if err := f.inOrder(path, nights); err != nil {
			return nil, err
		}
		var lines []line
		for _, n := range nights {
			if i, ok := f.number[place{n.Run, n.Cell}]; ok {
				if reflect.DeepEqual(f.Nights[i], n) {
					continue
				}
				a.Replaced++
			} else {
				a.New++
			}
			lines = append(lines, line{Night: &n})
		}
		if len(nights) > 0 && len(settings) > 0 && !maps.Equal(settings, f.Settings[nights[0].Run]) {
			// Without them a change has no name; a night is not lost for that.
			if l := (line{Settings: &Settings{nights[0].Run, settings}}); len(encode(l)) <= maxLine {
				lines = append(lines, l)
			}
		}
		return lines, nil
	})
	return a, err
}

// AcceptLevel appends an accept durably, as [Add] does.
func AcceptLevel(ctx context.Context, fx *effect.Effects, path string, accept Accept) error {
	return appendTo(ctx, fx, path, func(*File) ([]line, error) { return []line{{Accept: &accept}}, nil })
}

// appendTo appends lines to the file at path, which it has locked meanwhile.
func appendTo(ctx context.Context, fx *effect.Effects, path string, more func(*File) ([]line, error)) (err error) {
	_, missing := os.Stat(path)
	file, err := fx.OpenAppend(effect.HistoryCreate, path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	if err := lock(ctx, path, file); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Unlock()) }()
	info, err := file.OS().Stat()
	if err != nil {
		return err
	}
	f, err := read(path, io.NewSectionReader(file.OS(), 0, info.Size()))
	if err != nil {
		return err
	}
	var text []byte
	if f.lines == 0 {
		text = header()
	}
	lines, err := more(f)
	if err != nil {
		return err
	}
	for _, l := range lines {
		encoded := encode(l)
		if len(encoded) > maxLine {
			return fmt.Errorf("%s: a night of %d bytes is too long for one line (%d)", path, len(encoded), maxLine)
		}
		text = append(text, encoded...)
	}
	if len(text) == 0 && f.Torn == 0 {
		return nil
	}
	if f.end+int64(len(text)) > maxFile {
		return fmt.Errorf("%s would be larger than a history may be (%d MiB): begin a new one", path, maxFile>>20)
	}
	if f.Torn > 0 {
		if err := file.Truncate(f.end); err != nil {
			return err
		}
	}
	if err := write(file, f.end, text); err != nil {
		return fmt.Errorf("append to %s: %w", path, err)
	}
	if errors.Is(missing, fs.ErrNotExist) {
		return fx.SyncDir(effect.HistoryDirsync, filepath.Dir(path))
	}
	return nil
}

// write appends text durably, or leaves the file as it was.
func write(file *effect.File, end int64, text []byte) error {
	_, err := file.Write(text)
	if err == nil {
		err = file.Sync()
	}
	if err != nil {
		return errors.Join(err, file.Truncate(end))
	}
	return nil
}

const (
	lockWait  = 10 * time.Second
	lockPause = 50 * time.Millisecond
)

// lock waits for the file.
func lock(ctx context.Context, path string, file *effect.File) error {
	ctx, cancel := context.WithTimeoutCause(ctx, lockWait, fmt.Errorf("%s: %w", path, ErrLocked))
	defer cancel()
	for {
		ok, err := file.TryLock()
		if ok || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(lockPause):
		}
	}
}
