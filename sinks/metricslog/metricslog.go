// Package metricslog writes metrics-<engine>.log: the metrics that the servers of an
// engine exposed in all its trials, as plain text, in the order of arrival.
//
// Each body stands below the line with which the collector kept it, and that
// line says of which server it is:
//
//	# sweep scrape cell=1f3a trial=1 attempt=1 server=worker-0 seq=4 t_us=1000127 wall=2026-01-02T03:04:05.123456789Z status=200 bytes=51234
//
// The file as a whole is text for people and grep. The bodies of one server
// alone, unpacked from its archive in the attempt's folder, are an exposition.
package metricslog

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/klauspost/compress/zstd"

	"sweep.dev/sweep/internal/layout"
	"sweep.dev/sweep/result"
	"sweep.dev/sweep/result/col"
	"sweep.dev/sweep/sinks"
)

// Factory returns this sink's entry in the list of sinks. It has no configuration.
func Factory() sinks.Factory {
	return sinks.Plain("metricslog", "what each engine exposed, as plain text in order: metrics-ENGINE.log", Sink{})
}

// A Sink writes the logs of a run. It holds one body of each server of one
// attempt in memory at a time.
type Sink struct{}

var _ sinks.Sink = Sink{}

// Build implements sinks.Sink.
func (Sink) Build(ctx context.Context, t sinks.Table, create sinks.File) error {
	byName := map[string][]trial{}
	i := 0
	for row := range t.Rows {
		if i >= len(t.Attempts) {
			break
		}
		name := layout.MetricsLog(text(row, col.Engine))
		at, _ := row[col.StartedAt].(time.Time)
		byName[name] = append(byName[name], trial{fmt.Sprintf("cell=%s trial=%v attempt=%v", text(row, col.CellID), row[col.Trial], row[col.Attempt]), at, t.Attempts[i]})
		i++
	}
	names := make([]string, 0, len(byName))
	for name := range byName {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		trials := byName[name]
		slices.SortStableFunc(trials, func(a, b trial) int { return a.started.Compare(b.started) })
		err := create(name, func(w sinks.Writer) error {
			out := bufio.NewWriter(w)
			for _, tr := range trials {
				if err := tr.write(ctx, out); err != nil {
					return err
				}
			}
			return out.Flush()
		})
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

// A trial is what of a row is needed, with the folder of its attempt.
type trial struct {
	id      string
	started time.Time
	dir     string
}

func text(row result.Row, column string) string {
	s, _ := row[column].(string)
	return s
}

// write merges the archives of the trial's servers by the time of each body. An
// attempt without an archive, one of a server that did not start or tells
// nothing, leaves nothing.
func (t trial) write(ctx context.Context, w *bufio.Writer) (err error) {
	// Of the folder alone: its path may have what a pattern would take for its own.
	names, err := fs.Glob(os.DirFS(t.dir), layout.Scrapes)
	if err != nil {
		return err
	}
	var open []*archive
	defer func() {
		for _, a := range open {
			err = errors.Join(err, a.close())
		}
	}()
	var next []*archive // with a body to write
	for _, name := range names {
		a, err := openArchive(filepath.Join(t.dir, name))
		if err != nil {
			return err
		}
		open = append(open, a)
		more, err := a.next()
		if err != nil {
			return err
		}
		if more {
			next = append(next, a)
		}
	}
	for len(next) > 0 {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		first := slices.MinFunc(next, func(a, b *archive) int { return a.at.Compare(b.at) })
		if err := first.write(w, t.id); err != nil {
			return err
		}
		more, err := first.next()
		if err != nil {
			return err
		}
		if !more {
			next = slices.DeleteFunc(next, func(a *archive) bool { return a == first })
		}
	}
	return nil
}

const (
	opener = "# sweep scrape "
	extra  = "# iterations "
	// maxBody is the longest body that is kept in an archive with room to spare.
	maxBody = 256 << 20
)

// An archive is what one server exposed over one attempt, body by body.
type archive struct {
	path   string
	server string
	file   *os.File
	dec    *zstd.Decoder
	r      *bufio.Reader

	head string // of the body, without its beginning
	at   time.Time
	body []byte
}

func openArchive(path string) (*archive, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	dec, err := zstd.NewReader(f, zstd.WithDecoderConcurrency(1))
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", path, err), f.Close())
	}
	return &archive{
		path: path, server: layout.Scraper(path), file: f, dec: dec, r: bufio.NewReader(dec),
	}, nil
}

func (a *archive) close() error {
	a.dec.Close()
	return a.file.Close()
}

// next reads the next body; false is the end of the archive.
func (a *archive) next() (more bool, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("%s: %w", a.path, err)
		}
	}()
	line, err := a.r.ReadString('\n')
	if errors.Is(err, io.EOF) && line == "" {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	head, ok := strings.CutPrefix(strings.TrimSuffix(line, "\n"), opener)
	if !ok {
		return false, fmt.Errorf("not the beginning of a scrape: %.80q", line)
	}
	a.head, a.at = head, time.Time{}
	size := int64(-1)
	for field := range strings.SplitSeq(head, " ") {
		key, value, _ := strings.Cut(field, "=")
		if key == "error" {
			break // a text, which may say anything
		}
		switch key {
		case "bytes":
			if size, err = strconv.ParseInt(value, 10, 64); err != nil || size < 0 || size > maxBody {
				return false, fmt.Errorf("size of a scrape: %q", value)
			}
		case "wall":
			if a.at, err = time.Parse(time.RFC3339Nano, value); err != nil {
				return false, err
			}
		}
	}
	if size < 0 {
		return false, fmt.Errorf("a scrape without its size: %.80q", line)
	}
	a.body = slices.Grow(a.body[:0], int(size)+1)[:size+1] // with the line's end below it
	if _, err := io.ReadFull(a.r, a.body); err != nil {
		return false, err
	}
	a.body = a.body[:size]
	return true, a.rest()
}

// rest adds what else the collector kept of this look: comments of one line.
func (a *archive) rest() error {
	for {
		if begin, _ := a.r.Peek(len(extra)); string(begin) != extra {
			return nil // also at the end, which the next read tells
		}
		line, err := a.r.ReadBytes('\n')
		if err != nil {
			return err
		}
		if n := len(a.body); n > 0 && a.body[n-1] != '\n' {
			a.body = append(a.body, '\n')
		}
		if a.body = append(a.body, line...); len(a.body) > maxBody {
			return errors.New("a scrape without an end")
		}
	}
}

func (a *archive) write(w *bufio.Writer, id string) error {
	if _, err := fmt.Fprintf(w, "%s%s server=%s %s\n", opener, id, a.server, a.head); err != nil {
		return err
	}
	if _, err := w.Write(a.body); err != nil {
		return err
	}
	if n := len(a.body); n > 0 && a.body[n-1] != '\n' {
		if err := w.WriteByte('\n'); err != nil {
			return err
		}
	}
	return w.WriteByte('\n')
}
