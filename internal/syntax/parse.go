package syntax

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// Parse reads one YAML document. It returns nil if there is no tree; then,
// and wherever the tree is not to be trusted, r says why.
func Parse(name, text string, r *Report) *Node {
	src, tokens := scan(name, text, r)
	if tokens == nil {
		return nil
	}
	file, err := parse(tokens)
	if err != nil {
		syntaxError(r, src, err)
		return nil
	}
	body := document(r, src, file)
	if body == nil {
		return nil
	}
	root := convert(r, src, body)
	if tooLarge(r, src, root.size) {
		return nil
	}
	return root
}

// ParseStream is Parse for a file of several documents. It leaves out those that are
// empty. The bounds of a file hold for all of them together.
func ParseStream(name, text string, r *Report) []*Node {
	src, tokens := scan(name, text, r)
	var roots []*Node
	size := 0
	for _, part := range documents(tokens) {
		file, err := parse(part)
		if err != nil {
			syntaxError(r, src, err)
			return nil
		}
		body := document(r, src, file)
		if body == nil {
			return nil
		}
		root := convert(r, src, body)
		if size = add(size, root.size); tooLarge(r, src, size) {
			return nil
		}
		roots = append(roots, root)
	}
	if len(roots) == 0 && tokens != nil {
		r.At(src, Span{1, 1, 2}, "empty", "the file is empty")
	}
	return roots
}

// documents divides tokens at the lines between documents. The library's parser would
// leave out all that follows an empty one.
func documents(tokens token.Tokens) (all []token.Tokens) {
	var part token.Tokens
	some := false // of part is more than a comment
	end := func() {
		if some {
			part[0].Prev, part[len(part)-1].Next = nil, nil
			all = append(all, part)
		}
		part, some = nil, false
	}
	for _, tk := range tokens {
		if tk.Type == token.DocumentHeaderType || tk.Type == token.DocumentEndType {
			end()
			continue
		}
		part = append(part, tk)
		some = some || tk.Type != token.CommentType
	}
	end()
	return all
}

func convert(r *Report, src *Source, body ast.Node) *Node {
	c := &converter{r: r, src: src, anchors: make(map[string]*Node)}
	return c.node(body, Span{1, 1, 2})
}

func tooLarge(r *Report, src *Source, size int) bool {
	if size > MaxNodes {
		r.At(src, Span{1, 1, 2}, "too-large", "the file has more than %d values, aliases counted in full", MaxNodes)
	}
	return size > MaxNodes
}

// scan divides a text that is within the bounds into tokens; nil with a report for
// another.
func scan(name, text string, r *Report) (*Source, token.Tokens) {
	// The library counts a CR LF after a comment as two lines.
	text = strings.ReplaceAll(strings.TrimPrefix(text, "\ufeff"), "\r\n", "\n")
	src := NewSource(name, text)
	if !checkBytes(r, src, text) {
		return src, nil
	}
	tokens, err := tokenize(text)
	if err != nil {
		r.At(src, Span{1, 1, 2}, "syntax", "the file is not YAML: %v", err)
		return src, nil
	}
	if bad := tokens.InvalidToken(); bad != nil {
		d := r.At(src, tokenSpan(bad), "syntax", "%s", bad.Error)
		if strings.Contains(bad.Error, "'\t'") {
			d.Hint = "YAML is indented by spaces, never by tabs"
		}
		return src, nil
	}
	if !checkTokens(r, src, tokens) {
		return src, nil
	}
	if tokens == nil {
		tokens = token.Tokens{}
	}
	return src, tokens
}

// tokenize and parse shield us from panics of the library, of which its issue
// tracker has many: a file from a stranger must not end the program.
func tokenize(text string) (t token.Tokens, err error) {
	defer catch(&err)
	return lexer.Tokenize(text), nil
}

func parse(tokens token.Tokens) (f *ast.File, err error) {
	defer catch(&err)
	// Duplicates are found while converting, all of them instead of the first.
	return parser.Parse(tokens, 0, parser.AllowDuplicateMapKey())
}

func catch(err *error) {
	if p := recover(); p != nil {
		*err = fmt.Errorf("the YAML library gave up (%v)", p)
	}
}

