package groups

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"sweep.dev/sweep/internal/quantile"
	"sweep.dev/sweep/result"
	"sweep.dev/sweep/result/col"
)

// OutlierTrials is the column that names the trials that are unlike the others
// of their cell.
const OutlierTrials = "outlier_trials"

const (
	// outlierLevel is the chance that a cell whose trials differ by chance alone has
	// an outlier named, in any of its figures.
	outlierLevel = 0.01
	// minTrials is how many valid trials it takes to say so.
	minTrials = 3
	// minDeviation is the share of the mean by which an outlier differs at least. A
	// few trials may be alike by chance, and what is close to them all the same would
	// be nothing that anybody looks for.
	minDeviation = 0.10
)

// compared are the figures that outliers are looked for in: the headlines. With
// each further one it becomes more likely that one is found by chance.
var compared = []string{
	col.ThroughputTokS, col.RequestThroughput, col.P50TTFTMs, col.P95TTFTMs, col.P50TPOTMs, col.P95TPOTMs, col.P50E2EMs, col.P95E2EMs, col.ErrorRate,
}

// outliers names the outliers among the valid trials of a cell, as the column
// does.
func outliers(trials []result.Row) string {
	var names []string
	for _, row := range trials {
		trial, _ := row[col.Trial].(int64)
		for _, column := range compared {
			column = row.Figure(column)
			var values []float64
			for _, t := range trials {
				if v, ok := t.Number(column); ok {
					values = append(values, v)
				}
			}
			if v, ok := row.Number(column); ok && isOutlier(v, values) {
				names = append(names, fmt.Sprintf("%d:%s", trial, column))
			}
		}
	}
	return strings.Join(names, ",")
}

// isOutlier holds a value against all of its kind by Grubbs' test, which is exact for
// one outlier among normal values (Procedures for detecting outlying observations in
// samples, Technometrics 11, 1969): it is the farthest from the mean, by more standard
// deviations than chance gives the farthest of so many. The level is divided over the
// figures that are looked at.
func isOutlier(v float64, values []float64) bool {
	n := float64(len(values))
	if len(values) < minTrials {
		return false
	}
	mean, sd := meanAndSD(values)
	distance := math.Abs(v - mean)
	if !(sd > 0) || distance <= minDeviation*math.Abs(mean) {
		return false
	}
	t := quantile.Student(1-outlierLevel/float64(len(compared))/(2*n), n-2)
	return distance/sd > (n-1)/math.Sqrt(n)*math.Sqrt(t*t/(n-2+t*t))
}

func median(values []float64) float64 {
	return result.Quantile(slices.Sorted(slices.Values(values)), 0.5)
}
