// Package ratio says how many times more of a figure one cell has than another, and how
// well its trials know that.
package ratio

import (
	"math"
	"slices"

	"github.com/aclements/go-moremath/stats"

	"sweep.dev/sweep/internal/quantile"
)

// A Trial is what one trial says of a figure.
type Trial struct {
	// Number is that of the repeat: trials of one number had the same arrivals and
	// lengths in every cell.
	Number int
	// Launch tells the launches of a cell's server apart.
	Launch string
	// Value is above 0.
	Value float64
	// Low and High are the 95 % interval within the trial. Without one both are 0; an end
	// that is not known is 0 or +Inf.
	Low, High float64
}

// Scope says which differences an interval covers.
type Scope string

// The scopes.
const (
	Nothing   Scope = "" // there is no interval
	OneTrial  Scope = "within one trial"
	OneLaunch Scope = "within one launch"
	Launches  Scope = "between launches"
	Runs      Scope = "between runs" // by a spread that was measured before
)

// A Ratio is that of two cells.
type Ratio struct {
	Value     float64 // of the geometric means; 0 where a side has none
	Low, High float64 // 0 and +Inf where Scope is Nothing
	Scope     Scope
}

// Less reports whether the ratio is certainly below x.
func (r Ratio) Less(x float64) bool { return r.Scope != Nothing && r.High < x }

// More reports whether the ratio is certainly above x.
func (r Ratio) More(x float64) bool { return r.Scope != Nothing && r.Low > x }

// Chance returns the least tail, of at least 1e-6, at which a ratio is certain of something:
// the p-value of the other way round, by one side. It is 1 if the ratio is not certain at
// a tail of 0.5.
func Chance(of func(tail float64) Ratio, certain func(Ratio) bool) float64 {
	const least, steps = 1e-6, 30
	if !certain(of(0.5)) {
		return 1
	}
	low, high := math.Log(least), math.Log(0.5)
	if certain(of(least)) {
		return least
	}
	for range steps {
		if mid := (low + high) / 2; certain(of(math.Exp(mid))) {
			high = mid
		} else {
			low = mid
		}
	}
	return math.Exp(high)
}

// Over returns 1 over the ratio.
func (r Ratio) Over() Ratio {
	out := Ratio{High: math.Inf(1), Scope: r.Scope}
	if r.Value > 0 {
		out.Value = 1 / r.Value
	}
	if r.Low > 0 {
		out.High = 1 / r.Low
	}
	if r.High > 0 {
		out.Low = 1 / r.High
	}
	return out
}

// Of returns the ratio of one cell to another, which lies above the interval with the chance
// tail, and below it with the same.
//
// It is made of logarithms, so that a ratio and the one of the other way round say the
// same. With the same trials on both sides (two at least) it is the mean of their
// differences by Student's t: what chance did to both cancels (common random numbers:
// Law and Kelton, Simulation Modeling and Analysis, 11.2). With other trials it is by
// Welch's t (Biometrika 34, 1947). If a side has one trial, the intervals within the
// trials are combined as those of independent estimates (Zou and Donner, Statistics in
// Medicine 27, 2008).
func Of(a, b []Trial, tail float64) Ratio {
	if len(a) == 0 || len(b) == 0 {
		return Ratio{High: math.Inf(1)}
	}
	if d, ok := Between(a, b); ok {
		return d.At(tail)
	}
	return within(stats.Mean(logs(a))-stats.Mean(logs(b)), ends(a, tail), ends(b, tail))
}

// A Series is cells of one kind, whose logarithms are taken to scatter alike between
// trials: a few trials of each together know how much.
type Series struct {
	cells    [][]Trial
	variance float64 // of a trial, without what all cells share in it
	df       float64 // 0 where no cell has two trials
	scope    Scope
	wide     map[float64]float64 // Student's t by the tail
}

// NewSeries pools cells, each of which has a trial. If all have the same trials, what a
// trial did to all of them is taken off (the residuals of a two-way layout); else each
// cell is held against its own mean.
func NewSeries(cells [][]Trial) *Series {
	s := &Series{cells: cells, scope: scope(cells...), wide: map[float64]float64{}}
	squares, same := 0.0, len(cells) > 1
	all := make([][]float64, len(cells))
	for i, c := range cells {
		all[i] = logs(c)
		s.df += float64(len(c) - 1)
		same = same && slices.Equal(numbersOf(c), numbersOf(cells[0]))
		m := stats.Mean(all[i])
		for k := range all[i] {
			all[i][k] -= m
			squares += all[i][k] * all[i][k]
		}
	}
	if same {
		s.df -= float64(len(cells[0]) - 1)
		for k := range all[0] {
			shared := 0.0
			for i := range all {
				shared += all[i][k]
			}
			squares -= shared * shared / float64(len(all))
		}
	}
	if s.df > 0 {
		s.variance = max(0, squares) / s.df
	}
	return s
}

// Of returns the ratio of cell i to cell j, as [Of] has it: by what all cells know of the
// spread between trials, or where each has one trial, by the intervals within them.
func (s *Series) Of(i, j int, tail float64) Ratio {
	a, b := s.cells[i], s.cells[j]
	distance := stats.Mean(logs(a)) - stats.Mean(logs(b))
	if s.df <= 0 {
		return within(distance, ends(a, tail), ends(b, tail))
	}
	error := math.Sqrt(s.variance * (1/float64(len(a)) + 1/float64(len(b))))
	if s.wide[tail] == 0 {
		s.wide[tail] = quantile.Student(1-tail, s.df)
	}
	return between(distance, s.wide[tail]*error, s.scope)
}

