package report

import (
	"cmp"
	"fmt"

	"sweep.dev/sweep/result"
	"sweep.dev/sweep/result/col"
)

// A direction says which of two values is the better one.
type direction int

const (
	plainFact  direction = iota // neither
	lessIsBest                  // times and prices
	moreIsBest                  // rates
)

// A measure is what sides are compared by: a column of the cells table, or the
// quotient of two, in a person's words.
type measure struct {
	name    string
	column  string
	best    direction
	lasting bool    // a fact about the server, whatever the trial was worth
	said    bool    // its order is said in words, for every load that engines share
	per     string  // the column by which column is divided; "" for none
	scale   float64 // what the quotient is multiplied by
	money   bool    // dollars
}

var (
	tokenRate   = measure{name: "output tokens/s", column: col.ThroughputTokS, best: moreIsBest, said: true}
	requestRate = measure{name: "requests/s", column: col.RequestThroughput, best: moreIsBest}

	firstToken    = measure{name: "p95 TTFT, ms", column: col.P95TTFTMs, best: lessIsBest}
	userPerDollar = measure{name: "tok/s a user per $/h", column: col.P50UserTokS, best: moreIsBest, per: col.USDPerHour, scale: 1}
	perDollar     = measure{name: "Mtok/$", column: col.TotalThroughputTokS, best: moreIsBest, per: col.USDPerHour, scale: 3600.0 / 1e6}
	tokenCost     = measure{name: "$ per 1M output tokens", column: col.USDPer1MOutputTokens, best: lessIsBest, money: true}
)

// id names a measure in a claim: by its columns.
func (m measure) id() string {
	if m.per != "" {
		return m.column + "/" + m.per
	}
	return m.column
}

// of is a row's value of the measure. ok is false if a column of it is null, or
// what it is divided by is not above 0.
func (m measure) of(row result.Row) (v float64, ok bool) {
	v, ok = row.Number(m.column)
	if m.per != "" {
		by := number(row, m.per)
		if by <= 0 {
			return 0, false
		}
		v *= m.scale / by
	}
	return v, ok
}

// compare puts two values in order, the better one first.
func (m measure) compare(a, b float64) int {
	switch m.best {
	case moreIsBest:
		return cmp.Compare(b, a)
	case lessIsBest:
		return cmp.Compare(a, b)
	}
	return 0
}

// worse is how much worse than the best a value is, 1 for the best; 0 where the
// two have no ratio.
func (m measure) worse(v, best float64) float64 {
	if m.best == moreIsBest {
		v, best = best, v
	}
	switch {
	case best <= 0:
		return 0
	case v == best:
		return 1
	}
	return v / best
}

// how is the word for the worse of two values.
func (m measure) how() string {
	switch {
	case m.money:
		return "more"
	case m.per != "":
		return "less"
	}
	return "slower"
}

// show is a value for people.
func (m measure) show(v float64) string {
	if m.money {
		return "$" + Dollars(v)
	}
	return Figure(v)
}

// figure is the mean of a measure over the valid trials of a point.
func (p *Point) figure(m measure) (mean float64, ok bool) {
	if p.Valid == 0 {
		return 0, false
	}
	return p.average(m)
}

// shown is a figure for people.
func (p *Point) shown(m measure) string {
	if v, ok := p.figure(m); ok {
		return m.show(v)
	}
	return "-"
}

// average is the mean of a measure over the trials that count.
func (p *Point) average(m measure) (mean float64, ok bool) {
	n := 0
	for _, t := range p.counting() {
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

// times is a ratio for people, up to 999.
func times(r float64) string {
	switch {
	case r >= 1000:
		return ">999x"
	case r >= 100:
		return fmt.Sprintf("%.0fx", r)
	}
	return fmt.Sprintf("%.2fx", r)
}

// worse is a ratio with the word for it, which 1.00x has none of.
func worse(r float64, how string) string {
	text := times(r)
	if text == "1.00x" {
		return text
	}
	return text + " " + how
}
