package workload

import (
	"testing"

	"sweep.dev/sweep/plan"
)

// A load sends what the plan counts, also where workers begin over fewer turns than a
// conversation has.
func TestSource_asPlanned(t *testing.T) {
	t.Parallel()
	for _, turns := range []int{2, 20} {
		load := plan.Load{Concurrency: 50, Requests: 200, RequestsPerWorker: 4, Conversation: &plan.Conversation{Turns: turns}}
		c := New(&plan.Plan{}).Source(plan.Cell{ID: "c", Load: load}, 1, 0)
		if got, want := c.RequestsPerWorker*c.Concurrency, load.Total(); got != want {
			t.Errorf("%d turns: %d requests, and the plan counts %d", turns, got, want)
		}
	}
}
