package executor

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"

	"sweep.dev/sweep/executor/serving"
	"sweep.dev/sweep/plan"
)

// byTurns runs the deployments of a plan that compares them: trial 1 of all cells of
// each, then trial 2 of each, one server at a time and each turn on a launch of its own.
// A drift over the minutes of a run then affects all sides alike, and the trials of one
// number are neighbours in time.
//
// A deployment whose server cannot be stopped ends the run: the next would share its
// machine with it.
func (r *run) byTurns(ctx context.Context) (err error) {
	var begun []*deployment
	defer func() {
		for _, d := range begun {
			err = errors.Join(err, guard(func() error {
				d.end(err == nil && ctx.Err() == nil)
				return nil
			}))
		}
		if err != nil {
			r.stop(err)
		}
	}()
	defer serving.Recovered(&err)
	for _, d := range r.pending() {
		if err := d.begin(); err != nil {
			return err
		}
		begun = append(begun, d)
	}
	most := r.config.Plan.Repeats.Most()
	for _, key := range r.config.State.Added {
		most = max(most, key.Trial)
	}
	for n := 1; n <= most; n++ {
		for _, d := range turns(r.config.Plan, begun, n) {
			if ctx.Err() != nil {
				return nil
			}
			if err := d.measure(ctx, func(t *trial) bool { return t.key.Trial == n }); err != nil {
				return err
			}
			if n < most || len(begun) > 1 {
				d.servers.Renew()
				d.use(nil)
			}
			if d.servers.GivenUp() {
				return nil
			}
		}
	}
	return nil
}

// turns returns the order in which deployments have their nth trials: shuffled by the seed,
// but that the baseline is first in the first turn and last in the last. Its first and
// its last trials are what tells whether the host has moved meanwhile.
func turns(p *plan.Plan, all []*deployment, n int) []*deployment {
	order := slices.Clone(all)
	rng := rand.New(rand.NewPCG(p.Seed, uint64(n)))
	rng.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
	first, last := n == 1, n == p.Repeats.Most()
	if first || last {
		slices.SortStableFunc(order, func(a, b *deployment) int {
			rank := func(d *deployment) int {
				if p.Compare.Base(d.of.Cells[0]) != first {
					return 1
				}
				return 0
			}
			return rank(a) - rank(b)
		})
	}
	return order
}
