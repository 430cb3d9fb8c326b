package failure

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"sweep.dev/sweep/internal/lines"
)

// TailLines is how much of a log Classify should see: the root cause often
// stands more than forty lines above the last traceback.
const TailLines = 400

// maxLine bounds one line of a log, in bytes. Lines are cut, not split.
const maxLine = 8 << 10

// Tail returns the last n lines that r has, in memory bounded by n. Lines
// longer than 8 KiB are cut. The lines read are valid beside an error.
func Tail(r io.Reader, n int) ([]string, error) {
	if n <= 0 {
		return nil, nil
	}
	ring := make([]string, 0, n)
	next := 0
	add := func(line []byte) {
		s := strings.TrimSuffix(strings.TrimSuffix(string(line), "\n"), "\r")
		if len(ring) < n {
			ring = append(ring, s)
			return
		}
		ring[next] = s
		next = (next + 1) % n
	}
	in := lines.NewReader(r, maxLine)
	for line, ok := in.Next(); ok; line, ok = in.Next() {
		if !in.Rest {
			add(line)
		}
	}
	out := append(append([]string(nil), ring[next:]...), ring[:next]...)
	if err := in.Err(); err != nil {
		return out, fmt.Errorf("read log: %w", err)
	}
	return out, nil
}

func clean(line string) string {
	if len(line) > maxLine {
		line = line[:maxLine]
	}
	if strings.Contains(line, "\x1b") {
		line = string(lines.Uncoloured([]byte(line)))
	}
	return strings.TrimRight(line, " \t\r\n")
}

func lastLine(lines []string) string {
	for _, line := range slices.Backward(lines) {
		if strings.TrimSpace(line) != "" {
			return shorten(line)
		}
	}
	return ""
}

// shorten bounds a line that goes into a table, and keeps it valid UTF-8.
func shorten(line string) string {
	const limit = 500
	line = strings.ToValidUTF8(strings.TrimSpace(line), "\uFFFD")
	if len(line) <= limit {
		return line
	}
	cut := limit - len("…")
	for cut > 0 && !utf8.RuneStart(line[cut]) {
		cut--
	}
	return line[:cut] + "…"
}
