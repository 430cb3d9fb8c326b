package plan

import (
	"sweep.dev/sweep/engine/catalog"
	"sweep.dev/sweep/result"
)

// A Price is what one GPU costs its user.
type Price struct {
	USDPerHour float64 `yaml:"usd_per_hour" doc:"Price of one GPU for an hour." gt:"0" max:"10000" unit:"USD" example:"0.71"`
}

// A Config is the user's configuration file: what holds for every plan.
type Config struct {
	Prices map[string]Price `yaml:"prices,omitempty" doc:"Prices of owned or reserved GPUs, by the names that plans use. The prices of a plan take precedence." example:"{l4: {usd_per_hour: 0.71}}"`
}

// PriceOf returns the price of all GPUs of a server for an hour in USD, unless its
// provider bills another one, and where it is from: one of the result.Price
// constants. Both are zero if no price is known.
func (p *Plan) PriceOf(s Server) (usdPerHour float64, source string) {
	var each float64
	if own, ok := p.Prices[s.GPU]; ok {
		each, source = own.USDPerHour, result.PricePlan
	} else if own, ok := p.rest.Config.Prices[s.GPU]; ok {
		each, source = own.USDPerHour, result.PriceConfig
	} else if gpu, ok := catalog.GPUByName(s.GPU); ok {
		each, source = gpu.USDPerHour, result.PriceCatalogue
	}
	if each <= 0 || s.GPUCount <= 0 {
		return 0, ""
	}
	return each * float64(s.GPUCount), source
}
