package published

import (
	"fmt"
	"math"
	"slices"

	"github.com/aclements/go-moremath/stats"

	"sweep.dev/sweep/result"
	"sweep.dev/sweep/result/summary"
)

// A Check is one thing that spoils figures.
type Check struct {
	Code    string
	Needs   string // what a file has to tell
	Meaning string
	Advice  string

	// look says what it comes to, in words, and if Bad which figures are spoilt.
	look func(*load) (State, string, func(figure) bool)
}

// Bounds of the checks.
const (
	maxDelay     = 0.010 // s: p99 between when a request was due and when it was sent
	minBusy      = 0.95  // of the slots of a closed loop between the ramp and the last send
	minRate      = 0.95  // of the rate that was asked for
	tiny         = 0.05  // of the mean gap: less is a chunk that was read with the one before
	maxCoalesced = 0.01  // of the gaps
	maxShift     = 0.10  // by which the first wave may move a percentile
	maxFailed    = 0.05
	maxCached    = 0.05 // of the prompt tokens
	maxTokens    = 1.1  // tokens of a chunk
	maxIdle      = 0.10 // by which the ramp and the tail may lower a throughput
)

// Checks returns all that there are, in the order of their weight.
func Checks() []Check {
	return []Check{
		{"client_bound", "closed loop: the starts and ends of requests, or how long sends were delayed; open loop: when requests were due", "The load generator was late, or left slots of the closed loop empty: what it measured is itself.", "give the client cores of its own, use more of its workers, or a lower load", clientBound},
		{"coalesced", "the gaps between chunks, or their p1", "Chunks were read together, so that gaps are of the client's reads and not of the server.", "use TPOT; to measure gaps give the client cores of its own, or a server that writes one token a chunk", coalesced},
		{"burst_start", "the concurrency and the number of requests; better their starts", "All slots of a closed loop start at once: high percentiles of TTFT are those of that first wave.", "measure many times more requests than the concurrency, or start slots one by one (a ramp)", burstStart},
		{"few_samples", "the number of completed requests", "Too few requests for the percentile: it is close to the largest value, and another run gives another.", "measure as many requests as the text says, or read a lower percentile", fewSamples},
		{"failures_left_out", "the number of requests that failed", "Latencies are of the completed requests alone: the failed ones, often the slowest, are left out.", "find out why they failed; a percentile above the share that failed is infinite in truth", failuresLeftOut},
		{"prefix_cache", "the cached tokens of the answers' usage", "Prompts were found in the server's prefix cache: prefill was skipped, as it would not be with new prompts.", "reset the cache between loads, or use other prompts for each (another seed)", prefixCache},
		{"chunks_as_tokens", "the tokens and the chunks of answers", "A chunk holds several tokens: the gaps that are called inter-token latency are gaps between chunks.", "use TPOT, which is per token; a rate by chunks counts too few tokens", chunksAsTokens},
		{"ramp_in_throughput", "the starts and ends of requests, or the mean number in flight", "The rate is over the whole time, in which the load was lower at the start and at the end.", "measure longer, so that the ramp and the tail weigh less", rampInThroughput},
		{"implausible", "a figure", "A figure cannot be: a latency or a rate of 0, less or without end; a percentile below a lower one; a rate that is not its number by the duration.", "find out what the tool did not understand: a server's chunks or usage, or a clock", implausible},
		{"sent_at_once", "the concurrency and the rate, or the starts of requests", "All requests were sent at once: TTFT is mostly waiting. That is right for an offline test, of throughput.", "use the throughput; to measure latencies set a concurrency or a rate", sentAtOnce},
		{"more_than_in_flight", "the concurrency, the number of requests, the duration and the mean latency", "By Little's law more requests were in flight than the concurrency: rate and latency are of different times, or of different requests.", "compare rate and latency only if they are of the same window", moreThanInFlight},
	}
}

func none(figure) bool { return false }

func latencies(f figure) bool { return f.latency() }

