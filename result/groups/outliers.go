package groups

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
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

// outliers names the outliers among the valid trials of each cell of a run, as the
// column does.
//
// A trial is held against the others of its cell by Student's t of what is left without
// it, at a level divided over the figures and the trials: for one cell alone that is
// Grubbs' test (Technometrics 11, 1969). Few trials hardly know how they scatter, so that
// the cells of one deployment lend each other their spread: see [lend].
func outliers(cells [][]sample) []string {
	names := make([][]string, len(cells))
	for f := range compared {
		spreads := map[deployment]map[int]spread{} // by cell, of logarithms
		for i, samples := range cells {
			if s := samples[f]; s.logs && len(s.values) > 1 {
				if spreads[s.of] == nil {
					spreads[s.of] = map[int]spread{}
				}
				spreads[s.of][i] = spreadOf(s.values)
			}
		}
		for i, samples := range cells {
			s := samples[f]
			others := func() (list []spread) {
				for _, j := range slices.Sorted(maps.Keys(spreads[s.of])) {
					if j != i && s.logs {
						list = append(list, spreads[s.of][j])
					}
				}
				return list
			}
			for k := range s.values {
				if len(s.values) >= minTrials && s.outlier(k, others) {
					names[i] = append(names[i], fmt.Sprintf("%d:%s", s.trials[k], s.column))
				}
			}
		}
	}
	out := make([]string, len(cells))
	for i, n := range names {
		slices.SortStableFunc(n, func(a, b string) int { return cmp.Compare(trialOf(a), trialOf(b)) })
		out[i] = strings.Join(n, ",")
	}
	return out
}

// trialOf returns the number before the figure.
func trialOf(name string) int {
	number, _, _ := strings.Cut(name, ":")
	n, _ := strconv.Atoi(number) // it was made of one
	return n
}

// A sample is a figure of the trials of a cell.
type sample struct {
	of     deployment
	column string
	trials []int64
	values []float64
	logs   bool // they are logarithms: all figures are above 0
}

// A deployment is whose trials of one load scatter alike, as far as rows say.
type deployment struct{ subject, engine, gpu, gpus, load any }

// samplesOf returns those of the compared figures of a cell's valid trials.
func samplesOf(trials []result.Row) []sample {
	valid := slices.DeleteFunc(slices.Clone(trials), func(t result.Row) bool { return t[col.Valid] != true })
	all := make([]sample, len(compared))
	for i, figure := range compared {
		all[i] = sampleOf(valid, figure)
	}
	return all
}

func sampleOf(trials []result.Row, figure string) sample {
	s := sample{logs: true}
	for _, row := range trials {
		s.of = deployment{row[col.SubjectDigest], row[col.Engine], row[col.GPU], row[col.GPUCount], row[result.LoadAxis]}
		s.column = figure
		if v, ok := row.Number(s.column); ok {
			trial, _ := row[col.Trial].(int64)
			s.trials, s.values = append(s.trials, trial), append(s.values, v)
			s.logs = s.logs && v > 0
		}
	}
	if s.logs {
		for i, v := range s.values {
			s.values[i] = math.Log(v)
		}
	}
	return s
}

// outlier reports whether a trial is one.
func (s sample) outlier(k int, others func() []spread) bool {
	rest := slices.Delete(slices.Clone(s.values), k, k+1)
	n := float64(len(s.values))
	mean, _ := meanAndSD(rest)
	distance, whole := math.Abs(s.values[k]-mean), math.Abs(mean+(s.values[k]-mean)/n)
	far := distance*(n-1)/n > minDeviation*whole
	if s.logs { // of the arithmetic mean of all
		sum := 0.0
		for _, v := range s.values {
			sum += math.Exp(v-mean) / n
		}
		far = math.Abs(math.Exp(s.values[k]-mean)-sum) > minDeviation*sum
	}
	if !far {
		return false
	}
	sd := lend(spreadOf(rest), others())
	t := quantile.Student(1-outlierLevel/float64(len(compared))/(2*n), sd.df)
	return distance > t*math.Sqrt(sd.variance*n/(n-1))
}
