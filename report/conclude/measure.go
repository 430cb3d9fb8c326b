package conclude

import (
	"cmp"
	"slices"

	"sweep.dev/sweep/internal/humanize"
	"sweep.dev/sweep/result"
	"sweep.dev/sweep/result/col"
	"sweep.dev/sweep/result/metric"
)

// A Measure is what sides are compared by: a column of the cells table, or the
// quotient of two, in a person's words. Which way is better is what [metric.Of] says of
// the column.
type Measure struct {
	Name    string
	Column  string
	Lasting bool    // a fact about the server, whatever the trial was worth
	Said    bool    // its order is said in words, for every load that engines share
	per     string  // the column by which column is divided; "" for none
	scale   float64 // what the quotient is multiplied by
	money   bool    // dollars
	from    string  // the column that has the interval within a trial, if it is another
	inverse bool    // the measure is so much over that column
}

// The measures that summaries show besides those of [Measures].
var (
	TokenRate   = Measure{Name: "output tokens/s", Column: col.ThroughputTokS, Said: true}
	RequestRate = Measure{Name: "requests/s", Column: col.RequestThroughput}

	FirstToken    = Measure{Name: "p95 TTFT, ms", Column: col.P95TTFTMs}
	MiddleTPOT    = Measure{Name: "p50 TPOT, ms", Column: col.P50TPOTMs}
	TailTPOT      = Measure{Name: "p95 TPOT, ms", Column: col.P95TPOTMs}
	TailE2E       = Measure{Name: "p95 E2E, ms", Column: col.P95E2EMs}
	UserPerDollar = Measure{Name: "tok/s a user per $/h", Column: col.P50UserTokS, per: col.USDPerHour, scale: 1, from: col.P50TPOTMs, inverse: true}
	perDollar     = Measure{Name: "Mtok/$", Column: col.TotalThroughputTokS, per: col.USDPerHour, scale: 3600.0 / 1e6}
	TokenCost     = Measure{Name: "$ per 1M output tokens", Column: col.USDPer1MOutputTokens, money: true, from: col.ThroughputTokS, inverse: true}
)

// ID names a measure in a claim: by its columns.
func (m Measure) ID() string {
	if m.per != "" {
		return m.Column + "/" + m.per
	}
	return m.Column
}

// LessIsBest reports whether the lesser of two values is the better one.
func (m Measure) LessIsBest() bool {
	known, ok := metric.Of(m.Column)
	return ok && known.Less
}

// MoreIsBest reports whether the greater of two values is the better one. Of a plain fact
// neither is.
func (m Measure) MoreIsBest() bool {
	known, ok := metric.Of(m.Column)
	return ok && !known.Less
}

// of returns a row's value of the measure. ok is false if a column of it is null, or
// what it is divided by is not above 0.
func (m Measure) of(row result.Row) (v float64, ok bool) {
	v, ok = row.Number(m.Column)
	if m.per != "" {
		by := row.Float(m.per)
		if by <= 0 {
			return 0, false
		}
		v *= m.scale / by
	}
	return v, ok
}

// compare puts two values in order, the better one first.
func (m Measure) compare(a, b float64) int {
	known, ok := metric.Of(m.Column)
	switch {
	case !ok:
		return 0
	case known.Less:
		return cmp.Compare(a, b)
	}
	return cmp.Compare(b, a)
}

// How returns the word for the worse of two values.
func (m Measure) How() string {
	switch {
	case m.money:
		return "more"
	case m.per != "":
		return "less"
	}
	return "slower"
}

// Show returns a value for people.
func (m Measure) Show(v float64) string {
	if m.money {
		return "$" + humanize.Price(v)
	}
	return humanize.Figure(v)
}

// Figure returns the mean of a measure over the trials of a point in which it may be used.
func (p *Point) Figure(m Measure) (mean float64, ok bool) {
	if !p.Stands() {
		return 0, false
	}
	return p.Average(m)
}

// Shown returns a figure for people.
func (p *Point) Shown(m Measure) string {
	if v, ok := p.Figure(m); ok {
		return m.Show(v)
	}
	if p.Stands() && p.Infinite(m) {
		return Infinite
	}
	return "-"
}

// Infinite reports whether a measure is infinite in a trial that counts: then so is
// its mean.
func (p *Point) Infinite(m Measure) bool {
	return slices.ContainsFunc(p.Counting(), func(t Trial) bool { return t.Outcome.Row.Infinite(m.Column) })
}

// Average returns the mean of a measure over the trials that count.
func (p *Point) Average(m Measure) (mean float64, ok bool) {
	n := 0
	if p.Infinite(m) {
		return 0, false
	}
	for _, t := range p.Counting() {
		if v, ok := m.of(t.Outcome.Row); ok {
			mean += v
			n++
		}
	}
	if n == 0 {
		return 0, false
	}
	return mean / float64(n), true
}