// clientBound looks in an open loop at when requests were sent, and in a closed one, whose
// latencies count from the send, at how long slots stood empty for the client.
func clientBound(l *load) (State, string, func(figure) bool) {
	all := func(f figure) bool { return f.latency() || f.kind == throughput || f.kind == peak }
	if !l.closed() {
		return l.lateSends(all)
	}
	state, text := Undecided, "the file does not say how long slots waited for the client"
	delay, e2e := l.delay, l.e2eMean
	if delays := l.of(func(r request) float64 { return r.delay }); len(delays) > 0 {
		delay, e2e = stats.Mean(delays), stats.Mean(l.of(func(r request) float64 { return r.end - r.start }))
	}
	if share := delay / (delay + e2e); finite(share) {
		state, text = OK, fmt.Sprintf("slots waited %.1f %% of the time for the client to send (bound %s %%)", share*100, number(100-minBusy*100))
		if share > 1-minBusy {
			return Bad, text, all
		}
	}
	if busy, ok := l.busy(); ok {
		state = OK
		text = fmt.Sprintf("%.2f of %d slots were busy between the ramp and the last send (bound %s %%)", busy, l.concurrency, number(minBusy*100))
		if busy < minBusy*float64(l.concurrency) {
			return Bad, text, all
		}
	}
	return state, text, none
}

// lateSends holds the sends of an open loop against when they were due.
func (l *load) lateSends(all func(figure) bool) (State, string, func(figure) bool) {
	state, text := Undecided, "the file does not say when requests were due, nor when each started"
	delay := l.delay99
	if delays := l.of(func(r request) float64 { return r.delay }); len(delays) > 0 {
		delay = result.Quantile(delays, 0.99)
	}
	if finite(delay) {
		state, text = OK, fmt.Sprintf("p99 of the send's delay is %s ms (bound %s ms)", number(delay*1e3), number(maxDelay*1e3))
		switch {
		case delay > maxDelay && l.rate <= 0:
			return Undecided, text + ", which counts in an open loop alone, and the file does not say which loop it is", none
		case delay > maxDelay:
			return Bad, text, all
		}
	}
	starts := l.of(func(r request) float64 { return r.start })
	if l.rate > 0 && len(starts) >= 100 && len(starts) >= l.completed {
		achieved := float64(len(starts)-1) / (starts[len(starts)-1] - starts[0])
		state, text = OK, fmt.Sprintf("%s requests/s were sent of %s asked for (bound %s %%)", number(achieved), number(l.rate), number(minRate*100))
		if achieved < minRate*l.rate {
			return Bad, text, all
		}
	}
	return state, text, none
}

// busy returns the mean number of completed requests in flight between the start of the last
// slot and the last send of a closed loop. A failed request has no times in most files.
func (l *load) busy() (float64, bool) {
	starts := l.of(func(r request) float64 { return r.start })
	if !l.closed() || l.failed != 0 || len(starts) < 3*l.concurrency || len(starts) != l.completed {
		return 0, false
	}
	from, to := starts[l.concurrency-1], starts[len(starts)-1]
	if to <= from {
		return 0, false
	}
	sum := 0.0
	for _, r := range l.requests {
		sum += max(0, min(r.end, to)-max(r.start, from))
	}
	return sum / (to - from), finite(sum)
}

