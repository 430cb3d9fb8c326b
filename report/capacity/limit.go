package capacity

import (
	"fmt"
	"slices"
	"strings"

	"sweep.dev/sweep/engine/catalog"
	"sweep.dev/sweep/internal/humanize"
	"sweep.dev/sweep/result"
	"sweep.dev/sweep/result/col"
)

// A Limit is what limits a server, by counters of its own and of its machine.
type Limit struct {
	By   string   // a name of the table, or UnknownLimit
	Says []string // columns with their figures, which say it
}

// UnknownLimit is the name of a limit that no counters tell.
const UnknownLimit = "unknown"

// A sign is one limit and the figures that show it for a missed part of an objective. All
// must hold.
type sign struct {
	by    string
	about []string // parts of the names of columns, of which a missed part names one
	holds []bound
	where []func(trial result.Row) bool // trials that can show it; nil for any
	path  bool                          // it is of the way to the servers, however many there are
}

// A bound is a figure that is at least, or at most, so much: a number, or a share of
// another column.
type bound struct {
	column string
	// atOnce says that the column is how many milliseconds of each request something takes,
	// and the figure how many requests are at it at once: their rate times that (Little,
	// Operations Research 9, 1961).
	atOnce  bool
	least   float64
	of      []string // columns of which least is a share, the first that was measured; nil for none
	ofLimit bool     // least is a share of what the missed part allows
	most    bool     // least is the most
}

// Columns that a sign is about, by a part of their names before the unit. TTFO is none of
// them: before the first token of an answer it has tokens of another kind.
var (
	firstToken    = []string{"_ttft"}
	slowestFirst  = []string{"p99_ttft"}
	slowFirst     = []string{"p95_ttft"}
	usualFirst    = []string{"mean_ttft", "p50_ttft", "p90_ttft", "p95_ttft"}
	betweenTokens = []string{"_tpot", "_itl", "_icl"}
	wholeAnswer   = []string{"_e2e"}
	afterFirst    = []string{"_tpot", "_itl", "_icl", "_e2e"}
	anyWait       = []string{"_ttft", "_e2e"}
	anyLatency    = []string{"_ttft", "_e2e", "_tpot", "_itl", "_icl"}
)

// perToken are the columns of the time between tokens, of which engines have one or both.
var perToken = []string{col.MeanServerTPOTMs, col.MeanServerITLMs}

// Bounds that several signs share. A server that is overloaded by anything has a queue, so that
// a queue alone is no reason: it is one of slots only if the requests at work are near their most,
// few of them wait for their prompts, and the KV cache has room for more. A prompt takes a step at
// least, so that slots that are full of short answers have many prompts at once too: prompts are
// a reason only if they take longer than a step.
var (
	queuedFirst = bound{column: col.MeanServerQueueMs, least: 0.5, of: []string{col.MeanServerTTFTMs}}
	queuedWhole = bound{column: col.MeanServerQueueMs, least: 0.5, of: []string{col.MeanServerE2EMs}}
	waiting     = bound{column: col.MeanRequestsWaiting, least: 0.5, of: []string{col.MeanRequestsRunning}}
	fullCache   = bound{column: col.MaxKVCacheUsage, least: 0.97}
	roomyCache  = bound{column: col.MaxKVCacheUsage, least: 0.8, most: true}
	fullSlots   = bound{column: col.MeanRequestsRunning, least: 0.8, of: []string{col.MaxRequestsRunning}}
	fewPrompts  = bound{column: col.MeanServerPrefillMs, atOnce: true, least: 0.5, most: true}
	anyPrompt   = bound{column: col.MeanServerPrefillMs, atOnce: true, least: 0.8}
	longSteps   = bound{column: col.MeanServerPrefillMs, least: 1.5, of: perToken}
	busyThread  = bound{column: col.ServerBusiestThreadCPU, least: 0.9}
	resent      = bound{column: col.TCPRetransmits, least: 0.05, of: []string{col.Requests}}
	// The server itself keeps what the objective allows.
	within95 = bound{column: col.P95ServerTTFTMs, least: 1, ofLimit: true, most: true}
	within99 = bound{column: col.P99ServerTTFTMs, least: 1, ofLimit: true, most: true}
)

// Trials that can show a sign.
var (
	together = []func(result.Row) bool{oneServer}
	plain    = []func(result.Row) bool{oneServer, oneTokenAStep}
	untimed  = []func(result.Row) bool{oneServer, oneTokenAStep, noQueueTime}
)

