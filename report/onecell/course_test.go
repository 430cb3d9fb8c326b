package onecell

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"sweep.dev/sweep/result"
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
		"TTFT p50   ▃▆█    max 40 ms",
		"in flight  ▂▅██▃  max 8",
	}
	if diff := cmp.Diff(want, sparklines(samples, 60)); diff != "" {
		t.Error(diff)
	}
	if got := sparklines(samples[:2], 60); got != nil {
		t.Errorf("of one slice: %q", got)
	}
	var long []result.Sample
	for i := range 1000 {
		long = append(long, result.Sample{T: time.Duration(i), Source: result.FromClient, Name: timeline.InFlight, Value: 1})
	}
	for _, width := range []int{20, 60, 100} {
		if got := sparklines(long, width); len([]rune(got[0])) > width+20 {
			t.Errorf("%d columns: %s", len([]rune(got[0])), got[0])
		}
	}
}
