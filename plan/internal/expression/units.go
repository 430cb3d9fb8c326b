package expression

import (
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/expr-lang/expr/ast"

	"sweep.dev/sweep/plan/internal/strict"
)

// A measure is a unit: so many of the smallest unit of its kind. A unit without
// a kind multiplies what is counted.
type measure struct {
	kind string
	size float64
}

// measures are the units of columns and axes and those that a number in an
// expression may carry.
var measures = map[string]measure{
	"us": {"time", 1}, "µs": {"time", 1}, "ms": {"time", 1e3}, "s": {"time", 1e6},
	"m": {"time", 60e6}, "min": {"time", 60e6}, "h": {"time", 3600e6},

	"%": {"share", 1}, "percent": {"share", 1}, "ratio": {"share", 100},

	"bytes": {"memory", 1}, "B": {"memory", 1},
	"kB": {"memory", 1e3}, "MB": {"memory", 1e6}, "GB": {"memory", 1e9}, "TB": {"memory", 1e12},
	"KiB": {"memory", 1 << 10}, "MiB": {"memory", 1 << 20}, "GiB": {"memory", 1 << 30}, "TiB": {"memory", 1 << 40},

	"k": {"", 1e3}, "ki": {"", 1 << 10}, "M": {"", 1e6}, "Mi": {"", 1 << 20},

	"tokens": {"tokens", 1}, "tok": {"tokens", 1}, "tokens/s": {"token rate", 1}, "tok/s": {"token rate", 1},
	"requests": {"requests", 1}, "req": {"requests", 1}, "requests/s": {"request rate", 1}, "req/s": {"request rate", 1},

	"J": {"energy", 1}, "kJ": {"energy", 1e3}, "W": {"power", 1}, "kW": {"power", 1e3},
	"USD": {"money", 1}, "USD/h": {"price", 1}, "MHz": {"clock", 1}, "GHz": {"clock", 1e3},
}

// in returns x of unit u as a number of unit of; ok is false if they do not fit.
func in(x float64, u, of string) (_ float64, ok bool) {
	m, known := measures[u]
	target, measured := measures[of]
	switch {
	case !known || of == "":
		return 0, false
	case m.kind == "":
		return x * m.size, !measured || !slices.Contains([]string{"time", "share", "memory"}, target.kind)
	}
	return x * m.size / target.size, m.kind == target.kind
}

// fitting returns the units that a number beside a column of unit of may carry.
func fitting(of string) []string {
	var names []string
	for name := range measures {
		if _, ok := in(1, name, of); ok {
			names = append(names, name)
		}
	}
	slices.SortFunc(names, func(a, b string) int {
		if x, y := measures[a].size, measures[b].size; x != y {
			return int(max(-1, min(1, x-y)))
		}
		return strings.Compare(a, b)
	})
	return names
}

// lexemes are texts, names, and numbers with what follows them. A word after a
// space is a unit if it is one of measures: 5 in [a] is no quantity.
var lexemes = regexp.MustCompile(`"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|[\pL_$][\pL\d_]*|0[xXbBoO][\da-fA-F_]+|` +
	`\d[\d_]*(?:\.\d+)?(?:[eE][+-]?\d+)?( ?)(%|\pL+(?:/(?:s|h)\b)?)`)

// quantities takes the units out of text, which keeps its length, and gives
// them by the place of their numbers, and where they end, in characters.
func quantities(text string) (bare string, units map[int]string, ends map[int]int) {
	units, ends = make(map[int]string), make(map[int]int)
	var b strings.Builder
	end := 0
	for _, m := range lexemes.FindAllStringSubmatchIndex(text, -1) {
		if m[4] < 0 {
			continue
		}
		unit := text[m[4]:m[5]]
		if _, known := measures[unit]; m[2] < m[3] && (!known || unit == "%") {
			continue
		}
		at := utf8.RuneCountInString(text[:m[0]])
		units[at], ends[at] = unit, utf8.RuneCountInString(text[:m[5]])
		b.WriteString(text[end:m[4]])
		b.WriteString(strings.Repeat(" ", utf8.RuneCountInString(unit)))
		end = m[5]
	}
	return b.String() + text[end:], units, ends
}

