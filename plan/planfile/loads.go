package planfile

import (
	"maps"
	"slices"
	"strings"

	"sweep.dev/sweep/internal/syntax"
	"sweep.dev/sweep/plan"
	"sweep.dev/sweep/plan/axes"
	"sweep.dev/sweep/plan/internal/file"
	"sweep.dev/sweep/plan/internal/strict"
)

// A reading is a plan as one of its loads sees it: that load stands in the place of
// load, and the matrix has the axes that it takes. So the rules of a plan with one
// load, and how its matrix expands, are written once. A plan with one load has one
// reading: itself.
type reading struct {
	*loader // its file is the one that the load sees; of a named load, its report is its own
	plan    *plan.Plan
	name    string // "" in a plan with one load
	item    *syntax.Node
}

// readings decodes the named loads of a plan.
func (l *loader) readings(p *plan.Plan) []*reading {
	n := l.file.Root.Get("loads")
	if n == nil {
		return []*reading{{loader: l, plan: p}}
	}
	if l.file.Has("load") {
		l.file.Conflict("write each load as an entry of loads, or keep load alone", file.Path("load"), "the plan has both load and loads")
	}
	p.Load, p.Loads = plan.Load{}, nil
	const example = "loads: [{name: chat, request_rate: 2, requests: 100, ...}, {name: batch, concurrency: 32, ...}]"
	switch {
	case n.Kind != syntax.List:
		l.Report.Node(n, "type", "loads takes a list, found %s", n.Kind.Name()).Expected = example
		return nil
	case len(n.Items) == 0:
		l.Report.Node(n, "missing", "loads is empty").Expected = example
		return nil
	case len(n.Items) > plan.MaxLoads:
		l.Report.Node(n, "too-many-loads", "there are %d loads, and %d are allowed", len(n.Items), plan.MaxLoads)
		return nil
	}
	var all []*reading
	for _, item := range n.Items {
		if r := l.reading(item); r != nil {
			all = append(all, r)
		}
	}
	for i, r := range all {
		if slices.ContainsFunc(all[:i], func(o *reading) bool { return o.name == r.name }) {
			l.Report.Node(r.item.Get("name"), "duplicate", "two loads have the name %s", r.name)
		}
		named := plan.NamedLoad{Name: r.name, Load: r.plan.Load}
		if loop := r.item.Get("loop"); loop != nil {
			named.Loop = loop.Text
		}
		p.Loads = append(p.Loads, named)
	}
	return all
}

// reading decodes one named load; nil for one that is none.
func (l *loader) reading(item *syntax.Node) *reading {
	if item.Kind != syntax.Map {
		l.Report.Node(item, "type", "a load is a mapping, found %s", item.Kind.Name()).Expected = "for example {name: chat, concurrency: 8, requests: 100}"
		return nil
	}
	if item.Get("name") == nil {
		l.Report.Node(item, "missing", "a load of loads has no name").Expected = "name: chat"
		return nil
	}
	inner := *l
	r := &reading{loader: &inner, plan: &plan.Plan{Load: defaults().Load}, item: item}
	r.Report, r.Mistyped = &syntax.Report{}, make(map[string]bool)
	own := plan.NamedLoad{}
	keys := &syntax.Node{Kind: syntax.Map, Src: item.Src, Span: item.Span}
	load := *item
	load.Entries = nil
	for _, e := range item.Entries {
		if e.Key.Text == "name" || e.Key.Text == "loop" {
			keys.Entries = append(keys.Entries, e)
		} else {
			load.Entries = append(load.Entries, e)
		}
	}
	if l.Decode(keys, &own, "loads"); own.Name == "" {
		return nil // reported
	}
	r.name = own.Name
	r.Decode(&load, &r.plan.Load, "load")
	r.file = &file.File{Root: r.root(l.file.Root, &load), Report: r.Report, Mistyped: r.Mistyped}
	return r
}

// root returns the tree of the plan as the load sees it.
func (r *reading) root(root, load *syntax.Node) *syntax.Node {
	out := *root
	out.Entries = nil
	for _, e := range root.Entries {
		switch e.Key.Text {
		case "load":
			continue
		case "loads":
			name := *r.item.Get("name")
			name.Text = "load"
			e = syntax.Entry{Key: &name, Value: load}
		case "matrix":
			if e.Value.Kind == syntax.Map {
				e.Value = r.matrixTree(e.Value, load)
			}
		}
		out.Entries = append(out.Entries, e)
	}
	return &out
}

// matrixTree returns the tree of the matrix with what the load takes of it.
func (r *reading) matrixTree(matrix, load *syntax.Node) *syntax.Node {
	out := *matrix
	out.Entries = nil
	for _, e := range matrix.Entries {
		kind, ok := axes.Lookup(e.Key.Text)
		switch {
		case ok && !r.takes(kind.Axis(e.Key.Text), matrix, load):
			continue
		case e.Key.Text == "zip" && e.Value.Kind == syntax.List:
			e.Value = r.zipTree(e.Value, matrix, load)
		case e.Key.Text == "include" && e.Value.Kind == syntax.List:
			e.Value = r.includeTree(e.Value)
		}
		out.Entries = append(out.Entries, e)
	}
	return &out
}

