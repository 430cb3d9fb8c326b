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
	each     float64 // share of it that the square of the standard error is
	df       float64
	scope    Scope
}

// Between is the difference of cell a to cell b, as [Of] has it; ok is false if a side
// has one trial or none, which have no scatter.
func Between(a, b []Trial) (d Difference, ok bool) {
	if len(a) < 2 || len(b) < 2 {
		return d, false
	}
	x, y := logs(a), logs(b)
	d = Difference{distance: stats.Mean(x) - stats.Mean(y), each: 1/float64(len(x)) + 1/float64(len(y)), scope: scope(a, b)}
	if slices.Equal(numbersOf(a), numbersOf(b)) {
		for i := range x {
			x[i] -= y[i]
		}
		d.each, d.variance, d.df = 1/float64(len(x)), stats.Variance(x), float64(len(x)-1)
		return d, true
	}
	error, df := welch(x, y)
	d.variance, d.df = error*error/d.each, df
	return d, true
}

// At is the ratio, which lies above its interval with the chance tail, and below it with
// the same.
func (d Difference) At(tail float64) Ratio {
	return between(d.distance, quantile.Student(1-tail, d.df)*math.Sqrt(d.variance*d.each), d.scope)
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