// scaler gives numbers with units their values in the unit of the column that
// they are compared with.
type scaler struct {
	*sandbox
	units  map[int]string // of numbers that have not been compared yet, by their place
	ends   map[int]int
	values map[int]float64
}

// Visit implements [ast.Visitor]. Children come before their parents.
func (s *scaler) Visit(node *ast.Node) {
	n, ok := (*node).(*ast.BinaryNode)
	if !ok || !slices.Contains([]string{"<", "<=", ">", ">=", "==", "!=", "in"}, n.Operator) {
		return
	}
	c := &compared{s: s}
	ast.Walk(node, c)
	for _, number := range c.numbers {
		s.scale(number, c)
	}
}

// scale gives a number its value in the one unit of what it is compared with.
func (s *scaler) scale(number ast.Node, c *compared) {
	at := number.Location().From
	unit := s.units[at]
	delete(s.units, at)
	var of []string
	for _, name := range c.columns {
		if u := s.env.Units[name]; !slices.Contains(of, u) {
			of = append(of, u)
		}
	}
	x := value(number)
	if len(of) == 1 && !c.product {
		if v, ok := in(x, unit, of[0]); ok {
			s.values[at] = v
			return
		}
	}
	why := s.unitsOf(c.columns)
	switch {
	case len(c.columns) == 0:
		why = "the number is compared with no " + s.env.Noun
	case c.product:
		why = s.env.Noun + "s are multiplied or divided here"
	}
	d := s.r.At(s.n.Src, s.n.Offset(at, s.ends[at]), "unit", "the unit %s does not fit: %s", unit, why)
	if len(of) == 1 && of[0] != "" && !c.product {
		d.Expected = "a number alone, or with " + strict.OneOf(fitting(of[0]))
	} else {
		d.Hint = "write the number without a unit"
	}
}

// rest reports the numbers whose units nothing is compared with.
func (s *scaler) rest(tree *ast.Node) {
	c := &compared{s: s}
	ast.Walk(tree, c)
	c.columns = nil
	for _, number := range c.numbers {
		s.scale(number, c)
	}
}

// unitsOf says which unit each of the columns has.
func (s *sandbox) unitsOf(names []string) string {
	parts := make([]string, len(names))
	for i, name := range names {
		parts[i] = name + " has no unit"
		if u := s.env.Units[name]; u != "" {
			parts[i] = name + " has the unit " + u
		}
	}
	return strings.Join(parts, ", ")
}

func value(number ast.Node) float64 {
	switch n := number.(type) {
	case *ast.IntegerNode:
		return float64(n.Value)
	case *ast.FloatNode:
		return n.Value
	}
	return 0
}

// compared is what one comparison reads.
type compared struct {
	s       *scaler
	columns []string
	numbers []ast.Node // with units
	product bool       // columns are multiplied or divided, so that their units are others
}

// Visit implements [ast.Visitor].
func (c *compared) Visit(node *ast.Node) {
	switch n := (*node).(type) {
	case *ast.IdentifierNode:
		if _, ok := c.s.env.Zero[n.Value]; ok && !slices.Contains(c.columns, n.Value) {
			c.columns = append(c.columns, n.Value)
		}
	case *ast.IntegerNode, *ast.FloatNode:
		if _, ok := c.s.units[n.Location().From]; ok {
			c.numbers = append(c.numbers, *node)
		}
	case *ast.BinaryNode:
		if slices.Contains([]string{"*", "/", "**", "^"}, n.Operator) && reads(n.Left) && reads(n.Right) {
			c.product = true
		}
	}
}

func reads(node ast.Node) bool {
	found := reader(false)
	ast.Walk(&node, &found)
	return bool(found)
}

type reader bool

// Visit implements [ast.Visitor].
func (r *reader) Visit(node *ast.Node) {
	if _, ok := (*node).(*ast.IdentifierNode); ok {
		*r = true
	}
}

// patch puts the values in the place of the numbers.
type patch map[int]float64

// Visit implements [ast.Visitor].
func (p patch) Visit(node *ast.Node) {
	switch (*node).(type) {
	case *ast.IntegerNode, *ast.FloatNode:
		if v, ok := p[(*node).Location().From]; ok {
			ast.Patch(node, &ast.FloatNode{Value: v})
		}
	}
}
