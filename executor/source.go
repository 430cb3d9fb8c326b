package executor

import (
	"fmt"
	"hash/fnv"
	"io"
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

// load is the plan's load of this trial in the load package's terms.
func (m *measurement) load() source.Config {
	c := m.run.sourceOf(m.trial)
	c.Attempt = 1 // each is made on a server of its own, so all may ask the same
	if m.config.Servers.Given {
		c.Attempt = m.attempt
	}
	if m.d.server != nil && m.d.server.Foreign {
		c.Salt = saltOf(m.config.State.Manifest.RunID)
	}
	c.Uncleared = m.uncleared
	c.Prompts.Tokens = m.counted.tokens()
	return c
}

// saltOf sets the markers of a run's prompts apart from those of other runs.
func saltOf(run string) uint64 {
	h := fnv.New64a()
	_, _ = io.WriteString(h, run)
	return h.Sum64()
}

// sourceOf is the load of a trial's first attempt.
func (r *run) sourceOf(t *trial) source.Config {
	l := t.cell.Load
	if l.RequestsPerWorker > 0 {
		l.Requests = 0 // the plan resolves it to the total
	}
	p := l.Prompts
	c := source.Config{
		Seed: r.config.Plan.Seed, Cell: t.key.Cell, Trial: t.key.Trial, Attempt: 1,
		Concurrency: l.Concurrency, ThinkTime: l.ThinkTime,
		Pace: r.pace(l), MaxInFlight: l.MaxInFlight,
		Requests: l.Requests, RequestsPerWorker: l.RequestsPerWorker, Duration: l.Duration,
		WarmupRequests: l.Warmup.Requests, WarmupDuration: l.Warmup.Duration,
		MaxTokens: l.MaxTokens, Deadline: r.config.Plan.Timeouts.Request, SampleSeed: l.Sampling.Seed,
		Prompts: source.Prompts{
			System: p.System, SystemShare: p.SystemShare, InputTokens: p.InputTokens,
			Distribution: source.Distribution(p.Distribution), Spread: p.Spread, Pairs: r.pairs[pairsKey(p)],
			SharedPrefix: p.SharedPrefix, PrefixGroups: p.PrefixGroups,
			Entries: r.entries[promptsKey(p)], First: t.first,
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

// pace is when the requests of an open loop are due; nil for a closed loop.
func (r *run) pace(l plan.Load) arrivals.Pace {
	process := arrivals.Process{Kind: arrivals.Kind(l.Arrivals), Burstiness: l.Burstiness}
	switch {
	case l.Trace != nil:
		return trace.Replay{Rows: r.traces[traceKey(l.Trace)].Rows, Speed: l.Trace.Speed}
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

// Files are read once, whatever the number of trials that name them.
func promptsKey(p plan.Prompts) string { return p.File + "\x00" + p.Kind }
func pairsKey(p plan.Prompts) string   { return p.PairsFile + "\x00" + fmt.Sprint(p.Pairs) }
func traceKey(t *plan.Trace) string {
	return strings.Join([]string{t.File, t.Format, fmt.Sprint(t.Limit)}, "\x00")
}

// readFiles reads what prompts and traces the cells' loads name, and gives every
// trial its own stretch of given prompts: no prompt is asked twice in a run
// unless the plan allows it.
func (r *run) readFiles() error {
	r.entries = map[string][]source.Entry{}
	r.traces = map[string]trace.Trace{}
	r.pairs = map[string][]source.Pair{}
	next := map[string]int{}
	for _, d := range r.all {
		for i := range d.trials {
			t := &d.trials[i]
			if err := r.readTrace(t.cell.Load.Trace); err != nil {
				return err
			}
			p := t.cell.Load.Prompts
			if p.Kind == plan.PromptsSynthetic {
				if err := r.readPairs(p); err != nil {
					return fmt.Errorf("prompts: %w", err)
				}
				continue
			}
			if err := r.readPrompts(p); err != nil {
				return fmt.Errorf("prompts: %w", err)
			}
			key := promptsKey(p)
			t.first = next[key]
			c := r.sourceOf(t)
			next[key] += max(0, c.Needed()) // -1 where only time tells, which the language allows with reuse alone
			if have := len(r.entries[key]); p.Reuse != plan.ReuseAllowed && next[key] > have {
				return fmt.Errorf("prompts: the plan asks more than %d prompts of %s, which has %d; shorten the load or say reuse: allowed",
					next[key]-1, promptsName(p), have)
			}
		}
	}
	return nil
}

func (r *run) readPrompts(p plan.Prompts) (err error) {
	key := promptsKey(p)
	if _, ok := r.entries[key]; ok {
		return nil
	}
	entries := source.InlinePrompts(p.Texts)
	if p.File != "" {
		entries, err = dataset.ReadPrompts(p.File, p.Kind)
	}
	r.entries[key] = entries
	return err
}

func (r *run) readPairs(p plan.Prompts) error {
	key := pairsKey(p)
	if _, ok := r.pairs[key]; ok || p.Distribution != string(source.Empirical) {
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
	r.pairs[key] = pairs
	return nil
}

func (r *run) readTrace(t *plan.Trace) error {
	if t == nil || r.traces[traceKey(t)].Rows != nil {
		return nil
	}
	read, err := trace.Read(t.File, trace.Format(t.Format), t.Limit)
	if err != nil {
		return err
	}
	r.traces[traceKey(t)] = *read
	return nil
}

// noteTrace says what of its trace the load leaves out.
func (m *measurement) noteTrace() {
	t := m.trial.cell.Load.Trace
	if t == nil {
		return
	}
	if read := m.run.traces[traceKey(t)]; read.Skipped > 0 {
		m.sink.Note(result.Finding{Code: finding.TraceRowsSkipped, Text: fmt.Sprintf(
			"%d requests of the trace have no input or no output tokens, as failed ones are recorded, and are not sent; %d are",
			read.Skipped, len(read.Rows))})
	}
}

func promptsName(p plan.Prompts) string {
	if p.File != "" {
		return p.File
	}
	return "load.prompts.texts"
}
