package conclude

import (
	"strings"
	"testing"

	"sweep.dev/sweep/result"
	summarize "sweep.dev/sweep/result/summary"
)

// TestP95Samples holds the constant to what marks a row's percentiles.
func TestP95Samples(t *testing.T) {
	t.Parallel()
	low := func(n int) string {
		reqs := make([]result.Request, n)
		for i := range reqs {
			reqs[i] = result.Request{
				Phase: result.Plateau, Status: result.Completed, FirstTokenChunk: 0,
				ChunkUS: []int32{1000, 1000}, ChunkTokens: []int32{1, 1}, CompletionTokens: 2, TokenSource: "usage", End: 2e6,
			}
		}
		row, _ := summarize.Of(reqs, summarize.Options{})
		text, _ := row["low_confidence"].(string)
		return text
	}
	if got := low(P95Samples - 1); !strings.Contains(got, "p95_ttft_ms") {
		t.Errorf("%d requests: low confidence %q, want p95_ttft_ms in it", P95Samples-1, got)
	}
	if got := low(P95Samples); strings.Contains(got, "p95_ttft_ms") {
		t.Errorf("%d requests: low confidence %q, want no p95_ttft_ms in it", P95Samples, got)
	}
}
