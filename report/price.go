package report

import "sweep.dev/sweep/result"

// PriceSource returns a value of price_source in words.
func PriceSource(source string) string {
	switch source {
	case result.PriceProvider:
		return "the provider's price"
	case result.PricePlan:
		return "price of the plan"
	case result.PriceConfig:
		return "price of the user's configuration"
	case result.PriceCatalogue:
		return "list price"
	}
	return source
}
