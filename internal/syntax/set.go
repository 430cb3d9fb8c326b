package syntax

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Set applies --set path=value to the tree, before anything is checked,
// so that what a flag says is checked like what the file says. Diagnostics
// about it stand in a source of their own: --set:1:6 is the first --set,
// column 6.
//
// A path is keys joined by dots, with [n] for an entry of a list; in a list whose
// entries have names, a key is the name of one; in the
// matrix, args.<argument>, env.<VARIABLE> and manifest.<path> are one key. The value is YAML.
// Nodes on the way are copied: one that an alias shares with another place is
// changed in this place only.
func Set(root *Node, sets []string, r *Report) *Node {
	src := NewSource("--set", strings.Join(sets, "\n"))
	for i, set := range sets {
		at := Span{Line: i + 1, Col: 1, EndCol: len([]rune(set)) + 1}
		path, value, ok := strings.Cut(set, "=")
		steps, err := splitPath(path)
		switch {
		case !ok:
			r.At(src, at, "set", "%q has no =", set).Expected = "path=value, like load.requests=8"
			continue
		case strings.Contains(set, "\n"):
			r.At(src, at, "set", "a --set is one line")
			continue
		case err != nil:
			r.At(src, at, "set", "%v", err).Expected = "path=value, like load.requests=8 or sinks[0]=csv"
			continue
		}
		if strings.TrimSpace(value) == "" {
			r.At(src, at, "set", "--set %s has no value after =", path).Hint = "--set replaces a value and cannot take a key away; write \"\" for an empty text"
			continue
		}
		n := ParseValue(src, value, i+1, len([]rune(path))+2, r)
		if n == nil {
			continue
		}
		root = put(root, steps, n, setter{r: r, src: src, line: i + 1, path: path})
	}
	return root
}

type setter struct {
	r    *Report
	src  *Source
	line int
	path string // without the value, which may be a secret
}

// A step is one key or one index of a path, with its columns in the argument.
type step struct {
	key      string
	index    int // -1 for a key
	from, to int
}

func splitPath(path string) ([]step, error) {
	var steps []step
	rest, col := path, 1
	for first := true; rest != ""; first = false {
		if strings.HasPrefix(rest, "[") {
			end := strings.IndexByte(rest, ']')
			if end < 0 {
				return nil, fmt.Errorf("%q has a [ without a ]", path)
			}
			i, err := strconv.Atoi(rest[1:end])
			if err != nil || i < 0 {
				return nil, fmt.Errorf("%q is not an index", rest[1:end])
			}
			steps = append(steps, step{index: i, from: col, to: col + end + 1})
			rest, col = rest[end+1:], col+end+1
			continue
		}
		if !first {
			if rest[0] != '.' {
				return nil, fmt.Errorf("%q is not a path", path)
			}
			rest, col = rest[1:], col+1
		}
		end := strings.IndexAny(rest, ".[")
		if len(steps) == 1 && steps[0].key == "matrix" && (strings.HasPrefix(rest, "args.") || strings.HasPrefix(rest, "env.")) {
			end = strings.IndexByte(rest, '[') // the rest is one key
		}
		if len(steps) == 1 && steps[0].key == "matrix" && strings.HasPrefix(rest, "manifest.") {
			end = -1 // as is all of a path into manifests
		}
		if end < 0 {
			end = len(rest)
		}
		if end == 0 {
			return nil, fmt.Errorf("%q has an empty key", path)
		}
		width := len([]rune(rest[:end]))
		steps = append(steps, step{key: rest[:end], index: -1, from: col, to: col + width})
		rest, col = rest[end:], col+width
	}
	if len(steps) == 0 {
		return nil, fmt.Errorf("there is no path before =")
	}
	return steps, nil
}

// put returns a copy of n in which the value at steps is v.
func put(n *Node, steps []step, v *Node, s setter) *Node {
	if len(steps) == 0 {
		return v
	}
	at := steps[0]
	span := Span{Line: s.line, Col: at.from, EndCol: at.to}
	if at.index >= 0 {
		if n == nil || n.Kind != List || at.index >= len(n.Items) {
			d := s.r.At(s.src, span, "set", "--set %s: there is no entry %d to set", s.path, at.index)
			d.Hint = "the plan has no list there; set the whole list, like sinks=[csv]"
			if n != nil && n.Kind == List {
				d.Hint = fmt.Sprintf("the list has %d entries, counted from 0", len(n.Items))
			}
			return n
		}
		out := *n
		out.Items = append([]*Node(nil), n.Items...)
		out.Items[at.index] = put(n.Items[at.index], steps[1:], v, s)
		return &out
	}
	if names := namesOf(n); names != nil {
		at := slices.Index(names, at.key)
		if at < 0 {
			d := s.r.At(s.src, span, "set", "--set %s: no entry of the list has the name %q", s.path, steps[0].key)
			d.Expected = strings.Join(names, ", ")
			d.Nearest = Nearest(steps[0].key, names)
			return n
		}
		out := *n
		out.Items = append([]*Node(nil), n.Items...)
		out.Items[at] = put(n.Items[at], steps[1:], v, s)
		return &out
	}
	out := Node{Kind: Map, Src: s.src, Span: span}
	if n != nil && n.Kind != Null {
		if n.Kind != Map {
			d := s.r.At(s.src, span, "set", "--set %s: there is %s, and no key %q in it", s.path, n.Kind.Name(), at.key)
			d.Hint = "the value stands in line " + strconv.Itoa(n.Line)
			return n
		}
		out = *n
		out.Entries = append([]Entry(nil), n.Entries...)
	}
	for i, e := range out.Entries {
		if e.Key.Text == at.key {
			out.Entries[i].Value = put(e.Value, steps[1:], v, s)
			return &out
		}
	}
	value := put(nil, steps[1:], v, s)
	if value == nil {
		return n // reported
	}
	key := &Node{Kind: String, Src: s.src, Span: span, Text: at.key}
	out.Entries = append(out.Entries, Entry{Key: key, Value: value})
	return &out
}

// namesOf returns the names of the entries of a list, "" for one without; nil if none has
// one.
func namesOf(n *Node) []string {
	if n == nil || n.Kind != List {
		return nil
	}
	names, some := make([]string, len(n.Items)), false
	for i, item := range n.Items {
		if name := item.Get("name"); name != nil && name.Kind == String {
			names[i], some = name.Text, true
		}
	}
	if !some {
		return nil
	}
	return names
}
