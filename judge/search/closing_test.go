package search

import (
	"math"
	"math/rand/v2"
	"testing"
)

// A server that becomes slower all the time, by less than shows in a trial, mostly has no answer
// above what it carries at the end; a steady one keeps its certificate.
func TestClosing(t *testing.T) {
	t.Parallel()
	const searches = 50
	for name, c := range map[string]struct {
		slower         float64 // share of the capacity that is gone after each trial of the plan
		deff           int
		above, refused int // at most; of a steady server refused is what chance costs
	}{
		"steady":            {0, 1, 2, 1},
		"steady, not alike": {0, 5, 2, 2},
		"slower by 10 %":    {0.10, 1, 2, searches},
		"slower by 3 %":     {0.03, 1, 12, searches},
		"slower, not alike": {0.03, 5, 24, searches},
	} {
		above, refused, without := 0, 0, 0
		for seed := range uint64(searches) {
			rng := rand.New(rand.NewPCG(seed, 77))
			server := limited{capacity: 60 + 80*rng.Float64(), deff: c.deff, rng: rng}
			s := settings(seed)
			got, outcomes := search(s, func(p Probe) Outcome {
				o := server.probe(s.Levels)(p)
				server.capacity *= math.Pow(1-c.slower, float64(p.Times))
				return o
			})
			n := len(outcomes)
			for n > 0 && outcomes[n-1].Why == Close {
				n--
			}
			if a := Answers(s, outcomes[:n])[0]; a.Capacity != nil && *a.Capacity > server.capacity {
				without++
			}
			switch a := got[0]; {
			case a.Reason == Changed:
				refused++
			case a.Capacity != nil && *a.Capacity > server.capacity:
				above++
			}
		}
		t.Logf("%s: %d of %d above the capacity at the end (%d without trials that close), %d refused", name, above, searches, without, refused)
		if above > c.above || refused > c.refused || c.slower > 0 && 3*above > 2*without {
			t.Errorf("%s: %d above the capacity at the end, want %d at most and two thirds of the %d without trials that close; %d refused, want %d at most", name, above, c.above, without, refused, c.refused)
		}
	}
}
