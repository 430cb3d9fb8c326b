// Package failure says why a server ended, from its log and from the way it ended.
// The texts of a log are mapped to classes by data: failures.yaml for all engines, and
// each engine's own profile.
package failure

import (
	_ "embed"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/goccy/go-yaml"
)

// Classes of a server's end that no text in its log stands for.
const (
	ClassExit       = "exit"        // it ended by itself, with any status
	ClassSignal     = "signal"      // a signal of unknown origin ended it
	ClassOOMHost    = "oom.host"    // the machine's memory, not the GPU's
	ClassTimeout    = "timeout"     // it did not get ready in its time
	ClassWrongModel = "wrong_model" // it answers, but with another model
	ClassHang       = "hang"        // it is alive and answers nothing any more
	ClassCrash      = "crash"       // an error of its own: a traceback, a fault
	ClassWrapper    = "wrapper"     // its log says only that something else failed
	ClassUnknown    = "unknown"
)

// An End is what is known of a server's end beside its log.
type End struct {
	Exited    bool   // it ended by itself; Code, Signal and OOMKilled say how
	Code      int    // exit status
	Signal    string // "" if it exited
	OOMKilled bool   // the kernel says that its out-of-memory killer did it
	TimedOut  bool   // it was given up while it started
	Hung      bool   // it was given up after it had served: no token in a request's time
	// WrongModel are the models that it answered with instead of ours; none where
	// that was not the reason.
	WrongModel []string
	// Engine is the server's key under the plan's engines, which Change names.
	Engine string
}

// A Diagnosis is why a server did not start or ended.
type Diagnosis struct {
	Class string // snake_case, with a dot below a family: "oom.max_len"
	Says  string // what is wrong, in one sentence; "" for a class that is not in [Classes]
	Line  string // the line of the log that says so, or the last one; at most 500 bytes
	// Hint is what to try, with the numbers of the line; "" if nothing can be
	// said. At most 500 bytes.
	Hint string
	// Change is what to change in the plan: a key and its new value, as in
	// "engines.vllm.args.max-model-len: 68384", or which way to change it; ""
	// if the plan cannot help. At most 500 bytes.
	Change string
}

// Advice returns all that a person can do with a diagnosis, in one line: what is
// wrong, what to try, and what to change in the plan.
func (d Diagnosis) Advice() string {
	parts := []string{d.Says, d.Hint}
	if d.Change != "" {
		parts = append(parts, "in the plan: "+d.Change)
	}
	return strings.Join(slices.DeleteFunc(parts, func(s string) bool { return s == "" }), "; ")
}

// A Class is one kind of failure.
type Class struct {
	Name string `yaml:"class"`
	Says string `yaml:"says"` // what is wrong, in one sentence without its full stop
}

// Classes returns the classes that [Classify] gives for the built-in engines. A profile
// of one's own may have further ones.
func Classes() []Class { return slices.Clone(common().classes) }

//go:embed failures.yaml
var failuresYAML []byte

// A Text maps a text in a server's log to the class of its end.
type Text struct {
	Class string `yaml:"class" doc:"Class of the end."`
	Match string `yaml:"match" doc:"Regular expression over one line of the log, whatever the case."` // regular expression over one line, case-insensitive
	// Hint says what to try; ${1} or ${name} stands for a group of Match.
	Hint string `yaml:"hint,omitempty" doc:"What to try; ${1} or ${name} is a group of match."`
	// Change says what to change in the plan, with groups like Hint; ${engine}
	// stands for the engine's key there: "${engine}.args.max-model-len: ${1}".
	Change string `yaml:"change,omitempty" doc:"What to change in the plan, with groups like hint."`
	// Wrapper: this text only wraps the cause, which stands further up; it
	// counts if nothing else matches.
	Wrapper bool `yaml:"wrapper,omitempty" doc:"It only wraps the cause and counts if nothing else matches." default:"false"`
}

// A table is what holds for every engine.
type table struct {
	classes  []Class
	harmless []pattern
	patterns []pattern
}

func (t *table) says(class string) string {
	for _, c := range t.classes {
		if c.Name == class {
			return c.Says
		}
	}
	return ""
}

// common is part of the program: a table that does not parse is a bug.
var common = sync.OnceValue(func() *table {
	var file struct {
		Classes  []Class
		Harmless []string
		Failures []Text
	}
	if err := yaml.UnmarshalWithOptions(failuresYAML, &file, yaml.Strict()); err != nil {
		panic(fmt.Sprintf("failure: failures.yaml: %v", err))
	}
	var harmless []Text
	for _, text := range file.Harmless {
		harmless = append(harmless, Text{Match: text})
	}
	return &table{classes: file.Classes, harmless: compile(harmless), patterns: compile(file.Failures)}
})

// Classify says why a server ended, from the tail of its log (at least 250
// lines of it, see [TailLines]) and from how it ended. What the kernel or a
// wrong answer states is believed first; then the table is gone through in its
// order, the engine's own entries before the common ones, each over the whole
// tail; then comes an exception that no entry knows; then wrappers; then the
// bare way of the end.
func Classify(own []Text, tail []string, end End) Diagnosis {
	t := common()
	d := t.classify(own, tail, end)
	d.Says = t.says(d.Class)
	return d
}

