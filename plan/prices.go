package plan

import (
	"bytes"
	"errors"

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

// hasContent says whether a YAML file has more than comments.
func hasContent(text []byte) bool {
	for line := range bytes.Lines(text) {
		if line = bytes.TrimSpace(line); len(line) > 0 && line[0] != '#' {
			return true
		}
	}
	return false
}

// readConfig reads the user's configuration; its prices are held against the
// catalogue by a rule.
func (l *loader) readConfig(path string) (c Config) {
	text, err := input.ReadFile(path, syntax.MaxBytes)
	if errors.Is(err, input.ErrEmpty) || err == nil && !hasContent(text) {
		return c
	}
	if err != nil {
		unread(l.Report, path, "config", "the user's configuration", err)
		return c
	}
	if l.config = syntax.Parse(path, string(text), l.Report); l.config != nil {
		d := strict.Decoder{Report: l.Report}
		d.Decode(l.config, &c, "")
	}
	return c
}
