package ratio

import (
	"math"
	"slices"

	"github.com/aclements/go-moremath/stats"

	"sweep.dev/sweep/internal/quantile"
)

// A Difference is how far the logarithms of two cells are apart, and how well the
// scatter of their trials tells it.
type Difference struct {
	distance float64
	variance float64 // of the logarithm of a trial
	trials   [2]int  // of each cell; of pairs their number alone
	df       float64
	scope    Scope
}

// Between returns the difference of cell a to cell b, as [Of] has it; ok is false if a side
// has one trial or none, which have no scatter.
func Between(a, b []Trial) (d Difference, ok bool) {
	if len(a) < 2 || len(b) < 2 {
		return d, false
	}
	x, y := logs(a), logs(b)
	d = Difference{distance: stats.Mean(x) - stats.Mean(y), trials: [2]int{len(x), len(y)}, scope: scope(a, b)}
	if slices.Equal(numbersOf(a), numbersOf(b)) {
		for i := range x {
			x[i] -= y[i]
		}
		d.trials, d.variance, d.df = [2]int{len(x)}, stats.Variance(x), float64(len(x)-1)
		return d, true
	}
	error, df := welch(x, y)
	d.variance, d.df = error*error/d.each(0), df
	return d, true
}

// At returns the ratio, which lies above its interval with the chance tail, and below it with
// the same.
func (d Difference) At(tail float64) Ratio {
	return between(d.distance, quantile.Student(1-tail, d.df)*d.error(0), d.scope)
}

// each returns the share of the variance of a trial that the square of the standard error is,
// with so many more trials of each cell.
func (d Difference) each(more int) (share float64) {
	for _, n := range d.trials {
		if n > 0 {
			share += 1 / float64(n+more)
		}
	}
	return share
}

// error returns the standard error with so many more trials of each cell.
func (d Difference) error(more int) float64 { return math.Sqrt(d.variance * d.each(more)) }

// beyond is how many standard errors make a difference that is far beyond its noise.
const beyond = 4

// cautiously is by how much more trials are taken to scatter than they were seen to: those
// that lie close together by chance are just those that seem far apart. Then the number of
// further trials is enough in 8 of 10 cases.
const cautiously = 1.5

// More returns how many further trials of each cell would tell the two apart at a tail, if
// they go on to differ as they do. It is 0 if the difference is not far beyond its noise.
func (d Difference) More(tail float64) int {
	distance := math.Abs(d.distance)
	if d.variance <= 0 || distance < beyond*d.error(0) {
		return 0
	}
	sides := 1
	if d.trials[1] > 0 {
		sides = 2
	}
	for n := 1; n <= mostTrials; n++ {
		if quantile.Student(1-tail, d.df+float64(n*sides))*cautiously*d.error(n) < distance {
			return n
		}
	}
	return 0
}

// More returns that of the difference of cell a to cell b. Where a side has one trial, trials
// are taken to scatter as the intervals within them say.
func More(a, b []Trial, tail float64) int {
	d, ok := Between(a, b)
	if !ok && len(a) > 0 && len(b) > 0 {
		d = Difference{distance: stats.Mean(logs(a)) - stats.Mean(logs(b)), trials: [2]int{len(a), len(b)}}
		below, above := ends(a, oneSided), ends(b, oneSided)
		if d.distance < 0 {
			below, above = above, below
		}
		if half := math.Hypot(below[0], above[1]); !math.IsInf(half, 0) {
			d.variance = math.Pow(half/batchesT, 2) / d.each(0)
		}
	}
	return d.More(tail)
}

// fewest is of how many differences at least the spread of their variances is told.
const fewest = 4

// cautious is by how many of its standard errors the spread of the variances is taken to
// be larger than it is seen: of a few cells it is hardly known, and taken too small it
// would lend too much.
const cautious = 1.0

// Pool lets differences of one figure in many cells lend each other what they know of the
// scatter: three trials alone hardly know theirs, and Student's t of two degrees of
// freedom calls nothing certain among many cells. Each variance is moved towards the one
// that is common to all, the further the less they differ: by the empirical Bayes
// estimate of Smyth (Statistical Applications in Genetics and Molecular Biology 3, 2004,
// article 3, section 6.2). Fewer than four that scatter at all stay as they are.
func Pool(all []*Difference) {
	some := slices.DeleteFunc(slices.Clone(all), func(d *Difference) bool { return d.variance <= 0 })
	n := float64(len(some))
	if len(some) < fewest {
		return
	}
	var sum, squares, noise, df float64
	logs := make([]float64, len(some))
	for i, d := range some {
		logs[i] = math.Log(d.variance) - quantile.Digamma(d.df/2) + math.Log(d.df/2)
		sum += logs[i]
		noise += quantile.Trigamma(d.df/2) / n
		df += d.df
	}
	for _, e := range logs {
		squares += (e - sum/n) * (e - sum/n)
	}
	// Variances that differ by no more than chance makes them have no prior of their own:
	// all of them are one, and know it as well as all trials do.
	lent, common := df, math.Exp(sum/n)
	if excess := squares/(n-1)*(1+cautious*math.Sqrt(2/(n-1))) - noise; excess > 0 {
		half := quantile.InverseTrigamma(excess)
		lent, common = min(df, 2*half), common*math.Exp(quantile.Digamma(half)-math.Log(half))
	}
	for _, d := range all {
		d.variance = (lent*common + d.df*d.variance) / (lent + d.df)
		d.df = min(df, lent+d.df)
	}
}
