package statistics

import (
	"math"
	"slices"

	"sweep.dev/sweep/result"
	"sweep.dev/sweep/test/statistics/tables"
)

func atMost(x float64) tables.Bound         { return tables.Bound{High: x} }
func atLeast(x float64) tables.Bound        { return tables.Bound{Low: x} }
func within(low, high float64) tables.Bound { return tables.Bound{Low: low, High: high} }

// share returns how many of the runs did something.
func share(hits []bool) tables.Figure {
	k, n := 0.0, float64(len(hits))
	for _, hit := range hits {
		if hit {
			k++
		}
	}
	if n == 0 {
		return tables.Figure{Unit: tables.Share}
	}
	// With one hit and one miss more, so that a rate of none has an error too.
	p := (k + 1) / (n + 2)
	return tables.Figure{Value: k / n, Error: math.Sqrt(p * (1 - p) / n), Unit: tables.Share, N: len(hits)}
}

// median returns the middle of the runs' values.
func median(values []float64, unit tables.Unit) tables.Figure { return quantile(values, 0.5, unit) }

// quantile is of the runs' values; its error is from the order statistics that
// one standard error of the binomial distribution spans.
func quantile(values []float64, p float64, unit tables.Unit) tables.Figure {
	n := len(values)
	if n == 0 {
		return tables.Figure{Unit: unit}
	}
	sorted := slices.Sorted(slices.Values(values))
	reach := math.Sqrt(float64(n) * p * (1 - p))
	at := func(i float64) float64 { return sorted[min(max(0, int(i)), n-1)] }
	middle := float64(n-1) * p
	return tables.Figure{
		Value: result.Quantile(sorted, p),
		Error: (at(math.Ceil(middle+reach)) - at(math.Floor(middle-reach))) / 2, Unit: unit, N: n,
	}
}
