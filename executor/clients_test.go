package executor

import (
	"testing"

	"sweep.dev/sweep/plan"
)

// Loads that leave the number of their clients to the calibration get it, others keep
// theirs, and the plan keeps auto.
func TestCount(t *testing.T) {
	cells := []plan.Cell{{}, {Load: plan.Load{Clients: plan.Clients{N: 3}}}, {Load: plan.Load{Clients: plan.Clients{N: -1, Kind: plan.ClientsKubernetes}}}}
	if cells[0].Load.Clients.Auto() || !cells[2].Load.Clients.Auto() {
		t.Fatal("auto is another number")
	}
	for name, c := range map[string]struct {
		clients func(plan.Deployment) int
		want    int
	}{
		"by the calibration": {func(d plan.Deployment) int { return len(d.Cells) + 2 }, 5},
		"nobody knows":       {nil, 1},
		"nothing is known":   {func(plan.Deployment) int { return 0 }, 1},
	} {
		d := plan.Deployment{Cells: cells}
		r := run{config: Config{Clients: c.clients}}
		r.count(&d)
		for i, want := range []int{0, 3, c.want} {
			if got := d.Cells[i].Load.Clients.N; got != want {
				t.Errorf("%s: load %d has %d clients, want %d", name, i, got, want)
			}
		}
		if d.Cells[2].Load.Clients.Kind != plan.ClientsKubernetes || !cells[2].Load.Clients.Auto() {
			t.Errorf("%s: %+v, %+v", name, d.Cells[2], cells[2])
		}
	}
}
