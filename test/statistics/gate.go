package statistics

import (
	"math"
	"math/rand/v2"
	"strconv"

	"sweep.dev/sweep/nightly/gate"
	"sweep.dev/sweep/test/statistics/tables"
)

// The nights of the tables of the gate.
const (
	gateBefore = 20 // before a release changes, or before the quiet ones
	gateQuiet  = 30
	gateAfter  = 10 // with the release
)

// A nightNoise makes the noise of the series of a cell: each call is a night, by how much
// its figure is off, and by how much a second measurement of that night is; NaN for none.
type nightNoise func(r *rand.Rand, cell int) func() (first, again float64)

// gates asks how often the gate of nights alarms though nothing has changed, and how
// soon it finds what has.
func gates(l *Lab) tables.Table {
	t := tables.Table{
		What:    "sweep night gate over a plan of so many cells with two metrics each, whose nights scatter around a constant: the share of plans with a false alarm in 30 quiet nights after 20, and the share of series in which a step of 10 % and of 5 % on the 21st night is found: within two nights, and within 10.",
		Columns: []string{"false alarm", "10 % in 2", "5 % in 10"},
	}
	add := func(name string, cells, before int, noise nightNoise, alarms, finds tables.Bound) {
		if l.enough(&t) {
			return
		}
		runs := l.runs(2000)
		all := gated(runs, cells, before, noise)
		t.Add(name, runs,
			share(which(all, func(g gatedPlan) bool { return g.alarm })).Keep(alarms),
			pooled(all, 2*cells, func(g gatedPlan) int { return g.found[0][1] }).Keep(finds),
			pooled(all, 2*cells, func(g gatedPlan) int { return g.found[1][gateAfter-1] }),
		)
	}
	add("24 cells, sd 1.5 %", 24, gateBefore, normal(0.015), atMost(0.03), atLeast(0.99))
	add("24 cells, sd 1.5 %, after 10 nights", 24, gate.MinNights, normal(0.015), atMost(0.03), tables.Bound{})
	add("24 cells, sd 0.5 to 3 %", 24, gateBefore, func(r *rand.Rand, cell int) func() (float64, float64) {
		return normal(0.005*math.Pow(6, float64(cell%24)/23))(r, cell)
	}, atMost(0.03), tables.Bound{})
	add("24 cells, sd 1.5 %, heavy tails", 24, gateBefore, func(r *rand.Rand, _ int) func() (float64, float64) {
		return func() (float64, float64) { return 0.015 * student5(r), math.NaN() }
	}, tables.Bound{}, tables.Bound{})
	add("24 cells, sd 1.5 %, the 5th night 40 % off", 24, gate.MinNights+1, func(r *rand.Rand, _ int) func() (float64, float64) {
		night := 0
		return func() (float64, float64) {
			if night++; night == 5 {
				return 0.4, math.NaN()
			}
			return 0.015 * r.NormFloat64(), math.NaN()
		}
	}, atMost(0.03), atLeast(0.99))
	add("24 cells, sd 1.5 %, AR(1) phi 0.5", 24, gateBefore, func(r *rand.Rand, _ int) func() (float64, float64) {
		const phi = 0.5
		off := 0.015 * r.NormFloat64()
		return func() (float64, float64) {
			off = phi*off + 0.015*math.Sqrt(1-phi*phi)*r.NormFloat64()
			return off, math.NaN()
		}
	}, tables.Bound{}, tables.Bound{})
	for _, cells := range []int{1, 4, 100} {
		name := strconv.Itoa(cells) + " cells, sd 1.5 %"
		if cells == 1 {
			name = "1 cell, sd 1.5 %"
		}
		add(name, cells, gateBefore, normal(0.015), atMost(0.03), atLeast(0.99))
	}
	return t
}

// reruns asks the same of sweep night gate --rerun, by how much of the noise between nights is
// in a second measurement too.
func reruns(l *Lab) tables.Table {
	const cells = 24
	t := tables.Table{
		What:    "sweep night gate --rerun over a plan of 24 cells with two metrics each, at 1.5 % between nights. A share of that variance is of the night (the host, a warm room) and is the same when a cell is measured again; the rest is of the pod, and a second measurement draws it anew. Both parts are normal, or with heavy tails Student's t with 5 degrees of freedom, and independent between series. By the share of the night: the share of plans with a false alarm in 30 quiet nights after 20; the share of series in which a step of 10 % on the 21st night is found that night, and within two, and the same of 5 % within 10; and the share of cells that are worse for the first night in a quiet night, and are measured again.",
		Columns: []string{"false alarm", "10 % at once", "10 % in 2", "5 % in 10", "suspected"},
	}
	add := func(name string, noise nightNoise, alarms tables.Bound) {
		if l.enough(&t) {
			return
		}
		runs := l.runs(2000)
		all := gated(runs, cells, gateBefore, noise)
		t.Add(name, runs,
			share(which(all, func(g gatedPlan) bool { return g.alarm })).Keep(alarms),
			pooled(all, 2*cells, func(g gatedPlan) int { return g.found[0][0] }),
			pooled(all, 2*cells, func(g gatedPlan) int { return g.found[0][1] }).Keep(atLeast(0.99)),
			pooled(all, 2*cells, func(g gatedPlan) int { return g.found[1][gateAfter-1] }),
			pooled(all, cells*gateQuiet, func(g gatedPlan) int { return g.fresh }),
		)
	}
	add("not measured again", normal(0.015), atMost(0.03))
	gauss := (*rand.Rand).NormFloat64
	add("0 % of the night", podAndNight(gauss, 0.015, 0), atMost(0.03))
	add("25 % of the night", podAndNight(gauss, 0.015, 0.25), atMost(0.03))
	add("50 % of the night", podAndNight(gauss, 0.015, 0.5), atMost(0.03))
	add("100 % of the night", podAndNight(gauss, 0.015, 1), atMost(0.03))
	add("0 % of the night, heavy tails", podAndNight(student5, 0.015, 0), tables.Bound{})
	return t
}