// signs are in the order in which they are looked for: the first that all holds for is
// named. Each rests on counters of the engine or of the machine and on the rate of requests
// alone, never on a latency that the client measured. How often they are right is in
// docs/statistics.md.
//
// A thread that waits for a GPU or for requests in a loop is busy too. So the GPU must be seen
// idle for a part of the time, while requests are at work. Prompts are computed in steps that
// the tokens of other requests wait for: steps with prompts that take longer than the others
// limit both, and steps that do not are limited by what each step takes, the reading of the
// weights or the host.
var signs = []sign{
	{by: "link", path: true, about: usualFirst, holds: []bound{{column: col.P50RTTMs, least: 1, of: []string{col.P95ServerTTFTMs}}, within95}},
	{by: "link", path: true, about: slowestFirst, holds: []bound{{column: col.P50RTTMs, least: 1, of: []string{col.P99ServerTTFTMs}}, within99}},
	{by: "link", path: true, about: slowFirst, holds: []bound{resent, {column: col.P95ServerTTFTMs, least: resend, most: true}, within95}},
	{by: "link", path: true, about: slowestFirst, holds: []bound{resent, {column: col.P99ServerTTFTMs, least: resend, most: true}, within99}},
	{by: "kv_cache", where: together, about: firstToken, holds: []bound{fullCache, queuedFirst}},
	{by: "kv_cache", where: together, about: wholeAnswer, holds: []bound{fullCache, queuedWhole}},
	{by: "kv_cache", where: untimed, about: anyWait, holds: []bound{fullCache, waiting}},
	{by: "kv_cache", where: together, about: anyLatency, holds: []bound{{column: col.Preemptions, least: 0.05, of: []string{col.Requests}}, {column: col.MaxKVCacheUsage, least: 0.9}}},
	{by: "host_cpu", where: append(slices.Clone(together), unsimulated), about: anyLatency, holds: []bound{busyThread, {column: col.MeanGPUUtil, least: 60, most: true}, {column: col.MeanRequestsRunning, least: 3}}},
	{by: "host_cpu", where: append(slices.Clone(together), withoutGPU), about: anyLatency, holds: []bound{busyThread, {column: col.MeanRequestsRunning, least: 0.8}}},
	{by: "prefill", where: plain, about: firstToken, holds: []bound{queuedFirst, anyPrompt, longSteps}},
	{by: "prefill", where: plain, about: wholeAnswer, holds: []bound{queuedWhole, anyPrompt, longSteps}},
	{by: "queue", where: together, about: firstToken, holds: []bound{queuedFirst, fullSlots, fewPrompts, roomyCache}},
	{by: "queue", where: together, about: wholeAnswer, holds: []bound{queuedWhole, fullSlots, fewPrompts, roomyCache}},
	{by: "queue", where: untimed, about: anyWait, holds: []bound{waiting, fullSlots, fewPrompts, roomyCache}},
	{by: "prefill", where: plain, about: firstToken, holds: []bound{{column: col.MeanServerPrefillMs, least: 0.5, of: []string{col.MeanServerTTFTMs}}, longSteps}},
	{by: "decode_bandwidth", where: together, about: afterFirst, holds: []bound{{column: col.MeanGPUMemoryBandwidthUtil, least: 80}}},
	{by: "prefill", where: plain, about: betweenTokens, holds: []bound{longSteps, {column: col.MeanServerPrefillMs, atOnce: true, least: 0.5}}},
	{by: "decode", where: plain, about: afterFirst, holds: []bound{
		{column: col.MeanServerDecodeMs, least: 0.8, of: []string{col.MeanServerE2EMs}},
		{column: col.MeanServerPrefillMs, least: 1.25, of: perToken, most: true},
		{column: col.MeanServerPrefillMs, atOnce: true, least: 1, most: true},
	}},
	{by: "prefill", where: plain, about: wholeAnswer, holds: []bound{{column: col.MeanServerPrefillMs, least: 0.5, of: []string{col.MeanServerE2EMs}}, longSteps}},
}

// resend is how many milliseconds a packet is missed at least before it is sent again: Linux's
// TCP_RTO_MIN. A server whose own TTFT is longer is slow without it.
const resend = 200

