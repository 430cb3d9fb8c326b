package dialect

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// A Flag is one of an engine's own and what it is to the simulator.
type Flag struct {
	Names []string // without dashes before them, words joined by dashes
	Value bool     // it takes one
	// To is the simulator's flag that it becomes; "" is none: it is taken and
	// has no effect.
	To string
	// As is the value of To that the flag stands for, where it takes none.
	As string
}

// flags reads a table: the names of a flag, = behind them where it takes a
// value, and what it becomes.
//
//	tp-size,tp=      tensor-parallel-size
//	disable-cache    enable-prefix-caching=false
//	revision=
func flags(table string) []Flag {
	var list []Flag
	for line := range strings.Lines(table) {
		fields := strings.Fields(line)
		if len(fields) == 0 {
			continue
		}
		names, value := strings.CutSuffix(fields[0], "=")
		f := Flag{Names: strings.Split(names, ","), Value: value}
		if len(fields) > 1 {
			f.To, f.As, _ = strings.Cut(fields[1], "=")
		}
		list = append(list, f)
	}
	return list
}

// Lookup finds a flag by one of its names.
func (d *Dialect) Lookup(name string) (Flag, bool) {
	i := slices.IndexFunc(d.Flags, func(f Flag) bool { return slices.Contains(f.Names, name) })
	if i < 0 {
		return Flag{}, false
	}
	return d.Flags[i], true
}

// Usage is how an engine complains of its command line.
type Usage struct {
	Head    string // before the complaint
	Unknown string // with the unknown arguments
	First   bool   // it names only the first of them
	Missing string // with the name of a flag that lacks its value
	Status  int    // of its exit
}

// Complain words unknown arguments.
func (u *Usage) Complain(unknown []string) string {
	if u.First {
		unknown = unknown[:1]
	}
	return u.Head + fmt.Sprintf(u.Unknown, strings.Join(unknown, " "))
}

// argparse is Python's.
func argparse(prog string) Usage {
	return Usage{
		Head:    "usage: " + prog + " [-h] --model-path MODEL_PATH [--host HOST] [--port PORT] ...\n" + prog + ": ",
		Unknown: "error: unrecognized arguments: %s", Missing: "error: argument --%s: expected one argument", Status: 2,
	}
}

// ParseConfig reads the file of settings that trtllm-serve takes: YAML, of
// which JSON and block mappings of scalars are understood here. The keys of
// the result are joined by dots.
func ParseConfig(src []byte) (map[string]string, error) {
	out := make(map[string]string)
	var doc map[string]any
	if json.Unmarshal(src, &doc) == nil {
		flatten(out, "", doc)
		return out, nil
	}
	type level struct {
		indent int
		prefix string
	}
	open := []level{{indent: -1}}
	for n, line := range strings.Split(string(src), "\n") {
		if i := strings.Index(line, " #"); i >= 0 {
			line = line[:i]
		}
		text := strings.TrimSpace(line)
		if text == "" || text[0] == '#' || text == "---" {
			continue
		}
		indent := len(line) - len(strings.TrimLeft(line, " "))
		for len(open) > 1 && indent <= open[len(open)-1].indent {
			open = open[:len(open)-1]
		}
		key, value, ok := strings.Cut(text, ":")
		if !ok || strings.HasPrefix(text, "- ") {
			return nil, fmt.Errorf("line %d: only mappings are understood here", n+1)
		}
		key, value = open[len(open)-1].prefix+strings.Trim(key, `"'`), strings.TrimSpace(value)
		var inner map[string]any
		switch {
		case value == "":
			open = append(open, level{indent, key + "."})
		case json.Unmarshal([]byte(value), &inner) == nil:
			flatten(out, key+".", inner)
		default:
			out[key] = strings.Trim(value, `"'`)
		}
	}
	return out, nil
}

func flatten(out map[string]string, prefix string, m map[string]any) {
	for k, v := range m {
		switch v := v.(type) {
		case map[string]any:
			flatten(out, prefix+k+".", v)
		case float64:
			out[prefix+k] = strconv.FormatFloat(v, 'f', -1, 64)
		default:
			out[prefix+k] = fmt.Sprint(v)
		}
	}
}

// Becomes returns the simulator's argument for a flag with this value.
func (f Flag) Becomes(value string) string {
	switch {
	case f.To == "max-num-batched-tokens" && strings.HasPrefix(value, "-"):
		return "-enable-chunked-prefill=false" // -1 switches the chunks off
	case f.To == "kv-cache-dtype" && strings.HasPrefix(value, "fp8"):
		value = "fp8"
	}
	return "-" + f.To + "=" + value
}

// Config returns the simulator's flag for a key of the file of settings.
func (d *Dialect) Config(key string) (Flag, bool) {
	to, ok := d.Settings[key]
	return Flag{To: to}, ok
}

// Settings are the server settings from an engine's flags.
type Settings struct {
	Metrics     bool // there are metrics
	Iterations  bool // there are statistics of single steps
	Queue       int  // requests that may wait; 0 is no bound
	Concurrent  int  // requests at once; 0 is no bound
	InputTokens int  // of one request; 0 is no bound
	Ping        int  // seconds between comments in a silent stream; 0 is never
}
