package main

import (
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	"sweep.dev/sweep/cmd/sweep/internal/vocabulary"
	"sweep.dev/sweep/executor"
	"sweep.dev/sweep/executor/fingerprint"
	"sweep.dev/sweep/internal/slow"
	"sweep.dev/sweep/judge/search"
	"sweep.dev/sweep/plan"
	"sweep.dev/sweep/plan/planfile"
)

// hunt returns a plan with one search, of a model on some devices.
func hunt(model string, devices int) string {
	return fmt.Sprintf("version: 1\nname: x\nmodel: %s\nmatrix: {engine: vllm, gpu: l4}\nbackend: sim\nload: {requests: 40, max_tokens: 4, prompts: {input_tokens: 20}}\n"+
		"find: {axis: request_rate, from: 1, to: 8, within: 50%%, devices: %d, objectives: {a: p50_ttft_ms < 100}}\ncollect: [gpu]\n", model, devices)
}

// deploymentOf parses a plan of one deployment.
func deploymentOf(t *testing.T, text string) (*plan.Plan, plan.Deployment) {
	t.Helper()
	p, err := planfile.Parse("x.yaml", t.TempDir(), []byte(text), planfile.Options{Vocabulary: vocabulary.All(), MaxCells: 100, LookupEnv: os.LookupEnv})
	if err != nil {
		t.Fatal(err)
	}
	all := p.Deployments()
	if len(all) != 1 {
		t.Fatalf("%d deployments", len(all))
	}
	return p, all[0]
}

// Each launch that is measured has the time of its fingerprint: that of its tokens, and at
// most the bound of package fingerprint.
func TestEstimate_fingerprint(t *testing.T) {
	t.Parallel()
	grid := func(model, more string) string {
		return fmt.Sprintf("version: 1\nname: x\nmodel: %s\nmatrix: {engine: vllm, gpu: l4, concurrency: [1, 2]}\nbackend: sim\nload: {requests: 8, max_tokens: 4, prompts: {input_tokens: 20}}\n%s", model, more)
	}
	const small, large = "Qwen/Qwen2.5-1.5B-Instruct", "meta-llama/Llama-3.1-70B-Instruct"
	for _, c := range []struct {
		text     string
		of       traits
		launches int // with a fingerprint
	}{
		{grid(small, ""), traits{scale: 1, rents: true}, 1},
		{grid(small, ""), traits{scale: 1}, 0},
		{grid(small, "fingerprint: true\n"), traits{scale: 1, given: true}, 1},
		{grid(small, "repeats: {n: 3, launch: each}\n"), traits{scale: 1, rents: true}, 3},
		{grid(large, ""), traits{scale: 1, rents: true}, 1}, // a token takes half a second
		{hunt(small, 3), traits{scale: 1, rents: true}, 3},
		{hunt(small, 3), traits{scale: 2}, 3},
	} {
		p, d := deploymentOf(t, c.text)
		with := estimate(p, d, c.of)
		p.Fingerprint = new(bool)
		without := estimate(p, d, c.of)
		each := min(fingerprint.Limit, time.Duration(float64(fingerprint.Tokens())*float64(tokenEstimate(d.Server))/c.of.scale))
		name := fmt.Sprintf("%+v of\n%s", c.of, c.text)
		if got, want := with.took-without.took, time.Duration(c.launches)*each; got != want || with.starts-without.starts != want {
			t.Errorf("%s: %s more are expected, want %s", name, got, want)
		}
		if got, want := with.longer-without.longer, time.Duration(c.launches)*fingerprint.Limit; got != want || with.mostStarts-without.mostStarts != want {
			t.Errorf("%s: %s more at most, want %s", name, got, want)
		}
		if with.launches != without.launches || with.mostLaunches < with.launches || with.longer < with.took {
			t.Errorf("%s: %+v", name, with)
		}
	}
}

// What is quoted of a search that goes on is, after each of its trials, the mean of what is
// left over all capacities that give the same trials so far, and the devices that it is done
// with need no launch. It never takes longer than the most.
func TestEstimateLeft_search(t *testing.T) {
	t.Parallel()
	of := traits{scale: 1, rents: true}
	for _, devices := range []int{1, 3} {
		p, d := deploymentOf(t, hunt("sweep/tiny", devices))
		s := executor.Searches(p, d.Cells)[0]
		start, _ := launchEstimate(p, d.Server, of)
		type left struct {
			took []time.Duration // of the trials that are left, of each capacity
			got  estimated
		}
		states := map[string]*left{} // by what has ended
		step := 3                    // of which nothing can be said of the mean
		if slow.Tests {
			step = 1
		}
		for edge := 1; edge <= len(s.Levels); edge += step {
			probes := search.Rehearse(s.Settings, s.Server(edge, false))
			var done []search.Outcome
			key := ""
			for i, next := range probes {
				trials := time.Duration(0)
				for _, p := range probes[i:] {
					trials += trialEstimate(d.Server, s.Load(p), of.scale)
				}
				if states[key] == nil {
					states[key] = &left{got: estimateLeft(p, d, of, everything(p), func(executor.Search) endedTrials { return endedTrials{outcomes: done} })}
				}
				one := states[key]
				one.took = append(one.took, trials)
				if want := devices - next.Device; one.got.launches != want || one.got.starts != time.Duration(want)*start {
					t.Errorf("%d devices, capacity %d, after %d trials: %d launches in %s, want %d", devices, edge, i, one.got.launches, one.got.starts, want)
				}
				if one.got.longer < one.got.starts+trials {
					t.Errorf("%d devices, capacity %d, after %d trials: at most %s, and it takes %s", devices, edge, i, one.got.longer, one.got.starts+trials)
				}
				done = append(slices.Clone(done), s.Server(edge, false).Ends(s.Settings, next))
				key += fmt.Sprintf(" %d:%t", next.Level, next.Level < edge)
			}
		}
		for key, one := range states {
			mean := time.Duration(0)
			for _, took := range one.took {
				mean += took / time.Duration(len(one.took))
			}
			if off := one.got.took - one.got.starts - mean; step == 1 && devices == 1 && off.Abs() > mean {
				t.Errorf("%d capacities, trials of %s are quoted, the mean is %s, after%s", len(one.took), one.got.took-one.got.starts, mean, key)
			}
		}
	}
}

// Trials that are there behind one that is run again cost nothing.
func TestEstimateLeft_again(t *testing.T) {
	t.Parallel()
	p, d := deploymentOf(t, hunt("sweep/tiny", 1))
	s := executor.Searches(p, d.Cells)[0]
	const edge, again = 3, 2
	probes := search.Rehearse(s.Settings, s.Server(edge, false))
	var done []search.Outcome
	for _, p := range probes[:again] {
		done = append(done, s.Server(edge, false).Ends(s.Settings, p))
	}
	kept := func(p search.Probe) bool {
		return slices.ContainsFunc(probes[again+1:], func(k search.Probe) bool { return k.Level == p.Level && k.Trial == p.Trial })
	}
	all := estimateSearches(p, d, func(executor.Search) endedTrials { return endedTrials{outcomes: done} }, 1)
	few := estimateSearches(p, d, func(executor.Search) endedTrials { return endedTrials{done, kept} }, 1)
	if few.probes < 1 || few.probes >= all.probes || few.took >= all.took || few.longer >= all.longer {
		t.Errorf("%+v with what is there, %+v without", few, all)
	}
}