func coalesced(l *load) (State, string, func(figure) bool) {
	gaps := func(f figure) bool { return f.kind == gap || f.kind == chunk }
	var inner [][]float64
	total, sum := 0, 0.0
	for _, r := range l.requests {
		inner = append(inner, r.gaps)
		for _, g := range r.gaps {
			total, sum = total+1, sum+g
		}
	}
	if total == 0 {
		if !finite(l.gapMean) || !finite(l.gapP1) {
			return Undecided, "the file has no gaps between chunks", none
		}
		text := fmt.Sprintf("the p1 of the gaps is %s ms, their mean %s ms (bound %s %% of it)", number(l.gapP1*1e3), number(l.gapMean*1e3), number(tiny*100))
		if l.gapP1 < tiny*l.gapMean {
			return Bad, text, gaps
		}
		return OK, text, none
	}
	bound := tiny * sum / float64(total)
	short, looked := 0, 0
	for _, g := range inner {
		// A chunk with the role alone comes with the first token, and one that only
		// ends the answer with the last.
		if len(g) > 0 && g[0] < bound {
			g = g[1:]
		}
		if len(g) > 0 && g[len(g)-1] < bound {
			g = g[:len(g)-1]
		}
		looked += len(g)
		for _, v := range g {
			if v < bound {
				short++
			}
		}
	}
	if looked == 0 {
		return Undecided, "answers have too few chunks", none
	}
	share := float64(short) / float64(looked)
	text := fmt.Sprintf("%.1f %% of %d gaps are shorter than %s of their mean (bound %s %%)", share*100, looked, number(tiny), number(maxCoalesced*100))
	if share > maxCoalesced {
		return Bad, text, gaps
	}
	return OK, text, none
}

func burstStart(l *load) (State, string, func(figure) bool) {
	switch {
	case l.rate > 0:
		return OK, "an open loop has no first wave", none
	case l.ramped:
		return OK, "the start was spread over time", none
	case l.concurrency <= 0:
		return Undecided, "the file does not say the concurrency", none
	case l.completed < 0:
		return Undecided, "the file does not say how many requests there were", none
	}
	sent := l.completed + max(0, l.failed)
	share := float64(l.concurrency) / float64(max(1, sent))
	text := fmt.Sprintf("%d of %d requests are the first wave", min(l.concurrency, sent), sent)
	spoilt := func(f figure) bool { return (f.kind == ttft || f.kind == e2e) && f.p > 0 && 1-f.p <= share }
	with, without := l.wave()
	if without == nil {
		return Bad, text + ", which is the top of every percentile above " + percent(1-share), spoilt
	}
	moved := map[float64]bool{}
	worst, at := 0.0, 0.0
	for _, f := range l.figures {
		if f.kind != ttft || f.p <= 0 {
			continue
		}
		a, b := result.Quantile(with, f.p), result.Quantile(without, f.p)
		if shift := math.Abs(a-b) / b; finite(shift) {
			if shift > worst {
				worst, at = shift, f.p
			}
			moved[f.p] = shift > maxShift
		}
	}
	if worst > 0 {
		text += fmt.Sprintf("; without them p%s TTFT is %.0f %% different (bound %s %%)", number(at*100), worst*100, number(maxShift*100))
	}
	if worst > maxShift {
		return Bad, text, func(f figure) bool { return (f.kind == ttft || f.kind == e2e) && moved[f.p] }
	}
	return OK, text, none
}

// wave returns the TTFT of all requests, and of those after the first wave; nil if the file
// does not tell enough of them.
func (l *load) wave() (with, without []float64) {
	if len(l.requests) < 2*l.concurrency+10 {
		return nil, nil
	}
	list := slices.Clone(l.requests)
	slices.SortStableFunc(list, func(a, b request) int {
		if a.start < b.start {
			return -1
		}
		return 1
	})
	later := load{requests: list[l.concurrency:]}
	value := func(r request) float64 { return r.ttft }
	return l.of(value), later.of(value)
}

func percent(share float64) string { return fmt.Sprintf("p%.0f", max(0, share)*100) }

func fewSamples(l *load) (State, string, func(figure) bool) {
	if l.completed < 0 {
		return Undecided, "the file does not say how many requests were completed", none
	}
	few := func(f figure) bool {
		return f.latency() && f.p > 0 && l.completed < summary.MinRequests(max(f.p, 1-f.p))
	}
	least := 1.0
	for _, f := range l.figures {
		if few(f) {
			least = min(least, max(f.p, 1-f.p))
		}
	}
	if least < 1 {
		return Bad, fmt.Sprintf("%d requests, and a p%s needs %d", l.completed, number(least*100), summary.MinRequests(least)), few
	}
	return OK, fmt.Sprintf("%d requests are enough for every percentile of the file", l.completed), none
}

