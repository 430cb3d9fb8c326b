package serverlog

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"sweep.dev/sweep/backends"
	"sweep.dev/sweep/engine/loglines"
	"sweep.dev/sweep/internal/layout"
	"sweep.dev/sweep/internal/lines"
	"sweep.dev/sweep/internal/secret"
)

// Bounds of the logs that an attempt keeps of servers that were found.
const (
	mostOfAll   = 256 << 20 // bytes of all of them
	longestName = 120       // bytes of a file's name
)

// Found reports whether the servers were found, and their logs are kept one by one.
func (l *Logs) Found() bool {
	_, ok := l.server.Deployment.(backends.Logged)
	return ok
}

// Keep calls save for each log of servers that were found, with the name of its file in the
// attempt and what writes it: the lines since the mark, without secrets and without noise,
// which the last line counts. Of a long log it is the end. A log without a line since the
// mark is left out.
func (l *Logs) Keep(mask secret.Mask, save func(name string, write func(io.Writer) error) error) error {
	if !l.Found() {
		return nil
	}
	var grown []file
	for _, f := range l.files() {
		if st, err := os.Stat(f.path); err == nil && st.Size() > l.from[f.path] {
			grown = append(grown, f)
		}
	}
	reader := loglines.NewReader(&l.profile.Logs)
	for i, f := range grown {
		err := save(layout.FoundLog(nameIn(f.path, i)), func(w io.Writer) error {
			return l.keep(w, reader, f, min(most, int64(mostOfAll/len(grown))), mask)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// unfit is what the name of a file of an attempt cannot have.
var unfit = regexp.MustCompile(`[^A-Za-z0-9._-]+`)

// nameIn returns the name of a log in an attempt.
func nameIn(path string, i int) string {
	name := unfit.ReplaceAllString(filepath.Base(path), "-")
	if len(name) > longestName {
		name = fmt.Sprintf("%s-%d.log", name[:longestName-10], i)
	}
	return name
}

// keep writes the end of a log since the mark, at most so many bytes of it.
func (l *Logs) keep(w io.Writer, reader *loglines.Reader, f file, most int64, mask secret.Mask) error {
	in, err := os.Open(f.path)
	if err != nil {
		return err
	}
	defer in.Close()
	from := l.from[f.path]
	st, err := in.Stat()
	if err != nil {
		return err
	}
	cut := st.Size()-most > from
	if cut {
		from = st.Size() - most
	}
	if _, err := in.Seek(from, io.SeekStart); err != nil {
		return err
	}
	filtered := &denoiser{lines: lines.NewReader(io.LimitReader(in, most), lines.Max), reader: reader, source: f.source}
	if cut {
		_, _ = filtered.lines.Next() // begins in the middle
	}
	_, err = mask.Copy(w, filtered)
	return err
}

// A denoiser reads the lines of a log that say something, and counts the others.
type denoiser struct {
	lines  *lines.Reader
	reader *loglines.Reader
	source loglines.Source
	noise  int
	stamp  string // time of the last line
	ended  bool
	rest   []byte
}

// Read implements [io.Reader].
func (d *denoiser) Read(p []byte) (int, error) {
	for len(d.rest) == 0 {
		line, ok := d.lines.Next()
		if !ok {
			if err := d.lines.Err(); err != nil {
				return 0, err
			}
			if d.ended || d.noise == 0 {
				return 0, io.EOF
			}
			d.ended = true
			d.rest = fmt.Appendf(nil, "%s sweep: lines of noise left out: %d\n", d.stamp, d.noise)
			break
		}
		stamp, text, _ := bytes.Cut(line, []byte(" "))
		d.stamp = string(stamp)
		if d.reader.Noise(d.source, strings.TrimRight(string(text), "\r\n")) {
			d.noise++
			continue
		}
		d.rest = line
	}
	n := copy(p, d.rest)
	d.rest = d.rest[n:]
	return n, nil
}
