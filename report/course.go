package report

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"

	"sweep.dev/sweep/internal/humanize"
	"sweep.dev/sweep/internal/layout"
	"sweep.dev/sweep/report/compare"
	"sweep.dev/sweep/result"
	"sweep.dev/sweep/result/timeline"
	"sweep.dev/sweep/rundir"
	"sweep.dev/sweep/store"
)

// courseWidth is how many columns a course is drawn in.
const courseWidth = 60

// courses are the series that are drawn, in their order.
var courses = []struct{ series, name, unit string }{
	{timeline.InFlight, "in flight", ""},
	{timeline.OutputRate, "output", "tok/s"},
	{timeline.TTFT50, "p50 TTFT", "ms"},
	{timeline.TPOT, "TPOT", "ms"},
	{timeline.Failed, "failed", ""},
}

// Course draws how a trial went from its first send to its last byte: one line
// for each figure, each from 0 to its largest value, which stands behind it. It
// is empty if nothing was stored, and for trials of less than three slices,
// of which there is nothing to see. The error is that of reading its samples.
func (r *Run) Course(t compare.Trial) ([]string, error) {
	if t.Outcome == nil {
		return nil, nil
	}
	f, err := os.Open(filepath.Join(rundir.AttemptDir(r.Dir, t.Commit), layout.Samples))
	if os.IsNotExist(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return nil, err
	}
	var samples []result.Sample
	for s, err := range store.ReadSamples(f, st.Size()) {
		if err != nil {
			return nil, fmt.Errorf("samples of %s: %w", t.Key.Cell, err)
		}
		if s.Source == result.FromClient {
			samples = append(samples, s.Sample)
		}
	}
	return course(samples), nil
}

// course draws the series of a client.
func course(samples []result.Sample) []string {
	first, last := math.Inf(1), math.Inf(-1)
	slices := 0
	for _, s := range samples {
		if s.Name == timeline.InFlight {
			first, last = min(first, float64(s.T)), max(last, float64(s.T))
			slices++
		}
	}
	if slices < 3 {
		return nil
	}
	width := min(slices, courseWidth)
	var lines []string
	for _, c := range courses {
		sum, n := make([]float64, width), make([]int, width)
		for _, s := range samples {
			if s.Name == c.series {
				i := min(width-1, int(float64(width)*(float64(s.T)-first)/(last-first)))
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
