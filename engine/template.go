package engine

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"text/template"
	tree "text/template/parse"
)

// The bounds of the templates of a profile or a command. A profile may come
// from a stranger, and text/template itself has no bounds.
const (
	maxTemplate = 64 << 10  // bytes of one template
	maxText     = 1 << 20   // bytes that the templates of one command line, or of one role's files, give together
	maxSteps    = 1_000_000 // nodes that they evaluate together, the body of a range once for each replica
)

// A budget is what the templates that are rendered together may still use.
type budget struct{ steps, bytes int }

func newBudget() *budget { return &budget{steps: maxSteps, bytes: maxText} }

// spend takes n bytes off the budget.
func (b *budget) spend(n int) error {
	if b.bytes -= n; b.bytes < 0 {
		return fmt.Errorf("the templates give more than %d KiB of text", maxText>>10)
	}
	return nil
}

// An argFunc is the function arg of a template; see [Profile.Argv].
type argFunc func(name string, byDefault ...any) (string, error)

// render fills one template in.
func (b *budget) render(text string, v Vars, arg argFunc) (string, error) {
	t, err := parseTemplate(text, arg)
	if err != nil {
		return "", err
	}
	replicas := 0
	for _, list := range v.Peers {
		replicas = max(replicas, len(list))
	}
	if b.steps -= steps(t.Root, replicas); b.steps < 0 {
		return "", fmt.Errorf("the templates take more than %d steps", maxSteps)
	}
	out := bounded{budget: b}
	if err := t.Execute(&out, v); err != nil {
		return "", err
	}
	return out.text.String(), nil
}

// A bounded is what a template gives, within a budget.
type bounded struct {
	text   strings.Builder
	budget *budget
}

func (w *bounded) Write(p []byte) (int, error) {
	if err := w.budget.spend(len(p)); err != nil {
		return 0, err
	}
	return w.text.Write(p)
}

// templateFuncs returns the functions that a template may call. None of them can
// give a text that is longer than those it was given: a function that joins
// texts, called on its own result, doubles it with each call.
func templateFuncs() []string {
	return []string{"arg", "index", "len", "and", "or", "not", "eq", "ne", "lt", "le", "gt", "ge"}
}

// parseTemplate parses one template, and refuses one whose work or output cannot
// be bounded.
func parseTemplate(text string, arg argFunc) (*template.Template, error) {
	if len(text) > maxTemplate {
		return nil, fmt.Errorf("a template of more than %d KiB", maxTemplate>>10)
	}
	t, err := template.New("command").Option("missingkey=error").Funcs(template.FuncMap{"arg": arg}).Parse(text)
	if err == nil {
		err = allowed(t.Root, false)
	}
	if err != nil {
		return nil, err
	}
	return t, nil
}

// allowed returns the error of a parsed template that has something it must not have.
// inside says whether n is in the body of a range.
func allowed(n tree.Node, inside bool) error {
	switch n := n.(type) {
	case *tree.TemplateNode:
		return errors.New("a template must not call another")
	case *tree.RangeNode:
		if inside {
			return errors.New("a range must not be inside another")
		}
		if !overReplicas(n.Pipe) {
			return errors.New("range goes over the replicas of a role alone, such as .Peers.worker")
		}
		inside = true
	case *tree.IdentifierNode:
		if !slices.Contains(templateFuncs(), n.Ident) {
			return fmt.Errorf("a template must not call %s: it has %s", n.Ident, strings.Join(templateFuncs(), ", "))
		}
	}
	for _, child := range children(n) {
		if err := allowed(child, inside); err != nil {
			return err
		}
	}
	return nil
}

// overReplicas reports whether a range goes over .Peers.ROLE or $.Peers.ROLE.
func overReplicas(p *tree.PipeNode) bool {
	if len(p.Cmds) != 1 || len(p.Cmds[0].Args) != 1 {
		return false
	}
	var path []string
	switch n := p.Cmds[0].Args[0].(type) {
	case *tree.FieldNode:
		path = n.Ident
	case *tree.VariableNode:
		if n.Ident[0] == "$" {
			path = n.Ident[1:]
		}
	}
	return len(path) == 2 && path[0] == "Peers"
}

// steps returns how many nodes the evaluation of n visits at most.
func steps(n tree.Node, replicas int) int {
	sum := 0
	for _, child := range children(n) {
		sum += steps(child, replicas)
	}
	if _, ok := n.(*tree.RangeNode); ok {
		sum *= max(replicas, 1)
	}
	return sum + 1
}

// children returns the nodes directly below n.
func children(n tree.Node) []tree.Node {
	branch := func(b *tree.BranchNode) []tree.Node {
		out := []tree.Node{b.Pipe, b.List}
		if b.ElseList != nil {
			out = append(out, b.ElseList)
		}
		return out
	}
	switch n := n.(type) {
	case *tree.ListNode:
		return n.Nodes
	case *tree.ActionNode:
		return []tree.Node{n.Pipe}
	case *tree.IfNode:
		return branch(&n.BranchNode)
	case *tree.WithNode:
		return branch(&n.BranchNode)
	case *tree.RangeNode:
		return branch(&n.BranchNode)
	case *tree.PipeNode:
		out := make([]tree.Node, 0, len(n.Cmds))
		for _, c := range n.Cmds {
			out = append(out, c)
		}
		return out
	case *tree.CommandNode:
		return n.Args
	case *tree.ChainNode:
		return []tree.Node{n.Node}
	}
	return nil
}
