package runpodtest

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"
)

// maxLines is how many lines of a pod's log are kept.
const maxLines = 20_000

// An entry is one line of a pod's log. Its time is in whole seconds, as in the
// document: what resumes by time alone gets some lines twice.
type entry struct {
	At     time.Time `json:"ts"`
	Source string    `json:"source"` // container or system
	Line   string    `json:"line"`
	seq    uint64
}

// String returns the entry as an event of the stream.
func (e entry) String() string {
	var data strings.Builder
	enc := json.NewEncoder(&data) // ends with a line break
	enc.SetEscapeHTML(false)
	_ = enc.Encode(e) // strings
	return fmt.Sprintf("id: %s/%012d\ndata: %s\n", stamp(e.At), e.seq, data.String())
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }

// A podLog keeps the lines of a pod and tells followers of new ones.
type podLog struct {
	now func() time.Time

	mu    sync.Mutex
	lines []entry
	seq   uint64
	more  chan struct{} // closed and made anew with each line
}

func newPodLog(now func() time.Time) *podLog {
	return &podLog{now: now, more: make(chan struct{})}
}

func (l *podLog) add(source, format string, args ...any) {
	line := format
	if len(args) > 0 {
		line = fmt.Sprintf(format, args...)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.seq++
	l.lines = append(l.lines, entry{At: l.now().UTC().Truncate(time.Second), Source: source, Line: line, seq: l.seq})
	if len(l.lines) > maxLines {
		l.lines = l.lines[len(l.lines)-maxLines:]
	}
	close(l.more)
	l.more = make(chan struct{})
}

// after returns the lines that come after seq, and what is closed when there are more.
func (l *podLog) after(seq uint64) ([]entry, <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	var found []entry
	for _, e := range l.lines {
		if e.seq > seq {
			found = append(found, e)
		}
	}
	return found, l.more
}

// A cursor says where a stream of lines begins.
type cursor struct {
	source string // "" is both
	tail   int    // if nothing else is said
	since  time.Time
	behind uint64 // of the line with this number
	resume bool
}

func (c cursor) first(lines []entry) []entry {
	var found []entry
	for _, e := range lines {
		switch {
		case c.source != "" && e.Source != c.source:
		case c.resume && e.seq <= c.behind:
		case e.At.Before(c.since):
		default:
			found = append(found, e)
		}
	}
	if !c.resume && c.since.IsZero() && len(found) > c.tail {
		found = found[len(found)-c.tail:]
	}
	return found
}

// parseCursor reads the parameters of a request for logs.
func parseCursor(r *http.Request) (c cursor, problems []string) {
	c.tail = 100
	q := r.URL.Query()
	switch c.source = q.Get("source"); c.source {
	case "", "container", "system":
	default:
		problems = append(problems, "query.source: value must be one of 'container', 'system'")
	}
	if v := q.Get("tail"); v != "" {
		n, err := strconv.Atoi(v)
		switch {
		case err != nil:
			problems = append(problems, "query.tail: got string, want integer")
		case n < 0:
			problems = append(problems, fmt.Sprintf("query.tail: minimum: got %d, want 0", n))
		case n > 5000:
			problems = append(problems, fmt.Sprintf("query.tail: maximum: got %s, want 5,000", v))
		}
		c.tail = n
	}
	since := q.Get("since")
	if last := r.Header.Get("Last-Event-ID"); last != "" {
		at, seq, exact := strings.Cut(last, "/")
		if n, err := strconv.ParseUint(seq, 10, 64); exact && err == nil {
			c.behind, c.resume = n, true
			return c, problems
		}
		since = at
	}
	if since != "" {
		t, err := time.Parse(time.RFC3339Nano, since)
		if err != nil {
			problems = append(problems, fmt.Sprintf("query.since: '%s' is not valid date-time", since))
		}
		c.since = t
	}
	return c, problems
}

// podLogs streams a pod's log. It ends when the client goes, the pod is
// forgotten or the emulator ends; never by itself.
func (e *Emulator) podLogs(c *call) {
	p, ok := e.seen(c)
	if !ok {
		return
	}
	from, problems := parseCursor(c.r)
	if len(problems) > 0 {
		c.invalid(problems...)
		return
	}
	h := c.w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-cache")
	h.Set("Connection", "keep-alive")
	h.Set("X-Accel-Buffering", "no")
	c.w.WriteHeader(http.StatusOK)
	flush := http.NewResponseController(c.w)
	lines, more := p.log.after(0)
	last := uint64(0)
	if len(lines) > 0 {
		last = lines[len(lines)-1].seq
	}
	for lines = from.first(lines); ; lines = from.only(lines) {
		for _, line := range lines {
			fmt.Fprint(c.w, line)
		}
		if err := flush.Flush(); err != nil {
			return
		}
		select {
		case <-more:
		case <-c.r.Context().Done():
			return
		case <-p.forgotten:
			return
		case <-e.closing:
			return
		}
		lines, more = p.log.after(last)
		if len(lines) > 0 {
			last = cmp.Or(lines[len(lines)-1].seq, last)
		}
	}
}

// only returns the new lines of the source that was asked for.
func (c cursor) only(lines []entry) []entry {
	c.resume, c.behind, c.since = true, 0, time.Time{}
	return c.first(lines)
}
