package executor

import (
	"fmt"

	"sweep.dev/sweep/load/source"
	"sweep.dev/sweep/plan"
)

// load is the plan's load of this trial in the load package's terms.
func (m *measurement) load() source.Config {
	l := m.trial.cell.Load
	attempt := 1 // each is made on a server of its own, so all may ask the same
	if m.Given {
		attempt = m.attempt
	}
	if l.RequestsPerWorker > 0 {
		l.Requests = 0 // the plan resolves it to the total
	}
	return source.Config{
		Seed: m.Plan.Seed, Cell: m.trial.key.Cell, Trial: m.trial.key.Trial, Attempt: attempt,
		Concurrency: l.Concurrency, ThinkTime: l.ThinkTime,
		RequestRate: l.RequestRate, Arrivals: source.Arrivals(l.Arrivals), Burstiness: l.Burstiness, MaxInFlight: l.MaxInFlight,
		Requests: l.Requests, RequestsPerWorker: l.RequestsPerWorker, Duration: l.Duration,
		WarmupRequests: l.Warmup.Requests,
		MaxTokens:      l.MaxTokens, Deadline: m.Plan.Timeouts.Request, SampleSeed: l.Sampling.Seed,
		Prompts: source.Prompts{
			System: l.Prompts.System, InputTokens: l.Prompts.InputTokens,
			Distribution: source.Distribution(l.Prompts.Distribution), Spread: l.Prompts.Spread,
			SharedPrefix: l.Prompts.SharedPrefix,
			Entries:      m.entries[l.Prompts.File+"\x00"+l.Prompts.Kind], First: m.trial.first,
			Reuse: l.Prompts.Reuse == plan.ReuseAllowed,
		},
	}
}

// readPrompts reads what prompts the cells' loads name, and gives every trial
// its own stretch of them: no prompt is asked twice in a run unless the plan
// allows it.
func (r *run) readPrompts() error {
	r.entries = map[string][]source.Entry{}
	next := map[string]int{}
	for _, d := range r.all {
		for i := range d.trials {
			t := &d.trials[i]
			p := t.cell.Load.Prompts
			if p.Kind == plan.PromptsSynthetic {
				continue
			}
			key := p.File + "\x00" + p.Kind
			if _, ok := r.entries[key]; !ok {
				entries := source.InlinePrompts(p.Texts)
				if p.File != "" {
					var err error
					if entries, err = source.ReadPrompts(p.File, p.Kind); err != nil {
						return fmt.Errorf("prompts: %w", err)
					}
				}
				r.entries[key] = entries
			}
			t.first = next[key]
			need := t.cell.Load.Warmup.Requests + needed(t.cell.Load)
			next[key] += need
			if have := len(r.entries[key]); p.Reuse != plan.ReuseAllowed && next[key] > have {
				return fmt.Errorf("prompts: the plan asks more than %d prompts of %s, which has %d; shorten the load or say reuse: allowed",
					next[key]-1, promptsName(p), have)
			}
		}
	}
	return nil
}

// needed is how many prompts one trial takes at most; 0 where only time tells,
// which the language allows with reuse alone.
func needed(l plan.Load) int {
	if l.RequestsPerWorker > 0 {
		return l.RequestsPerWorker * l.Concurrency
	}
	return l.Requests
}

func promptsName(p plan.Prompts) string {
	if p.File != "" {
		return p.File
	}
	return "load.prompts.texts"
}
