package groups

import (
	"math"

	"sweep.dev/sweep/internal/quantile"
)

// A spread is the variance of the trials of a cell about their mean, and its degrees of
// freedom.
type spread struct{ variance, df float64 }

func spreadOf(values []float64) spread {
	_, sd := meanAndSD(values)
	return spread{sd * sd, float64(len(values) - 1)}
}

const (
	// fewestLenders is how many cells it takes to see whether cells scatter alike.
	fewestLenders = 2
	// caution is the chance that cells are taken to scatter more alike than they do.
	caution = 0.2
	// wilder is the chance that a cell which scatters like the others is taken to scatter
	// more: such a one borrows nothing.
	wilder = 0.1
)

// lend returns a cell's own spread, moderated by that of others: the mean of both, weighed by
// degrees of freedom, of which the others lend the fewer the less they are like each
// other (Smyth, Statistical Applications in Genetics and Molecular Biology 3, 2004). How
// unlike they are comes from the variance of the logarithms of their variances, at its
// upper bound. A cell that scatters more than they do borrows nothing.
func lend(own spread, others []spread) spread {
	var logs []float64
	noise, most := 0.0, 0.0
	for _, o := range others {
		if o.variance > 0 {
			logs = append(logs, math.Log(o.variance)-quantile.Digamma(o.df/2)+math.Log(o.df/2))
			noise += quantile.Trigamma(o.df / 2)
			most += o.df
		}
	}
	k := float64(len(logs))
	if len(logs) < fewestLenders {
		return own
	}
	mean, sd := meanAndSD(logs)
	unlike := sd*sd*(k-1)/quantile.ChiSquare(caution, k-1) - noise/k
	lent := spread{math.Exp(mean), most}
	if unlike > 0 {
		half := 0.5 + 1/unlike // about where trigamma is that
		lent = spread{math.Exp(mean + quantile.Digamma(half) - math.Log(half)), min(most, 2*half)}
	}
	if x := quantile.Beta(1-wilder, own.df/2, lent.df/2); own.variance/lent.variance > lent.df/own.df*x/(1-x) { // an F test
		return own
	}
	df := own.df + lent.df
	return spread{(own.df*own.variance + lent.df*lent.variance) / df, df}
}
