package gpu

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"sweep.dev/sweep/internal/gpustate"
)

// A window sums up what the GPUs of all hosts did over one trial. It has no
// clock and does no I/O. Looks of one host come in order.
type window struct {
	maxGap time.Duration // over which power is not interpolated

	tracks map[string]*track
	begun  bool
	start  time.Duration // of the load

	memoryMax highest // summed over the GPUs
	freeMin   lowest
	processes processes
	told      told
}

func newWindow(maxGap time.Duration) *window {
	return &window{maxGap: maxGap, tracks: make(map[string]*track)}
}

// begin notes that the load begins now.
func (w *window) begin(at time.Duration) {
	w.begun, w.start = true, at
	w.memoryMax, w.freeMin = highest{}, lowest{}
	for _, t := range w.tracks {
		rate := -1.0
		if t.integral.known {
			rate = t.integral.v
		}
		t.integral.begin(at)
		t.counter.begin(at, rate)
		for _, c := range t.held {
			c.begin(at, 0)
		}
		clear(t.active)
		t.at = at
		t.idle = maps.Clone(t.latest)
	}
	w.processes.begin()
}

// observe takes one look at a host into account. Means count only while the
// load ran; the looks before and after it show GPUs at rest.
func (w *window) observe(host int, at time.Duration, list []gpustate.Reading, loaded bool) {
	for _, r := range list {
		if r.Said != "" {
			w.say(host, at, r)
		}
	}
	list = gpustate.Whole(list)
	for _, r := range list {
		if len(r.Values) == 0 {
			continue // it lists processes alone
		}
		key := keyOf(host, r)
		t := w.tracks[key]
		if t == nil {
			t = &track{host: host, seen: at, at: at, latest: make(map[string]float64), held: make(map[string]*counter), active: make(map[string]time.Duration)}
			w.tracks[key] = t
		}
		if t.host != host || at < t.seen {
			continue // another replica on the same machine, or what came late
		}
		t.observe(at, r, loaded, w)
	}
	w.memories()
}

// keyOf names a GPU among those of all hosts.
func keyOf(host int, r gpustate.Reading) string {
	if r.UUID == "" {
		return fmt.Sprintf("%d%s", host, r.Key())
	}
	return r.UUID
}

// memories sums memory over the GPUs as each was last seen. A sum over some of
// them would be taken for one over all.
func (w *window) memories() {
	if used, ok := w.sum(func(t *track) (float64, bool) { v, ok := t.latest[gpustate.MemoryUsed]; return v, ok }); ok {
		w.memoryMax.add(used)
	}
	if free, ok := w.sum(func(t *track) (float64, bool) { v, ok := t.latest[gpustate.MemoryFree]; return v, ok }); ok {
		w.freeMin.add(free)
	}
}

// list returns the GPUs that count, in order: those with a process of the deployment
// on them where that is known, else all.
func (w *window) list() []*track {
	var list []*track
	for key, t := range w.tracks {
		if len(w.processes.ours) == 0 || w.processes.ours[key] {
			list = append(list, t)
		}
	}
	slices.SortFunc(list, func(a, b *track) int {
		return cmp.Or(a.host-b.host, gpustate.Order(a.id.Index)-gpustate.Order(b.id.Index), strings.Compare(a.id.UUID, b.id.UUID))
	})
	return list
}

// sum returns the sum over all GPUs that count; false if one of them does not say.
func (w *window) sum(of func(*track) (float64, bool)) (sum float64, ok bool) {
	list := w.list()
	for _, t := range list {
		v, known := of(t)
		if !known {
			return 0, false
		}
		sum += v
	}
	return sum, len(list) > 0
}

// residentShare of a GPU's memory is less than any model that is worth a
// measurement, with the context of its runtime.
const residentShare = 0.05

// unused reports whether no GPU changed under load, and none holds a model: whatever
// answered, it does not run on them. It takes three looks under load to say so.
func (w *window) unused() bool {
	list := w.list()
	for _, t := range list {
		total := t.latest[gpustate.MemoryTotal]
		if t.loaded < 3 || t.busy.n < 3 || !t.usedMax.seen || total == 0 {
			return false
		}
		if t.utilMax.v > t.rest || t.usedMax.v > residentShare*total || t.usedMax.v > t.idle[gpustate.MemoryUsed]+0.01*total {
			return false
		}
	}
	return len(list) > 0
}

// hidden reports whether memory is in use and no process was ever shown: so it is in a
// container, whose processes the driver does not name.
func (w *window) hidden(list []*track) bool {
	if w.processes.seen {
		return false
	}
	for _, t := range list {
		if t.latest[gpustate.MemoryUsed] > 1<<30 {
			return true
		}
	}
	return false
}
