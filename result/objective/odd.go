package objective

import (
	"fmt"
	"time"

	"sweep.dev/sweep/internal/humanize"
	"sweep.dev/sweep/result"
	"sweep.dev/sweep/result/col"
)

// Limits that are odd are often meant in another unit: a column has milliseconds or a share.

const (
	// farAbove is how many times its limit a latency of the first trial is at least, if no load
	// is taken to meet it, and farBelow what share of its limit it is at most, if none is taken
	// to miss it.
	farAbove = 20
	farBelow = 1.0 / 1000
	perS     = 1000 // milliseconds
)

// soonest is the least limit, in milliseconds, that a server can be asked for, by the latency.
var soonest = map[string]float64{"ttft": 1, "ttfo": 1, "e2e": 1, "tpot": 0.1, "itl": 0.1, "icl": 0.1}

// latencyOf returns the latency that a comparison bounds from above; "" for none.
func (c Comparison) latencyOf() string {
	m := latencyColumn.FindStringSubmatch(c.Column)
	if m == nil || !c.upper() || soonest[m[2]] == 0 {
		return ""
	}
	return m[2]
}

// Odd returns why no server could meet or miss a comparison, before any is measured; "" if one
// could. Requests that take longer than within are given up.
func (c Comparison) Odd(within time.Duration) string {
	latency := c.latencyOf()
	inMS := func(ms float64) string { return humanize.Figure(ms) + " ms" }
	switch {
	case latency != "" && c.Limit > 0 && c.Limit < soonest[latency]:
		return fmt.Sprintf("hardly any server meets %s: %s is in milliseconds, so %s s is %s", inMS(c.Limit), c.Column, humanize.Figure(c.Limit), humanize.Figure(c.Limit*perS))
	case latency != "" && within > 0 && c.Limit > perS*within.Seconds():
		return fmt.Sprintf("no request that ends misses %s: one is given up after %s (timeouts.request); %s is in milliseconds", inMS(c.Limit), within, c.Column)
	case c.Column == col.ErrorRate && (c.Op == "<" && c.Limit > 1 || c.Op == "<=" && c.Limit >= 1):
		return fmt.Sprintf("no server misses %s: it is a share, so 5 %% is 0.05", humanize.Figure(c.Limit))
	}
	return ""
}

// Odd returns what is odd of the limits of an objective against what a trial has measured; ""
// for nothing.
func Odd(o result.SLOResult) string {
	for _, p := range o.Parts {
		for _, side := range append([]result.SLOPart{p}, p.Any...) {
			if text := oddPart(side); text != "" {
				return text
			}
		}
	}
	return ""
}

func oddPart(p result.SLOPart) string {
	c := Comparison{p.Column, p.Op, p.Limit}
	if p.Figure == nil || p.Limit <= 0 || c.latencyOf() == "" {
		return ""
	}
	times := *p.Figure / p.Limit
	measured := fmt.Sprintf("%s is %s ms, ", p.Column, humanize.Figure(*p.Figure))
	switch {
	case times >= farAbove && times <= farAbove*perS:
		return measured + fmt.Sprintf("%.0f times its limit of %s: it is in milliseconds, so %s s is %s", times, humanize.Figure(p.Limit), humanize.Figure(p.Limit), humanize.Figure(p.Limit*perS))
	case times >= farAbove:
		return measured + fmt.Sprintf("%.0f times its limit of %s, which no load is likely to meet", times, humanize.Figure(p.Limit))
	case times <= farBelow:
		return measured + fmt.Sprintf("a %.0f-th of its limit of %s, which no load is likely to miss", 1/times, humanize.Figure(p.Limit))
	}
	return ""
}
