package groups

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"sweep.dev/sweep/result"
	"sweep.dev/sweep/result/col"
)

// OutlierTrials is the column that names the trials that are unlike the others
// of their cell.
const OutlierTrials = "outlier_trials"

const (
	// outlierScore is the modified z-score beyond which a value is an outlier.
	outlierScore = 3.5
	// minTrials is how many valid trials it takes to say so: of four, the median
	// deviation is as good as that of two.
	minTrials = 5
	// minDeviation is the share of the median by which an outlier differs at
	// least. A few trials may be alike by chance, and what is close to them all
	// the same would be nothing that anybody looks for.
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

// isOutlier holds a value against all of its kind by the modified z-score of
// Iglewicz and Hoaglin (How to Detect and Handle Outliers, 1993): 0.6745 times
// the distance from the median over the median absolute deviation, beyond 3.5.
// Where more than half of the values are equal, that deviation is 0, and the
// mean absolute deviation times 1.2533 stands for it, as both are the standard
// deviation of a normal distribution.
func isOutlier(v float64, values []float64) bool {
	if len(values) < minTrials {
		return false
	}
	m := median(values)
	deviations := make([]float64, len(values))
	mean := 0.0
	for i, x := range values {
		deviations[i] = math.Abs(x - m)
		mean += deviations[i] / float64(len(values))
	}
	scale := median(deviations) / 0.6745
	if scale == 0 {
		scale = 1.2533 * mean
	}
	distance := math.Abs(v - m)
	return distance > outlierScore*scale && distance > minDeviation*math.Abs(m)
}

func median(values []float64) float64 {
	return result.Quantile(slices.Sorted(slices.Values(values)), 0.5)
}
