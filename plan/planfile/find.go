package planfile

import (
	"math"
	"slices"
	"strconv"

	"sweep.dev/sweep/internal/syntax"
	"sweep.dev/sweep/judge/search"
	"sweep.dev/sweep/plan"
	"sweep.dev/sweep/plan/axes"
	"sweep.dev/sweep/plan/internal/strict"
)

// withLevels returns the tree of a plan with the levels of its search as an axis of the matrix,
// which stand where the search does. So all rules of axes hold for them. A plan whose
// matrix has the axis is left as it is: a rule reports it.
func withLevels(root *syntax.Node) *syntax.Node {
	n := root.Get("find")
	matrix := root.Get("matrix")
	if n == nil || n.Kind != syntax.Map || root.Get("loads") != nil || matrix != nil && matrix.Kind != syntax.Map {
		return root
	}
	axis := n.Get("axis")
	if axis == nil || !slices.Contains(axes.Amounts(), axis.Text) || matrix.Get(axis.Text) != nil {
		return root
	}
	var decoded struct { // a section of a file has the defaults of its tags
		Find *plan.Find `yaml:"find"`
	}
	d := strict.Decoder{Report: &syntax.Report{}} // what is wrong is reported by the real one
	d.Decode(&syntax.Node{Kind: syntax.Map, Src: root.Src, Span: root.Span, Entries: []syntax.Entry{{Key: root.Key("find"), Value: n}}}, &decoded, "")
	find := plan.Find{}
	if decoded.Find != nil {
		find = *decoded.Find
	}

	kind := syntax.Float
	if axis.Text == "concurrency" {
		kind = syntax.Int
	}
	values := &syntax.Node{Kind: syntax.List, Src: axis.Src, Span: axis.Span}
	for _, level := range levels(find) {
		values.Items = append(values.Items, &syntax.Node{Kind: kind, Src: axis.Src, Span: axis.Span, Text: level})
	}
	key := *n.Get("axis")
	out := *root
	entry := syntax.Entry{Key: &key, Value: values}
	if matrix == nil {
		name := *root.Key("find")
		name.Text = "matrix"
		out.Entries = append(slices.Clone(root.Entries), syntax.Entry{Key: &name, Value: &syntax.Node{
			Kind: syntax.Map, Src: n.Src, Span: n.Span, Entries: []syntax.Entry{entry},
		}})
		return &out
	}
	own := *matrix
	own.Entries = append(slices.Clone(matrix.Entries), entry)
	out.Entries = slices.Clone(root.Entries)
	for i, e := range out.Entries {
		if e.Key.Text == "matrix" {
			out.Entries[i].Value = &own
		}
	}
	return &out
}

// sought returns the objectives of a search, in the file's order. What is no expression was
// reported.
func (l *loader) sought(n *syntax.Node) []plan.SLO {
	if n == nil || n.Kind != syntax.Map {
		return nil
	}
	one := *n
	one.Entries = slices.DeleteFunc(slices.Clone(n.Entries), func(e syntax.Entry) bool { return e.Value.Kind != syntax.String })
	return l.slos(&one, "find.objectives")
}

// levels returns the loads that a search may try, as a plan would write them: with four
// digits. A search that is wrong has one, so that the rest of its plan can be checked.
func levels(f plan.Find) []string {
	whole := f.Axis == "concurrency"
	var texts []string
	if whole && (f.From != math.Trunc(f.From) || f.To != math.Trunc(f.To)) {
		return []string{"1"}
	}
	for _, x := range search.NewLevels(f.From, f.To, f.Within, whole) {
		text := strconv.FormatFloat(x, 'f', 0, 64)
		if !whole {
			four, _ := strconv.ParseFloat(strconv.FormatFloat(x, 'g', 4, 64), 64) // it is a number
			text = strconv.FormatFloat(four, 'f', -1, 64)
		}
		if !slices.Contains(texts, text) {
			texts = append(texts, text)
		}
	}
	if len(texts) == 0 {
		return []string{"1"}
	}
	return texts
}
