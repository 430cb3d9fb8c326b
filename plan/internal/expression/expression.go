// Package expression compiles the expressions of a plan (exclude, --only, slo)
// and is their sandbox.
//
// An expression comes from a plan, and a plan may come from a stranger. What
// it may contain is a list: comparisons, arithmetic, and, or, not, in, a few
// functions of numbers. There are no loops (no predicates, no ranges), no
// variables and no members, so that the time of a run is bounded by the number
// of nodes and needs no watchdog: the memory budget of the library's own
// virtual machine does not bound time.
package expression

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/expr-lang/expr"
	"github.com/expr-lang/expr/ast"
	"github.com/expr-lang/expr/conf"
	"github.com/expr-lang/expr/file"
	"github.com/expr-lang/expr/parser"
	"github.com/expr-lang/expr/vm"

	"sweep.dev/sweep/internal/syntax"
	"sweep.dev/sweep/plan/internal/strict"
)

const (
	maxBytes = 2_000
	maxNodes = 500
)

func functions() []string { return []string{"abs", "ceil", "floor", "max", "min", "round"} }

// Env is what an expression may read: names with the zero value of their type,
// float64 for every number.
type Env struct {
	Zero  map[string]any
	Names []string          // for suggestions, in their order
	Noun  string            // what a name is: column, axis
	Units map[string]string // of names that have one
	// Meant is the name that an unknown one most likely stands for.
	Meant func(name string) string
}

func (e Env) text(name string) bool {
	_, ok := e.Zero[name].(string)
	return ok
}

// An Expression is one compiled expression. It may be run concurrently.
type Expression struct {
	Reads   []string // the names it reads, in the order of the text
	text    string
	program *vm.Program
	parts   []Part
}

// Parts returns what it joins by and at its top: it holds if all of them do. An expression
// that joins nothing is one part. What does not change it, as true beside and, is no part.
func (e *Expression) Parts() []Part { return e.parts }

// Run evaluates it over env, which has every name that it reads.
func (e *Expression) Run(env map[string]any) (bool, error) {
	out, err := expr.Run(e.program, env)
	if err != nil {
		return false, fmt.Errorf("evaluate %s: %w", e.text, err)
	}
	ok, isBool := out.(bool)
	if !isBool {
		return false, fmt.Errorf("evaluate %s: it gives %T and not true or false", e.text, out)
	}
	return ok, nil
}

// Compile compiles the text of n, and reports everything that is wrong with it
// at its place in the file. It returns nil after it has reported anything.
func Compile(r *syntax.Report, n *syntax.Node, env Env) *Expression {
	before := r.Len()
	if n.Kind != syntax.String || strings.TrimSpace(n.Text) == "" {
		d := r.Node(n, "expression", "an expression is text, found %s", n.Kind.Name())
		d.Expected = "a comparison, like " + example(env)
		return nil
	}
	if len(n.Text) > maxBytes {
		r.Node(n, "expression", "the expression is longer than %d bytes", maxBytes)
		return nil
	}
	config := conf.CreateNew()
	config.MaxNodes = maxNodes
	for name := range config.Builtins {
		if !slices.Contains(functions(), name) {
			delete(config.Builtins, name)
		}
	}
	quote(r, n, env)
	if r.Len() > before {
		return nil
	}
	text, units, ends := quantities(n.Text)
	tree, err := parser.ParseWithConfig(text, config)
	if err != nil {
		located(r, n, err)
		return nil
	}
	s := &sandbox{r: r, n: n, env: env, callees: make(callees)}
	ast.Walk(&tree.Node, s.callees)
	ast.Walk(&tree.Node, s)
	scaled := &scaler{sandbox: s, units: units, ends: ends, values: make(map[int]float64)}
	ast.Walk(&tree.Node, scaled)
	scaled.rest(&tree.Node)
	if r.Len() > before {
		return nil
	}
	if len(s.reads) == 0 {
		d := r.Node(n, "expression", "the expression reads no %s: it would always give the same", env.Noun)
		d.Expected = "a comparison, like " + example(env)
		return nil
	}
	options := []expr.Option{
		expr.Env(env.Zero), expr.AsBool(), expr.WarnOnAny(), expr.MaxNodes(maxNodes), expr.DisableAllBuiltins(),
	}
	for _, name := range functions() {
		options = append(options, expr.EnableBuiltin(name))
	}
	program, err := expr.Compile(text, append(slices.Clip(options), expr.Patch(patch(scaled.values)))...)
	if err != nil {
		located(r, n, err)
		return nil
	}
	e := &Expression{text: n.Text, Reads: s.reads, program: program}
	ast.Walk(&tree.Node, patch(scaled.values))
	e.parts = parts(e, tree.Node, env, options)
	return e
}

