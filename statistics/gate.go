package statistics

import (
	"math"
	"math/rand/v2"
	"strconv"

	"sweep.dev/sweep/gate"
	"sweep.dev/sweep/statistics/tables"
)

// gates asks how often the gate of nights alarms though nothing has changed, and how
// soon it finds what has.
func gates(l *Lab) tables.Table {
	const before, quiet = 20, 30
	t := tables.Table{
		What:    "sweep gate over a plan of so many cells with two metrics each, whose nights scatter around a constant: the share of plans with a false alarm in 30 quiet nights after 20, and the share of series in which a step of 10 % and of 5 % on the 21st night is found: within two nights, and within 10.",
		Columns: []string{"false alarm", "10 % in 2", "5 % in 10"},
	}
	add := func(name string, cells, before int, noise func(*rand.Rand, int) func() float64, alarms, finds tables.Bound) {
		runs := l.runs(2000)
		results := each(runs, func(seed uint64) (r gated) {
			nights := func(salt uint64, n int, step func(night int) float64) [][]gate.Verdict {
				random := rand.New(rand.NewPCG(seed, salt))
				values := nightly(random, cells, n, noise, step)
				return gate.Replay(values, gate.Rule{})
			}
			for _, series := range nights(1, before+quiet, func(int) float64 { return 1 }) {
				r.alarm = r.alarm || foundBy(series, before+quiet)
			}
			for i, by := range []float64{0.10, 0.05} {
				for _, series := range nights(2, before+10, func(night int) float64 {
					if night < before {
						return 1
					}
					return 1 + by
				}) {
					r.series++
					if foundBy(series, before+2) {
						r.two[i]++
					}
					if foundBy(series, before+10) {
						r.ten[i]++
					}
				}
			}
			r.series /= 2
			return r
		})
		of := func(count func(gated) int) tables.Figure {
			k, n := 0.0, 0.0
			for _, r := range results {
				k += float64(count(r))
				n += float64(r.series)
			}
			p := (k + 1) / (n + 2)
			return tables.Figure{Value: k / n, Error: math.Sqrt(p * (1 - p) / n), Unit: tables.Share, N: int(n)}
		}
		t.Add(name, runs,
			share(which(results, func(r gated) bool { return r.alarm })).Keep(alarms),
			of(func(r gated) int { return r.two[0] }).Keep(finds),
			of(func(r gated) int { return r.ten[1] }),
		)
	}
	normal := func(sd float64) func(*rand.Rand, int) func() float64 {
		return func(r *rand.Rand, _ int) func() float64 { return func() float64 { return sd * r.NormFloat64() } }
	}
	add("24 cells, sd 1.5 %", 24, before, normal(0.015), atMost(0.03), atLeast(0.99))
	add("24 cells, sd 1.5 %, after 10 nights", 24, gate.MinNights, normal(0.015), atMost(0.03), tables.Bound{})
	add("24 cells, sd 0.5 to 3 %", 24, before, func(r *rand.Rand, series int) func() float64 {
		sd := 0.005 * math.Pow(6, float64(series%24)/23)
		return func() float64 { return sd * r.NormFloat64() }
	}, atMost(0.03), tables.Bound{})
	add("24 cells, sd 1.5 %, heavy tails", 24, before, func(r *rand.Rand, _ int) func() float64 {
		return func() float64 { return 0.015 * student5(r) }
	}, tables.Bound{}, tables.Bound{})
	for _, cells := range []int{1, 4, 100} {
		name := strconv.Itoa(cells) + " cells, sd 1.5 %"
		if cells == 1 {
			name = "1 cell, sd 1.5 %"
		}
		add(name, cells, before, normal(0.015), atMost(0.03), atLeast(0.99))
	}
	return t
}

// A gated plan is what the gate said of its nights.
type gated struct {
	alarm    bool
	series   int
	two, ten [2]int // found within so many nights, by step
}

// nightly are the two metrics of each cell, over n nights.
func nightly(r *rand.Rand, cells, n int, noise func(*rand.Rand, int) func() float64, step func(int) float64) []gate.Series {
	all := make([]gate.Series, 0, 2*cells)
	for metric := range 2 {
		for cell := range cells {
			s := gate.Series{Group: strconv.Itoa(metric), Less: true}
			off := noise(r, cell)
			for night := range n {
				s.Values = append(s.Values, 100*step(night)*(1+off()))
			}
			all = append(all, s)
		}
	}
	return all
}

// foundBy says whether a regression was seen in the first nights of a series.
func foundBy(nights []gate.Verdict, n int) bool {
	for _, v := range nights[:min(n, len(nights))] {
		if v.State == gate.Regression {
			return true
		}
	}
	return false
}

// student5 is of Student's distribution with 5 degrees of freedom, scaled to a standard
// deviation of 1.
func student5(r *rand.Rand) float64 {
	square := 0.0
	for range 5 {
		z := r.NormFloat64()
		square += z * z
	}
	return r.NormFloat64() / math.Sqrt(square/5) / math.Sqrt(5.0/3)
}
