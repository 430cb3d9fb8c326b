package fetch

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path"
	"slices"

	"sweep.dev/sweep/internal/effect"
)

// A Remote is the side that has the files.
type Remote interface {
	// List writes what [List] does.
	List(ctx context.Context, out io.Writer) error
	// Send does what [Send] does.
	Send(ctx context.Context, in io.Reader, out io.Writer) error
}

// Options of a fetch.
type Options struct {
	MaxBytes int64 // that are sent; more is refused before anything is
	Say      func(format string, args ...any)
}

// A Result is what a fetch came to.
type Result struct {
	Runs    []string // that are here now, by their names, the oldest first
	Files   int      // that were fetched
	Bytes   int64    // that were sent
	Present int      // files that were here already
}

const (
	partial = ".fetching" // ends the name of a file that is not whole
	// tries bounds how often a broken stream begins again without a byte more, and how
	// often a file that changes is listed again.
	tries = 3
)

// Pull makes the files of the other side those of a folder. A run that is there already is
// brought up to date, if it is the same run, and so is a history that has grown.
func Pull(ctx context.Context, from Remote, fx *effect.Effects, folder string, o Options) (Result, error) {
	root, err := os.OpenRoot(folder)
	if err != nil {
		return Result{}, err
	}
	defer root.Close()
	p := &puller{from: from, root: root, files: fx.In(root), options: o}
	for round := 1; ; round++ {
		changed, err := p.round(ctx)
		if err != nil || !changed {
			return p.result, err
		}
		if round == tries {
			return p.result, fmt.Errorf("%w: fetch again when the night is over", errChanged)
		}
	}
}

type puller struct {
	from    Remote
	root    *os.Root
	files   *effect.Root
	options Options
	result  Result
}

// round lists the files and fetches those that are not here. changed says that one was not
// what the list said.
func (p *puller) round(ctx context.Context) (changed bool, err error) {
	list, err := p.list(ctx)
	if err != nil {
		return false, err
	}
	p.result.Runs, p.result.Present = nil, 0
	for _, e := range list {
		if e.journal() {
			p.result.Runs = append(p.result.Runs, e.run())
			if err := p.same(e); err != nil {
				return false, err
			}
		}
	}
	slices.Sort(p.result.Runs)
	var missing []Entry
	var bytes int64
	for _, e := range list {
		here, err := p.here(e.Path, e)
		if err != nil {
			return false, err
		}
		if here {
			p.result.Present++
			continue
		}
		missing = append(missing, e)
		bytes += min(e.Size-p.begun(e), math.MaxInt64-bytes) // what the other side says, whatever that is
	}
	if bytes > p.options.MaxBytes {
		return false, fmt.Errorf("%d files of %d bytes are to be fetched, and at most %d bytes may be: take fewer runs (--latest), or allow more (--max-size)", len(missing), bytes, p.options.MaxBytes)
	}
	for stuck := 0; len(missing) > 0; {
		before := p.result.Bytes
		done, again, err := p.stream(ctx, missing)
		changed = changed || again
		missing = missing[done:]
		switch {
		case err == nil:
		case ctx.Err() != nil:
			return false, context.Cause(ctx)
		case p.result.Bytes > before || done > 0:
			stuck = 0
			p.options.Say("the connection broke (%v): going on", err)
		default:
			if stuck++; stuck == tries {
				return false, err
			}
		}
	}
	return changed, nil
}

// list reads the list of files, with the journals of runs at its end.
func (p *puller) list(ctx context.Context) ([]Entry, error) {
	r, end := piped(ctx, p.from.List)
	defer end()
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, maxLine)
	var list []Entry
	seen := map[string]bool{}
	for lines.Scan() {
		var l line
		if err := json.Unmarshal(lines.Bytes(), &l); err != nil {
			return nil, fmt.Errorf("list of files: %w", err)
		}
		if l.End {
			slices.SortStableFunc(list, func(a, b Entry) int {
				switch {
				case a.journal() == b.journal():
					return 0
				case a.journal():
					return 1
				}
				return -1
			})
			return list, nil
		}
		if err := l.check(); err != nil {
			return nil, fmt.Errorf("list of files: %w", err)
		}
		if seen[l.Path] {
			return nil, fmt.Errorf("list of files: %s is there twice", l.Path)
		}
		seen[l.Path] = true
		if list = append(list, l.Entry); len(list) > maxFiles {
			return nil, fmt.Errorf("list of files: more than %d", maxFiles)
		}
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("list of files: %w", err)
	}
	return nil, errors.New("list of files: it has no end")
}

