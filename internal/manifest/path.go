package manifest

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"sweep.dev/sweep/internal/syntax"
)

// A Target is a place in an object that takes a value.
type Target struct {
	Object *Object
	steps  []step
	at     *syntax.Node // nil if nothing is there yet
}

// A step is a key of a mapping or a place in a list.
type step struct {
	key   string
	index int
}

// An Unknown is a path that leads nowhere.
type Unknown struct {
	Text    string
	Nearest string   // the whole path that was probably meant, "" for none
	Known   []string // what may stand where the path fails
}

func (e *Unknown) Error() string { return e.Text }

// Find follows a path: KIND/NAME and a dot, which may be left out if there is one object
// alone, then keys joined by dots, with [n] for an entry of a list and ["key"] for a key
// with dots in it. In a list whose entries have names, a key is the name of one. All but
// the last step must be there. The error is an *Unknown.
func (s *Set) Find(path string) (*Target, error) {
	o, rest, err := s.selected(path)
	if err != nil {
		return nil, err
	}
	before := path[:len(path)-len(rest)]
	words, err := split(rest)
	if err != nil {
		return nil, &Unknown{Text: fmt.Sprintf("%q is no path: %v", path, err)}
	}
	t, n := &Target{Object: o}, o.root
	for i, w := range words {
		st, next, known := enter(n, w)
		last := i == len(words)-1
		if next == nil && st != nil && last && near(w.key, known) == "" {
			t.steps = append(t.steps, *st) // is made
			return t, nil
		}
		if next == nil {
			return nil, missing(o, n, before, words, i, known)
		}
		t.steps, n = append(t.steps, *st), next
	}
	t.at = n
	return t, nil
}

// selected returns the object that a path begins with, and the rest of the path.
func (s *Set) selected(path string) (*Object, string, error) {
	var names []string
	for _, o := range s.Objects {
		names = append(names, o.String())
		if rest, ok := strings.CutPrefix(path, o.String()+"."); ok {
			return o, rest, nil
		}
	}
	head, _, slash := strings.Cut(path, "/")
	switch {
	case slash && !strings.ContainsAny(head, ".["):
		wrong := path
		if i := strings.IndexByte(path, '.'); i > 0 {
			wrong = path[:i]
		}
		e := &Unknown{Text: fmt.Sprintf("there is no object %s", wrong), Known: names}
		if near := syntax.Nearest(wrong, names); near != "" {
			e.Nearest = near + path[len(wrong):]
		}
		return nil, "", e
	case len(s.Objects) == 1:
		return s.Objects[0], path, nil
	}
	e := &Unknown{Text: fmt.Sprintf("there are %d objects: say which, like manifest.KIND/NAME.%s", len(s.Objects), path), Known: names}
	for _, o := range s.Objects {
		if t, err := (&Set{Objects: []*Object{o}}).Find(path); err == nil && t.at != nil {
			e.Nearest = o.String() + "." + path
			break
		}
	}
	return nil, "", e
}

// A word is one part of a path as it is written.
type word struct {
	key   string
	index int // -1 for a key
	text  string
}

// split divides a path into its words.
func split(path string) (words []word, err error) {
	for rest := path; rest != ""; {
		if len(words) > 0 && rest[0] == '.' {
			if rest = rest[1:]; rest == "" || rest[0] == '[' {
				return nil, errors.New("a key is empty")
			}
		} else if len(words) > 0 && rest[0] != '[' {
			return nil, errors.New("a ] is followed by a dot or a [")
		}
		if rest[0] != '[' {
			end := strings.IndexAny(rest, ".[")
			if end < 0 {
				end = len(rest)
			}
			if end == 0 {
				return nil, errors.New("a key is empty")
			}
			words, rest = append(words, word{key: rest[:end], index: -1, text: rest[:end]}), rest[end:]
			continue
		}
		if key, ok := strings.CutPrefix(rest, `["`); ok {
			key, after, closed := strings.Cut(key, `"]`)
			if !closed || key == "" {
				return nil, errors.New(`[" without "]`)
			}
			words, rest = append(words, word{key: key, index: -1, text: `["` + key + `"]`}), after
			continue
		}
		number, after, closed := strings.Cut(rest[1:], "]")
		i, err := strconv.Atoi(number)
		if !closed || err != nil || i < 0 {
			return nil, fmt.Errorf("%q is not an index", number)
		}
		words, rest = append(words, word{index: i, text: "[" + number + "]"}), after
	}
	if len(words) == 0 {
		return nil, errors.New("it is empty")
	}
	return words, nil
}

