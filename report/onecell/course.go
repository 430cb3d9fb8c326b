package onecell

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"sweep.dev/sweep/internal/humanize"
	"sweep.dev/sweep/internal/layout"
	"sweep.dev/sweep/report/conclude"
	"sweep.dev/sweep/result"
	"sweep.dev/sweep/result/store"
	"sweep.dev/sweep/result/timeline"
	"sweep.dev/sweep/rundir"
)

// courses are the series that are drawn, in their order.
var courses = []struct{ series, name, unit string }{
	{timeline.OutputRate, "output", "tok/s"},
	{timeline.TTFT50, "TTFT p50", "ms"},
	{timeline.InFlight, "in flight", ""},
	{timeline.TPOT, "TPOT", "ms"},
	{timeline.Failed, "failed", ""},
}

// brief is how many of the courses are drawn when details are not asked for.
const brief = 3

// clientSamples returns what the client saw of a trial, second by second; none if
// nothing was stored.
func clientSamples(dir string, t conclude.Trial) ([]result.Sample, error) {
	if t.Outcome == nil {
		return nil, nil
	}
	var samples []result.Sample
	for s, err := range store.SamplesOf(filepath.Join(rundir.AttemptDir(dir, t.Commit), layout.Samples)) {
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil, nil
		case err != nil:
			return nil, err
		}
		if s.Source == result.FromClient {
			samples = append(samples, s.Sample)
		}
	}
	return samples, nil
}

// sparklines draws how a trial went from its first send to its last byte: one line for
// each series in at most width columns of bars, each from 0 to its largest value,
// which stands behind it. A trial of less than three slices has none: there is
// nothing to see.
func sparklines(samples []result.Sample, width int) []string {
	var at []time.Duration // the ends of the slices
	for _, s := range samples {
		if s.Name == timeline.InFlight {
			at = append(at, s.T)
		}
	}
	if len(at) < 3 {
		return nil
	}
	slices.Sort(at)
	width = min(len(at), width)
	var lines []string
	for _, c := range courses {
		sum, n := make([]float64, width), make([]int, width)
		for _, s := range samples {
			if s.Name == c.series {
				// By its place among the slices: the last one is shorter than the others.
				place, _ := slices.BinarySearch(at, s.T)
				i := min(width-1, place*width/len(at))
				sum[i] += s.Value
				n[i]++
			}
		}
		most := 0.0
		for i := range sum {
			if n[i] > 0 {
				sum[i] /= float64(n[i])
				most = max(most, sum[i])
			}
		}
		if most > 0 {
			lines = append(lines, strings.TrimRight(fmt.Sprintf("%-10s %s  max %s %s", c.name, sparkline(sum, n, most), humanize.Figure(most), c.unit), " "))
		}
	}
	return lines
}

// sparkline draws values from 0 to most; a blank stands for no value.
func sparkline(values []float64, n []int, most float64) string {
	bars := []rune("▁▂▃▄▅▆▇█")
	var b strings.Builder
	for i, v := range values {
		if n[i] == 0 {
			b.WriteByte(' ')
			continue
		}
		b.WriteRune(bars[min(len(bars)-1, int(v/most*float64(len(bars))))])
	}
	return b.String()
}
