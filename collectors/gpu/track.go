package gpu

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"sweep.dev/sweep/internal/gpustate"
)

// A track is one GPU over the trial.
type track struct {
	id     gpustate.Reading // who it is, as last seen
	host   int
	loaded int                // looks under load
	latest map[string]float64 // by quantity
	idle   map[string]float64 // as latest was when the load began
	rest   float64            // highest utilisation before the load

	busy, traffic, watts, clock mean // under load
	utilMax, tempMax, usedMax   highest
	integral                    integral
	counter                     counter
	held                        map[string]*counter // by reason
	active                      map[string]time.Duration
	activeKnown                 bool
	seen                        time.Duration // of the last look
	at                          time.Duration // of the last look that told reasons
	reasons                     map[string]bool

	lost   *loss // for good; nil if it was not
	absent *loss // from the latest look; nil if it was in it
	misses int   // looks without it
}

func (t *track) observe(at time.Duration, r gpustate.Reading, loaded bool, w *window) {
	before := t.id
	t.id, t.seen = r, at
	t.id.Driver, t.id.Name, t.id.Index = cmp.Or(r.Driver, before.Driver), cmp.Or(r.Name, before.Name), cmp.Or(r.Index, before.Index)
	maps.Copy(t.latest, r.Values)
	if v, ok := r.Values[gpustate.Util]; ok {
		if loaded {
			t.busy.add(v)
			t.utilMax.add(v)
		} else if !w.begun {
			t.rest = max(t.rest, v)
		}
	}
	if v, ok := r.Values[gpustate.MemoryUsed]; ok && loaded {
		t.usedMax.add(v)
	}
	if loaded {
		t.loaded++
		for q, m := range map[string]*mean{gpustate.Bandwidth: &t.traffic, gpustate.ClockSM: &t.clock, gpustate.Power: &t.watts} {
			if v, ok := r.Values[q]; ok {
				m.add(v)
			}
		}
	}
	if v, ok := r.Values[gpustate.Temperature]; ok {
		t.tempMax.add(v)
	}
	p, known := r.Values[gpustate.Power]
	t.integral.add(at, p, known, w.maxGap)
	if v, ok := r.Values[gpustate.Energy]; ok {
		t.counter.add(at, v)
	}
	for q, v := range r.Values {
		if reason, ok := strings.CutPrefix(q, gpustate.Throttled); ok && slices.Contains(gpustate.Throttles, reason) {
			if t.held[reason] == nil {
				t.held[reason] = new(counter)
			}
			t.held[reason].add(at, v)
		}
	}
	if r.ReasonsKnown {
		// A reason that was active at one end of a stretch counts for half of it.
		if gap := at - t.at; gap > 0 && gap <= w.maxGap {
			for _, of := range []map[string]bool{t.reasons, r.Reasons} {
				for reason := range of {
					t.active[reason] += gap / 2
				}
			}
		}
		t.activeKnown, t.reasons = true, r.Reasons
		t.at = at
	}
}
