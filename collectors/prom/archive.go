package prom

import (
	"bytes"
	"encoding/json"
	"fmt"
	"time"

	"github.com/klauspost/compress/zstd"
)

// maxArchive bounds what the raw bodies of one session may take in memory,
// compressed. An hour of one vLLM server, scraped each second, takes a tenth.
const maxArchive = 64 << 20

// An archive keeps every body as it came, in one zstd stream: one file a
// target, and bodies that are almost equal cost almost nothing. Each body
// follows a comment line that says when it came and how long it is, so that
// the stream as a whole is still an exposition. Iteration statistics follow
// their body as a comment of one line.
type archive struct {
	buf  bytes.Buffer
	enc  *zstd.Encoder
	max  int // bytes, compressed
	full bool
	err  error
}

// newArchive returns one of several that share the bound.
func newArchive(share int) (*archive, error) {
	a := &archive{max: maxArchive / share}
	enc, err := zstd.NewWriter(&a.buf,
		zstd.WithEncoderLevel(zstd.SpeedFastest), // it runs while the client measures
		zstd.WithEncoderConcurrency(1),
		zstd.WithWindowSize(4<<20))
	if err != nil {
		return nil, fmt.Errorf("archive of scrapes: %w", err)
	}
	a.enc = enc
	return a, nil
}

func (a *archive) add(s *scrape, wall time.Time) {
	body := s.body
	if s.err != nil {
		// Of a body that is no exposition the beginning is enough.
		body = body[:min(len(body), 4<<10)]
	}
	if a.err != nil || a.full {
		return
	}
	if a.buf.Len() > a.max {
		a.full, body = true, nil
	}
	head := fmt.Sprintf("# sweep scrape seq=%d t_us=%d wall=%s status=%d bytes=%d", s.seq, s.at.Microseconds(), wall.UTC().Format(time.RFC3339Nano), s.status, len(body))
	if s.err != nil {
		head += fmt.Sprintf(" error=%q", s.err.Error())
	}
	if a.full {
		head += " archive=full"
	}
	parts := [][]byte{[]byte(head + "\n"), body, []byte("\n")}
	if s.iterated != nil && !a.full {
		var line bytes.Buffer // JSON may go over several lines, a comment may not
		if json.Compact(&line, s.iterated) == nil {
			parts = append(parts, fmt.Appendf(nil, "# iterations %s\n", line.Bytes()))
		}
	}
	for _, part := range parts {
		if _, err := a.enc.Write(part); err != nil {
			a.err = err
		}
	}
}

// close returns the whole stream.
func (a *archive) close() (*bytes.Buffer, error) {
	if err := a.enc.Close(); err != nil {
		return nil, fmt.Errorf("archive of scrapes: %w", err)
	}
	return &a.buf, a.err
}
