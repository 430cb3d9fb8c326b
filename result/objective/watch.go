package objective

import (
	"fmt"
	"math"
	"slices"

	"sweep.dev/sweep/internal/humanize"
	"sweep.dev/sweep/result"
	"sweep.dev/sweep/result/summary"
)

// A Watched is an objective that is watched while its load goes on: its parts, all of
// which must hold, each with the sides of which one must, and the confidence of each.
type Watched struct {
	Name       string
	Parts      [][]Comparison
	Confidence float64
}

// A Watch decides objectives by the requests of a load that have ended, to end it when
// no more are needed. It keeps 8 bytes a request and part, and 24 bytes a request of an open
// loop. It is for one goroutine.
type Watch struct {
	opts     summary.Options
	requests int
	flights  []flight // of an open loop
	parts    []*watchedPart
	watched  []Watched
}

// A watchedPart is one part and its values, in the order in which requests ended.
type watchedPart struct {
	of, part   int // its objective, and the part of that
	comparison Comparison
	way        way
	values     []float64
}

// NewWatch watches objectives of a load: the options say whether its latencies start when
// requests were scheduled, and what a good request is. It is nil if one of them can only be decided at the load's
// end: a mean, a rate, or a latency with several values a request. A point needs no
// number of requests, so that nothing waits for it.
func NewWatch(watched []Watched, o summary.Options) *Watch {
	w := &Watch{opts: o, watched: watched}
	for i, o := range watched {
		for k, sides := range o.Parts {
			if slices.ContainsFunc(sides, func(c Comparison) bool { return c.way().rule == result.RulePoint }) {
				continue
			}
			for _, c := range sides {
				way := c.way()
				single := way.latency != "itl" && way.latency != "icl"
				if way.rule != result.RuleShare || !single || way.latency != "" && way.window != "" {
					return nil
				}
				w.parts = append(w.parts, &watchedPart{of: i, part: k, comparison: c, way: way})
			}
		}
	}
	if len(w.parts) == 0 {
		return nil
	}
	return w
}

// Requests returns how many have ended.
func (w *Watch) Requests() int { return w.requests }

// Add takes a request of the load that has completed or failed.
func (w *Watch) Add(r *result.Request) {
	w.requests++
	if w.opts.Open && r.Sent >= 0 {
		w.flights = append(w.flights, flight{r.Sent, r.End, true})
	}
	for _, p := range w.parts {
		switch {
		case r.Status == result.Failed:
			p.values = append(p.values, math.Inf(1))
		case p.way.window == goods:
			if v, known := worth(r, w.opts); known {
				p.values = append(p.values, v)
			}
		case p.way.latency == "":
			p.values = append(p.values, 0)
		case summary.Has(r, p.way.latency):
			p.values = summary.AppendValues(p.values, r, p.way.latency, w.opts.Open)
		}
	}
}

// Decided reports whether each objective passes or fails, so surely that as many looks
// together are wrong no oftener than one look with the objective's confidence.
func (w *Watch) Decided(looks int) (text string, ok bool) {
	crowd := crowdOf(w.flights)
	verdicts := make([]map[int][]result.SLOPart, len(w.watched)) // of the sides of each part
	for i := range verdicts {
		verdicts[i] = map[int][]result.SLOPart{}
	}
	for _, p := range w.parts {
		part := result.SLOPart{Rule: result.RuleShare, Requests: w.requests}
		if len(p.values) == 0 {
			return "", false
		}
		part.Confidence = 1 - (1-w.watched[p.of].Confidence)/float64(looks)
		p.way.weigh(&part, p.values, p.comparison.Op, crowd)
		settleShare(&part)
		verdicts[p.of][p.part] = append(verdicts[p.of][p.part], part)
	}
	for _, sides := range verdicts {
		var parts []result.SLOPart
		for _, s := range sides {
			parts = append(parts, result.SLOPart{Verdict: oneOf(s)})
		}
		if Verdict(parts) == result.SLOUndecided {
			return "", false
		}
	}
	what := "the objective is"
	if len(w.watched) > 1 {
		what = fmt.Sprintf("all %d objectives are", len(w.watched))
	}
	return fmt.Sprintf("after %s %s decided", humanize.Plural(w.requests, "request"), what), true
}
