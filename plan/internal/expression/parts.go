package expression

import (
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
}

// parts are those of a tree whose numbers are in the units of their names, or whole
// alone where it joins nothing.
func parts(whole *Expression, tree ast.Node, env Env, options []expr.Option) []Part {
	joined := conjuncts(tree)
	list := make([]Part, len(joined))
	for i, node := range joined {
		p := Part{Expression: *whole, Text: whole.text}
		if len(joined) > 1 {
			p.Text = node.String()
			program, err := expr.Compile(p.Text, options...)
			if err != nil { // a node that does not print as it is written
				return []Part{{Expression: *whole, Text: whole.text}}
			}
			named := &names{env: env}
			ast.Walk(&node, named)
			p.Expression = Expression{Reads: named.reads, text: p.Text, program: program}
		}
		p.compare(node, env)
		list[i] = p
	}
	return list
}

// conjuncts are what a tree joins by and.
func conjuncts(node ast.Node) []ast.Node {
	if n, ok := node.(*ast.BinaryNode); ok && (n.Operator == "and" || n.Operator == "&&") {
		return append(conjuncts(n.Left), conjuncts(n.Right)...)
	}
	return []ast.Node{node}
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

// constant is the value of a node without names.
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