func example(env Env) string {
	for _, name := range []string{"p95_ttft_ms", "concurrency", "engine"} {
		switch env.Zero[name].(type) {
		case float64:
			return name + " < 200"
		case string:
			return name + ` == "vllm"`
		}
	}
	return "a < 1"
}

func located(r *syntax.Report, n *syntax.Node, err error) {
	var fe *file.Error
	if !errors.As(err, &fe) {
		// A wrong type of the whole expression is the one error without a place.
		d := r.Node(n, "expression-type", "the whole expression is wrong: %v", err)
		d.Expected = "something that is true or false"
		return
	}
	text, _, _ := strings.Cut(fe.Message, "\n")
	d := r.At(n.Src, n.Offset(fe.From, max(fe.To, fe.From+1)), "expression", "%s", text)
	if text == `unexpected token Operator("=")` {
		d.Hint = "values are compared with ==, !=, <, <=, > and >="
	}
	if strings.Contains(text, "mismatched types") || strings.HasPrefix(text, "invalid operation") {
		d.Rule = "expression-type"
		d.Hint = "text is compared with text in quotes, numbers with numbers"
	}
}

// sandbox visits an expression and reports what it must not contain.
type sandbox struct {
	r     *syntax.Report
	n     *syntax.Node
	env   Env
	reads []string
	callees
}

// callees holds the names that are called: each is judged with its call.
type callees map[ast.Node]bool

// Visit implements [ast.Visitor].
func (c callees) Visit(node *ast.Node) {
	if call, ok := (*node).(*ast.CallNode); ok {
		c[call.Callee] = true
	}
}

// Visit implements [ast.Visitor].
func (s *sandbox) Visit(node *ast.Node) {
	switch n := (*node).(type) {
	case *ast.IdentifierNode:
		if !s.callees[n] {
			s.name(n)
		}
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.StringNode, *ast.ConstantNode,
		*ast.UnaryNode, *ast.ConditionalNode, *ast.ArrayNode:
	case *ast.BuiltinNode:
		if !slices.Contains(functions(), n.Name) {
			s.reject(n, "there is no function %s here", n.Name).Expected = strict.OneOf(functions())
		}
	case *ast.BinaryNode:
		switch n.Operator {
		case "..", "??", "|", "%":
			s.reject(n, "the operator %s is not allowed here", n.Operator)
		}
	case *ast.CallNode:
		name := "this"
		if id, ok := n.Callee.(*ast.IdentifierNode); ok {
			name = id.Value
		}
		d := s.reject(n, "there is no function %s here", name)
		d.Expected = strict.OneOf(functions())
		d.Nearest = syntax.Nearest(name, functions())
	case *ast.NilNode:
		s.reject(n, "nil is not allowed here").Hint = "a column that was not measured makes the check an error by itself"
	default:
		s.reject(*node, "this is not allowed in an expression").Expected = "comparisons, arithmetic, and, or, not, in, " + strings.Join(functions(), ", ")
	}
}

func (s *sandbox) name(n *ast.IdentifierNode) {
	if _, ok := s.env.Zero[n.Value]; ok {
		if !slices.Contains(s.reads, n.Value) {
			s.reads = append(s.reads, n.Value)
		}
		return
	}
	d := s.reject(n, "there is no %s %s", s.env.Noun, n.Value)
	d.Rule = "unknown-" + s.env.Noun
	d.Nearest = s.env.Meant(n.Value)
	if d.Nearest == "" && slices.ContainsFunc(s.reads, s.env.text) {
		d.Hint = fmt.Sprintf("text is written in quotes: %q", n.Value)
	}
	if len(s.env.Names) <= 20 {
		d.Expected = strict.OneOf(s.env.Names)
	} else {
		d.Expected = "a column of the cells table: sweep list columns lists them"
	}
}

func (s *sandbox) reject(n ast.Node, format string, args ...any) *syntax.Diagnostic {
	at := n.Location()
	return s.r.At(s.n.Src, s.n.Offset(at.From, max(at.To, at.From+1)), "expression", format, args...)
}
