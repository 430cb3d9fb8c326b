package gpu

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"sweep.dev/sweep/internal/gpustate"
	"sweep.dev/sweep/result"
	"sweep.dev/sweep/result/col"
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
}

func newWindow(maxGap time.Duration) *window {
	return &window{maxGap: maxGap, tracks: make(map[string]*track)}
}

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
}

type mean struct {
	sum float64
	n   int
}

func (m *mean) add(v float64) { m.sum += v; m.n++ }

type highest struct {
	v    float64
	seen bool
}

func (h *highest) add(v float64) {
	if !h.seen || v > h.v {
		h.v, h.seen = v, true
	}
}

func (h highest) value() any {
	if !h.seen {
		return nil
	}
	return h.v
}

type lowest struct{ highest }

func (l *lowest) add(v float64) { l.highest.add(-v) }

// An integral is power over time, by trapezoids.
type integral struct {
	sum     float64
	at      time.Duration
	v       float64
	known   bool // v was measured
	looks   int
	gaps    int
	between int // stretches that count
}

func (e *integral) add(at time.Duration, v float64, known bool, maxGap time.Duration) {
	if e.looks > 0 {
		if gap := at - e.at; known && e.known && gap <= maxGap {
			e.sum += (v + e.v) / 2 * gap.Seconds()
			e.between++
		} else {
			e.gaps++
		}
	}
	e.at, e.v, e.known = at, v, known
	e.looks++
}

// begin lets it count from here, at first with the value of the look before.
func (e *integral) begin(at time.Duration) {
	if e.looks > 0 {
		*e = integral{at: at, v: e.v, known: e.known, looks: 1}
	}
}

// A counter is the increase of a value that only grows.
type counter struct {
	sum      float64
	at       time.Duration
	v        float64
	known    bool
	skip     time.Duration // of the next stretch, that is before the load
	rest     float64       // of the next increase, that is of before the load
	between  int           // stretches
	changes  int           // of those in which it moved
	restarts int
}

func (c *counter) add(at time.Duration, v float64) {
	if c.known {
		delta := v - c.v
		switch {
		case delta < 0:
			c.restarts++
		case delta > 0:
			if stretch := at - c.at; c.skip > 0 && stretch > 0 {
				delta *= max(0, 1-c.skip.Seconds()/stretch.Seconds())
			}
			before := min(c.rest, delta)
			c.rest -= before
			c.sum += delta - before
			c.changes++
		}
		c.between++
	}
	c.at, c.v, c.known, c.skip = at, v, true, 0
}

// begin lets it count from here. rate is how fast it grew before the load, per
// second; negative where that is not known.
func (c *counter) begin(at time.Duration, rate float64) {
	*c = counter{at: c.at, v: c.v, known: c.known}
	if !c.known {
		return
	}
	if rate < 0 {
		c.skip = max(0, at-c.at)
		return
	}
	// Not added to v: an exporter may say the same value once more, which is no
	// counter that fell.
	c.rest = rate * max(0, at-c.at).Seconds()
	c.at = at
}

// trusted says whether differences of the counter are the trial's. One that
// moves at fewer than half of the looks is not: an exporter's values may be half
// a minute old, and some GPUs have a counter that stands still.
func (c *counter) trusted() bool {
	return c.between > 0 && c.restarts == 0 && c.changes > 0 && 2*c.changes >= c.between
}

