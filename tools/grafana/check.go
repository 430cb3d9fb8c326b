package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/grafana/grafana-foundation-sdk/go/bargauge"
	"github.com/grafana/grafana-foundation-sdk/go/cog"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
	"github.com/grafana/grafana-foundation-sdk/go/prometheus"
	"github.com/grafana/grafana-foundation-sdk/go/table"
	"github.com/grafana/grafana-foundation-sdk/go/timeseries"
	"github.com/prometheus/prometheus/promql/parser"
)

// A panel has its queries decoded.
type panel struct {
	dashboard.Panel
	queries []prometheus.Dataquery
}

// check says what is wrong with a dashboard, all of it, and how many queries it has.
func check(text []byte, known series) (queries int, err error) {
	d, panels, err := decode(text)
	if err != nil {
		return 0, err
	}
	var all []error
	wrong := func(where string, err error) {
		if err != nil {
			all = append(all, fmt.Errorf("%s: %w", where, err))
		}
	}
	for _, v := range d.Templating.List {
		if v.Query == nil || v.Query.String == nil {
			wrong("variable "+v.Name, errors.New("it asks for nothing"))
			continue
		}
		wrong("variable "+v.Name, known.labelValues(*v.Query.String))
		queries++
	}
	for _, p := range panels {
		if p.Title == nil {
			wrong("a panel", errors.New("it has no title"))
			continue
		}
		for _, q := range p.queries {
			wrong(*p.Title, known.query(q.Expr, q.LegendFormat))
			queries++
		}
	}
	return queries, errors.Join(all...)
}

// decode reads a dashboard as Grafana's schema has it: no field is unknown, and none that
// is required is missing. An exported dashboard has __inputs beside it, which its import
// asks for and takes away. Panels and queries are decoded once more by themselves: the
// schema's code loses those that it finds nothing wrong with.
func decode(text []byte) (d dashboard.Dashboard, panels []panel, err error) {
	runtime := cog.NewRuntime()
	runtime.RegisterPanelcfgVariant(bargauge.VariantConfig())
	runtime.RegisterPanelcfgVariant(table.VariantConfig())
	runtime.RegisterPanelcfgVariant(timeseries.VariantConfig())
	runtime.RegisterDataqueryVariant(prometheus.VariantConfig())
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(text, &fields); err != nil {
		return d, nil, err
	}
	delete(fields, "__inputs")
	if text, err = json.Marshal(fields); err != nil {
		return d, nil, err
	}
	if err := found(d.UnmarshalJSONStrict(text)); err != nil {
		return d, nil, err
	}
	var list []json.RawMessage
	if err := json.Unmarshal(fields["panels"], &list); err != nil {
		return d, nil, err
	}
	for _, raw := range list {
		var p panel
		if err := found(p.UnmarshalJSONStrict(raw)); err != nil {
			return d, nil, err
		}
		var of struct{ Targets []json.RawMessage }
		if err := json.Unmarshal(raw, &of); err != nil {
			return d, nil, err
		}
		for _, target := range of.Targets {
			var q prometheus.Dataquery
			if err := found(q.UnmarshalJSONStrict(target)); err != nil {
				return d, nil, err
			}
			p.queries = append(p.queries, q)
		}
		if _, ok := runtime.ConfigForPanelcfgVariant(p.Type); !ok {
			return d, nil, fmt.Errorf("a panel of the type %q, which is not checked here", p.Type)
		}
		if err := found(p.Validate()); err != nil {
			return d, nil, err
		}
		panels = append(panels, p)
	}
	return d, panels, nil
}

// found returns what the schema's code found wrong, which returns an empty list if that is
// nothing.
func found(err error) error {
	if list, ok := errors.AsType[cog.BuildErrors](err); ok && len(list) == 0 {
		return nil
	}
	return err
}

// legend is a label in a legend.
var legend = regexp.MustCompile(`{{\s*(\w+)\s*}}`)

// query says what is wrong with a query and with the legend of what it finds.
func (s series) query(expr string, legendFormat *string) error {
	parsed, err := parser.NewParser(parser.Options{}).ParseExpr(expr)
	if err != nil {
		return err
	}
	var all []error
	var names, matched []string
	parser.Inspect(parsed, func(node parser.Node, _ []parser.Node) error {
		switch n := node.(type) {
		case *parser.VectorSelector:
			names = append(names, n.Name)
			all = append(all, s.selects(n))
		case *parser.BinaryExpr:
			if n.VectorMatching != nil {
				matched = append(matched, n.VectorMatching.MatchingLabels...)
			}
		}
		return nil
	})
	for _, name := range names {
		for _, label := range matched {
			all = append(all, s.has(name, label))
		}
	}
	if legendFormat != nil && len(names) > 0 {
		for _, m := range legend.FindAllStringSubmatch(*legendFormat, -1) {
			all = append(all, s.has(names[0], m[1]))
		}
	}
	if len(names) == 0 {
		all = append(all, fmt.Errorf("%q selects no series", expr))
	}
	return errors.Join(all...)
}

var labelValues = regexp.MustCompile(`^label_values\((\w+), (\w+)\)$`)

// labelValues says what is wrong with the query of a variable, which is Grafana's own.
func (s series) labelValues(query string) error {
	m := labelValues.FindStringSubmatch(query)
	if m == nil {
		return fmt.Errorf("%q is no label_values(METRIC, LABEL)", query)
	}
	return s.has(m[1], m[2])
}

// selects says why a selector finds nothing. A matcher that has a variable of the
// dashboard takes every value.
func (s series) selects(v *parser.VectorSelector) error {
	for _, m := range v.LabelMatchers {
		if m.Name == "__name__" {
			continue
		}
		if err := s.has(v.Name, m.Name); err != nil {
			return err
		}
	}
	for _, labels := range s[v.Name] {
		fits := true
		for _, m := range v.LabelMatchers {
			fits = fits && (m.Name == "__name__" || strings.Contains(m.Value, "$") || m.Matches(labels[m.Name]))
		}
		if fits {
			return nil
		}
	}
	return fmt.Errorf("no series fits %s", v)
}
