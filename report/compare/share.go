package compare

import (
	"fmt"
	"math"

	"sweep.dev/sweep/internal/quantile"
	"sweep.dev/sweep/report/conclude"
	"sweep.dev/sweep/result/col"
	"sweep.dev/sweep/result/ratio"
)

// share holds the shares of failed requests of both sides against each other, of all
// valid trials together. Their difference d is judged as the ratio e^d, so that a share
// has the rules of all figures: [Alike] and the threshold are then percentage points.
//
// The interval is that of Newcombe (Statistics in Medicine 17, 1998, method 10), which
// takes requests for independent.
func (p pair) share(f *Figure) {
	k, n := failures(p.base)
	l, m := failures(p.head)
	if n == 0 || m == 0 {
		f.Why = "not measured on both sides"
		return
	}
	base, head := k/n, l/m
	f.Base, f.Head = &base, &head
	if k+l == 0 {
		f.none(n, m)
		return
	}
	f.at = func(tail float64) ratio.Ratio {
		z := quantile.Normal(1 - tail)
		lowB, highB := wilson(k, n, z)
		lowH, highH := wilson(l, m, z)
		d := head - base
		return ratio.Ratio{
			Value: math.Exp(d),
			Low:   math.Exp(d - math.Hypot(head-lowH, highB-base)),
			High:  math.Exp(d + math.Hypot(highH-head, base-lowB)),
			Scope: ratio.OneLaunch,
		}
	}
}

// none judges shares of no failed request in n and in m. Each may still be as large as its
// exact upper bound (Clopper and Pearson, Biometrika 26, 1934), and their difference as large
// as the larger of the two. There is no interval, so that it is no figure among those that
// are corrected for.
func (f *Figure) none(n, m float64) {
	f.Why = "no request failed on either side"
	most := 1 - math.Pow(Level/2, 1/min(n, m))
	if most < math.Log1p(Alike) { // as for every figure, of which the logarithm is judged
		f.Verdict = Same
		return
	}
	f.Why += fmt.Sprintf(", of %.0f and %.0f: a share of up to %s would not show", n, m, percent(most))
}

// shift makes the figures of a share differences again.
func (f *Figure) shift() {
	if !f.of.Share || f.Ratio == nil {
		return
	}
	for _, at := range []**float64{&f.Ratio, &f.Low, &f.High} {
		if *at != nil {
			d := math.Log(**at)
			*at = &d
		}
	}
}

// failures returns the failed requests of a point, and those that ended by themselves.
func failures(p *conclude.Point) (failed, all float64) {
	for _, t := range p.Counting() {
		failed += t.Outcome.Row.Float(col.Failed)
		all += t.Outcome.Row.Float(col.Failed) + t.Outcome.Row.Float(col.Completed)
	}
	return failed, all
}

// wilson returns the interval of a share of k in n (Wilson, JASA 22, 1927).
func wilson(k, n, z float64) (low, high float64) {
	p, zz := k/n, z*z/n
	middle, half := p+zz/2, z*math.Sqrt(p*(1-p)/n+zz/(4*n))
	return max(0, (middle-half)/(1+zz)), min(1, (middle+half)/(1+zz))
}
