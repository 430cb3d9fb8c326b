package report

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"sweep.dev/sweep/report/compare"
	"sweep.dev/sweep/result"
	figures "sweep.dev/sweep/result/summary"
	"sweep.dev/sweep/result/timeline"
)

func TestCourse(t *testing.T) {
	t.Parallel()
	var samples []result.Sample
	add := func(i int, name string, v float64) {
		samples = append(samples, result.Sample{T: time.Duration(i) * time.Second, Source: result.FromClient, Name: name, Value: v})
	}
	for i, v := range []float64{1, 4, 8, 8, 2} {
		add(i+1, timeline.InFlight, v)
		add(i+1, timeline.Failed, 0)
	}
	for i, v := range []float64{10, 25, 40} {
		add(i+1, timeline.TTFT50, v)
	}
	want := []string{
		"in flight  ▂▅██▃  max 8",
		"p50 TTFT   ▃▆█    max 40 ms",
	}
	if diff := cmp.Diff(want, course(samples)); diff != "" {
		t.Error(diff)
	}
	if got := course(samples[:2]); got != nil {
		t.Errorf("of one slice: %q", got)
	}
	var long []result.Sample
	for i := range 1000 {
		long = append(long, result.Sample{T: time.Duration(i), Source: result.FromClient, Name: timeline.InFlight, Value: 1})
	}
	if got := course(long); len([]rune(got[0])) > courseWidth+20 {
		t.Errorf("%d columns: %s", len([]rune(got[0])), got[0])
	}
}

// TestSamples holds the report to the floors of the figures.
func TestSamples(t *testing.T) {
	t.Parallel()
	if compare.P50Samples != figures.MinRequests(0.50) || compare.P95Samples != figures.MinRequests(0.95) {
		t.Errorf("a p50 needs %d requests and a p95 %d", figures.MinRequests(0.50), figures.MinRequests(0.95))
	}
}
