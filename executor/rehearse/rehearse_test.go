package rehearse

import (
	"context"
	"errors"
	"fmt"
	"math"
	"testing"

	"sweep.dev/sweep/executor"
	"sweep.dev/sweep/executor/rehearse/virtual"
	"sweep.dev/sweep/executor/workload"
	"sweep.dev/sweep/internal/slow"
	"sweep.dev/sweep/judge/search"
	"sweep.dev/sweep/plan"
	"sweep.dev/sweep/plan/plantest"
	"sweep.dev/sweep/result"
	"sweep.dev/sweep/result/col"
	"sweep.dev/sweep/result/timeline"
	"sweep.dev/sweep/rundir"
	"sweep.dev/sweep/sim/core"
	"sweep.dev/sweep/sim/predict"
)

// engine returns the simulated engine of a test's servers.
func engine(s plan.Server, speed float64) (*core.Config, error) {
	args := map[string]any{}
	for _, a := range s.Args {
		args[a.Name] = a.Value
	}
	return predict.Engine(predict.Server{Engine: "vllm", Model: "Qwen/Qwen2.5-7B-Instruct", GPU: s.GPU, Args: args, Speed: speed})
}

func config(t *testing.T, lines ...string) Config {
	p := plantest.Parse(t, lines...)
	return Config{Plan: p, Deployments: p.Deployments(), Engine: engine, USDPerHour: func(plan.Deployment) float64 { return 3.6 }}
}

// answers returns those of the searches of a rehearsal.
func answers(t *testing.T, c Config, r *Result) (all []search.Answer) {
	t.Helper()
	for _, d := range c.Deployments {
		for _, s := range executor.Searches(c.Plan, d.Cells) {
			outcomes, _, _ := search.Replay(s.Settings, func(p search.Probe) (search.Outcome, bool) {
				o, ok := r.Trials[s.Key(p)]
				if !ok {
					return search.Outcome{}, false
				}
				return search.Of(o), true
			})
			all = append(all, search.Answers(s.Settings, outcomes)...)
		}
	}
	return all
}

// searching is a plan whose servers are overloaded far below the greatest load.
var searching = []string{
	`matrix: {engine: vllm, gpu: [l40s, h100], max_tokens: 8}`,
	`load: {requests: 150, prompts: {input_tokens: 400}}`,
	`find: {axis: request_rate, from: 10, to: 1000, within: 25%, objectives: {fast: p90_ttft_ms < 300}}`,
	`validity: {max_drift: 20%}`,
}