// takes reports whether the load takes an axis of the matrix. One that sets the key itself
// does not. Of the amounts of load, a closed loop takes the concurrency and an open loop
// the rate; lengths of made-up prompts are for those who make them up.
func (r *reading) takes(a plan.Axis, matrix, load *syntax.Node) bool {
	at := axes.Path(a.Name)
	if a.Server || at == nil {
		return true
	}
	if _, own := load.At(at[1:]...); own {
		return false
	}
	ld := r.plan.Load
	if strings.HasPrefix(axesKey(a.Name), "load.prompts.") {
		brought := a.Name == "input_tokens" && (ld.Trace.Lengths() || ld.Prompts.Distribution == plan.Empirical)
		return ld.Prompts.Kind == plan.PromptsSynthetic && !brought
	}
	if !a.Amount {
		return true
	}
	if slices.ContainsFunc(plan.Patterns(), func(p plan.Pattern) bool { return load.Get(p.Key) != nil }) {
		return false
	}
	loop := plan.LoopOf(a.Name)
	if said := r.item.Get("loop"); said != nil && (said.Text == plan.LoopClosed || said.Text == plan.LoopOpen) {
		return said.Text == loop
	}
	for _, name := range axes.Amounts() {
		if plan.LoopOf(name) != loop && matrix.Get(name) != nil {
			r.Mistake(axesKey(name)) // the load does not say which: a rule of loads tells
			return false
		}
	}
	return true
}

func axesKey(axis string) string { return strings.Join(axes.Path(axis), ".") }

// zipTree returns the groups of axes of which the load takes several.
func (r *reading) zipTree(zip, matrix, load *syntax.Node) *syntax.Node {
	out := *zip
	out.Items = nil
	for _, group := range zip.Items {
		if group.Kind == syntax.List && len(group.Items) > 1 {
			one := *group
			one.Items = slices.DeleteFunc(slices.Clone(group.Items), func(n *syntax.Node) bool {
				kind, ok := axes.Lookup(n.Text)
				return ok && matrix.Get(n.Text) != nil && !r.takes(kind.Axis(n.Text), matrix, load)
			})
			if len(one.Items) < 2 {
				continue
			}
			group = &one
		}
		out.Items = append(out.Items, group)
	}
	return &out
}

// includeTree returns the included cells of the load, at their places in the list. The
// other places are empty.
func (r *reading) includeTree(include *syntax.Node) *syntax.Node {
	out := *include
	out.Items = nil
	for _, item := range include.Items {
		one := &syntax.Node{Kind: syntax.Null, Src: item.Src, Span: item.Span, Broken: true}
		if item.Kind != syntax.Map || item.Get(plan.LoadAxis) != nil && item.Get(plan.LoadAxis).Text == r.name {
			one = without(item, plan.LoadAxis)
		}
		out.Items = append(out.Items, one)
	}
	return &out
}

// complete gives the reading of a named load the plan that the load sees.
func (r *reading) complete(p *plan.Plan) {
	if r.name == "" {
		return
	}
	seen := *p
	seen.Load, seen.Loads = r.plan.Load, nil
	seen.Matrix = p.Matrix
	seen.Matrix.Axes = slices.DeleteFunc(slices.Clone(p.Matrix.Axes), func(a plan.Axis) bool {
		return !a.Server && r.file.Root.Get("matrix").Get(a.Name) == nil
	})
	seen.Matrix.Zip, seen.Matrix.Include = nil, nil
	if n := r.file.Root.Get("matrix").Get("zip"); n != nil {
		(&strict.Decoder{Report: &syntax.Report{}}).Decode(n, &seen.Matrix.Zip, "matrix.zip") // what is wrong is reported
	}
	if n := r.file.Root.Get("matrix").Get("include"); n != nil {
		r.include(&seen.Matrix, n)
	}
	for _, values := range seen.Matrix.Include {
		values = maps.Clone(values)
		values[plan.LoadAxis] = r.name
		p.Matrix.Include = append(p.Matrix.Include, values)
	}
	seen.Matrix = seen.Matrix.WithLoads(r.name)
	r.plan = &seen
}

// find gives the reading of a named load what the plan was found to name.
func (r *reading) find(l *loader, p *plan.Plan) {
	if r.name == "" {
		return
	}
	found := *l
	found.Report, found.Mistyped, found.file = r.Report, r.Mistyped, r.file
	r.loader = &found
	r.plan.SLO = slices.DeleteFunc(slices.Clone(p.SLO), func(s plan.SLO) bool { return !s.For(r.name) })
}

// placed returns the cells of a load at their places among those of the whole plan.
func (r *reading) placed(cells []plan.Cell, p *plan.Plan, before int) []plan.Cell {
	if r.name == "" {
		return cells
	}
	names := p.Matrix.Names()
	for i := range cells {
		c := &cells[i]
		c.Index += before
		for j, s := range c.Settings {
			c.Settings[j].Axis = p.Matrix.Axis(s.Axis.Name)
		}
		slices.SortFunc(c.Settings, func(a, b plan.Setting) int {
			return slices.Index(names, a.Axis.Name) - slices.Index(names, b.Axis.Name)
		})
	}
	return cells
}