func (t *table) classify(own []Text, tail []string, end End) Diagnosis {
	lines := t.telling(tail)
	last := lastLine(lines)
	key := "engines." + end.Engine
	switch {
	case end.OOMKilled:
		return Diagnosis{
			Class: ClassOOMHost, Line: last, Hint: "the kernel killed the server for the memory that it used",
			Change: "take a smaller model, or raise backend.memory",
		}
	case len(end.WrongModel) > 0:
		names, choice := strings.Join(end.WrongModel, ", "), ""
		if len(end.WrongModel) > 1 {
			choice = "one of "
		}
		return Diagnosis{
			Class: ClassWrongModel, Line: last,
			Hint:   fmt.Sprintf("the server answers as %q; set served_model_name if that is the right model, to any for a router", shorten(names)),
			Change: shorten(key + ".served_model_name: " + choice + names),
		}
	}
	patterns := slices.Concat(compile(own), t.patterns)
	if d, by := search(patterns, false, lines, key); by != nil {
		return d
	}
	if line, ok := exception(patterns, lines); ok {
		return Diagnosis{Class: ClassCrash, Line: shorten(line), Hint: "its traceback stands in the log"}
	}
	if d, by := search(patterns, true, lines, key); by != nil {
		return d
	}
	return end.diagnosis(last, key)
}

// frame is one level of a Python traceback; the line of source below it holds
// the text of an error with its gaps.
var frame = regexp.MustCompile(`^(.*?) {2}File ".+", line \d+`)

// telling returns the lines of a tail that can explain an end, without colours.
func (t *table) telling(tail []string) []string {
	lines := make([]string, 0, len(tail))
	var source string // with what a line of source begins
	for _, l := range tail {
		l = clean(l)
		below := source != "" && strings.HasPrefix(l, source)
		source = ""
		if strings.Contains(l, `  File "`) {
			if m := frame.FindStringSubmatch(l); m != nil {
				source = m[1] + "    "
			}
		}
		lower := strings.ToLower(l)
		harmless := slices.ContainsFunc(t.harmless, func(p pattern) bool { return p.find(l, lower) != nil })
		if !below && !harmless {
			lines = append(lines, l)
		}
	}
	return lines
}

// diagnosis returns what the way of the end says by itself.
func (e End) diagnosis(last, key string) Diagnosis {
	switch {
	case e.Hung:
		return Diagnosis{
			Class: ClassHang, Line: last, Hint: "no token came within a request's deadline",
			Change: "raise timeouts.request if an answer may take that long",
		}
	case e.TimedOut:
		return Diagnosis{
			Class: ClassTimeout, Line: last, Hint: "see in the log what it waits for",
			Change: "raise timeouts.ready if it only needs longer",
		}
	case slices.Contains(faults, e.Signal):
		return Diagnosis{Class: ClassCrash, Line: last, Hint: "signal: " + e.Signal}
	case e.Signal == "bus error": // of a mapping that cannot be filled
		return Diagnosis{
			Class: "shm", Line: last, Hint: "signal: bus error; give the container more shared memory",
			Change: "raise backend.shm_size",
		}
	case e.Signal == "illegal instruction":
		return Diagnosis{
			Class: "driver", Line: last, Hint: "signal: illegal instruction; this build is for another processor",
			Change: "set " + key + ".image or " + key + ".command to a build for this processor",
		}
	case e.Signal != "":
		return Diagnosis{Class: ClassSignal, Line: last, Hint: "signal: " + e.Signal}
	case e.Exited:
		return Diagnosis{Class: ClassExit, Line: last, Hint: fmt.Sprintf("exit status %d", e.Code)}
	}
	return Diagnosis{Class: ClassUnknown, Line: last}
}

// faults are the signals by which a program ends itself, in the words of
// [syscall.Signal].
var faults = []string{"segmentation fault", "aborted", "floating point exception", "trace/breakpoint trap", "bad system call"}

// search goes through the patterns in their order, and returns the one that
// matches; key stands for ${engine}.
func search(patterns []pattern, wrappers bool, lines []string, key string) (Diagnosis, *Text) {
	lower := make([]string, len(lines))
	for i, line := range lines {
		lower[i] = strings.ToLower(line)
	}
	for _, p := range patterns {
		if p.Wrapper != wrappers {
			continue
		}
		for i, line := range lines {
			m := p.find(line, lower[i])
			if m == nil {
				continue
			}
			expand := func(template string) string {
				template = strings.ReplaceAll(template, "${engine}", strings.ReplaceAll(key, "$", "$$"))
				return shorten(string(p.re.ExpandString(nil, template, line, m)))
			}
			return Diagnosis{Class: p.Class, Line: shorten(line), Hint: expand(p.Hint), Change: expand(p.Change)}, &p.Text
		}
	}
	return Diagnosis{}, nil
}

// raised is the last line of a Python traceback, behind whatever a logger or a
// container's runtime writes before it.
var raised = regexp.MustCompile(`^(?:.*[\])|\dZF:]\s+)??(?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:Error|Exception|Failure|Exit)(?::\s|$)`)

// exception finds the first exception that was raised in the log, since those
// after it are its consequences. Wrappers and the ways to end on request are
// none.
func exception(patterns []pattern, lines []string) (string, bool) {
	traceback := false
	for _, line := range lines {
		if strings.Contains(line, "Traceback (most recent call last)") {
			traceback = true
			continue
		}
		if !traceback || !raised.MatchString(line) || strings.Contains(line, "CancelledError") || strings.Contains(line, "SystemExit") {
			continue
		}
		lower := strings.ToLower(line)
		if !slices.ContainsFunc(patterns, func(p pattern) bool { return p.Wrapper && p.find(line, lower) != nil }) {
			return line, true
		}
	}
	return "", false
}