// A rehearsal finds a load that the arithmetic carries, the same each time, and a larger one
// for a larger card. Loads far above it miss the objective, though their requests take
// longer than the load and have no plateau.
func TestRun_search(t *testing.T) {
	t.Parallel()
	c := config(t, searching...)
	first, err := Run(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	got := answers(t, c, first)
	// The prompts alone take 27 ms each of an L40S and 10 of an H100: 2 operations for each of 6.5e9 weights and 408 tokens, at 55 % of 362 and of 989 TFLOPS.
	for i, bounds := range [][2]float64{{15, 37}, {40, 100}} {
		a := got[i]
		if a.Reason != search.Certified || a.Capacity == nil || *a.Capacity < bounds[0] || *a.Capacity > bounds[1] || a.FailsAt == nil {
			t.Errorf("search %d: %+v, want a certified load between %v", i, a, bounds)
			if a.Capacity != nil {
				t.Log(*a.Capacity)
			}
		}
	}
	again, err := Run(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	if len(first.Trials) != len(again.Trials) {
		t.Error("another rehearsal has other trials")
	}
	for key, o := range first.Trials {
		if b := again.Trials[key]; b == nil || b.Row[col.P95TTFTMs] != o.Row[col.P95TTFTMs] || !b.FinishedAt.Equal(o.FinishedAt) {
			t.Errorf("%v: %v and then %v", key, o.Row[col.P95TTFTMs], b)
		}
		if o.Row[col.Simulated] != true {
			t.Errorf("%v is not marked as simulated", key)
		}
		if usd, took := o.Row.Float(col.CostUSD), o.Row.Float(col.DurationS); usd < took*0.00099 || usd > took*0.00101 {
			t.Errorf("%v costs $%v for %v s", key, usd, took)
		}
	}
}

// The answer for one server depends little on how many requests a trial has: a load that short
// trials leave open is measured longer.
func TestRun_requests(t *testing.T) {
	t.Parallel()
	sizes := []int{300, 1000}
	if slow.Tests {
		sizes = []int{300, 500, 1000, 1500}
	}
	least, most := math.Inf(1), 0.0
	for _, n := range sizes {
		c := config(t,
			`matrix: {engine: vllm, gpu: l40s, max_tokens: 128}`,
			fmt.Sprintf(`load: {requests: %d, prompts: {kind: synthetic, input_tokens: 300, distribution: lognormal, spread: 50%%}}`, n),
			`find: {axis: request_rate, from: 4, to: 64, within: 10%, confidence: 95%, objectives: {interactive: p90_ttft_ms < 300 and p90_tpot_ms < 30}}`,
		)
		r, err := Run(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		a := answers(t, c, r)[0]
		if a.Capacity == nil || a.Point == nil || *a.Point < *a.Capacity {
			t.Fatalf("%d requests: %+v", n, a)
		}
		t.Logf("%d requests: %v certified, %v found, of %d in all", n, *a.Capacity, *a.Point, a.Requests)
		least, most = min(least, *a.Capacity), max(most, *a.Capacity)
	}
	if most > 1.11*least {
		t.Errorf("%v to %v are certified", least, most)
	}
}

// A prefix cache is worth what the prompts share, and a conversation has its history.
func TestRun_cache(t *testing.T) {
	t.Parallel()
	c := config(t,
		`matrix: {engine: vllm, gpu: h100, args.enable-prefix-caching: [true, false], concurrency: 4}`,
		`load: {requests: 60, max_tokens: 16, conversation: {turns: 3}, prompts: {input_tokens: 800, shared_prefix: 50%, prefix_groups: 2}}`,
	)
	r, err := Run(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	var ttft, hits []float64
	for _, d := range c.Deployments {
		row := r.Trials[rundir.Key{Cell: d.Cells[0].ID, Trial: 1}].Row
		ttft = append(ttft, row.Float(col.P50TTFTMs))
		rate, _ := row.Number(col.PrefixCacheHitRate)
		hits = append(hits, rate)
		if in := row.Float(col.InputTokens) / row.Float(col.Requests); in < 1200 { // 800, 1600 and 2400, with answers
			t.Errorf("a request has %v tokens: no history", in)
		}
	}
	if !(hits[0] > 0.5 && hits[0] < 0.95) || hits[1] != 0 || ttft[0] > 0.7*ttft[1] {
		t.Errorf("hit rates %v, median TTFT %v", hits, ttft)
	}
}

// Launches get the devices of the backend by turns. A search confirms its load on each, the
// answer is that of the slowest, and a device that comes again is left as a run leaves it.
func TestRun_devices(t *testing.T) {
	t.Parallel()
	lines := []string{
		`matrix: {engine: vllm, gpu: l40s, max_tokens: 8}`,
		`load: {requests: 150, prompts: {input_tokens: 400}}`,
		`find: {axis: request_rate, from: 5, to: 80, within: 25%, devices: 3, objectives: {fast: p90_ttft_ms < 300}}`,
	}
	for _, of := range []struct {
		speeds   []float64
		launches Launches
		order    []int // of devices by the load that is certified on them, the least first
	}{
		{[]float64{1, 0.5, 2}, Launches{New: 3}, []int{1, 0, 2}},
		{[]float64{0.5, 1}, Launches{2, 5}, []int{0, 1}}, // after two devices they come again
		{nil, Launches{New: 3}, nil},
	} {
		if of.launches.Taken > 0 && !slow.Tests {
			continue
		}
		c := config(t, lines...)
		c.Devices = of.speeds
		r, err := Run(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		a := answers(t, c, r)[0]
		if got := r.Launches[c.Deployments[0].ID]; got != of.launches {
			t.Errorf("devices %v: launches %+v, want %+v", of.speeds, got, of.launches)
		}
		if of.order == nil {
			if len(a.Devices) != 3 {
				t.Errorf("devices that are all alike: %+v", a.Devices)
			}
			continue
		}
		if len(a.Devices) != len(of.order) {
			t.Fatalf("devices %v: %+v", of.speeds, a.Devices)
		}
		last := 0.0
		for _, i := range of.order {
			d := a.Devices[i]
			if d.ID != fmt.Sprintf("simulated-%d", i+1) || d.Capacity == nil || *d.Capacity <= last {
				t.Errorf("devices %v: %+v", of.speeds, a.Devices)
				break
			}
			last = *d.Capacity
		}
		if least := a.Devices[of.order[0]].Capacity; a.Capacity == nil || *a.Capacity != *least {
			t.Errorf("devices %v: the answer is %v, on the slowest %v", of.speeds, a.Capacity, *least)
		}
	}
}

// Searches share the launches on devices to measure. Each has its own on devices that it has
// measured, as a run has.
func TestRun_devicesOfSearches(t *testing.T) {
	t.Parallel()
	c := config(t,
		`matrix: {engine: vllm, gpu: l40s, max_tokens: [8, 9]}`,
		`load: {requests: 150, prompts: {input_tokens: 400}}`,
		`find: {axis: request_rate, from: 5, to: 80, within: 25%, devices: 3, objectives: {fast: p90_ttft_ms < 300}}`,
	)
	for _, of := range []struct {
		speeds []float64
		want   Launches
	}{{[]float64{1, 0.5}, Launches{2, 10}}, {[]float64{1}, Launches{1, 10}}} {
		if len(of.speeds) == 1 && !slow.Tests {
			continue
		}
		c.Devices = of.speeds
		r, err := Run(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		if got := r.Launches[c.Deployments[0].ID]; got != of.want || got.All() != of.want.New+of.want.Taken {
			t.Errorf("devices %v: launches %+v, want %+v", of.speeds, got, of.want)
		}
	}
}

// Trials of a grid are on the devices of their launches.
func TestRun_devicesOfLaunches(t *testing.T) {
	t.Parallel()
	lines := []string{`matrix: {engine: vllm, gpu: l40s, concurrency: 1}`, `load: {requests: 20, max_tokens: 64, prompts: {input_tokens: 100}}`}
	for repeats, launches := range map[string]int{`repeats: {n: 3, launch: each}`: 3, `repeats: 3`: 1} {
		c := config(t, append(lines, repeats)...)
		c.Devices = []float64{1, 0.5}
		r, err := Run(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		d := c.Deployments[0]
		var took []float64
		for n := 1; n <= 3; n++ {
			took = append(took, r.Trials[rundir.Key{Cell: d.Cells[0].ID, Trial: n}].Row.Float(col.P50E2EMs))
		}
		second := took[1] / took[0]
		if slow := second > 1.7 && second < 2.3; r.Launches[d.ID] != (Launches{New: launches}) || slow != (launches == 3) || math.Abs(took[2]/took[0]-1) > 0.1 {
			t.Errorf("%s: launches %+v, p50 E2E %v ms", repeats, r.Launches[d.ID], took)
		}
	}
}

// A rehearsal says what it cannot rehearse, and ends with its context.
func TestRun_unknown(t *testing.T) {
	t.Parallel()
	c := config(t, searching...)
	c.Engine = func(s plan.Server, speed float64) (*core.Config, error) {
		if s.GPU == "l40s" {
			return nil, errors.New("no such card")
		}
		return engine(s, speed)
	}
	r, err := Run(t.Context(), c)
	if err != nil || r.Unknown[c.Deployments[0].ID] != "no such card" || len(r.Unknown) != 1 || len(r.Trials) == 0 {
		t.Errorf("%v, unknown %v", err, r.Unknown)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Run(ctx, c); !errors.Is(err, context.Canceled) {
		t.Errorf("a rehearsal that was cancelled: %v", err)
	}
}

// A search that would take more than its share of the work ends, with the trials before.
func TestRun_bound(t *testing.T) {
	t.Parallel()
	c := config(t, searching...)
	for work, want := range map[int]int{100_000: 1, 10: 0} { // a trial has about 200 x 408 tokens
		r, err := run(t.Context(), c, work*len(c.Deployments))
		if err != nil || len(r.Cut) != len(c.Deployments) || len(r.Trials) != want*len(c.Deployments) {
			t.Errorf("work %d: %v, %d trials, cut %v", work, err, len(r.Trials), r.Cut)
		}
	}
}

// Conversations are at all of their turns at any time of the plateau, so that neither the
// lengths of prompts nor TTFT rise and fall with the turn that all are at.
func TestRun_turns(t *testing.T) {
	t.Parallel()
	const turns = 6
	c := config(t,
		`matrix: {engine: vllm, gpu: h100, concurrency: 48}`,
		`load: {requests_per_worker: 30, max_tokens: 64, output: natural, think_time: 1s, conversation: {turns: 6}, prompts: {input_tokens: 300}}`,
	)
	r := &rehearsal{Config: c, inputs: workload.New(c.Plan)}
	engine, err := c.Engine(c.Deployments[0].Server, 1)
	if err != nil {
		t.Fatal(err)
	}
	one := trial{rehearsal: r, job: job{of: c.Deployments[0], engines: []*core.Config{engine}}, cell: c.Deployments[0].Cells[0], n: 1}
	requests, err := one.send(t.Context(), virtual.New(virtual.Server{Engine: *engine, Ask: one.ask, Work: MaxWork}))
	if err != nil {
		t.Fatal(err)
	}
	span := timeline.Assign(requests, one.cell.Load.Concurrency)
	const parts = 4 * turns // four conversations follow each other
	var sum, n [parts]float64
	for _, r := range requests {
		if r.Phase == result.Plateau {
			at := min(parts-1, int(parts*(r.Sent-span.From)/span.Length()))
			sum[at] += float64(r.Turn)
			n[at]++
		}
	}
	for i := range parts {
		if mean := sum[i] / n[i]; math.Abs(mean-(turns-1)/2.) > 0.8 {
			t.Errorf("part %d of the plateau: %.0f requests are at turn %.1f in the mean", i, n[i], mean)
		}
	}
}