// begin says that the load begins now.
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
	list = gpustate.Whole(list)
	for _, r := range list {
		if len(r.Values) == 0 {
			continue // it lists processes alone
		}
		key := r.Key()
		if r.UUID == "" {
			key = fmt.Sprintf("%d%s", host, key)
		}
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
		// What was active at one end of a stretch was so for half of it.
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

// list is the GPUs that count, in order: those with a process of the deployment
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

// sum is over all GPUs that count; false where one of them does not say.
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

// columns that this collector knows.
var columns = []string{
	col.GPUUtilMean, col.GPUUtilMax, col.GPUMemoryUsedMaxBytes, col.GPUPowerMeanW, col.GPUEnergyJ, col.GPUTempMaxC,
	col.GPUEnergySource, col.GPUMemoryTotalBytes, col.GPUMemoryFreeMinBytes, col.GPUMemoryIdleBytes, col.GPUUtilIdle,
	col.GPUMemoryBandwidthUtilMean, col.GPUClockMeanMHz, col.GPUThrottledMs, col.GPUThrottleReasons,
	col.GPUForeignProcesses, col.GPUUUID, col.DriverVersion,
}

// emptyRow has every column that this collector knows, none of them measured.
func emptyRow() result.Row {
	row := make(result.Row, len(columns))
	for _, c := range columns {
		row[c] = nil
	}
	return row
}

// row is what the window saw. bracketed says that it reaches from before the
// load to behind it: energy over less is not the trial's.
func (w *window) row(bracketed bool) result.Row {
	row := emptyRow()
	list := w.list()
	if len(list) == 0 {
		return row
	}
	row[col.GPUUtilMean] = average(list, func(t *track) mean { return t.busy })
	row[col.GPUMemoryBandwidthUtilMean] = average(list, func(t *track) mean { return t.traffic })
	row[col.GPUClockMeanMHz] = average(list, func(t *track) mean { return t.clock })
	var utilMax, tempMax highest
	for _, t := range list {
		if t.utilMax.seen {
			utilMax.add(t.utilMax.v)
		}
		if t.tempMax.seen {
			tempMax.add(t.tempMax.v)
		}
	}
	row[col.GPUUtilMax], row[col.GPUTempMaxC] = utilMax.value(), tempMax.value()
	if v, ok := w.sum(func(t *track) (float64, bool) { return t.watts.sum / float64(max(1, t.watts.n)), t.watts.n > 0 }); ok {
		row[col.GPUPowerMeanW] = v
	}
	if w.memoryMax.seen {
		row[col.GPUMemoryUsedMaxBytes] = int64(w.memoryMax.v)
	}
	if w.freeMin.seen {
		row[col.GPUMemoryFreeMinBytes] = int64(-w.freeMin.v)
	}
	if v, ok := w.sum(func(t *track) (float64, bool) { v, ok := t.latest[gpustate.MemoryTotal]; return v, ok }); ok {
		row[col.GPUMemoryTotalBytes] = int64(v)
	}
	if v, ok := w.sum(func(t *track) (float64, bool) { v, ok := t.idle[gpustate.MemoryUsed]; return v, ok }); ok {
		row[col.GPUMemoryIdleBytes] = int64(v)
	}
	if v, ok := w.sum(func(t *track) (float64, bool) { v, ok := t.idle[gpustate.Util]; return v, ok }); ok {
		row[col.GPUUtilIdle] = v / float64(len(list))
	}
	if j, source := w.joules(list); source != "" && bracketed {
		row[col.GPUEnergyJ], row[col.GPUEnergySource] = j, source
	}
	if ms, reasons, ok := w.throttling(); ok {
		row[col.GPUThrottledMs] = ms
		if len(reasons) > 0 {
			row[col.GPUThrottleReasons] = strings.Join(reasons, ",")
		}
	}
	if n, ok := w.processes.foreign(); ok && !w.hidden(list) {
		row[col.GPUForeignProcesses] = int64(n)
	}
	var uuids []string
	for _, t := range list {
		if t.id.UUID != "" {
			uuids = append(uuids, t.id.UUID)
		}
		if row[col.DriverVersion] == nil && t.id.Driver != "" {
			row[col.DriverVersion] = t.id.Driver
		}
	}
	if len(uuids) > 0 {
		row[col.GPUUUID] = strings.Join(uuids, ",")
	}
	return row
}

// average is the mean over the GPUs that were seen under load.
func average(list []*track, of func(*track) mean) any {
	var all mean
	for _, t := range list {
		if m := of(t); m.n > 0 {
			all.add(m.sum / float64(m.n))
		}
	}
	if all.n == 0 {
		return nil
	}
	return all.sum / float64(all.n)
}

// energy is summed over the GPUs, with where it is from: integrated as soon as
// one of them has no counter that can be trusted, "" where one has neither.
func (w *window) joules(list []*track) (sum float64, source string) {
	source = "counter"
	for _, t := range list {
		switch {
		case t.counter.trusted():
			sum += t.counter.sum
		case t.integral.between > 0 && t.integral.gaps == 0:
			sum += t.integral.sum
			source = "integrated"
		default:
			return 0, ""
		}
	}
	return sum, source
}

// gaps counts the stretches over which energy is not known.
func (w *window) gaps() (n int) {
	for _, t := range w.list() {
		if !t.counter.trusted() && t.integral.between > 0 {
			n += t.integral.gaps
		}
	}
	return n
}

// throttling is the time in which something held down the clocks of the GPU that
// had most of it. Counters of different reasons may run at once, so that the
// longest stands for the GPU: it was throttled for at least so long.
func (w *window) throttling() (ms float64, reasons []string, ok bool) {
	found := make(map[string]bool)
	for _, t := range w.list() {
		if len(t.held) > 0 {
			for reason, c := range t.held {
				if c.between == 0 {
					continue
				}
				ok = true
				if c.sum > 0 {
					found[reason] = true
				}
				ms = max(ms, c.sum)
			}
			continue
		}
		if !t.activeKnown {
			continue
		}
		ok = true
		for reason, d := range t.active {
			if slices.Contains(gpustate.Throttles, reason) && d > 0 {
				found[reason] = true
				ms = max(ms, float64(d)/float64(time.Millisecond))
			}
		}
	}
	for _, reason := range gpustate.Throttles {
		// The general one says nothing beside one that says why.
		if found[reason] && !(reason == gpustate.HWSlowdown && (found[gpustate.HWThermal] || found[gpustate.HWPowerBrake])) {
			reasons = append(reasons, reason)
		}
	}
	return ms, reasons, ok
}

// residentShare of a GPU's memory is less than any model that is worth a
// measurement, with the context of its runtime.
const residentShare = 0.05

// unused says that no GPU changed under load, and none holds a model: whatever
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

// hidden says that memory is in use and no process was ever shown: so it is in a
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

// processes tells those of the deployment from others'. The numbers that a GPU's
// driver has can be compared with ours where one of ours is among them; in a
// container they are another namespace's, and then only those that came under
// load are known to be foreign.
type processes struct {
	looks    int
	seen     bool            // any process at all
	ours     map[string]bool // GPUs that have one of the deployment's
	counts   map[int]int     // of each host at its latest look
	baseline int             // before the load
	most     int
	others   map[int]int // of each host: most at once that are not the deployment's
}

func (p *processes) begin() {
	p.baseline = 0
	for _, n := range p.counts {
		p.baseline += n
	}
	p.most = 0
}

// observe takes the processes on a host's GPUs into account. own are the
// deployment's.
func (p *processes) observe(host int, list []gpustate.Reading, own map[int]bool) {
	all := make(map[int]bool)
	known := false
	list = gpustate.Whole(list)
	for _, r := range list {
		if !r.PIDsKnown || r.UUID == "" {
			continue
		}
		known = true
		for _, pid := range r.PIDs {
			all[pid] = true
			if own[pid] {
				if p.ours == nil {
					p.ours = make(map[string]bool)
				}
				p.ours[r.UUID] = true
			}
		}
	}
	if !known {
		return
	}
	p.looks++
	if p.counts == nil {
		p.counts = make(map[int]int)
	}
	p.counts[host] = len(all)
	p.seen = p.seen || len(all) > 0
	sum := 0
	for _, n := range p.counts {
		sum += n
	}
	p.most = max(p.most, sum)
	others := make(map[int]bool)
	for _, r := range list {
		for _, pid := range r.PIDs {
			if p.ours[r.UUID] && !own[pid] {
				others[pid] = true
			}
		}
	}
	if p.others == nil {
		p.others = make(map[int]int)
	}
	p.others[host] = max(p.others[host], len(others))
}

// foreign is how many at least were not of the deployment.
func (p *processes) foreign() (n int, ok bool) {
	if len(p.ours) == 0 {
		return max(0, p.most-p.baseline), p.looks > 0
	}
	for _, others := range p.others {
		n += others
	}
	return n, p.looks > 0
}
