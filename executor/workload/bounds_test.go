package workload

import (
	"reflect"
	"testing"

	"sweep.dev/sweep/internal/fieldtag"
	"sweep.dev/sweep/load/source"
	"sweep.dev/sweep/plan"
)

// The plan language knows no source, so this test holds that the bounds of a plan
// are what a source can make.
func TestBounds_areTheSources(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		of     any
		bounds map[string]float64
	}{
		{plan.Load{}, map[string]float64{
			"concurrency": source.MaxConcurrency, "max_in_flight": source.MaxConcurrency, "request_rate": source.MaxRate,
			"requests": source.MaxRequests, "requests_per_worker": source.MaxRequests,
		}},
		{plan.Stage{}, map[string]float64{"rate": source.MaxRate}},
		{plan.Trace{}, map[string]float64{"limit": source.MaxRequests}},
		{plan.Conversation{}, map[string]float64{"turns": source.MaxTurns}},
		{plan.Prompts{}, map[string]float64{"input_tokens": source.MaxInputTokens, "pairs": source.MaxInputTokens, "prefix_groups": source.MaxPrefixGroups}},
	} {
		of, bounds := c.of, c.bounds
		for _, f := range fieldtag.Of(reflect.TypeOf(of)) {
			want, ok := bounds[f.Key]
			if ok && (f.Max == nil || *f.Max != want) {
				t.Errorf("%T: %s has the bound %v, a source has %v", of, f.Key, f.Max, want)
			}
			delete(bounds, f.Key)
		}
		for name := range bounds {
			t.Errorf("%T has no %s", of, name)
		}
	}
}
