package validity

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"sweep.dev/sweep/result"
	"sweep.dev/sweep/result/bounds"
	"sweep.dev/sweep/result/col"
	"sweep.dev/sweep/result/finding"
	"sweep.dev/sweep/result/timeline"
)

func found(code finding.Code, format string, args ...any) (result.Finding, bool) {
	return result.Finding{Code: code, Text: fmt.Sprintf(format, args...)}, true
}

func fine() (result.Finding, bool) { return result.Finding{}, false }

func (e *Evidence) text(name string) string {
	s, _ := e.Row[name].(string)
	return s
}

// timeScaled has no bound: at any scale but 1 the figures are of no hardware. They
// cannot be scaled back, since the client and the network keep real time.
func timeScaled(e *Evidence, _ bounds.Bounds) (result.Finding, bool) {
	scale, ok := e.Row.Number(col.TimeScale)
	if !ok || scale == 1 {
		return fine()
	}
	return found(finding.TimeScaled, "the simulated engine ran at %.4g times its speed, so its latencies and throughput are not those of the simulated GPU: remove time_scale from the backend, or --time-scale of sweep sim, and shorten the load", scale)
}

func engineRestarted(e *Evidence, _ bounds.Bounds) (result.Finding, bool) {
	return e.reported(finding.EngineRestarted)
}

func stackChanged(e *Evidence, _ bounds.Bounds) (result.Finding, bool) {
	return e.reported(finding.StackChanged)
}

func tunnelled(e *Evidence, _ bounds.Bounds) (result.Finding, bool) {
	return e.reported(finding.Tunnelled)
}

func pdAbsent(e *Evidence, _ bounds.Bounds) (result.Finding, bool) {
	return e.reported(finding.PDAbsent)
}

func stackUnwatched(e *Evidence, _ bounds.Bounds) (result.Finding, bool) {
	return e.reported(finding.StackUnwatched)
}

func pdPartial(e *Evidence, _ bounds.Bounds) (result.Finding, bool) {
	return e.reported(finding.PDPartial)
}

// reported returns a reason that others have found.
func (e *Evidence) reported(code finding.Code) (result.Finding, bool) {
	for _, f := range e.Reported {
		if f.Code == code {
			return f, true
		}
	}
	return fine()
}

func errorRate(e *Evidence, b bounds.Bounds) (result.Finding, bool) {
	rate, ok := e.Row.Number(col.ErrorRate)
	if !ok || rate <= b.ErrorRate {
		return fine()
	}
	return found(finding.ErrorRate, "%.1f %% of the requests failed (bound %.1f %%), most often: %s",
		100*rate, 100*b.ErrorRate, CommonError(e.Requests))
}

// CommonError returns the class and text of the error that most measured requests
// failed with; "" if none did.
func CommonError(requests []result.Request) string {
	count := map[string]int{}
	for i := range requests {
		if r := &requests[i]; r.Measured() && r.Status == result.Failed {
			count[r.ErrorClass+": "+r.Error]++
		}
	}
	best := ""
	for _, text := range slices.Sorted(maps.Keys(count)) {
		if best == "" || count[text] > count[best] {
			best = text
		}
	}
	return best
}

// lags returns by how many nanoseconds the requests of each client missed their schedule. In a
// closed loop a slot's first request does not count: all slots begin at one instant, which no
// client can keep, and each latency starts at its own send. From then on lateness is load that
// is missing.
func lags(e *Evidence) [][]int64 {
	type slot struct{ shard, slot int }
	first := map[slot]time.Duration{}
	for i := range e.Requests {
		r := &e.Requests[i]
		k := slot{r.Shard, r.Slot}
		if at, ok := first[k]; r.Measured() && r.Sent >= 0 && (!ok || r.Sent < at) {
			first[k] = r.Sent
		}
	}
	var all [][]int64
	for i := range e.Requests {
		r := &e.Requests[i]
		for len(all) <= r.Shard {
			all = append(all, nil)
		}
		if r.Measured() && r.Sent >= 0 && (e.Open || r.Sent > first[slot{r.Shard, r.Slot}]) {
			all[r.Shard] = append(all[r.Shard], int64(r.Sent-r.Scheduled))
		}
	}
	return all
}

// lagOf returns the lag that is judged, in nanoseconds; NaN of none.
func lagOf(lags []int64) float64 {
	slices.Sort(lags)
	return result.Quantile(lags, 0.99)
}

// among returns for how many of the completed requests of the load something holds, how many
// there are, and the first for which it does; nil for none.
func (e *Evidence) among(holds func(*result.Request) bool) (n, completed int, first *result.Request) {
	for i := range e.Requests {
		r := &e.Requests[i]
		if !r.Measured() || r.Status != result.Completed {
			continue
		}
		completed++
		if holds(r) {
			n++
			first = cmp.Or(first, r)
		}
	}
	return n, completed, first
}

// outputLength counts the completed requests that did not get exactly
// max_tokens tokens. A server that does not count them leaves it unknown, which
// is no better.
func outputLength(e *Evidence, b bounds.Bounds) (result.Finding, bool) {
	if !e.Exact {
		return fine()
	}
	wrong, completed, first := e.among(func(r *result.Request) bool { return r.CompletionTokens != r.MaxTokens })
	if float64(wrong) <= b.OutputOff*float64(completed) {
		return fine()
	}
	if first.CompletionTokens == result.Unknown {
		return found(finding.OutputLength, "for %d completed requests (of %d, bound %.4g %%) the server reports no output tokens; the plan declares exactly %d",
			wrong, completed, 100*b.OutputOff, first.MaxTokens)
	}
	if first.TokenSource == result.FromChunks {
		return found(finding.OutputLength, "%d completed requests (of %d, bound %.4g %%) have another number of chunks than max_tokens, the first %d of %d, and the server counts no tokens, so the exact output length cannot be checked: set load.output: natural, which declares none",
			wrong, completed, 100*b.OutputOff, first.CompletionTokens, first.MaxTokens)
	}
	return found(finding.OutputLength, "%d completed requests (of %d, bound %.4g %%) did not get the exact output length, the first %d of %d tokens (finish_reason %q)",
		wrong, completed, 100*b.OutputOff, first.CompletionTokens, first.MaxTokens, first.FinishReason)
}