// piped returns what a function writes. end ends the function and waits for that.
func piped(ctx context.Context, write func(context.Context, io.Writer) error) (r io.Reader, end func()) {
	ctx, stop := context.WithCancel(ctx)
	reader, w := io.Pipe()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		w.CloseWithError(write(ctx, w))
	}()
	return reader, func() { reader.Close(); stop(); <-ended }
}

// same refuses to make a run of another one that has its name.
func (p *puller) same(e Entry) error {
	f, err := p.root.Open(e.Path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	run, err := firstLine(f)
	if err == nil && run != e.Run {
		err = fmt.Errorf("%s is another run here: fetch into another folder", path.Dir(e.Path))
	}
	return err
}

// here reports whether a file has what an entry says.
func (p *puller) here(name string, e Entry) (bool, error) {
	f, err := p.root.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() || info.Size() != e.Size {
		return false, err
	}
	_, sum, err := digest(f)
	return err == nil && sum == e.SHA256, err
}

// begun returns how much of a file was sent before a stream broke.
func (p *puller) begun(e Entry) int64 {
	info, err := p.root.Lstat(e.Path + partial)
	if err != nil || !info.Mode().IsRegular() || info.Size() > e.Size {
		return 0
	}
	return info.Size()
}

// stream fetches files until one fails. done are those that came, whole or, if changed is
// set, as another version.
func (p *puller) stream(ctx context.Context, list []Entry) (done int, changed bool, err error) {
	var asked bytes.Buffer
	enc := json.NewEncoder(&asked)
	parts := make([]want, len(list))
	for i, e := range list {
		at := p.begun(e)
		parts[i] = want{Path: e.Path, Offset: at, Size: e.Size - at}
		if err := enc.Encode(parts[i]); err != nil {
			return 0, false, err
		}
	}
	r, end := piped(ctx, func(ctx context.Context, out io.Writer) error { return p.from.Send(ctx, &asked, out) })
	defer end()
	for i, e := range list {
		again, err := p.take(e, parts[i], r)
		if err != nil {
			return i, changed, err
		}
		changed = changed || again
	}
	return len(list), changed, nil
}

// take writes one file of a stream. A file that is not what the list says is left out, and
// again is set.
func (p *puller) take(e Entry, part want, r io.Reader) (again bool, err error) {
	if dir := path.Dir(e.Path); dir != "." {
		if err := p.files.MkdirAll(effect.DeriveCreate, dir); err != nil {
			return false, err
		}
	}
	name := e.Path + partial
	if part.Offset == 0 {
		if err := p.files.Remove(effect.DeriveCreate, name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return false, err
		}
	}
	f, err := p.files.OpenAppend(effect.DeriveCreate, name)
	if err != nil {
		return false, err
	}
	n, err := io.CopyN(f, r, part.Size)
	p.result.Bytes += n
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return false, err
	}
	if whole, err := p.here(name, e); err != nil || !whole {
		return true, errors.Join(err, p.files.Remove(effect.DeriveCreate, name))
	}
	if e.run() == "" {
		if err := p.grown(e.Path, name); err != nil {
			return false, err
		}
	}
	p.result.Files++
	return false, errors.Join(p.files.Rename(effect.DeriveRename, name, e.Path), p.files.SyncDir(effect.DeriveDirsync, path.Dir(e.Path)))
}

// grown refuses a history in the place of another one: lines are only added to it.
func (p *puller) grown(path, next string) error {
	old, err := p.root.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer old.Close()
	now, err := p.root.Open(next)
	if err != nil {
		return err
	}
	defer now.Close()
	size, sum, err := digest(old)
	if err != nil {
		return err
	}
	if n, same, err := digest(io.LimitReader(now, size)); err != nil || n != size || same != sum {
		return errors.Join(err, fmt.Errorf("%s here is another history, with lines of its own: fetch into another folder", path))
	}
	return nil
}
