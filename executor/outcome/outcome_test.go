package outcome

import (
	"slices"
	"testing"

	"sweep.dev/sweep/backends"
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