func syntaxError(r *Report, src *Source, err error) {
	var se *yaml.SyntaxError
	if !errors.As(err, &se) || se.GetToken() == nil {
		r.At(src, Span{1, 1, 2}, "syntax", "%v", err)
		return
	}
	r.At(src, tokenSpan(se.GetToken()), "syntax", "%s", se.GetMessage())
}

// document returns the one document of a file.
func document(r *Report, src *Source, file *ast.File) ast.Node {
	var body ast.Node
	for _, doc := range file.Docs {
		switch b := doc.Body.(type) {
		case nil:
		case *ast.DirectiveNode:
			r.At(src, tokenSpan(b.Start), "directive", "YAML directives have no meaning here")
			return nil
		default:
			if body != nil {
				at := b.GetToken()
				if doc.Start != nil {
					at = doc.Start
				}
				r.At(src, tokenSpan(at), "documents", "a second document: a plan is one file with one document")
				return nil
			}
			body = b
		}
	}
	if body == nil {
		r.At(src, Span{1, 1, 2}, "empty", "the file is empty")
	}
	return body
}

type converter struct {
	r       *Report
	src     *Source
	anchors map[string]*Node
}

// node converts n; at is where a value that is not written is said to stand.
func (c *converter) node(n ast.Node, at Span) *Node {
	switch n := n.(type) {
	case *ast.NullNode:
		// A value that is not written has a token too, somewhere after its key.
		if span := tokenSpan(n.Token); c.written(span) {
			at = span
		}
		return c.leaf(Null, at, "")
	case *ast.BoolNode:
		return c.leaf(Bool, tokenSpan(n.Token), n.Token.Value)
	case *ast.IntegerNode:
		return c.leaf(Int, tokenSpan(n.Token), n.Token.Value)
	case *ast.FloatNode:
		return c.leaf(Float, tokenSpan(n.Token), n.Token.Value)
	case *ast.InfinityNode:
		return c.leaf(Float, tokenSpan(n.Token), n.Token.Value)
	case *ast.NanNode:
		return c.leaf(Float, tokenSpan(n.Token), n.Token.Value)
	case *ast.StringNode:
		out := c.leaf(String, tokenSpan(n.Token), n.Value)
		out.Quoted = n.Token.Type == token.DoubleQuoteType || n.Token.Type == token.SingleQuoteType
		return out
	case *ast.LiteralNode:
		out := c.leaf(String, tokenSpan(n.Start), n.Value.Value)
		out.Block = true
		return out
	case *ast.MappingNode:
		return c.mapping(n.Start, n.Values, at)
	case *ast.MappingValueNode:
		return c.mapping(nil, []*ast.MappingValueNode{n}, at)
	case *ast.SequenceNode:
		out := &Node{Kind: List, Src: c.src, Span: at, size: 1}
		if n.Start != nil {
			out.Span = tokenSpan(n.Start)
		}
		for _, v := range n.Values {
			item := c.node(v, out.Span)
			out.Items = append(out.Items, item)
			out.size = add(out.size, item.size)
		}
		return out
	case *ast.AnchorNode:
		value := c.node(n.Value, tokenSpan(n.Start))
		// Registered after its value: an alias inside of it names nothing, so
		// that a tree can never contain itself.
		c.anchors[n.Name.GetToken().Value] = value
		return value
	case *ast.AliasNode:
		name := n.Value.GetToken()
		if value, ok := c.anchors[name.Value]; ok {
			return value
		}
		c.r.At(c.src, tokenSpan(name), "alias", "alias *%s names no anchor before it", name.Value)
	case *ast.TagNode:
		c.r.At(c.src, tokenSpan(n.Start), "tag", "YAML tags have no meaning here: %s", n.Start.Value)
	case nil:
	default:
		c.r.At(c.src, tokenSpan(n.GetToken()), "syntax", "%s is not supported here", n.Type())
	}
	bad := c.leaf(Null, at, "")
	bad.Broken = true
	return bad
}

// written reports whether a null stands at a span.
func (c *converter) written(s Span) bool {
	line := []rune(c.src.Line(s.Line))
	if s.Col > len(line) {
		return false
	}
	rest := string(line[s.Col-1:])
	return strings.HasPrefix(rest, "~") || strings.HasPrefix(strings.ToLower(rest), "null")
}

