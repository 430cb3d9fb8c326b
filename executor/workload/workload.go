// Package workload makes the loads of package source from those of a plan: it
// reads the files of prompts, lengths and arrivals that they name, and divides
// given prompts over the trials.
package workload

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"sweep.dev/sweep/load"
	"sweep.dev/sweep/load/arrivals"
	"sweep.dev/sweep/load/dataset"
	"sweep.dev/sweep/load/source"
	"sweep.dev/sweep/load/trace"
	"sweep.dev/sweep/plan"
	"sweep.dev/sweep/result"
	"sweep.dev/sweep/result/finding"
)

// Inputs are what the loads of a plan send, as far as they do not make it up. Once
// every trial has claimed its part, several goroutines may use them.
type Inputs struct {
	plan    *plan.Plan
	entries map[string][]source.Entry // given prompts, by file and kind
	rest    map[string]*source.Rest   // those behind them; nil if there are none
	next    map[string]int            // of all these: the first that no trial has
	traces  map[string]trace.Trace    // by what the plan says of them
	pairs   map[string][]source.Pair  // by file
}

// New has read nothing yet.
func New(p *plan.Plan) *Inputs {
	return &Inputs{
		plan: p, entries: map[string][]source.Entry{}, rest: map[string]*source.Rest{}, next: map[string]int{},
		traces: map[string]trace.Trace{}, pairs: map[string][]source.Pair{},
	}
}

// Claim reads what the load of a cell names, and gives its nth trial a stretch of
// the given prompts, of which first is the first: no prompt is asked twice in a run
// unless the plan allows it. All trials of a plan claim in the plan's order,
// also those that are not run, so that each gets the same in every run.
func (in *Inputs) Claim(cell plan.Cell, trial int) (first int, err error) {
	if err := in.readTrace(cell.Load.Trace); err != nil {
		return 0, err
	}
	p := cell.Load.Prompts
	if p.Kind == plan.PromptsSynthetic {
		if err := in.readPairs(p); err != nil {
			return 0, fmt.Errorf("prompts: %w", err)
		}
		return 0, nil
	}
	if err := in.readPrompts(p); err != nil {
		return 0, fmt.Errorf("prompts: %w", err)
	}
	key := promptsKey(p)
	if clients := cell.Load.Clients; in.rest[key] != nil && (clients.N > 1 || clients.Auto() || clients.Kind == plan.ClientsKubernetes) {
		return 0, fmt.Errorf("prompts: %s has more than the %d MiB of prompts that are sent to clients in other processes; shorten it, or leave load.clients out",
			promptsName(p), dataset.MaxHeld>>20)
	}
	first = in.next[key]
	c := in.Source(cell, trial, first)
	in.next[key] += max(0, c.Needed()) // -1 if only time tells, which the language allows with reuse alone
	if have := c.Prompts.Count(); p.Reuse != plan.ReuseAllowed && in.next[key] > have {
		return 0, fmt.Errorf("prompts: the plan asks more than %d prompts of %s, which has %d; shorten the load, or set reuse: allowed",
			in.next[key]-1, promptsName(p), have)
	}
	return first, nil
}

// Source returns the load of the first attempt at a trial, whose given prompts begin
// with first.
func (in *Inputs) Source(cell plan.Cell, trial, first int) source.Config {
	l, over := cell.Load, cell.Load.StartsOver()
	// Those in which the slots begin come on top.
	l.Requests = l.Total()
	if l.RequestsPerWorker > 0 {
		l.Requests = 0 // the plan resolves it to the total
		l.RequestsPerWorker += over
	}
	p := l.Prompts
	c := source.Config{
		Seed: in.plan.Seed, Cell: cell.ID, Trial: trial, Attempt: 1,
		Concurrency: l.Concurrency, ThinkTime: l.ThinkTime,
		Pace: in.pace(l), MaxInFlight: l.MaxInFlight,
		Requests: l.Requests, RequestsPerWorker: l.RequestsPerWorker, Duration: l.Duration,
		WarmupRequests: l.WarmupRequests(), WarmupDuration: l.Warmup.Duration,
		MaxTokens: l.MaxTokens, Deadline: in.plan.Timeouts.Request, SampleSeed: l.Sampling.Seed,
		Prompts: source.Prompts{
			System: p.System, SystemShare: p.SystemShare, InputTokens: p.InputTokens,
			Distribution: source.Distribution(p.Distribution), Spread: p.Spread, Pairs: in.pairs[pairsKey(p)],
			SharedPrefix: p.SharedPrefix, PrefixGroups: p.PrefixGroups,
			Entries: in.entries[promptsKey(p)], Rest: in.rest[promptsKey(p)], First: first,
			Reuse: p.Reuse == plan.ReuseAllowed, CacheBust: p.CacheBust,
		},
	}
	// The plan and the source have the same fields, which the compiler checks.
	if l.Conversation != nil {
		c.Conversation = source.Conversation(*l.Conversation)
	}
	if l.Cancel != nil {
		c.Cancel = source.Cancel(*l.Cancel)
	}
	if l.Probe != nil {
		c.Probe = source.Probe(*l.Probe)
	}
	for _, name := range slices.Sorted(maps.Keys(l.RequestHeaders)) {
		c.Headers = append(c.Headers, load.Header{Name: name, Value: l.RequestHeaders[name]})
	}
	return c
}

