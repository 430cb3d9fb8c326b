package engine

import (
	"bufio"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
)

// Classes of a server's end that no text in its log stands for.
const (
	ClassExit       = "exit"        // it ended by itself, with any status
	ClassSignal     = "signal"      // a signal of unknown origin ended it
	ClassOOMHost    = "oom.host"    // the machine's memory, not the GPU's
	ClassTimeout    = "timeout"     // it did not get ready in its time
	ClassWrongModel = "wrong_model" // it answers, but with another model
	ClassUnknown    = "unknown"
)

// TailLines is how much of a log Classify should see: the root cause often
// stands more than forty lines above the last traceback.
const TailLines = 400

// maxLine bounds one line of a log, in bytes. Lines are cut, not split.
const maxLine = 8 << 10

// An End is what is known of a server's end beside its log.
type End struct {
	Exited    bool   // it ended by itself; Code, Signal and OOMKilled say how
	Code      int    // exit status
	Signal    string // "" where it exited
	OOMKilled bool   // the kernel says that its out-of-memory killer did it
	TimedOut  bool   // it was given up while it started
	// WrongModel is the model that it answered with instead of ours; "" where
	// that was not the reason.
	WrongModel string
}

// A Diagnosis is why a server did not start or ended.
type Diagnosis struct {
	Class string // snake_case, with a dot below a family: "oom.max_len"
	Line  string // the line of the log that says so, or the last one; at most 500 bytes
	Hint  string // what to try, "" where nothing can be said
}

//go:embed failures.yaml
var failuresYAML []byte

type pattern struct {
	Failure
	re *regexp.Regexp
}

// common is the table that holds for every engine. It is part of the program.
var common = sync.OnceValue(func() []pattern {
	var list []Failure
	if err := yaml.UnmarshalWithOptions(failuresYAML, &list, yaml.Strict()); err != nil {
		panic(fmt.Sprintf("engine: failures.yaml: %v", err))
	}
	return compile(list)
})

func compile(list []Failure) []pattern {
	out := make([]pattern, 0, len(list))
	for _, f := range list {
		out = append(out, pattern{f, regexp.MustCompile("(?i)" + f.Match)})
	}
	return out
}

// Classify says why a server ended, from the tail of its log (at least 250
// lines of it, see [TailLines]) and from how it ended. What the kernel or a
// wrong answer states is believed first; then the table is gone through in its
// order, the profile's own entries before the common ones, each over the whole
// tail; then wrappers; then the bare way of the end.
func (p *Profile) Classify(tail []string, end End) Diagnosis {
	lines := make([]string, len(tail))
	for i, l := range tail {
		lines[i] = clean(l)
	}
	last := lastLine(lines)
	switch {
	case end.OOMKilled:
		return Diagnosis{ClassOOMHost, last, "the kernel killed the server because the machine's memory, or the container's, was used up"}
	case end.WrongModel != "":
		return Diagnosis{ClassWrongModel, last, fmt.Sprintf("the server answers as %q; set served_model_name if that is the right model", shorten(end.WrongModel))}
	}
	patterns := append(compile(p.Failures), common()...)
	for _, wrappers := range []bool{false, true} {
		if d, ok := search(patterns, wrappers, lines); ok {
			return d
		}
	}
	switch {
	case end.TimedOut:
		return Diagnosis{ClassTimeout, last, "raise timeouts.ready, or see in the log what it waits for"}
	case end.Signal != "":
		return Diagnosis{ClassSignal, last, "signal: " + end.Signal}
	case end.Exited:
		return Diagnosis{ClassExit, last, fmt.Sprintf("exit status %d", end.Code)}
	default:
		return Diagnosis{ClassUnknown, last, ""}
	}
}

func search(patterns []pattern, wrappers bool, lines []string) (Diagnosis, bool) {
	for _, p := range patterns {
		if p.Wrapper != wrappers {
			continue
		}
		for _, line := range lines {
			m := p.re.FindStringSubmatchIndex(line)
			if m == nil {
				continue
			}
			hint := p.re.ExpandString(nil, p.Hint, line, m)
			return Diagnosis{p.Class, shorten(line), string(hint)}, true
		}
	}
	return Diagnosis{}, false
}

// Tail returns the last n lines that r has, in memory bounded by n. Lines
// longer than 8 KiB are cut. The lines read are valid beside an error.
func Tail(r io.Reader, n int) ([]string, error) {
	if n <= 0 {
		return nil, nil
	}
	br := bufio.NewReaderSize(r, maxLine)
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
	var err error
	rest := false // of a line that was cut
	for err == nil {
		var line []byte
		line, err = br.ReadSlice('\n')
		full := errors.Is(err, bufio.ErrBufferFull)
		if full {
			err = nil
		}
		if len(line) > 0 && !rest {
			add(line)
		}
		rest = full
	}
	out := append(append([]string(nil), ring[next:]...), ring[:next]...)
	if errors.Is(err, io.EOF) {
		return out, nil
	}
	return out, fmt.Errorf("read log: %w", err)
}

// escapes are the sequences that colour a log, which would break up its words.
var escapes = regexp.MustCompile(`\x1b\[[0-9;?]*[ -/]*[@-~]`)

func clean(line string) string {
	if len(line) > maxLine {
		line = line[:maxLine]
	}
	return strings.TrimRight(escapes.ReplaceAllString(line, ""), " \t\r\n")
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
