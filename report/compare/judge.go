package compare

import (
	"fmt"
	"math"
	"slices"

	"sweep.dev/sweep/report/conclude"
	"sweep.dev/sweep/result/col"
	"sweep.dev/sweep/result/noise"
	"sweep.dev/sweep/result/ratio"
)

// A Verdict is what is known of a figure of a cell on two sides.
type Verdict string

// The verdicts. Faster and Slower stand for better and worse in every metric.
const (
	Faster     Verdict = "faster"
	Slower     Verdict = "slower"
	Same       Verdict = "same" // within [Alike]
	CannotTell Verdict = "cannot tell"
	// TooNoisy: the noise between runs is known, and a regression of the size that is
	// asked for would drown in it.
	TooNoisy Verdict = "too_noisy"
)

const (
	// Alike is how far two sides may differ and be called the same.
	Alike = 0.02
	// Level is the share of wrong ones among the verdicts faster and slower that is
	// accepted (Benjamini and Hochberg, JRSS B 57, 1995), and the chance that an interval
	// misses.
	Level = 0.05
	// Alarm is that share among the regressions, which stop a release.
	Alarm = 0.01
)

// A Figure is what two sides have of one metric in one cell. What is not known is nil.
type Figure struct {
	Metric string   `json:"metric"` // a column of the cells table
	Base   *float64 `json:"base"`   // means over the valid trials
	Head   *float64 `json:"head"`
	// Ratio is head over base, of the geometric means of the trials, with its 95 %
	// interval; of error_rate they are differences.
	Ratio *float64 `json:"ratio"`
	Low   *float64 `json:"low"`
	High  *float64 `json:"high"`
	// Scope is what the interval covers, a [ratio.Scope].
	Scope string `json:"scope"`
	// Paired: trials of one number had the same arrivals and lengths on both sides, and
	// were held against each other.
	Paired  bool    `json:"paired"`
	Verdict Verdict `json:"verdict"`
	// Regression: certainly worse than the threshold.
	Regression bool `json:"regression"`
	// Floor is the least change that can be shown at this noise, where that is known: 0.03
	// is 3 %.
	Floor *float64 `json:"floor"`
	// Repeats is how many trials of each side would decide, if they go on to differ as
	// they do; nil if that is not known, or is more than 50.
	Repeats *int   `json:"repeats"`
	Why     string `json:"why"` // there is no ratio, or the verdict is not what repeats can change

	of    Metric
	at    func(tail float64) ratio.Ratio // nil without a ratio
	apart *ratio.Difference              // behind at, if the scatter of the trials tells it
	more  func() *int                    // Repeats, if the interval leaves it undecided
	// few returns what of there is too little, and how much more of it would tell a
	// difference far beyond its noise at a tail; 0 if it is not far.
	few    func(tail float64) (what string, more int)
	tooFew string // that in words; "" of every other figure
	trials int    // of the side that has more
	known  ratio.Ratio
	judged bool
	change float64 // chance of such a difference between equal sides
	worse  float64 // chance of it if the truth is no worse than the threshold
}

// A pair is one cell on both sides, and what its figures are held against.
type pair struct {
	id         string
	base, head *conclude.Point
	alike      bool // trials of one number have the same arrivals and lengths
	noise      *noise.File
}