// pace returns when the requests of an open loop are due; nil for a closed loop.
func (in *Inputs) pace(l plan.Load) arrivals.Pace {
	process := arrivals.Process{Kind: arrivals.Kind(l.Arrivals), Burstiness: l.Burstiness}
	switch {
	case l.Trace != nil:
		return trace.Replay{Rows: in.traces[traceKey(l.Trace)].Rows, Speed: l.Trace.Speed}
	case len(l.Stages) > 0:
		rates := arrivals.Rates{Process: process}
		for _, s := range l.Stages {
			rates.Stages = append(rates.Stages, arrivals.Stage(s))
		}
		return rates
	case l.RequestRate > 0:
		return arrivals.Steady(l.RequestRate, process)
	}
	return nil
}

// Files are read once for all trials that name them.
func promptsKey(p plan.Prompts) string { return p.File + "\x00" + p.Kind }
func pairsKey(p plan.Prompts) string   { return p.PairsFile + "\x00" + fmt.Sprint(p.Pairs) }
func traceKey(t *plan.Trace) string {
	return strings.Join([]string{t.File, t.Format, fmt.Sprint(t.Limit)}, "\x00")
}

func (in *Inputs) readPrompts(p plan.Prompts) (err error) {
	key := promptsKey(p)
	if _, ok := in.entries[key]; ok {
		return nil
	}
	entries := source.InlinePrompts(p.Texts)
	if p.File != "" {
		entries, in.rest[key], err = dataset.ReadPrompts(p.File, p.Kind)
	}
	in.entries[key] = entries
	return err
}

func (in *Inputs) readPairs(p plan.Prompts) error {
	key := pairsKey(p)
	if _, ok := in.pairs[key]; ok || p.Distribution != string(source.Empirical) {
		return nil
	}
	pairs := make([]source.Pair, 0, len(p.Pairs))
	for _, x := range p.Pairs {
		pairs = append(pairs, source.Pair{Input: x[0], Output: x[1]})
	}
	if p.PairsFile != "" {
		var err error
		if pairs, err = dataset.ReadPairs(p.PairsFile); err != nil {
			return err
		}
	}
	in.pairs[key] = pairs
	return nil
}

func (in *Inputs) readTrace(t *plan.Trace) error {
	if t == nil || in.traces[traceKey(t)].Rows != nil {
		return nil
	}
	read, err := trace.Read(t.File, trace.Format(t.Format), t.Limit)
	if err != nil {
		return err
	}
	in.traces[traceKey(t)] = *read
	return nil
}

// Skipped says what of its trace a load leaves out; nil if that is nothing.
func (in *Inputs) Skipped(l plan.Load) *result.Finding {
	if l.Trace == nil || in.traces[traceKey(l.Trace)].Skipped == 0 {
		return nil
	}
	read := in.traces[traceKey(l.Trace)]
	return &result.Finding{Code: finding.TraceRowsSkipped, Text: fmt.Sprintf(
		"%d requests of the trace have no input or no output tokens, as failed ones are recorded, and are not sent; %d are",
		read.Skipped, len(read.Rows))}
}

func promptsName(p plan.Prompts) string {
	if p.File != "" {
		return p.File
	}
	return "load.prompts.texts"
}