// normal returns noise with one standard deviation, and no second measurement.
func normal(sd float64) nightNoise {
	return func(r *rand.Rand, _ int) func() (float64, float64) {
		return func() (float64, float64) { return sd * r.NormFloat64(), math.NaN() }
	}
}

// podAndNight returns noise of which a share of the variance is of the night, and the rest of
// the pod: a second measurement has the same night and another pod. Every night has one,
// of which the gate reads those that sweep night gate --rerun would make: of a night that is the
// first to be worse than its band. draw has a standard deviation of 1.
func podAndNight(draw func(*rand.Rand) float64, sd, ofNight float64) nightNoise {
	night, pod := sd*math.Sqrt(ofNight), sd*math.Sqrt(1-ofNight)
	return func(r *rand.Rand, _ int) func() (float64, float64) {
		return func() (first, again float64) {
			both := night * draw(r)
			return both + pod*draw(r), both + pod*draw(r)
		}
	}
}

// A gatedPlan is what the gate said of the nights of a plan.
type gatedPlan struct {
	alarm bool              // in a quiet night
	fresh int               // cells that were worse for the first night, summed over the quiet nights
	found [2][gateAfter]int // series in which a step of 10 %, 5 % is found, by night
}

// gated returns plans of so many cells, each through quiet nights and through each step.
func gated(runs, cells, before int, noise nightNoise) []gatedPlan {
	return each(runs, func(seed uint64) (g gatedPlan) {
		replay := func(salt uint64, n int, step float64) [][]gate.Verdict {
			random := rand.New(rand.NewPCG(seed, salt))
			return gate.Replay(nightly(random, cells, before, n, noise, step), gate.Rule{})
		}
		quiet := replay(1, gateQuiet, 1)
		for _, series := range quiet {
			g.alarm = g.alarm || firstRegression(series) < len(series)
		}
		for cell := range cells {
			for night := before; night < before+gateQuiet; night++ {
				if fresh(quiet[cell][night], night) || fresh(quiet[cells+cell][night], night) {
					g.fresh++
				}
			}
		}
		for i, by := range []float64{0.10, 0.05} {
			for _, series := range replay(2, gateAfter, 1+by) {
				for night := max(0, firstRegression(series)-before); night < gateAfter; night++ {
					g.found[i][night]++
				}
			}
		}
		return g
	})
}

// nightly returns the two metrics of each cell, those of the first metric first, over the
// nights before and n more, which are off by a step.
func nightly(r *rand.Rand, cells, before, n int, noise nightNoise, step float64) []gate.Series {
	all := make([]gate.Series, 0, 2*cells)
	for metric := range 2 {
		for cell := range cells {
			s := gate.Series{Group: strconv.Itoa(metric), Less: true}
			off := noise(r, cell)
			for night := range before + n {
				level := 100.0
				if night >= before {
					level *= step
				}
				first, again := off()
				s.Values, s.Again = append(s.Values, level*(1+first)), append(s.Again, level*(1+again))
			}
			all = append(all, s)
		}
	}
	return all
}

// firstRegression returns the first night with a regression; their number if there is none.
func firstRegression(nights []gate.Verdict) int {
	for night, v := range nights {
		if v.State == gate.Regression {
			return night
		}
	}
	return len(nights)
}

// fresh reports whether a night is the first that is worse than its band, with what a second
// measurement made of it: what sweep night gate --rerun measures again.
func fresh(v gate.Verdict, night int) bool {
	switch v.State {
	case gate.Withdrawn:
		return true
	case gate.Suspect, gate.Regression:
		return v.First == night
	}
	return false
}

// pooled returns a share of all series, or cells, of all plans, each of which has n.
func pooled(all []gatedPlan, n int, count func(gatedPlan) int) tables.Figure {
	k, of := 0.0, float64(n*len(all))
	for _, g := range all {
		k += float64(count(g))
	}
	p := (k + 1) / (of + 2)
	return tables.Figure{Value: k / of, Error: math.Sqrt(p * (1 - p) / of), Unit: tables.Share, N: int(of)}
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
