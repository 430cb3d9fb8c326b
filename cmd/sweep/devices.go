package main

import (
	"fmt"
	"slices"
	"time"

	"github.com/urfave/cli/v3"

	"sweep.dev/sweep/internal/humanize"
	"sweep.dev/sweep/plan"
	"sweep.dev/sweep/plan/planfile"
)

// rentedDevices is on how many devices a search on rented GPUs certifies a load, where the
// plan leaves it open and its budget carries that.
const rentedDevices = 3

// openPriced opens a plan. If its searches rent GPUs and it does not say on how many
// devices, they are on three where the budget carries that, as --set would have it; so a
// resume knows it too. The prices are those that the plan, the configuration or the
// catalogue knows: nobody is asked.
func (a *app) openPriced(c *cli.Command, path string) (*plan.Plan, *plugins, planfile.Options, error) {
	options := a.planOptions(c)
	p, made, err := a.open(path, options)
	if err != nil || p.Find == nil || p.Find.Devices != 0 || !made.factory.Bills || path == planfile.Stdin ||
		!slices.ContainsFunc(p.Collect, func(use plan.Plugin) bool { return use.Kind == "gpu" }) {
		return p, made, options, err
	}
	more := options
	more.Set = append(slices.Clone(options.Set), fmt.Sprintf("find.devices=%d", rentedDevices))
	several, plugins, err := a.open(path, more)
	if err != nil {
		return nil, nil, options, err
	}
	budget := budgetOf(c, several)
	usd, took := 0.0, time.Duration(0)
	for _, d := range several.Deployments() {
		each, source := several.PriceOf(d.Server)
		if source == "" {
			return p, made, options, nil // nobody knows whether it is enough
		}
		e := estimate(several, d, plugins.traits())
		usd, took = usd+each*e.took.Hours(), took+e.took
	}
	if budget.cost < usd || budget.time > 0 && budget.time < took {
		return p, made, options, nil
	}
	a.say("sweep: each load is certified on %d devices, which costs about %s of the $%.2f of the budget; --set find.devices=1 takes one", rentedDevices, humanize.Dollars(usd), budget.cost)
	return several, plugins, more, nil
}
