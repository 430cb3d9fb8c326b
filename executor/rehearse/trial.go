package rehearse

import (
	"context"
	"slices"
	"strings"
	"time"

	"sweep.dev/sweep/backends"
	"sweep.dev/sweep/executor"
	"sweep.dev/sweep/executor/attempt"
	"sweep.dev/sweep/executor/outcome"
	"sweep.dev/sweep/executor/rehearse/virtual"
	"sweep.dev/sweep/load"
	"sweep.dev/sweep/load/source"
	"sweep.dev/sweep/plan"
	"sweep.dev/sweep/result"
	"sweep.dev/sweep/result/col"
	"sweep.dev/sweep/result/timeline"
	"sweep.dev/sweep/sim/core"
	"sweep.dev/sweep/sim/text"
)

// A trial is one trial of one cell.
type trial struct {
	*rehearsal
	job    job
	cell   plan.Cell
	n      int // from 1
	first  int // of the given prompts
	launch int // whose server it is on, from 1
}

// run rehearses the trial. work is how many tokens its server may compute, and took how
// many it has.
func (t *trial) run(ctx context.Context, work int) (o *result.Outcome, took int, err error) {
	engine := *t.job.engines[(t.launch-1)%len(t.job.engines)]
	engine.Seed = t.Plan.Seed + uint64(t.n)
	server := virtual.New(virtual.Server{Engine: engine, Ask: t.ask, Work: max(1, work)})
	requests, err := t.send(ctx, server)
	if err != nil {
		return nil, server.Work(), err
	}
	l := t.cell.Load
	looks := server.Looks()
	columns := result.Row{
		col.MeanRequestsRunning: looks.MeanRunning, col.MeanRequestsWaiting: looks.MeanWaiting, col.MaxRequestsRunning: float64(looks.MaxRunning),
		col.MaxKVCacheUsage: looks.MaxKVUsage, col.Preemptions: int64(looks.Preemptions),
	}
	// Of no request, or of answers of one token, some times are not known.
	if looks.TTFT > 0 {
		columns[col.MeanServerQueueMs], columns[col.MeanServerPrefillMs], columns[col.MeanServerTTFTMs] = ms(looks.Queue), ms(looks.Prefill), ms(looks.TTFT)
	}
	for column, took := range map[string]time.Duration{col.MeanServerDecodeMs: looks.Decode, col.MeanServerE2EMs: looks.E2E, col.MeanServerTPOTMs: looks.TPOT} {
		if took > 0 {
			columns[column] = ms(took)
		}
	}
	if looks.PrefixQueries > 0 {
		columns[col.PrefixCacheHitRate] = float64(looks.PrefixHits) / float64(looks.PrefixQueries)
	}
	began := time.Unix(0, 0).UTC() // as far as an outcome says it
	o, err = t.outcome(outcome.Measured{
		Started: began, Finished: began.Add(server.Now()),
		Requests: requests, Span: timeline.Assign(requests, l.Concurrency), Columns: columns,
	}, outcome.End{})
	return o, server.Work(), err
}

// seen returns the trial if it is not run, because its server is on a device that was measured.
func (t *trial) seen() (*result.Outcome, error) {
	began := time.Unix(0, 0).UTC()
	return t.outcome(outcome.Measured{Started: began, Finished: began}, outcome.End{Skip: executor.DeviceSeen(t.device(t.launch))})
}

// outcome returns that of what was measured, or of the end without it.
func (t *trial) outcome(m outcome.Measured, end outcome.End) (*result.Outcome, error) {
	of := outcome.Trial{Plan: t.Plan, RunID: "rehearsal", Cell: t.cell, Label: executor.Label(t.cell), Number: t.n, Attempt: 1, Simulated: true}
	up := &outcome.Server{Terms: backends.Terms{USDPerHour: t.USDPerHour(t.job.of)}}
	return outcome.Of(of, up, m, end)
}

// send sends the warm-up of a trial and its load, and returns their requests by number.
// The warm-up is that of package attempt, but for a server whose caches it waits for: of
// that it sends as many rounds as such a server takes if its first ones are alike.
func (t *trial) send(ctx context.Context, server *virtual.Session) ([]result.Request, error) {
	l := t.cell.Load
	c := t.inputs.Source(t.cell, t.n, t.first)
	c.Prompts.Tokens = words
	profile, _ := t.Plan.Profile(t.cell.Server.Profile)
	flat := attempt.WarmsUntilFlat(t.Plan, profile, t.Given, l)
	c.WarmPrefixes = flat

	var all []result.Request
	send := func(c source.Config, most int) error {
		src, err := source.New(c)
		if err != nil {
			return err
		}
		return server.Send(ctx, src, most, func(r *result.Request) bool {
			all = append(all, *r)
			return true
		})
	}
	warmup := c
	warmup.Phase = result.Warmup
	if err := send(warmup, 0); err != nil {
		return nil, err
	}
	want := attempt.FullWarmup(l, pointers(all))
	more := 0
	endless := l.Prompts.Kind == plan.PromptsSynthetic || l.Prompts.Reuse == plan.ReuseAllowed
	if l.Open() && l.Warmup == (plan.Warmup{}) && endless {
		more = max(0, want-len(all))
	}
	if flat {
		more += attempt.FlatRequests(l, want/2) * 3 / 10
	}
	if more > 0 {
		warmup.WarmupRequests, warmup.WarmupDuration, warmup.WarmupSlots = 0, attempt.LongestWarmup, want/2
		if err := send(warmup, more); err != nil {
			return nil, err
		}
	}
	c.Ramp = attempt.Begin(l, c.MeanTurns(), pointers(all), t.n)
	if err := send(c, 0); err != nil {
		return nil, err
	}
	slices.SortFunc(all, func(a, b result.Request) int { return a.N - b.N })
	return all, c.Prompts.Err()
}

// words is how the simulated engine counts synthetic prompts: a word is a token.
var words = &source.Tokens{
	Plain:  &source.Overhead{First: text.MessageTokens + text.ReplyTokens, Turn: 2 * text.MessageTokens},
	System: &source.Overhead{First: 2*text.MessageTokens + text.ReplyTokens, Turn: 2 * text.MessageTokens},
}

// ask returns what a job asks of the simulated engine, and what that answers.
func (t *trial) ask(j *load.Job) (core.Request, func(int) string) {
	messages := make([]text.Message, 0, 1+len(j.Prompt.Turns))
	if j.Prompt.System != "" {
		messages = append(messages, text.Message{Role: "system", Content: j.Prompt.System})
	}
	for i, turn := range j.Prompt.Turns {
		role := "user"
		if i%2 == 1 {
			role = "assistant"
		}
		messages = append(messages, text.Message{Role: role, Content: turn})
	}
	prompt := text.Chat(messages)
	seed := uint64(0)
	if j.Seed != nil {
		seed = *j.Seed
	}
	answer := text.NewAnswer(t.Plan.Seed, prompt, seed)
	if t.cell.Load.Output != plan.OutputExact {
		answer.NaturalStop(1)
	}
	r := core.Request{Prompt: prompt, MaxTokens: j.MaxTokens, StopAt: answer.StopAt, Token: answer.Token}
	return r, func(n int) string {
		var said strings.Builder
		for i := range n {
			said.WriteString(answer.Piece(i, said.Len()))
		}
		return said.String()
	}
}

// pointers returns the requests by reference.
func pointers(all []result.Request) func(yield func(*result.Request) bool) {
	return func(yield func(*result.Request) bool) {
		for i := range all {
			if !yield(&all[i]) {
				return
			}
		}
	}
}

func ms(d time.Duration) float64 { return d.Seconds() * 1000 }