// Trials returns how many trials of each cell would make half an interval narrower than a
// distance of logarithms; 0 as of [Trials].
func (s *Series) Trials(distance, tail float64) int {
	if s.df <= 0 {
		return 0
	}
	for n := 2; n <= mostTrials; n++ {
		df := float64((len(s.cells) - 1) * (n - 1))
		if quantile.Student(1-tail, df)*math.Sqrt(2*s.variance/float64(n)) < distance {
			return n
		}
	}
	return 0
}

// mostTrials is the largest number of trials that is suggested.
const mostTrials = 50

// Trials returns how many trials of each cell would tell the two apart, if they go on to
// differ as they do; 0 if that is unknown, or if it would take more than 50.
func Trials(a, b []Trial, tail float64) int {
	return enough(a, b, tail, func(distance, half float64) bool { return half < distance })
}

// enough returns the smallest number of trials of each cell for which told is true; 0 if
// that is unknown, or if it would take more than mostTrials.
func enough(a, b []Trial, tail float64, told func(distance, half float64) bool) int {
	if len(a) < 2 || len(b) < 2 {
		return 0
	}
	x, y := logs(a), logs(b)
	distance, single, each := math.Abs(stats.Mean(x)-stats.Mean(y)), stats.Variance(x)+stats.Variance(y), 2.0
	if slices.Equal(numbersOf(a), numbersOf(b)) {
		for i := range x {
			x[i] -= y[i]
		}
		single, each = stats.Variance(x), 1
	}
	for n := max(len(a), len(b)) + 1; n <= mostTrials; n++ {
		if told(distance, quantile.Student(1-tail, each*float64(n-1))*math.Sqrt(single/float64(n))) {
			return n
		}
	}
	return 0
}

// TrialsAlike returns how many trials of each cell would show that the two differ by less than
// within (0.02 is 2 %), if they go on to differ as they do; 0 as of [Trials].
func TrialsAlike(a, b []Trial, within, tail float64) int {
	return enough(a, b, tail, func(distance, half float64) bool { return distance+half < math.Log1p(within) })
}

// between returns the interval of a distance of logarithms, half of it on each side.
func between(distance, half float64, s Scope) Ratio {
	return Ratio{Value: math.Exp(distance), Low: math.Exp(distance - half), High: math.Exp(distance + half), Scope: s}
}

// within combines how far each side may be below and above its estimate.
func within(distance float64, a, b [2]float64) Ratio {
	low, high := math.Hypot(a[0], b[1]), math.Hypot(a[1], b[0])
	r := Ratio{Value: math.Exp(distance), Low: math.Exp(distance - low), High: math.Exp(distance + high), Scope: OneTrial}
	if math.IsInf(low, 1) && math.IsInf(high, 1) {
		r.Scope = Nothing
	}
	return r
}

// batchesDF are the degrees of freedom behind an interval within a trial, those of ten
// batches, and batchesT is Student's t that made it. The order statistics of percentiles
// have more.
const (
	batchesDF = 9
	batchesT  = 2.262157
	oneSided  = 0.025 // of a 95 % interval
)

// ends returns how far the logarithm of a cell may be below its estimate, and above it.
func ends(trials []Trial, tail float64) [2]float64 {
	if n := float64(len(trials)); n > 1 {
		half := quantile.Student(1-tail, n-1) * math.Sqrt(stats.Variance(logs(trials))/n)
		return [2]float64{half, half}
	}
	t := trials[0]
	wider := quantile.Student(1-tail, batchesDF) / batchesT
	out := [2]float64{math.Inf(1), math.Inf(1)}
	if t.Low > 0 {
		out[0] = wider * math.Log(t.Value/t.Low)
	}
	if t.High > 0 {
		out[1] = wider * math.Log(t.High/t.Value)
	}
	return out
}

// welch returns the standard error of the difference of two means, and its degrees of
// freedom by Satterthwaite.
func welch(x, y []float64) (error, df float64) {
	n, m := float64(len(x)), float64(len(y))
	a, b := stats.Variance(x)/n, stats.Variance(y)/m
	if a+b == 0 {
		return 0, n + m - 2
	}
	return math.Sqrt(a + b), (a + b) * (a + b) / (a*a/(n-1) + b*b/(m-1))
}

// scope returns what differs between the trials of the cells: their launches if no two trials
// of a cell share one.
func scope(cells ...[]Trial) Scope {
	for _, c := range cells {
		seen := map[string]bool{}
		for _, t := range c {
			if seen[t.Launch] {
				return OneLaunch
			}
			seen[t.Launch] = true
		}
	}
	return Launches
}

func numbersOf(trials []Trial) []int {
	out := make([]int, len(trials))
	for i, t := range trials {
		out[i] = t.Number
	}
	return out
}

func logs(trials []Trial) []float64 {
	out := make([]float64, len(trials))
	for i, t := range trials {
		out[i] = math.Log(t.Value)
	}
	return out
}