// maxContradictory is the share of answers whose counts may contradict one another, by chance.
const maxContradictory = 0.01

// tokensContradict counts the completed requests whose usage contradicts itself, or the chunks
// that had text.
func tokensContradict(e *Evidence, _ bounds.Bounds) (result.Finding, bool) {
	odd, completed, first := e.among(func(r *result.Request) bool { return r.TokenSource == result.Contradictory })
	if float64(odd) <= maxContradictory*float64(completed) {
		return fine()
	}
	if chunks := first.TokenChunks(); chunks > first.CompletionTokens {
		return found(finding.TokensContradict, "for %d completed requests (of %d) the server counts fewer tokens than there were chunks with text, for the first %d in %d chunks",
			odd, completed, first.CompletionTokens, chunks)
	}
	return found(finding.TokensContradict, "for %d completed requests (of %d) the total of the usage is not its prompt and its completion, of the first %d and %d tokens",
		odd, completed, first.PromptTokens, first.CompletionTokens)
}

// warmupMissing: an engine's first requests pay for what is made once, like
// graphs, kernels and buffers. Where none of the warm-up came through, those of
// the measurement did.
func warmupMissing(e *Evidence, _ bounds.Bounds) (result.Finding, bool) {
	sent := 0
	for i := range e.Requests {
		r := &e.Requests[i]
		if r.Phase != result.Warmup {
			continue
		}
		if r.Status == result.Completed {
			return fine()
		}
		sent++
	}
	if e.Warmup <= 0 {
		return fine()
	}
	return found(finding.WarmupMissing, "none of the %d requests of the warm-up (%d sent) was completed, so the measurement began on a cold engine: fix their error, or set warmup: {requests: 0}",
		e.Warmup, sent)
}

// cacheState holds what the prefix cache knew against what the plan's prompts
// share.
func cacheState(e *Evidence, b bounds.Bounds) (result.Finding, bool) {
	if e.Shared == nil {
		return fine()
	}
	hits, who := cacheHits(e)
	if who == "" || hits <= *e.Shared+b.CacheHitExcess {
		return fine()
	}
	return found(finding.CacheState, "%s reported %.1f %% of the prompt tokens in the prefix cache, and the plan's prompts explain %.1f %% (bound %.4g %% more): they were sent before; empty the cache, take another seed, or set cache_bust: true",
		who, 100*hits, 100**e.Shared, 100*b.CacheHitExcess)
}

// cacheHits returns the share of the prompt tokens that the prefix cache knew, and its
// source: the answers, the engine, or "" if neither says it.
func cacheHits(e *Evidence) (hits float64, who string) {
	prompt, cached := 0, 0
	told := true // by the answers themselves
	for i := range e.Requests {
		r := &e.Requests[i]
		if !r.Measured() || r.Status != result.Completed || r.PromptTokens <= 0 {
			continue
		}
		prompt += r.PromptTokens
		if r.CachedTokens == result.Unknown {
			told = false
		} else {
			cached += r.CachedTokens
		}
	}
	told = told && !e.Moves
	if told = told && prompt > 0; told {
		hits, who = float64(cached)/float64(prompt), "the answers"
	}
	if rate, ok := e.Row.Number(col.PrefixCacheHitRate); ok && prompt > 0 && (!told || rate > hits) {
		hits, who = rate, "the engine"
	}
	return hits, who
}

func gpuThrottled(e *Evidence, b bounds.Bounds) (result.Finding, bool) {
	took, _ := e.Row.Number(col.DurationS)
	held, ok := e.Row.Number(col.GPUThrottledMs)
	if !ok || held/1000 <= b.Throttled*took {
		return fine()
	}
	return found(finding.GPUThrottled, "a GPU's clocks were lowered for %.1f of %.1f s (bound %.0f %%) by %s: cool it, or measure another",
		held/1000, took, 100*b.Throttled, cmp.Or(e.text(col.GPUThrottleReasons), "heat or a hardware limit"))
}

func gpuForeign(e *Evidence, b bounds.Bounds) (result.Finding, bool) {
	n, ok := e.Row.Number(col.GPUForeignProcesses)
	if !ok || b.Foreign == nil || n <= float64(*b.Foreign) {
		return fine()
	}
	return found(finding.GPUForeign, "%.0f processes on the GPUs are not of this deployment (bound %d)", n, *b.Foreign)
}

// drift finds figures that changed over the plateau: they do not describe the load
// that the plan asks for. A change counts if it is both large and significant.
func drift(e *Evidence, b bounds.Bounds) (result.Finding, bool) {
	var parts []string
	for _, d := range e.Drifts {
		if math.Abs(d.Change) > b.Drift && d.P < timeline.Level {
			parts = append(parts, fmt.Sprintf("%s by %+.0f %% (p %.1g)", d.Name, 100*d.Change, d.P))
		}
	}
	if len(parts) == 0 {
		return fine()
	}
	return found(finding.Drift, "within the plateau %s changed (bound %.4g %%): the warm-up was too short, the load exceeds the server's capacity, or the server throttles or leaks: warm up longer, lower the load, or look at the slices in samples.parquet",
		strings.Join(parts, " and "), 100*b.Drift)
}
