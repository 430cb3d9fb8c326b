// Package rehearse runs the trials of a plan on the arithmetic of the simulated engine, on
// virtual time: it says in seconds what a search is expected to find, and what that takes.
//
// A trial has the requests, the warm-up, the objectives and the verdict of a real one. It
// differs in five things: the server is package sim/core with its constants, the client and
// the network take no time beyond [virtual.Turn], each trial has a server of its own, cards
// of one kind are alike unless Devices says otherwise, and nothing ends it early (load.until,
// load.stop). So its answers are those of an optimistic model, and no measurement.
package rehearse

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"

	"sweep.dev/sweep/executor"
	"sweep.dev/sweep/executor/rehearse/virtual"
	"sweep.dev/sweep/executor/workload"
	"sweep.dev/sweep/judge/search"
	"sweep.dev/sweep/plan"
	"sweep.dev/sweep/result"
	"sweep.dev/sweep/result/col"
	"sweep.dev/sweep/rundir"
	"sweep.dev/sweep/sim/core"
)

// MaxWork bounds the tokens that the servers of a rehearsal compute together, prompts
// included. It is a bound of work and not of time, so that every machine finds the same:
// about a minute on two cores of 2024.
const MaxWork = 300_000_000

// A Config is what is rehearsed.
type Config struct {
	Plan        *plan.Plan
	Deployments []plan.Deployment // with the cells that are rehearsed
	// Engine is the simulated engine of a server whose GPU has this speed beside others of its
	// kind. Its error says why there is none.
	Engine func(s plan.Server, speed float64) (*core.Config, error)
	// Devices are the speeds of the GPUs that the launches of a deployment get by turns.
	// Without any, each launch has a new one, and all are alike.
	Devices []float64
	// USDPerHour is the price of a deployment; 0 leaves it to the plan and the catalogue.
	USDPerHour func(plan.Deployment) float64
	Given      bool // the servers run already
}

// A Result is what a rehearsal found.
type Result struct {
	Trials map[rundir.Key]*result.Outcome
	// Launches are the servers that a deployment starts one after another, by its id.
	Launches map[string]Launches
	// Unknown are the deployments that cannot be rehearsed, by their ids, with the reason.
	Unknown map[string]string
	// Cut are the deployments whose rehearsal [MaxWork] has ended.
	Cut map[string]bool
}

// Launches is how many servers are started one after another.
type Launches struct {
	New int // on devices to measure, which the searches of a deployment share
	// Taken are those on a device that the search has measured. It gives each back at once,
	// and no other search has a use for it.
	Taken int
}

// All returns how many they are together.
func (l Launches) All() int { return l.New + l.Taken }

// with returns these and those of another job of the deployment.
func (l Launches) with(o Launches) Launches {
	return Launches{max(l.New, o.New), l.Taken + o.Taken}
}

// A job is what is rehearsed apart from everything else: a search, or a cell.
type job struct {
	of      plan.Deployment
	engines []*core.Config // of the devices, in their order
	search  *executor.Search
	cell    plan.Cell // of a plan without find
}

// Run rehearses a plan. The same plan and seed have the same result.
func Run(ctx context.Context, c Config) (*Result, error) { return run(ctx, c, MaxWork) }

// run is Run with another bound of work, which its jobs share evenly.
func run(ctx context.Context, c Config, work int) (*Result, error) {
	r := &rehearsal{Config: c, inputs: workload.New(c.Plan), first: map[rundir.Key]int{}}
	out := &Result{Trials: map[rundir.Key]*result.Outcome{}, Launches: map[string]Launches{}, Unknown: map[string]string{}, Cut: map[string]bool{}}
	if err := r.claim(); err != nil {
		return nil, err
	}
	var jobs []job
	for _, d := range c.Deployments {
		engines, err := c.engines(d.Server)
		if err != nil {
			out.Unknown[d.ID] = err.Error()
			continue
		}
		if c.Plan.Find == nil {
			for _, cell := range d.Cells {
				jobs = append(jobs, job{of: d, engines: engines, cell: cell})
			}
		}
		for _, s := range executor.Searches(c.Plan, d.Cells) {
			jobs = append(jobs, job{of: d, engines: engines, search: &s})
		}
	}
	var mu sync.Mutex
	var g errgroup.Group
	g.SetLimit(runtime.GOMAXPROCS(0))
	for _, j := range jobs {
		g.Go(func() error {
			trials, launches, err := r.job(ctx, j, work/len(jobs))
			mu.Lock()
			defer mu.Unlock()
			maps.Copy(out.Trials, trials)
			out.Launches[j.of.ID] = out.Launches[j.of.ID].with(launches)
			if errors.Is(err, virtual.ErrWork) {
				out.Cut[j.of.ID] = true
				return nil
			}
			return err
		})
	}
	return out, g.Wait()
}

