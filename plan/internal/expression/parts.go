package expression

import (
	"slices"

	"github.com/expr-lang/expr"
	"github.com/expr-lang/expr/ast"
)

// A Part is one of what an expression joins by and at its top.
type Part struct {
	Expression
	Text string
	// Column, Op and Limit are set where the part compares one name with a number: with
	// the name on the left, and the number in its unit.
	Column string
	Op     string // <, <=, > or >=
	Limit  float64
	// Any are what it joins by or, if each of them compares a name with a number.
	Any []Part
}

// parts returns those of a tree whose numbers are in the units of their names, or whole
// alone where it joins nothing.
func parts(whole *Expression, tree ast.Node, env Env, options []expr.Option) []Part {
	joined := operands(tree, true, "and", "&&")
	list := make([]Part, len(joined))
	for i, node := range joined {
		p := Part{Expression: *whole, Text: whole.text}
		if len(joined) > 1 || node != tree {
			var ok bool
			if p, ok = part(node, env, options); !ok { // a node that does not print as it is written
				return []Part{{Expression: *whole, Text: whole.text}}
			}
		}
		p.compare(node, env)
		sides := operands(node, false, "or", "||")
		if len(sides) == 1 && sides[0] != node { // the others are false
			p.compare(sides[0], env)
		} else if len(sides) > 1 {
			p.Any = either(sides, env, options)
		}
		list[i] = p
	}
	return list
}

func part(node ast.Node, env Env, options []expr.Option) (Part, bool) {
	text := node.String()
	program, err := expr.Compile(text, options...)
	if err != nil {
		return Part{}, false
	}
	named := &names{env: env}
	ast.Walk(&node, named)
	return Part{Expression: Expression{Reads: named.reads, text: text, program: program}, Text: text}, true
}

// either returns the sides of an or, each of which is a comparison; else nil.
func either(sides []ast.Node, env Env, options []expr.Option) []Part {
	list := make([]Part, len(sides))
	for i, node := range sides {
		p, ok := part(node, env, options)
		if p.compare(node, env); !ok || p.Column == "" {
			return nil
		}
		list[i] = p
	}
	return list
}

// operands returns what a tree joins by an operator, without constants that do not change
// it: true beside and, false beside or. One is left at the least.
func operands(node ast.Node, neutral bool, names ...string) []ast.Node {
	n, ok := node.(*ast.BinaryNode)
	if !ok || !slices.Contains(names, n.Operator) {
		return []ast.Node{node}
	}
	all := append(operands(n.Left, neutral, names...), operands(n.Right, neutral, names...)...)
	rest := slices.DeleteFunc(slices.Clone(all), func(n ast.Node) bool {
		value, constant := truth(n)
		return constant && value == neutral
	})
	if len(rest) == 0 {
		return all[:1]
	}
	return rest
}

// truth returns the value of a node without names that is true or false.
func truth(node ast.Node) (value, ok bool) {
	if reads(node) {
		return false, false
	}
	program, err := expr.Compile(node.String(), expr.AsBool())
	if err != nil {
		return false, false
	}
	v, err := expr.Run(program, nil)
	if err != nil {
		return false, false
	}
	value, ok = v.(bool)
	return value, ok
}

// turned are comparisons with their sides the other way round.
var turned = map[string]string{"<": ">", "<=": ">=", ">": "<", ">=": "<="}

// compare sets the comparison of a name with a number, if the node is one.
func (p *Part) compare(node ast.Node, env Env) {
	n, ok := node.(*ast.BinaryNode)
	if !ok || turned[n.Operator] == "" {
		return
	}
	left, op, right := n.Left, n.Operator, n.Right
	if _, ok := right.(*ast.IdentifierNode); ok {
		left, op, right = right, turned[op], left
	}
	id, ok := left.(*ast.IdentifierNode)
	if !ok || reads(right) {
		return
	}
	if _, number := env.Zero[id.Value].(float64); !number {
		return
	}
	if limit, ok := constant(right); ok {
		p.Column, p.Op, p.Limit = id.Value, op, limit
	}
}

// constant returns the value of a node without names.
func constant(node ast.Node) (float64, bool) {
	program, err := expr.Compile(node.String(), expr.AsFloat64())
	if err != nil {
		return 0, false
	}
	v, err := expr.Run(program, nil)
	if err != nil {
		return 0, false
	}
	f, ok := v.(float64)
	return f, ok
}

// names collects what a part reads.
type names struct {
	env   Env
	reads []string
}

// Visit implements [ast.Visitor].
func (n *names) Visit(node *ast.Node) {
	if id, ok := (*node).(*ast.IdentifierNode); ok {
		if _, known := n.env.Zero[id.Value]; known {
			n.reads = append(n.reads, id.Value)
		}
	}
}
