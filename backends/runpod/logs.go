package runpod

import (
	"context"
	"errors"
	"io"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"

	"sweep.dev/sweep/backends/runpodapi"
)

// Bounds of a log stream.
const (
	systemLines = 500
	systemTime  = 3 * time.Second        // the stream never ends by itself
	systemQuiet = 500 * time.Millisecond // after a line: that was what there is
)

// systemLog returns the end of what the host says of a pod, as far as it is to be
// had quickly.
func (b *Backend) systemLog(ctx context.Context, id string) (lines []string) {
	ctx, cancel := context.WithTimeout(ctx, systemTime)
	defer cancel()
	quiet := time.AfterFunc(systemTime, cancel)
	defer quiet.Stop()
	last := ""
	query := url.Values{"source": {"system"}, "tail": {strconv.Itoa(systemLines)}}
	// It ends with our time, and what was read until then is all there is.
	_ = b.client.Stream(ctx, id, query, &last, func(e runpodapi.LogLine) {
		lines = append(lines, e.Line)
		quiet.Reset(systemQuiet)
	})
	return lines
}

var digestLine = regexp.MustCompile(`Digest: (sha256:[0-9a-f]{64})`)

// imageDigest finds which image a host has pulled; "" if it does not say.
func imageDigest(lines []string) string {
	for _, line := range lines {
		if m := digestLine.FindStringSubmatch(line); m != nil {
			return m[1]
		}
	}
	return ""
}

// readLog writes the container's log to w until the engine's end stands in it or
// ctx ends, opening the stream again where it breaks.
func (r *remote) readLog(ctx context.Context, n int, w io.Writer) (end error) {
	reading, stop := context.WithCancel(ctx)
	defer stop()
	query := url.Values{"source": {"container"}, "tail": {"5000"}}
	last := ""
	for try := 0; ; try++ {
		err := r.b.client.Stream(reading, r.id, query, &last, func(e runpodapi.LogLine) {
			try = 0
			text := strings.TrimRight(e.Line, "\r\n")
			if !r.several() {
				r.hosts[n].first.Do(func() { close(r.hosts[n].logged) })
				_, _ = io.WriteString(w, text+"\n")
			}
			if err := r.line(n, text); err != nil && end == nil {
				end = err
				time.AfterFunc(lastLines/4, stop)
			}
		})
		if end != nil || errors.Is(err, context.Canceled) || runpodapi.Sleep(ctx, runpodapi.Backoff(try)) != nil {
			return end
		}
	}
}