// engines returns those of a server on each of the devices.
func (c *Config) engines(s plan.Server) (list []*core.Config, err error) {
	speeds := c.Devices
	if len(speeds) == 0 {
		speeds = []float64{1}
	}
	for _, speed := range speeds {
		engine, err := c.Engine(s, speed)
		if err != nil {
			return nil, err
		}
		list = append(list, engine)
	}
	return list, nil
}

// A rehearsal is one under way. Its jobs share nothing that changes.
type rehearsal struct {
	Config
	inputs *workload.Inputs
	first  map[rundir.Key]int // given prompts, see [workload.Inputs.Claim]
}

// claim gives every trial its part of the given prompts, as a run does.
func (r *rehearsal) claim() (err error) {
	for _, d := range r.Deployments {
		for _, cell := range d.Cells {
			for n := 1; n <= r.Plan.Repeats.Most(); n++ {
				key := rundir.Key{Cell: cell.ID, Trial: n}
				if r.first[key], err = r.inputs.Claim(cell, n); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// job runs the trials of a job, whose servers may compute so many tokens. What it returns
// with an error are the trials and launches before it.
func (r *rehearsal) job(ctx context.Context, j job, work int) (trials map[rundir.Key]*result.Outcome, launches Launches, err error) {
	trials = map[rundir.Key]*result.Outcome{}
	run := func(cell plan.Cell, n int) (*result.Outcome, error) {
		key := rundir.Key{Cell: cell.ID, Trial: n}
		t := trial{rehearsal: r, job: j, cell: cell, n: n, first: r.first[key], launch: launches.All()}
		o, took, err := t.run(ctx, work)
		if work -= took; err != nil {
			return nil, fmt.Errorf("rehearse %s: %w", executor.Label(cell), err)
		}
		if work <= 0 {
			return nil, virtual.ErrWork
		}
		trials[key] = o
		return o, nil
	}
	if j.search == nil {
		for n := 1; n <= r.Plan.Repeats.Most(); n++ {
			launches.New = r.Plan.Repeats.Launches(n)
			if _, err := run(j.cell, n); err != nil {
				return trials, launches, err
			}
		}
		return trials, launches, nil
	}
	launches.New = 1
	var outcomes []search.Outcome
	for {
		p, ok := search.Next(j.search.Settings, outcomes)
		if !ok {
			return trials, launches, nil
		}
		cell := j.search.Cells[p.Level]
		cell.Load = j.search.Load(p)
		taken := search.Taken(j.search.Settings, outcomes, p)
		if slices.Contains(taken, r.device(launches.All())) {
			if slices.Contains(taken, r.device(launches.All()+1)) {
				launches.Taken++
			} else {
				launches.New++
			}
		}
		on := r.device(launches.All())
		var o *result.Outcome
		if slices.Contains(taken, on) {
			t := trial{rehearsal: r, job: j, cell: cell, n: p.Trial, launch: launches.All()}
			if o, err = t.seen(); err == nil {
				trials[j.search.Key(p)] = o
			}
		} else {
			o, err = run(cell, p.Trial)
		}
		if err != nil {
			return trials, launches, err
		}
		if j.search.Devices > 1 {
			o.Row[col.GPUUUID] = on
		}
		one := search.Of(o)
		one.Probe = p
		outcomes = append(outcomes, one)
	}
}

// device returns the id of that of a launch, from 1.
func (r *rehearsal) device(launch int) string {
	n := launch
	if len(r.Devices) > 0 {
		n = 1 + (launch-1)%len(r.Devices)
	}
	return fmt.Sprintf("simulated-%d", n)
}
