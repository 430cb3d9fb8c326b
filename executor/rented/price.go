package rented

import (
	"context"
	"fmt"
	"time"

	"sweep.dev/sweep/backends"
	"sweep.dev/sweep/plan"
	"sweep.dev/sweep/result"
)

// A Price is what one deployment costs while it runs.
type Price struct {
	USDPerHour float64
	Known      bool
	Source     string           // one of result's Price constants
	Offers     []backends.Offer // what the provider says; nil if it was not asked
}

// Prices asks the provider what deployments would cost, by their ids. If backend
// cannot be asked, or is nil, they are the prices of the plan, of the user's
// configuration or of the catalogue. specify says what would be launched.
func Prices(ctx context.Context, p *plan.Plan, backend backends.Backend, list []plan.Deployment, specify func(plan.Deployment) (backends.Spec, error)) (map[string]Price, error) {
	all := map[string]Price{}
	quoter, asks := backend.(backends.Quoter)
	for _, d := range list {
		if !asks {
			usd, source := p.PriceOf(d.Server)
			all[d.ID] = Price{USDPerHour: usd, Known: source != "", Source: source}
			continue
		}
		spec, err := specify(d)
		if err != nil {
			return nil, err
		}
		offers, err := quoter.Quote(ctx, spec)
		if err != nil {
			return nil, fmt.Errorf("prices of backend %s: %w", p.Backend.Kind, err)
		}
		all[d.ID] = offered(offers)
	}
	return all, nil
}

// offered returns the price of the first offer that is available, else of the first
// with a price. An offer without a price is unknown, not free.
func offered(offers []backends.Offer) Price {
	p := Price{Offers: offers}
	for _, o := range offers {
		if o.USDPerHour > 0 && (o.Available || !p.Known) {
			p.USDPerHour, p.Known, p.Source = o.USDPerHour, true, result.PriceProvider
		}
		if o.Available {
			break
		}
	}
	return p
}

// A Quote is what a run is going to rent, and its price.
type Quote struct {
	Pods, AtOnce int
	Unknown      int           // pods whose price is unknown
	USDPerHour   float64       // at most, of all that run at once
	USD          float64       // about, for what is left to measure
	Spent        float64       // by earlier runs of the directory
	Max          float64       // the bound for the whole run directory; 0: none
	Kept         float64       // at most, for pods that are kept afterwards
	Keep         time.Duration // how long they are; 0: not at all
}

// Add adds a deployment that is launched so many times, one after another, and takes
// a time in all at a price. AtOnce and Keep are known before the first.
func (q *Quote) Add(one Price, launches int, took time.Duration) {
	q.Pods += launches
	if !one.Known {
		q.Unknown += launches
	}
	q.USDPerHour = max(q.USDPerHour, one.USDPerHour*float64(q.AtOnce))
	q.USD += one.USDPerHour * took.Hours()
	q.Kept += one.USDPerHour * q.Keep.Hours()
}

// OverBudget reports whether the estimate is over the bound.
func (q Quote) OverBudget() bool { return q.Max > 0 && q.Spent+q.USD > q.Max }