func failuresLeftOut(l *load) (State, string, func(figure) bool) {
	switch {
	case l.failed < 0 || l.completed < 0:
		return Undecided, "the file does not say how many requests failed", none
	case l.failed == 0:
		return OK, "no request failed", none
	}
	share := float64(l.failed) / float64(l.failed+l.completed)
	text := fmt.Sprintf("%d of %d requests failed (%.1f %%) and are in no latency", l.failed, l.failed+l.completed, share*100)
	if share > maxFailed {
		return Bad, text, latencies
	}
	// With failures as infinite a percentile moves up by their share: the file's p95
	// is of the completed, and the share above it doubles where as many failed.
	spoilt := func(f figure) bool { return f.latency() && f.p > 0 && share >= (1-f.p)/2 }
	if slices.ContainsFunc(l.figures, spoilt) {
		return Bad, text, spoilt
	}
	return OK, text, none
}

func prefixCache(l *load) (State, string, func(figure) bool) {
	if !finite(l.cachedShare) {
		return Undecided, "the file has no cached tokens", none
	}
	text := fmt.Sprintf("%.1f %% of the prompt tokens were in the server's cache (bound %s %%)", l.cachedShare*100, number(maxCached*100))
	if l.cachedShare > maxCached {
		return Bad, text, func(f figure) bool { return f.kind == ttft || f.kind == e2e || f.kind == throughput }
	}
	return OK, text, none
}

func chunksAsTokens(l *load) (State, string, func(figure) bool) {
	ratio, form := l.tokensPerChunk, "%s tokens a chunk (bound %s)"
	tokens, chunks := 0, 0
	for _, r := range l.requests {
		if r.tokens > 0 && r.chunks > 0 {
			tokens, chunks = tokens+r.tokens, chunks+r.chunks
		}
	}
	switch {
	case chunks > 0:
		ratio = float64(tokens) / float64(chunks)
	case !finite(ratio) && finite(l.itlMean) && l.tpMean > 0:
		ratio, form = l.itlMean/l.tpMean, "the mean ITL is %s times the mean TPOT (bound %s)"
	}
	if !finite(ratio) {
		return Undecided, "the file has no chunks beside its tokens", none
	}
	text := fmt.Sprintf(form, number(ratio), number(maxTokens))
	switch {
	case ratio > maxTokens && l.chunksAreNamed:
		return OK, text + "; figures of chunks are called so", none
	case ratio > maxTokens:
		return Bad, text, func(f figure) bool { return f.kind == gap || f.kind == peak }
	}
	return OK, text, none
}

func rampInThroughput(l *load) (State, string, func(figure) bool) {
	if !l.closed() {
		return Undecided, "only a closed loop has a number in flight to be held to", none
	}
	busy := l.inFlight
	starts, ends := l.of(func(r request) float64 { return r.start }), l.of(func(r request) float64 { return r.end })
	if len(starts) > 0 && len(ends) == len(starts) && len(starts) == l.completed && l.failed == 0 {
		sum := 0.0
		for _, r := range l.requests {
			sum += r.end - r.start
		}
		span := ends[len(ends)-1] - starts[0]
		if finite(l.duration) {
			span = max(span, l.duration)
		}
		busy = sum / span
	}
	if !finite(busy) {
		return Undecided, "the file does not say when requests started and ended", none
	}
	idle := 1 - busy/float64(l.concurrency)
	text := fmt.Sprintf("%.2f of %d requests were in flight on average (%.0f %% less, bound %s %%)", busy, l.concurrency, max(0, idle)*100, number(maxIdle*100))
	if idle > maxIdle {
		return Bad, text, func(f figure) bool { return f.kind == throughput }
	}
	return OK, text, none
}
