package result

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"sweep.dev/sweep/result/col"
)

// The bounds that were put into a row come out of it, those of roles too.
func TestRow_bounds(t *testing.T) {
	row := Row{"p99_server_ttft_ms": 3.0, "findings": "a b, c d"}
	row.AddBound(col.ServerPercentileBounds, "p50_server_queue_ms", "< 300")
	row.AddBound(col.ServerPercentileBounds, "p95_server_queue_ms", "300 to 500")
	row.AddBound(col.OfRole("worker-a", col.ServerPercentileBounds), "worker_a_p50_server_ttft_ms", "> 10000")
	if got, want := row[col.ServerPercentileBounds], "p50_server_queue_ms < 300, p95_server_queue_ms 300 to 500"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	want := map[string]string{"p50_server_queue_ms": "< 300", "p95_server_queue_ms": "300 to 500", "worker_a_p50_server_ttft_ms": "> 10000"}
	if diff := cmp.Diff(want, row.Bounds()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