// figure returns what a pair says of a metric. Its interval and verdict wait for those of the
// other cells.
func (p pair) figure(m Metric) Figure {
	f := Figure{Metric: m.Column, of: m, Verdict: CannotTell, Base: value(p.base, m), Head: value(p.head, m), change: 1, worse: 1}
	if m.Share {
		p.share(&f)
		return f
	}
	for _, side := range []struct {
		point *conclude.Point
		name  string
	}{{p.base, "base"}, {p.head, "head"}} {
		if side.point.Infinite(m.Measure) {
			f.Why = "failed requests make it infinite on " + side.name
			return f
		}
	}
	a, b := p.head.Estimates(m.Measure), p.base.Estimates(m.Measure)
	f.trials = max(len(a), len(b))
	if len(a) == 0 || len(b) == 0 {
		if f.Base != nil || f.Head != nil {
			f.Why = "not measured on both sides"
		}
		return f
	}
	numbers := func(t []ratio.Trial) (all []int) {
		for _, e := range t {
			all = append(all, e.Number)
		}
		return all
	}
	if f.Paired = p.alike && len(a) > 1 && slices.Equal(numbers(a), numbers(b)); !f.Paired {
		for i := range a {
			a[i].Number += 1 << 20 // equal numbers would be taken for equal arrivals
		}
	}
	if spread, known := p.noise.Find(p.id, m.Column); known {
		distance := math.Log(ratio.Of(a, b, Level).Value)
		f.at = func(tail float64) ratio.Ratio { return spread.Ratio(distance, len(b), len(a), f.Paired, tail) }
		floor := spread.Floor(len(b), len(a), f.Paired, Level/2)
		f.Floor = &floor
		f.more = func() *int { return moreOf(spread, math.Abs(distance), max(len(a), len(b)), f.Paired) }
		f.few = func(tail float64) (string, int) {
			return "runs in the noise file", spread.More(distance, len(b), len(a), f.Paired, tail)
		}
		return f
	}
	f.at = func(tail float64) ratio.Ratio { return ratio.Of(a, b, tail) }
	further := func(tail float64) int { return ratio.More(a, b, tail) }
	if d, ok := ratio.Between(a, b); ok {
		f.apart, f.at, further = &d, func(tail float64) ratio.Ratio { return d.At(tail) }, func(tail float64) int { return d.More(tail) }
	}
	f.few = func(tail float64) (string, int) { return "trials", further(tail) }
	f.more = func() *int { return least(ratio.Trials(a, b, Level/2), ratio.TrialsAlike(a, b, Alike, Level/2)) }
	return f
}

// pool lets the cells of a comparison lend each other what they know of the scatter of
// their trials, for each metric by itself.
func pool(figures []*Figure) {
	type kind struct {
		metric string
		paired bool // the scatter of differences, and not of trials
	}
	all := map[kind][]*ratio.Difference{}
	for _, f := range figures {
		if f.apart != nil {
			k := kind{f.Metric, f.Paired}
			all[k] = append(all[k], f.apart)
		}
	}
	for _, of := range all {
		ratio.Pool(of)
	}
}

// hold sets the interval of a figure and the chances that a verdict rests on.
func (f *Figure) hold(most float64) {
	if f.at == nil {
		return
	}
	f.known = f.at(Level / 2)
	f.Ratio, f.Low, f.High, f.Scope = &f.known.Value, finite(f.known.Low), finite(f.known.High), string(f.known.Scope)
	if f.known.Scope == ratio.Nothing {
		f.Low, f.High = nil, nil
		f.Why = "one trial of each, and no interval within it"
		return
	}
	f.judged = true
	// A difference that is not certain at the level is no discovery, however unlikely it is.
	certain := func(tail float64, is func(ratio.Ratio) bool) float64 {
		if !is(f.at(tail)) {
			return 1
		}
		return ratio.Chance(f.at, is)
	}
	less := certain(Level/2, func(r ratio.Ratio) bool { return r.Less(1) })
	more := certain(Level/2, func(r ratio.Ratio) bool { return r.More(1) })
	f.change = min(1, 2*min(less, more))
	if most > 0 {
		f.worse = certain(Alarm, func(r ratio.Ratio) bool {
			if f.of.LessIsBest() {
				return r.More(1 + most)
			}
			return r.Less(1 - most)
		})
	}
	if f.more != nil && f.undecided() {
		if f.Repeats = f.more(); f.Repeats == nil && f.Floor != nil {
			f.Why = "more repeats would not tell: runs differ by more than their trials"
		}
	}
}

// Said reports whether there is anything to say of a figure.
func (f *Figure) Said() bool { return f.Base != nil || f.Head != nil || f.Why != "" }

// Open reports whether a figure that counts for its cell's verdict is known and cannot be
// told: Words say why, and what would tell.
func (f *Figure) Open() bool {
	return f.of.Judged && f.Said() && (f.Verdict == CannotTell || f.Verdict == TooNoisy)
}

// undecided reports whether the interval alone leaves a figure undecided.
func (f *Figure) undecided() bool {
	return f.known.Scope != ratio.Nothing && !f.alike() && f.change > Level
}

