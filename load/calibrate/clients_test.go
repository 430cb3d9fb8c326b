package calibrate

import (
	"testing"
	"time"
)

// A load is divided over as many clients as take it in at 70 % of their ceilings, and a
// calibration that does not know the ceiling says so.
func TestResult_clients(t *testing.T) {
	for name, c := range map[string]struct {
		ceiling Ceiling
		stall   time.Duration
		chunks  float64
		want    int
		ok      bool
	}{
		"none":                      {Ceiling{10_000, ByCoalesced}, 0, 0, 1, true},
		"just one":                  {Ceiling{10_000, ByCoalesced}, 0, 7000, 1, true},
		"a little more":             {Ceiling{10_000, ByCoalesced}, 0, 7001, 2, true},
		"four":                      {Ceiling{10_000, ByCPU}, 0, 28_000, 4, true},
		"within what was offered":   {Ceiling{10_000, ByOffered}, 0, 7000, 1, true},
		"beyond what was offered":   {Ceiling{10_000, ByOffered}, 0, 7001, 0, false},
		"disturbed":                 {Ceiling{10_000, ByCoalesced}, time.Second, 100, 0, false},
		"disturbed by its ceiling":  {Ceiling{10_000, ByDisturbed}, 0, 100, 0, false},
		"no ceiling was found here": {Ceiling{}, 0, 100, 0, false},
	} {
		r := Result{Ceiling: c.ceiling, Stall: c.stall}
		if n, ok := r.Clients(c.chunks); n != c.want || ok != c.ok {
			t.Errorf("%s: %d clients, %t; want %d, %t", name, n, ok, c.want, c.ok)
		}
	}
}

// No more processes send than the machine has CPUs for.
func TestResult_mostClients(t *testing.T) {
	for _, c := range []struct {
		cpus, client int
		by           string
		want         int
	}{{1, 1, ByCoalesced, 1}, {8, 7, ByCoalesced, 8}, {8, 7, ByCPU, 1}, {8, 2, ByCPU, 4}, {0, 0, ByCPU, 1}} {
		r := Result{Machine: Machine{CPUs: c.cpus}, ClientCPUs: c.client, Ceiling: Ceiling{By: c.by}}
		if n := r.MostClients(); n != c.want {
			t.Errorf("%+v: %d clients", c, n)
		}
	}
}
