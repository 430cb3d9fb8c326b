package statistics

import (
	"fmt"
	"slices"

	"sweep.dev/sweep/report/conclude"
	"sweep.dev/sweep/result"
	"sweep.dev/sweep/result/col"
	"sweep.dev/sweep/test/statistics/models"
	"sweep.dev/sweep/test/statistics/tables"
)

// A series is the truth about several loads, as shares of the most, and by how much the
// trials of each scatter.
type series struct {
	name   string
	shares []float64
	cvs    []float64
}

// seriesOf returns the series of the table of sweet spots.
func seriesOf() []series {
	var all []series
	for _, of := range []float64{0.90, 0.944, 0.956, 0.98, 1} {
		all = append(all, series{fmt.Sprintf("%.3g %% of the most", 100*of), []float64{of, 1}, []float64{0.03, 0.03}})
	}
	curve, even := []float64{0.25, 0.5, 0.8, 0.944, 1, 0.99}, []float64{0.03, 0.03, 0.03, 0.03, 0.03, 0.03}
	return append(all,
		series{"6 loads, 94.4 %", curve, even},
		series{"6 loads, cv 1, 5 %", curve, []float64{0.01, 0.01, 0.01, 0.05, 0.05, 0.05}},
		series{"6 loads, 98 %", []float64{0.25, 0.5, 0.8, 0.98, 1, 0.99}, even},
		series{"6 loads, 94 to 95 %", []float64{0.94, 0.942, 0.944, 0.946, 0.948, 1}, even},
	)
}

// enough is the share of the most that a sweet spot must give.
const enough = 0.95

// sweetSpot asks how often a load is chosen that gives less than the share of the
// most that a sweet spot must give, and how often the least that does.
func sweetSpot(l *Lab) tables.Table {
	t := tables.Table{
		What:    "Two loads, of which the greater gives the most tokens/s and the other a share of it, or six: 25, 50 and 80 % of the most, a share of it, 100 and 99 %, or five from 94 to 94.8 % and the most. Trials scatter by 3 %, or those of the three greatest loads by 5 % and the others by 1 %; the interval of one trial knows of all its scatter. How often the sweet spot is a load below 95 % of the most, or where the share is more than that, how often it is the load with it. Named: how often the loads not distinguishable from the best have the best one, of 3 trials.",
		Columns: []string{"1 trial", "3 trials", "10 trials", "named"},
		Drawn:   1,
	}
	for _, s := range seriesOf() {
		if l.enough(&t) {
			break
		}
		c := tables.Case{Name: s.name, Runs: l.runs(1000)}
		if len(s.shares) > 2 {
			c.Runs = l.runs(400)
		}
		// The least load that gives enough, below which a choice is wrong. It is the one
		// asked for unless one just below it is.
		least := slices.IndexFunc(s.shares, func(of float64) bool { return of >= enough })
		wrong := least > 0 && s.shares[least-1] >= 0.9
		var named tables.Figure
		for _, n := range []int{1, 3, 10} {
			sets := each(c.Runs, func(seed uint64) *conclude.Set {
				var cells []cell
				for i, of := range s.shares {
					cells = append(cells, cell{"a", float64(int(1) << i), scattered(uint64(len(s.shares))*seed+uint64(i), n, 1000*of, s.cvs[i])})
				}
				return conclusions(cells)
			})
			f := share(which(sets, func(set *conclude.Set) bool {
				slots := chosen(set)
				if wrong {
					return slots > 0 && slots < float64(int(1)<<least)
				}
				return slots == float64(int(1)<<least)
			}))
			if wrong {
				f = f.Keep(atMost(0.05))
			}
			c.Figures = append(c.Figures, f)
			if n == 3 {
				best := slices.Index(s.shares, 1)
				named = share(which(sets, func(set *conclude.Set) bool {
					return slices.Contains(set.Answers(conclude.AskSweetSpot)[0].Loads, float64(int(1)<<best))
				})).Keep(atLeast(0.95))
			}
		}
		c.Figures = append(c.Figures, named)
		t.Cases = append(t.Cases, c)
	}
	return t
}