// enter follows one word. The step is nil if nothing can be there; next is nil if nothing
// is. known is what is.
func enter(n *syntax.Node, w word) (st *step, next *syntax.Node, known []string) {
	switch {
	case n.Kind == syntax.Map && w.index < 0:
		for _, e := range n.Entries {
			known = append(known, e.Key.Text)
		}
		return &step{key: w.key}, n.Get(w.key), known
	case n.Kind == syntax.List && w.index >= 0:
		if w.index < len(n.Items) {
			return &step{index: w.index}, n.Items[w.index], nil
		}
		if w.index == len(n.Items) {
			return &step{index: w.index}, nil, nil
		}
	case n.Kind == syntax.List:
		for i, item := range n.Items {
			name := item.Get("name")
			if name != nil && name.Text == w.key {
				return &step{index: i}, item, nil
			}
			if name != nil {
				known = append(known, name.Text)
			}
		}
	}
	return nil, nil, known
}

// near returns a name of known that is at most two slips away from a name.
func near(name string, known []string) string {
	if n := syntax.Nearest(name, known); n != "" && syntax.Distance(name, n) <= 2 {
		return n
	}
	return ""
}

// missing returns the error of a path whose word i is not in n.
func missing(o *Object, n *syntax.Node, before string, words []word, i int, known []string) *Unknown {
	way := o.String() + " has no " + join(words[:i+1])
	e := &Unknown{Text: way, Known: known}
	switch {
	case n.Kind == syntax.List && words[i].index >= 0:
		e.Text = fmt.Sprintf("%s: the list has %d entries, counted from 0", way, len(n.Items))
	case n.Kind == syntax.List && len(known) == 0:
		e.Text = fmt.Sprintf("%s: there is a list, whose entries are [0] and on", way)
	case n.Kind != syntax.Map && n.Kind != syntax.List:
		e.Text = fmt.Sprintf("%s: there is %s", way, n.Kind.Name())
	}
	if name := syntax.Nearest(words[i].key, known); name != "" && words[i].index < 0 {
		other := slices.Clone(words)
		other[i] = word{key: name, index: -1, text: name}
		if strings.ContainsAny(name, ".[") {
			other[i].text = `["` + name + `"]`
		}
		e.Nearest = before + join(other)
	}
	return e
}

func join(words []word) string {
	var b strings.Builder
	for i, w := range words {
		if i > 0 && w.text[0] != '[' {
			b.WriteByte('.')
		}
		b.WriteString(w.text)
	}
	return b.String()
}

// Fit returns a value of an axis as it stands at the target: a number in the place of text is
// written as text. An error says what is there instead.
func (t *Target) Fit(v any) (any, error) {
	if t.at == nil {
		return v, nil
	}
	_, isText := v.(string)
	_, isBool := v.(bool)
	_, isInt := v.(int64)
	ok := true
	switch t.at.Kind {
	case syntax.String:
		return fmt.Sprint(v), nil
	case syntax.Bool:
		ok = isBool
	case syntax.Int:
		ok = isInt
	case syntax.Float:
		ok = !isText && !isBool
	case syntax.List, syntax.Map:
		ok = false
	}
	if !ok {
		return nil, fmt.Errorf("%s has %s there (%s:%d:%d)", t.Object, t.at.Kind.Name(), t.at.Src.Name, t.at.Line, t.at.Col)
	}
	return v, nil
}

// Documents makes all objects with the values of axes, by their paths.
func (s *Set) Documents(values map[string]any) ([]Document, error) {
	at := make(map[*Target]any, len(values))
	for path, v := range values {
		t, err := s.Find(path)
		if err != nil {
			return nil, fmt.Errorf("manifest.%s: %w", path, err)
		}
		if at[t], err = t.Fit(v); err != nil {
			return nil, fmt.Errorf("manifest.%s: %w", path, err)
		}
	}
	docs := make([]Document, 0, len(s.Objects))
	for _, o := range s.Objects {
		docs = append(docs, o.document(at))
	}
	return docs, nil
}