// oneServer reports whether a trial is of one server that computes prompts and tokens: figures of several are
// sums, means, or those of the fullest, and prompts of others hold up no tokens.
func oneServer(trial result.Row) bool {
	pods, known := trial.Number(col.Pods)
	return (trial[col.PD] == nil || trial[col.PD] == "absent") && (!known || pods <= 1)
}

// oneTokenAStep reports whether a trial is one without speculative decoding, in which a step has one token of each
// request: the time between tokens is that of a step then.
func oneTokenAStep(trial result.Row) bool {
	tokens, known := trial.Number(col.SpecAcceptLength)
	return !known || tokens <= 1
}

// noQueueTime reports whether a trial is of an engine that does not tell how long requests waited.
func noQueueTime(trial result.Row) bool { return trial[col.MeanServerQueueMs] == nil }

// unsimulated reports whether a trial is of a server that is not simulated: the processes of a simulated one work
// otherwise.
func unsimulated(trial result.Row) bool { return trial[col.Simulated] != true }

// withoutGPU reports whether a trial is of a server of which the plan says that it has none.
func withoutGPU(trial result.Row) bool {
	label, _ := trial[col.GPU].(string)
	return unsimulated(trial) && catalog.NoGPU(label)
}

// limits returns the names of the signs, each once.
func limits() []string {
	var names []string
	for _, s := range signs {
		if !slices.Contains(names, s.by) {
			names = append(names, s.by)
		}
	}
	return names
}

// LimitOf names what limits a server in the trials of some rows, which missed parts of an
// objective. It is known only if all parts lead to one name. Of several servers only the way to
// them can be told.
func LimitOf(trials []result.Row, missed []result.SLOPart, servers int) *Limit {
	var all *Limit
	for i := range missed {
		l := limitOf(trials, &missed[i], servers)
		if all != nil && l.By != all.By {
			return &Limit{By: UnknownLimit}
		}
		if all == nil {
			all = l
			continue
		}
		for _, figure := range l.Says {
			if !slices.Contains(all.Says, figure) {
				all.Says = append(all.Says, figure)
			}
		}
	}
	if all == nil {
		return &Limit{By: UnknownLimit}
	}
	return all
}

// limitOf is LimitOf for one part.
func limitOf(trials []result.Row, part *result.SLOPart, servers int) *Limit {
	for i := range signs {
		s := &signs[i]
		if servers > 1 && !s.path || !slices.ContainsFunc(s.about, func(name string) bool { return strings.Contains(part.Expr, name+"_ms") }) {
			continue
		}
		if slices.ContainsFunc(s.where, func(shows func(result.Row) bool) bool {
			return slices.ContainsFunc(trials, func(row result.Row) bool { return !shows(row) })
		}) {
			continue
		}
		if says, ok := s.says(trials, part); ok {
			return &Limit{By: s.by, Says: says}
		}
	}
	return &Limit{By: UnknownLimit}
}

// says returns the figures of a sign, and whether it holds.
func (s *sign) says(trials []result.Row, part *result.SLOPart) (says []string, holds bool) {
	for i := range s.holds {
		text, held := s.holds[i].check(trials, part)
		if !held {
			return nil, false
		}
		if !slices.Contains(says, text) {
			says = append(says, text)
		}
	}
	return says, true
}

// check returns the figure of a bound in words, and whether it holds; it does not if it, or what
// it is a share of, is not known or 0.
func (b *bound) check(trials []result.Row, part *result.SLOPart) (text string, holds bool) {
	value := func(column string) (float64, bool) {
		row := mean(trials, []string{column})
		return row.Number(column)
	}
	v, known := value(b.column)
	if !known {
		return "", false
	}
	bound, text := b.least, fmt.Sprintf("%s %s", b.column, humanize.Figure(v))
	if b.atOnce {
		rate, ok := value(col.RequestThroughput)
		if !ok || rate <= 0 {
			return "", false
		}
		text += fmt.Sprintf(" at %s %s", col.RequestThroughput, humanize.Figure(rate))
		v *= rate / 1000
	}
	if b.ofLimit {
		if part.Limit <= 0 {
			return "", false
		}
		bound *= part.Limit
	}
	for i, column := range b.of {
		whole, ok := value(column)
		if ok && whole > 0 {
			bound *= whole
			text += fmt.Sprintf(" of %s %s", column, humanize.Figure(whole))
			break
		}
		if i+1 == len(b.of) {
			return "", false
		}
	}
	if b.most {
		return text, v <= bound
	}
	return text, v >= bound && v > 0
}