// chosen returns the load of the sweet spot, 0 for none.
func chosen(set *conclude.Set) float64 {
	for _, c := range set.Answers(conclude.AskSweetSpot) {
		if c.Answer == conclude.Decided {
			return conclude.Load(c.Places[0].Point.Cell)
		}
	}
	return 0
}

// A race is engines whose truth is known.
type race struct {
	name   string
	slower []float64                                            // times, the engines after the first
	rows   func(seed uint64, n int, truth float64) []result.Row // trials of one engine
	trust  bool                                                 // one trial knows of all its scatter
}

// ratios asks how often a comparison calls an engine slower.
func ratios(l *Lab) tables.Table {
	t := tables.Table{
		What:    "Engines at one load whose trials scatter by 3 %: how often a summary ranks any behind another in tokens/s, and how often in the wrong order. The interval of one trial knows of all its scatter, but for the case in which half of the variance is between trials, which no single trial shows.",
		Columns: []string{"1 trial", "3 trials", "10 trials", "wrong of 3"},
		Drawn:   1,
	}
	within := func(seed uint64, n int, truth float64) []result.Row { return scattered(seed, n, truth, 0.03) }
	between := func(seed uint64, n int, truth float64) []result.Row {
		rows := scattered(seed, n, truth, 0.0212)
		for i, z := range models.Normal(seed+1<<32, n) {
			for _, column := range []string{col.ThroughputTokS, col.ThroughputTokSLow, col.ThroughputTokSHigh} {
				rows[i][column] = rows[i].Float(column) * (1 + 0.0212*z)
			}
		}
		return rows
	}
	for _, r := range []race{
		{"truly 1.00 x", []float64{1}, within, true},
		{"1.00 x, of three", []float64{1, 1}, within, true},
		{"1.00 x, between", []float64{1}, between, false},
		{"truly 1.05 x", []float64{1.05}, within, true},
		{"truly 1.10 x", []float64{1.10}, within, true},
		{"truly 1.20 x", []float64{1.20}, within, true},
	} {
		if l.enough(&t) {
			break
		}
		c := tables.Case{Name: r.name, Runs: l.runs(1000)}
		var wrong tables.Figure
		for _, n := range []int{1, 3, 10} {
			all := each(c.Runs, func(seed uint64) float64 {
				sides := uint64(len(r.slower) + 1)
				cells := []cell{{"a", 8, r.rows(sides*seed, n, 1000)}}
				for i, slower := range r.slower {
					cells = append(cells, cell{string(rune('b' + i)), 8, r.rows(sides*seed+uint64(i)+1, n, 1000/slower)})
				}
				return behind(conclusions(cells))
			})
			f := share(which(all, func(r float64) bool { return r != 1 }))
			if r.slower[0] == 1 && (r.trust || n > 1) {
				f = f.Keep(atMost(0.05))
			}
			c.Figures = append(c.Figures, f)
			if n == 3 && r.slower[0] > 1 {
				wrong = share(which(all, func(r float64) bool { return r < 1 })).Keep(atMost(0.01))
			}
		}
		c.Figures = append(c.Figures, wrong)
		t.Cases = append(t.Cases, c)
	}
	return t
}

// behind returns how many times slower the last engine is said to be than the first: below 1 if
// the first is said to be behind, 1 if nothing is said.
func behind(set *conclude.Set) float64 {
	for _, c := range set.Answers(conclude.AskEngine) {
		if c.Measure.Column != col.ThroughputTokS || c.Answer != conclude.Decided {
			continue
		}
		r := c.Places[len(c.Places)-1].Ratio
		if c.Places[0].Side != "a" {
			r = 1 / r
		}
		return r
	}
	return 1
}
