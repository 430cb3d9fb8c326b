package main

import (
	"os"
	"strings"
	"testing"
	"time"

	"sweep.dev/sweep/cmd/sweep/internal/vocabulary"
	"sweep.dev/sweep/load/calibrate"
	"sweep.dev/sweep/plan"
	"sweep.dev/sweep/plan/planfile"
)

// calibratedFor returns an undisturbed calibration of a machine with so many CPUs.
func calibratedFor(cpus int, chunks float64, by string) *calibrate.Result {
	r := calibratedAt(time.Now())
	r.CPUs, r.ClientCPUs, r.Ceiling, r.Stall = cpus, 1, calibrate.Ceiling{Chunks: chunks, By: by}, 0
	return r
}

// A load without streams says nothing of the chunks of another one.
func TestDemandOf_loads(t *testing.T) {
	whole := plan.Cell{Load: plan.Load{Stream: new(bool), Concurrency: 1}}
	chat := plan.Cell{Load: plan.Load{Concurrency: 100}}
	of := traits{scale: 1}
	both := demandOf([]plan.Deployment{{Cells: []plan.Cell{whole, chat}}}, of).chunks
	if alone := demandOf([]plan.Deployment{{Cells: []plan.Cell{chat}}}, of).chunks; both != alone || alone == 0 {
		t.Errorf("%v chunks/s, and %v without the first", both, alone)
	}
}

// A plan is told how many clients it needs, or why that is not known and which command
// finds it out.
func TestCrewOf(t *testing.T) {
	disturbed := calibratedFor(8, 10_000, calibrate.ByCoalesced)
	disturbed.Stall = time.Second
	for name, c := range map[string]struct {
		found *calibrate.Result
		pods  bool
		want  int
		says  string
	}{
		"no calibration": {nil, false, 1, "cannot tell how many clients it needs, as there is no calibration of this machine for its load: sweep doctor calibrate 'my plan.yaml'"},
		"disturbed":      {disturbed, false, 1, "sweep doctor calibrate 'my plan.yaml' --fresh"},
		"not offered":    {calibratedFor(8, 10_000, calibrate.ByOffered), false, 1, "no more than 10000 chunks/s, and the load may have 30000"},
		"enough":         {calibratedFor(8, 50_000, calibrate.ByCoalesced), false, 1, "1 client: up to 30000 chunks/s, and a client takes in 50000, of which 70 % are safe"},
		"several":        {calibratedFor(8, 10_000, calibrate.ByCoalesced), false, 5, "5 clients: up to 30000 chunks/s"},
		"too few CPUs":   {calibratedFor(2, 10_000, calibrate.ByCoalesced), false, 2, "5 clients: up to 30000 chunks/s, and a client takes in 10000, of which 70 % are safe; this machine has CPUs for 2 at most"},
		"pods":           {calibratedFor(2, 10_000, calibrate.ByCoalesced), true, 5, "5 clients"},
	} {
		got := crewOf(c.found, 30_000, c.pods, "my plan.yaml")
		if got.n != c.want || !strings.Contains(got.why, c.says) {
			t.Errorf("%s: %+v, want %d, %q", name, got, c.want, c.says)
		}
	}
}

// clientsOfPlan parses a plan whose load has these clients.
func clientsOfPlan(t *testing.T, clients string) *plan.Plan {
	t.Helper()
	text := "version: 1\nname: x\nmodel: sweep/tiny\nmatrix: {engine: vllm, gpu: h100, concurrency: [1, 64], max_tokens: [3]}\nbackend: sim\n" +
		"load: {requests: 128, prompts: {kind: synthetic, input_tokens: 20}" + clients + "}\n"
	p, err := planfile.Parse("x.yaml", t.TempDir(), []byte(text), planfile.Options{Vocabulary: vocabulary.All(), MaxCells: 10, LookupEnv: os.LookupEnv})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// The number that auto comes to is of the machine: neither a cell's id nor its digests
// depend on it, and they differ from those of a plan that names a number.
func TestCrew_digests(t *testing.T) {
	auto, four, alone := clientsOfPlan(t, ", clients: auto"), clientsOfPlan(t, ", clients: 4"), clientsOfPlan(t, "")
	cell := auto.Cells()[1]
	if !cell.Load.Clients.Auto() {
		t.Fatalf("%+v", cell.Load.Clients)
	}
	counted := cell
	counted.Load.Clients.N = 3
	if auto.ConditionsDigest(counted, "") != auto.ConditionsDigest(cell, "") || auto.SpecDigest(counted) != auto.SpecDigest(cell) {
		t.Error("the digests depend on how many clients auto came to")
	}
	for name, other := range map[string]*plan.Plan{"4": four, "none": alone} {
		c := other.Cells()[1]
		if c.ID != cell.ID {
			t.Errorf("clients %s: the cell is another", name)
		}
		if other.ConditionsDigest(c, "") == auto.ConditionsDigest(cell, "") {
			t.Errorf("clients %s: the conditions are those of auto", name)
		}
	}
	resolved, err := auto.Resolved()
	if err != nil || !strings.Contains(string(resolved), `"clients": "auto"`) && !strings.Contains(string(resolved), `"clients":"auto"`) {
		t.Errorf("%v\n%s", err, resolved)
	}
}
