package plan

import (
	"bytes"
	"errors"
	"slices"

	"sweep.dev/sweep/catalog"
	"sweep.dev/sweep/internal/input"
	"sweep.dev/sweep/internal/syntax"
	"sweep.dev/sweep/plan/internal/strict"
	"sweep.dev/sweep/result"
)

// A Price is what one GPU costs its user.
type Price struct {
	USDPerHour float64 `yaml:"usd_per_hour" doc:"Price of one GPU for an hour." gt:"0" max:"10000" unit:"USD"`
}

// A Config is the user's configuration file: what holds for every plan.
type Config struct {
	Prices map[string]Price `yaml:"prices,omitempty" doc:"Prices of GPUs that are owned or reserved, by the names that plans use. A plan's own come first."`
}

// PriceOf is the price of all GPUs of a server for an hour in USD, unless its
// provider bills another one, and where it is from: one of the result.Price
// constants. Both are zero if no price is known.
func (p *Plan) PriceOf(s Server) (usdPerHour float64, source string) {
	var each float64
	if own, ok := p.Prices[s.GPU]; ok {
		each, source = own.USDPerHour, result.PricePlan
	} else if own, ok := p.config.Prices[s.GPU]; ok {
		each, source = own.USDPerHour, result.PriceConfig
	} else if gpu, ok := catalog.GPUByName(s.GPU); ok {
		each, source = gpu.USDPerHour, result.PriceCatalogue
	}
	if each <= 0 || s.GPUCount <= 0 {
		return 0, ""
	}
	return each * float64(s.GPUCount), source
}

// checkPrices checks the prices of the plan and of the user's configuration.
func (l *loader) checkPrices(p *Plan) {
	if n := l.root.Get("prices"); n != nil {
		l.prices(n)
		for _, e := range entries(n) {
			if l.priced(e.Key.Text) {
				continue
			}
			d := l.Report.Node(e.Key, "unknown-gpu", "there is no GPU %q in the catalogue, and no cell has that label", e.Key.Text)
			names := slices.Concat(l.gpuNames(), l.labels())
			d.Nearest = syntax.Nearest(e.Key.Text, names)
			d.Expected = strict.OneOf(names)
		}
	}
	if l.opts.Config != "" {
		p.config = l.readConfig(l.opts.Config)
	}
}

// prices reports GPUs without a price.
func (l *loader) prices(n *syntax.Node) {
	for _, e := range entries(n) {
		if e.Value.Kind == syntax.Map && len(e.Value.Entries) == 0 {
			l.Report.Node(e.Value, "missing", "the GPU %s has no price", e.Key.Text).Expected = "for example {usd_per_hour: 2.10}"
		}
	}
}

func entries(n *syntax.Node) []syntax.Entry {
	if n == nil || n.Kind != syntax.Map {
		return nil
	}
	return n.Entries
}

// priced says whether a name is that of a GPU of the catalogue or of the matrix.
func (l *loader) priced(name string) bool {
	return slices.Contains(l.gpuNames(), name) || slices.Contains(l.labels(), name)
}

// labels are the names of the axis gpu on a backend that takes free labels.
func (l *loader) labels() []string {
	if !l.backend.FreeGPU {
		return nil
	}
	var names []string
	for _, n := range l.axisNodes("gpu") {
		names = append(names, n.Text)
	}
	return names
}

// hasContent says whether a YAML file has more than comments.
func hasContent(text []byte) bool {
	for line := range bytes.Lines(text) {
		if line = bytes.TrimSpace(line); len(line) > 0 && line[0] != '#' {
			return true
		}
	}
	return false
}

// readConfig reads the user's configuration. Its labels may be those of other
// plans, so a label is wrong only if it is nearly a name of the catalogue.
func (l *loader) readConfig(path string) Config {
	var c Config
	text, err := input.ReadFile(path, syntax.MaxBytes)
	if errors.Is(err, input.ErrEmpty) || err == nil && !hasContent(text) {
		return c
	}
	if err != nil {
		unread(l.Report, path, "config", "the user's configuration", err)
		return c
	}
	root := syntax.Parse(path, string(text), l.Report)
	if root == nil {
		return c
	}
	d := strict.Decoder{Report: l.Report}
	d.Decode(root, &c, "")
	n := root.Get("prices")
	l.prices(n)
	for _, e := range entries(n) {
		near := syntax.Nearest(e.Key.Text, l.gpuNames())
		if near == "" || l.priced(e.Key.Text) || numbered(near, e.Key.Text) {
			continue // l40 is no slip for l4
		}
		d := l.Report.Node(e.Key, "unknown-gpu", "there is no GPU %q in the catalogue", e.Key.Text)
		d.Nearest = near
		d.Hint = "sweep gpus lists them; a label of your own must not be so close to one of these names"
	}
	return c
}