// alike reports whether the whole interval is within [Alike].
func (f *Figure) alike() bool {
	return f.known.Scope != ratio.Nothing && f.known.More(1/(1+Alike)) && f.known.Less(1+Alike)
}

// concludeOn gives all figures their verdicts. A difference, and a regression, is one
// if it is among the discoveries of Benjamini and Hochberg over all figures that are
// judged, of all cells: with a family for each metric, one chance in twenty became one in
// five of two equal runs. It returns how many regressions there are.
func concludeOn(figures []*Figure, most float64) (regressions int) {
	var changes, worse []float64
	for _, f := range figures {
		if f.judged && f.of.Judged {
			changes, worse = append(changes, f.change), append(worse, f.worse)
		}
	}
	change, bad := Discover(changes, Level), Discover(worse, Alarm)
	found := 0
	for _, p := range changes {
		if p <= change {
			found++
		}
	}
	next := Level * float64(found+1) / float64(max(1, len(changes))) / 2 // the tail of one more discovery
	for _, f := range figures {
		if f.judged && f.of.Judged && f.worse <= bad {
			f.Regression = true
			regressions++
		}
		f.decide(change, next, most)
	}
	return regressions
}

// decide gives a figure its verdict: differences are those whose chance is not above cut. A
// further one would need an interval of the tail next.
func (f *Figure) decide(cut, next, most float64) {
	better := f.known.More(1) != f.of.LessIsBest()
	switch {
	case f.known.Scope == ratio.Nothing:
		return
	case f.Regression:
		f.Verdict = Slower
	case f.alike():
		f.Verdict = Same
	case f.change <= cut && better:
		f.Verdict = Faster
	case f.change <= cut:
		f.Verdict = Slower
	case f.Floor != nil && most > 0 && *f.Floor > most:
		f.Verdict = TooNoisy
	}
	if f.Verdict != CannotTell && f.Verdict != TooNoisy {
		f.Repeats, f.Why = nil, ""
	} else if f.few != nil {
		f.lack(next)
	}
	f.shift()
}

// lack finds words for a difference that is far beyond its noise and not certain at a tail.
func (f *Figure) lack(tail float64) {
	what, n := f.few(tail)
	if n == 0 {
		return
	}
	f.tooFew, f.Repeats, f.Why = fmt.Sprintf("too few %s: %d more", what, n), nil, ""
	if f.known.Scope != ratio.Runs {
		n += f.trials
		f.Repeats = &n
	}
}

// Discover returns the bound of the chances (p-values) that are discoveries at a false
// discovery rate: those not above it. It is negative if none is (Benjamini and Hochberg,
// 1995, which keeps the rate for independent and for positively dependent figures).
func Discover(chances []float64, rate float64) float64 {
	sorted := slices.Sorted(slices.Values(chances))
	for k := len(sorted); k > 0; k-- {
		if sorted[k-1] <= rate*float64(k)/float64(len(sorted)) {
			return sorted[k-1]
		}
	}
	return -1
}

// moreOf returns how many trials of each of two runs would tell at a known spread.
func moreOf(s noise.Spread, distance float64, from int, paired bool) *int {
	for n := from + 1; n <= 50; n++ {
		if half := math.Log1p(s.Floor(n, n, paired, Level/2)); half < distance || distance+half < math.Log1p(Alike) {
			return &n
		}
	}
	return nil
}

// least returns the least of some counts that are known.
func least(counts ...int) *int {
	counts = slices.DeleteFunc(counts, func(n int) bool { return n == 0 })
	if len(counts) == 0 {
		return nil
	}
	n := slices.Min(counts)
	return &n
}

// value returns a side's figure.
func value(p *conclude.Point, m Metric) *float64 {
	if v, ok := p.Figure(m.Measure); ok {
		return &v
	}
	return nil
}

func finite(v float64) *float64 {
	if math.IsInf(v, 0) {
		return nil
	}
	return &v
}

// conditions returns the conditions digests of the trials of a point that count.
func conditions(p *conclude.Point) []string {
	var all []string
	for _, t := range p.Counting() {
		d, _ := t.Outcome.Row[col.ConditionsDigest].(string)
		all = append(all, d)
	}
	slices.Sort(all)
	return slices.Compact(all)
}
