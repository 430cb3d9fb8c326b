// Package syntax turns the bytes of a YAML file into a tree whose every node
// knows where it stands, and collects what is wrong with it.
//
// The tree is ours and not goccy/go-yaml's because three things need one that
// is already free of YAML: --set changes it before it is checked, aliases are
// the same node as what they name, and a scalar keeps the text that was
// written. Everything that a hostile file can do to a parser is bounded before
// the parser sees it; see limits.go.
package syntax

import (
	"regexp"
	"strings"
	"unicode/utf8"
)

// Credential matches what looks like a credential wherever it stands.
var Credential = regexp.MustCompile(`\b(sk-[A-Za-z0-9_-]{16,}|hf_[A-Za-z0-9]{16,}|rpa_[A-Za-z0-9]{16,}|gh[pousr]_[A-Za-z0-9]{16,}|AKIA[A-Z0-9]{16})\b|-----BEGIN [A-Z ]*PRIVATE KEY`)

// A Source is a named text that diagnostics point into.
type Source struct {
	Name  string
	lines []string
	masks []mask
	shown map[int]string // by line, see masked
}

type mask struct {
	line, from, to int // columns from 1, to exclusive
}

// NewSource keeps text for snippets.
func NewSource(name, text string) *Source {
	return &Source{Name: name, lines: strings.Split(text, "\n")}
}

// Line returns line n, from 1; "" if there is none.
func (s *Source) Line(n int) string {
	if n < 1 || n > len(s.lines) {
		return ""
	}
	return s.lines[n-1]
}

// Mask keeps the characters of a span out of every snippet.
func (s *Source) Mask(span Span) {
	s.masks = append(s.masks, mask{span.Line, span.Col, span.EndCol})
	delete(s.shown, span.Line)
}

// masked returns a line as a snippet may show it. It is made once: many diagnostics can be
// about one long line.
func (s *Source) masked(n int) string {
	text, ok := s.shown[n]
	if !ok {
		if s.shown == nil {
			s.shown = map[int]string{}
		}
		text = s.mask(n)
		s.shown[n] = text
	}
	return text
}

func (s *Source) mask(n int) string {
	line := []rune(Credential.ReplaceAllStringFunc(s.Line(n), func(c string) string {
		return strings.Repeat("*", utf8.RuneCountInString(c))
	}))
	for i, r := range line {
		if r < ' ' && r != '\t' || r == 0x7f || r >= 0x80 && r < 0xa0 {
			line[i] = '\ufffd' // a terminal must not obey what a file contains
		}
	}
	for _, m := range s.masks {
		if m.line != n {
			continue
		}
		for i := max(m.from-1, 0); i < min(m.to-1, len(line)); i++ {
			line[i] = '*'
		}
	}
	return string(line)
}

// A Span is a stretch of one line, in characters from 1; EndCol is the column
// after the last.
type Span struct{ Line, Col, EndCol int }

// A Kind says what a node is.
type Kind uint8

// The kinds of nodes.
const (
	Null Kind = iota
	Bool
	Int
	Float
	String
	List
	Map
)

// Name returns the kind in words that fit after "found".
func (k Kind) Name() string {
	return [...]string{"nothing", "true or false", "a whole number", "a number", "text", "a list", "a mapping"}[k]
}

// A Node is one value of the file. Nodes may be shared: an alias is the node
// that its anchor names.
type Node struct {
	Kind Kind
	Src  *Source
	Span

	Text    string // scalars: the value, as text
	Quoted  bool   // String: written in quotes
	Block   bool   // String: written as a block (| or >)
	Broken  bool   // its error was reported: no other is reported for it
	Items   []*Node
	Entries []Entry

	size int // nodes under this one, aliases counted in full
}

// An Entry is one key and its value.
type Entry struct{ Key, Value *Node }

// Get returns the value of a key of a mapping, or nil. A nil node has none.
func (n *Node) Get(key string) *Node {
	if n == nil {
		return nil
	}
	for _, e := range n.Entries {
		if e.Key.Text == key {
			return e.Value
		}
	}
	return nil
}

// At follows keys from n, and returns the last node that exists on the way:
// the place to point at for something that may be missing. ok says whether the
// whole way exists.
func (n *Node) At(keys ...string) (at *Node, ok bool) {
	for _, k := range keys {
		next := n.Get(k)
		if next == nil {
			return n, false
		}
		n = next
	}
	return n, true
}

// Key returns the node of a key, for a diagnostic about the key itself.
func (n *Node) Key(key string) *Node {
	for _, e := range n.Entries {
		if e.Key.Text == key {
			return e.Key
		}
	}
	return n
}

// Literal returns a text that stands in no file: an argument of a flag.
func Literal(name, text string) *Node {
	src := NewSource(name, text)
	return &Node{Kind: String, Src: src, Span: Span{1, 1, len([]rune(text)) + 1}, Text: text, size: 1}
}
