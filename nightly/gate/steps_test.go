package gate_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"sweep.dev/sweep/nightly/gate"
)

// scattered returns nights around 100 with an sd of 1.5 %, and a step of so much from a night on.
func scattered(seed uint64, n, night int, step float64) []float64 {
	random := rand.New(rand.NewPCG(seed, 7))
	values := make([]float64, n)
	for i := range values {
		values[i] = 100 * (1 + 0.015*random.NormFloat64())
		if i >= night {
			values[i] *= 1 + step
		}
	}
	return values
}

// Of quiet series at most 1 % have a step; one of 5 % is found in 99 %, within a night.
func TestSteps_rates(t *testing.T) {
	t.Parallel()
	const series = 400
	quiet, found, near := 0, 0, 0
	for seed := range uint64(series) {
		quiet += len(gate.Steps(scattered(seed, 60, 60, 0)))
		for _, s := range gate.Steps(scattered(seed, 60, 40, 0.05)) {
			found++
			if s.Night >= 39 && s.Night <= 41 {
				near++
			}
		}
	}
	t.Logf("quiet %d, found %d, within a night %d of %d", quiet, found, near, series)
	if quiet > series/100 || found < series*99/100 || near < series*95/100 {
		t.Errorf("quiet %d, found %d, within a night %d of %d", quiet, found, near, series)
	}
}

func TestSteps(t *testing.T) {
	t.Parallel()
	two := scattered(1, 60, 20, 0.10)
	for i := 40; i < 60; i++ {
		two[i] *= 0.8
	}
	if got := gate.Steps(two); len(got) != 2 || got[0].Night != 20 || got[1].Night != 40 || math.Abs(got[0].After/got[0].Before-1.1) > 0.02 {
		t.Errorf("%+v", got)
	}
	holes := scattered(1, 60, 30, 0.10)
	holes[5], holes[29], holes[50] = math.NaN(), math.NaN(), math.Inf(1)
	if got := gate.Steps(holes); len(got) != 1 || got[0].Night != 30 {
		t.Errorf("%+v", got)
	}
	for name, values := range map[string][]float64{"none": nil, "short": {1, 2, 3, 4, 5}, "of one value": make([]float64, 50)} {
		if got := gate.Steps(values); len(got) != 0 {
			t.Errorf("%s: %+v", name, got)
		}
	}
	// A step without noise.
	if got := gate.Steps([]float64{1, 1, 1, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 2, 2, 2}); len(got) != 1 || got[0].Night != 8 {
		t.Errorf("%+v", got)
	}
}
