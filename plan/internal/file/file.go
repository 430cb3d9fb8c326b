// Package file is a plan's file while it is read: where its keys stand, and what
// is wrong with them.
package file

import (
	"slices"
	"strings"

	"sweep.dev/sweep/internal/syntax"
)

// A File is the tree of a plan's file with what is reported of it.
type File struct {
	Root   *syntax.Node
	Report *syntax.Report
	// Mistyped holds the paths of keys that unknown ones were most likely meant to
	// be. They are not also reported as missing.
	Mistyped map[string]bool
}

// Path returns keys as a list.
func Path(keys ...string) []string { return keys }

// Has reports whether the file sets a key.
func (f *File) Has(keys ...string) bool {
	_, ok := f.Root.At(keys...)
	return ok
}

// At returns the node at keys, or the nearest one above it that there is.
func (f *File) At(keys ...string) *syntax.Node {
	n, _ := f.Root.At(keys...)
	if n == f.Root && len(n.Entries) > 0 {
		// Nothing of it is there: point at the start of the file.
		return &syntax.Node{Src: n.Src, Span: syntax.Span{Line: 1, Col: 1, EndCol: 2}}
	}
	return n
}

// Key returns the key of a section, for what is wrong with the section as a whole.
func (f *File) Key(keys ...string) *syntax.Node {
	parent, ok := f.Root.At(keys[:len(keys)-1]...)
	if !ok || parent.Get(keys[len(keys)-1]) == nil {
		return f.At(keys...)
	}
	return parent.Key(keys[len(keys)-1])
}

// Values returns the values of an axis in the matrix and in its include.
func (f *File) Values(axis string) []*syntax.Node {
	n := f.Root.Get("matrix").Get(axis)
	var out []*syntax.Node
	switch {
	case n == nil:
	case n.Kind == syntax.List:
		out = append(out, n.Items...)
	default:
		out = append(out, n)
	}
	for _, item := range f.Included() {
		if v := item.Get(axis); v != nil {
			out = append(out, v)
		}
	}
	return out
}

// Included returns the cells of matrix.include.
func (f *File) Included() []*syntax.Node {
	n := f.Root.Get("matrix").Get("include")
	if n == nil || n.Kind != syntax.List {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(n.Items), func(n *syntax.Node) bool { return n.Kind != syntax.Map })
}

// Objective returns where the expression of an objective stands; nil for none.
func (f *File) Objective(name string) *syntax.Node {
	n := f.Root.Get("slo").Get(name)
	if n == nil {
		n = f.Root.Get("find").Get("objectives").Get(name)
	}
	if n != nil && n.Kind == syntax.Map {
		return n.Get("expr")
	}
	return n
}

// Missing reports a key that is not there, at the section where it should be.
func (f *File) Missing(what, expected string, keys ...string) {
	if !f.Mistyped[strings.Join(keys, ".")] {
		f.Report.Node(f.Key(keys...), "missing", "%s", what).Expected = expected
	}
}

// Ignored reports a key that would have no effect.
func (f *File) Ignored(why, hint string, keys ...string) {
	d := f.Report.Node(f.Key(keys...), "no-effect", "%s has no effect: %s", strings.Join(keys, "."), why)
	d.Hint = hint
}

// Conflict reports two keys that cannot both be meant.
func (f *File) Conflict(hint string, keys []string, format string, args ...any) {
	f.Report.Node(f.Key(keys...), "conflict", format, args...).Hint = hint
}

// Texts returns the entries of a list of texts; what else stands there was reported.
func Texts(n *syntax.Node) []*syntax.Node {
	if n == nil || n.Kind != syntax.List {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(n.Items), func(n *syntax.Node) bool { return n.Kind != syntax.String || n.Text == "" })
}

// Entries returns those of a mapping; nil if n is none.
func Entries(n *syntax.Node) []syntax.Entry {
	if n == nil || n.Kind != syntax.Map {
		return nil
	}
	return n.Entries
}
