package gate

import "math"

// A prior is a variance that is known beforehand, and how many degrees of freedom that
// knowledge is worth.
type prior struct{ variance, df float64 }

// shrink returns a variance between what was seen and what was known.
func (p prior) shrink(variance, df float64) (float64, float64) {
	if p.df+df == 0 {
		return 0, 1
	}
	return (p.df*p.variance + df*variance) / (p.df + df), p.df + df
}

const (
	poolOf   = 8  // series of a group before they say something of each other
	poolMost = 40 // degrees of freedom that a group is worth, at most
)

// pool returns what each group of series says of the variance of one of them.
//
// If the true variances scatter with the relative variance r, those seen with d degrees
// of freedom scatter with 2/d + r (1 + 2/d). Variances that are scaled inverse
// chi-squared with d0 degrees of freedom have r = 2 / (d0 - 4), which gives d0.
func pool(all []Series, tracks []track) map[string]prior {
	type sums struct{ n, variance, square, df float64 }
	groups := map[string]*sums{}
	for i := range all {
		variance, df := tracks[i].spread()
		if len(tracks[i].good) < MinNights || df == 0 {
			continue
		}
		g := groups[all[i].Group]
		if g == nil {
			g = &sums{}
			groups[all[i].Group] = g
		}
		g.n++
		g.variance += variance
		g.square += variance * variance
		g.df += df
	}
	priors := map[string]prior{}
	for name, g := range groups {
		if g.n < poolOf || g.variance == 0 {
			continue
		}
		m, df := g.variance/g.n, g.df/g.n
		seen := (g.square/g.n - m*m) * g.n / (g.n - 1) / (m * m)
		truth := (seen - 2/df) / (1 + 2/df)
		worth := float64(poolMost)
		if truth > 0 {
			worth = min(worth, 4+2/truth)
		}
		priors[name] = prior{m, math.Floor(worth)}
	}
	return priors
}
