package quality

import (
	"math"

	"sweep.dev/sweep/internal/quantile"
)

// Share returns the exact confidence interval of a share of which k of n were seen: Clopper
// and Pearson, Biometrika 26 (1934) 404. It is 0 to 1 for n = 0.
func Share(k, n int, confidence float64) (low, high float64) {
	low, high = 0, 1
	tail := (1 - confidence) / 2
	if k > 0 {
		low = quantile.Beta(tail, float64(k), float64(n-k+1))
	}
	if k < n {
		high = quantile.Beta(1-tail, float64(k+1), float64(n-k))
	}
	return low, high
}

// McNemar returns the two-sided exact p-value of the hypothesis that losses and gains are
// equally likely: a binomial test of the pairs that differ. McNemar, Psychometrika 12
// (1947) 153; the exact form is in Fagerland, Lydersen and Laake, BMC Medical Research
// Methodology 13:91 (2013).
func McNemar(losses, gains int) float64 {
	n := losses + gains
	return min(1, 2*binomialCDF(min(losses, gains), n, 0.5))
}

// Paired returns the score interval of the difference of two paired shares, (gains -
// losses) / pairs: Tango, Statistics in Medicine 17 (1998) 891. It contains every
// difference that the score test does not refuse.
func Paired(gains, losses, pairs int, confidence float64) (low, high float64) {
	z := quantile.Normal(1 - (1-confidence)/2)
	b, c, n := float64(gains), float64(losses), float64(pairs)
	score := func(d float64) float64 {
		// The likeliest share of losses, if the difference is d.
		a2, b2, c2 := 2*n, -b-c+(2*n-b+c)*d, -c*d*(1-d)
		q := (math.Sqrt(max(0, b2*b2-4*a2*c2)) - b2) / (2 * a2)
		variance := n * (2*q + d*(1-d))
		if variance <= 0 {
			return math.Inf(1) * sign(b-c-n*d)
		}
		return (b - c - n*d) / math.Sqrt(variance)
	}
	at := (b - c) / n
	// score falls from d = -1 to 1, and is 0 at the difference that was seen.
	find := func(from, to, want float64) float64 {
		for range 60 {
			mid := (from + to) / 2
			if score(mid) > want {
				from = mid
			} else {
				to = mid
			}
		}
		return (from + to) / 2
	}
	low, high = -1, 1
	if at > -1 {
		low = find(-1, at, z)
	}
	if at < 1 {
		high = find(at, 1, -z)
	}
	return low, high
}

func sign(x float64) float64 {
	switch {
	case x > 0:
		return 1
	case x < 0:
		return -1
	}
	return 0
}

// Detectable returns the smallest loss of the score that [McNemar] over so many pairs finds
// at level alpha with the chance power, if a share of the items becomes right by chance
// (gain) and as many more as the loss become wrong. The power is exact: the sum over
// the number of pairs that differ. False if no loss is found so often.
func Detectable(pairs int, gain, alpha, power float64) (loss float64, ok bool) {
	most := 1 - 2*gain
	if pairs == 0 || most <= 0 {
		return 0, false
	}
	least := critical(pairs, alpha)
	if powerOf(pairs, gain, most, least) < power {
		return 0, false
	}
	low, high := 0.0, most
	for range 40 {
		mid := (low + high) / 2
		if powerOf(pairs, gain, mid, least) < power {
			low = mid
		} else {
			high = mid
		}
	}
	return high, true
}

// critical is, for each number of pairs that differ up to most, the fewest losses at
// which [McNemar] is at most alpha; one more than there are if none is.
func critical(most int, alpha float64) []int {
	least := make([]int, most+1)
	k := 0
	for n := range least {
		// One pair more needs as many losses, or one more.
		for k <= n && !(2*k > n && McNemar(k, n-k) <= alpha) {
			k++
		}
		least[n] = k
	}
	return least
}

// powerOf returns the chance that [McNemar] finds a loss.
func powerOf(pairs int, gain, loss float64, least []int) float64 {
	differ := min(1, 2*gain+loss)
	if differ <= 0 {
		return 0
	}
	lost := (gain + loss) / differ
	mean, sd := float64(pairs)*differ, math.Sqrt(float64(pairs)*differ*(1-differ))
	from, to := max(0, int(mean-8*sd)-1), min(pairs, int(mean+8*sd)+1)
	sum := 0.0
	for n := from; n <= to; n++ {
		if k := least[n]; k <= n {
			sum += binomial(n, pairs, differ) * binomialCDF(n-k, n, 1-lost)
		}
	}
	return sum
}

// binomial returns the chance of k of n at a share p.
func binomial(k, n int, p float64) float64 {
	switch {
	case p <= 0:
		return indicator(k == 0)
	case p >= 1:
		return indicator(k == n)
	}
	choose := lgamma(n+1) - lgamma(k+1) - lgamma(n-k+1)
	return math.Exp(choose + float64(k)*math.Log(p) + float64(n-k)*math.Log1p(-p))
}

// binomialCDF returns the chance of at most k of n at a share p. It adds the terms from k
// down, until they no longer matter.
func binomialCDF(k, n int, p float64) float64 {
	switch {
	case k < 0:
		return 0
	case k >= n:
		return 1
	case float64(k) > float64(n)*p:
		return 1 - binomialCDF(n-k-1, n, 1-p)
	}
	sum := 0.0
	for i := k; i >= 0; i-- {
		term := binomial(i, n, p)
		if sum += term; term < 1e-17*sum {
			break
		}
	}
	return min(1, sum)
}

func lgamma(n int) float64 {
	v, _ := math.Lgamma(float64(n))
	return v
}

func indicator(yes bool) float64 {
	if yes {
		return 1
	}
	return 0
}