func (c *converter) leaf(k Kind, at Span, text string) *Node {
	return &Node{Kind: k, Src: c.src, Span: at, Text: text, size: 1}
}

func (c *converter) mapping(start *token.Token, values []*ast.MappingValueNode, at Span) *Node {
	out := &Node{Kind: Map, Src: c.src, Span: at, size: 1}
	if start != nil && start.Type == token.MappingStartType {
		out.Span = tokenSpan(start)
	} else if len(values) > 0 && values[0].Key != nil {
		out.Span = tokenSpan(values[0].Key.GetToken())
	}
	index := make(map[string]*Node, len(values))
	var merges []*Node
	for _, v := range values {
		switch k := v.Key.(type) {
		case *ast.MergeKeyNode:
			merges = append(merges, c.node(v.Value, tokenSpan(k.Token)))
			continue
		case *ast.StringNode, *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.NullNode, *ast.InfinityNode, *ast.NanNode:
		default:
			c.r.At(c.src, tokenSpan(v.Key.GetToken()), "syntax", "a key must be plain text")
			continue
		}
		tk := v.Key.GetToken()
		key := c.leaf(String, tokenSpan(tk), tk.Value)
		value := c.node(v.Value, key.Span)
		if first, ok := index[key.Text]; ok {
			c.r.Node(key, "duplicate-key", "key %q is given twice, first in line %d", key.Text, first.Line)
			continue
		}
		index[key.Text] = key
		out.add(key, value)
	}
	for _, m := range merges {
		c.merge(out, index, m)
	}
	return out
}

// merge adds what m has and out has not: YAML's "<<".
func (c *converter) merge(out *Node, index map[string]*Node, m *Node) {
	switch m.Kind {
	case Map:
		for _, e := range m.Entries {
			if _, ok := index[e.Key.Text]; !ok {
				index[e.Key.Text] = e.Key
				out.add(e.Key, e.Value)
			}
		}
	case List:
		for _, item := range m.Items {
			if item.Kind == Map {
				c.merge(out, index, item)
				continue
			}
			c.r.Node(item, "syntax", "<< takes mappings, found %s", item.Kind.Name())
		}
	default:
		c.r.Node(m, "syntax", "<< takes a mapping, found %s", m.Kind.Name())
	}
}

func (n *Node) add(key, value *Node) {
	n.Entries = append(n.Entries, Entry{key, value})
	n.size = add(n.size, add(1, value.size))
}

// add saturates: sizes count aliases in full and can pass any integer.
func add(a, b int) int { return min(a+b, 1<<40) }

// tokenSpan returns where a token stands. A text over several lines is said to end
// with its first.
func tokenSpan(tk *token.Token) Span {
	if tk == nil || tk.Position == nil {
		return Span{1, 1, 2}
	}
	text, _, _ := strings.Cut(strings.TrimSpace(tk.Origin), "\n")
	s := Span{Line: max(tk.Position.Line, 1), Col: max(tk.Position.Column, 1)}
	s.EndCol = s.Col + max(utf8.RuneCountInString(strings.TrimSpace(text)), 1)
	return s
}

// ParseValue reads the value of a flag, which stands in line line of src from
// column col on.
func ParseValue(src *Source, text string, line, col int, r *Report) *Node {
	inner := &Report{}
	n := Parse(src.Name, text, inner)
	for _, d := range inner.list {
		out := r.At(src, Span{line, col + d.Col - 1, col + d.EndCol - 1}, d.Rule, "%s", d.Message)
		out.Expected, out.Hint = d.Expected, d.Hint
	}
	if n == nil || len(inner.list) > 0 {
		return nil
	}
	seen := make(map[*Node]bool)
	var move func(*Node)
	move = func(n *Node) {
		if n == nil || seen[n] {
			return
		}
		seen[n] = true
		n.Src = src
		n.Span = Span{line, n.Col + col - 1, n.EndCol + col - 1}
		for _, item := range n.Items {
			move(item)
		}
		for _, e := range n.Entries {
			move(e.Key)
			move(e.Value)
		}
	}
	move(n)
	return n
}
