package outcome

import (
	"slices"
	"strings"
	"testing"

	"sweep.dev/sweep/backends"
	"sweep.dev/sweep/load"
	"sweep.dev/sweep/plan"
	"sweep.dev/sweep/result"
	"sweep.dev/sweep/result/finding"
)

func TestMoved(t *testing.T) {
	cell := plan.Cell{Server: plan.Server{GPU: "l4"}}
	want := []result.Finding{{Code: finding.GPUMoved, Text: "it ran on a40, the cell asks for l4"}}
	if got := moved(cell, backends.Terms{GPU: "a40"}); !slices.Equal(got, want) {
		t.Errorf("got %v", got)
	}
	for _, gpu := range []string{"", "l4"} {
		if got := moved(cell, backends.Terms{GPU: gpu}); got != nil {
			t.Errorf("%q: got %v", gpu, got)
		}
	}
}

// A trial whose client is lost before any request is done is INVALID: nothing says that the
// server failed.
func TestOf_clientLost(t *testing.T) {
	t.Parallel()
	trial, m, _ := judged(t, `slo: {quick: p95_ttft_ms < 60}`)
	m.Requests = nil
	for lost, want := range map[string]string{"": result.StatusFailed, "its process ended": result.StatusInvalid} {
		m.Health.Shards = []load.ShardHealth{{}, {Shard: 1, Lost: lost}}
		o, err := Of(*trial, nil, *m, End{})
		if err != nil {
			t.Fatal(err)
		}
		reasons, _ := o.Row["invalid_reasons"].(string)
		if o.Row["status"] != want || (lost != "") != slices.Contains(strings.Split(reasons, ","), "client_lost") {
			t.Errorf("lost %q: %v, %v", lost, o.Row["status"], reasons)
		}
		if o.Row["slo_quick"] == "pass" {
			t.Errorf("lost %q: the objective passes", lost)
		}
	}
}
