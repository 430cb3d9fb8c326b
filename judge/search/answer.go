package search

import (
	"slices"

	"sweep.dev/sweep/result"
	"sweep.dev/sweep/result/objective"
)

// Reasons why a search ended: a closed list.
const (
	Certified   = "certified"     // the answer holds with the confidence asked for
	AboveRange  = "above_range"   // the highest level is certified
	BelowRange  = "below_range"   // the lowest level misses the objective
	Client      = "client_bound"  // the client is at its limit on the level above the answer
	Budget      = "budget"        // trials, time or money ended first
	NotMonotone = "not_monotone"  // a level above the one that fails keeps the objective
	TooNoisy    = "too_noisy"     // no level could be certified
	ServerFails = "server_failed" // the server fails at the lowest level
	NotMeasured = "invalid"       // three trials in a row of a level that was needed were INVALID
	ServerGone  = "server_gone"   // the server answered nothing, not even at a load that it had carried
	Changed     = "changed"       // a load was certified, and missed at the end of the search
)

// Reasons returns all of them.
func Reasons() []string {
	return []string{Certified, AboveRange, BelowRange, Client, Budget, NotMonotone, TooNoisy, ServerFails, NotMeasured, ServerGone, Changed}
}

// An Answer is what a search found for one objective.
type Answer struct {
	Objective string
	Reason    string
	// Capacity is the certified load; nil if there is none.
	Capacity *float64
	// By is the objective whose trials certify Capacity, if that is one that implies this.
	By string
	// Point is the highest load whose one trial kept the objective on the way, at least Capacity.
	Point *float64
	// FailsAt is the least load above Capacity whose trials leave no doubt that it misses the
	// objective, and Missed the parts of the objective that they missed.
	FailsAt *float64
	Missed  []string
	// Contradicts is a load above FailsAt that certainly keeps the objective.
	Contradicts *float64
	// OpenFrom and OpenTo are the least and the greatest load above Capacity and below FailsAt
	// that nothing decides; nil for none.
	OpenFrom, OpenTo *float64
	// MoreRequests are likely to decide OpenFrom, in MoreSeconds; 0 if nobody knows.
	MoreRequests int
	MoreSeconds  float64
	Requests     int // of all trials of the search, for all objectives

	// Devices are those that the answer rests on, in the order in which they were measured.
	Devices []OnDevice
	// Decides is the id of the device that has the answer's load, of several; "" for one.
	Decides string
}

// OnDevice is what a search found for one objective on one device.
type OnDevice struct {
	ID       string   // as the column gpu_uuid has it
	Capacity *float64 // certified there; nil if no load is
	Reason   string
}

// Spread returns the least and the greatest load that is certified on one of the devices. It is
// nil for fewer than two of them, and if one has no certified load.
func (a *Answer) Spread() (least, most *float64) {
	for _, d := range a.Devices {
		switch {
		case d.Capacity == nil:
			return nil, nil
		case least == nil:
			least, most = d.Capacity, d.Capacity
		default:
			if *d.Capacity < *least {
				least = d.Capacity
			}
			if *d.Capacity > *most {
				most = d.Capacity
			}
		}
	}
	if a.Decides == "" {
		return nil, nil
	}
	return least, most
}

// add takes in what was found on one more device. It returns the level that is certified
// on all of them; -1 for none.
func (a *Answer) add(t *tier, open bool, before int) int {
	switch {
	case open && t.device > 0:
		a.Reason = Budget
		return before
	case open:
		*a = t.answer
		a.Objective, a.Reason = t.name, Budget
		if t.best >= 0 {
			a.Devices = t.first()
		}
		return -1
	case t.device > 0 && (t.answer.Reason == NotMeasured || t.answer.Reason == Client && t.answer.Capacity == nil):
		return before // the device says nothing
	}
	here := OnDevice{ID: t.id, Capacity: t.answer.Capacity, Reason: t.answer.Reason}
	if t.device == 0 {
		*a = t.answer
		a.Objective = t.name
		a.Devices = t.first()
		return t.best
	}
	if len(a.Devices) == 1 {
		a.Decides = a.Devices[0].ID
	}
	a.Devices = append(a.Devices, here)
	if t.best >= before {
		return before
	}
	point, devices := a.Point, a.Devices
	*a = t.answer
	a.Objective, a.Point, a.Devices, a.Decides = t.name, point, devices, t.id
	return t.best
}

// end notes why a search with a certified level has ended.
func (t *tier) end() {
	switch t.best {
	case len(t.Levels) - 1:
		t.answer.Reason = AboveRange
	case t.top:
		t.answer.Reason = Client
	default:
		t.answer.Reason = Certified
	}
}

// certify makes a level the certified one.
func (t *tier) certify(level int) {
	t.best = level
	t.answer.Capacity = &t.Levels[level]
	if level == t.floor {
		t.answer.By = t.by
	}
}

// lowest notes the answer if not even the lowest level is certified.
func (t *tier) lowest(verdict string) {
	switch {
	case t.levels[0].broken():
		t.answer.Reason = ServerFails
	case verdict == result.SLOFail:
		t.answer.Reason = BelowRange
	default:
		t.answer.Reason = TooNoisy
	}
}

// bounds fills in what is known above the certified level, also of a search that has not ended:
// the least load that a look decided, or whose trials together leave no doubt, that it misses the
// objective, one above that which certainly keeps it, and the loads that nothing decides.
func (t *tier) bounds() {
	fails := t.top + 1
	for i := t.best + 1; i <= t.top; i++ {
		r := &t.levels[i]
		if len(r.find)+len(r.confirm) == 0 && !r.broken() {
			continue
		}
		pooled := t.whole(i)
		switch {
		case t.answer.FailsAt == nil && (pooled.Verdict == result.SLOFail || r.misses):
			fails, t.answer.FailsAt = i, &t.Levels[i]
			if r.misses {
				trials, _ := of(r.confirm)
				pooled = objective.PoolAt(trials, t.Confidence)
			}
			for _, p := range pooled.Parts {
				if one := (result.SLOResult{Verdict: p.Verdict, Parts: []result.SLOPart{p}}); !holds(one) {
					t.answer.Missed = append(t.answer.Missed, p.Expr)
				}
			}
		case t.answer.FailsAt != nil && pooled.Verdict == result.SLOPass && t.answer.Contradicts == nil:
			t.answer.Contradicts = &t.Levels[i]
			if t.answer.Reason == Certified {
				t.answer.Reason = NotMonotone
			}
		}
	}
	if c, p := t.answer.Capacity, t.answer.Point; c != nil && (p == nil || *p < *c) {
		t.answer.Point = c
	}
	if from := t.best + 1; from < fails {
		t.answer.OpenFrom, t.answer.OpenTo = &t.Levels[from], &t.Levels[fails-1]
		t.answer.MoreRequests, t.answer.MoreSeconds = t.more(from)
	}
}

// more returns how many further requests of a level are likely to decide it, and how long they take;
// 0 if nobody knows.
func (t *tier) more(i int) (requests int, seconds float64) {
	r := &t.levels[i]
	if len(r.find)+len(r.confirm) == 0 || r.broken() {
		return 0, 0
	}
	trials, _ := of(slices.Concat(r.find, r.confirm))
	_, requests = need(objective.PoolAt(trials, t.confidence(t.looks+1)))
	sent, took := 0, 0.0
	for _, o := range r.all {
		if o.measured() && o.Seconds > 0 {
			sent, took = sent+o.Requests, took+o.Seconds
		}
	}
	if sent > 0 {
		seconds = took * float64(requests) / float64(sent)
	}
	return requests, seconds
}

// whole returns an objective over all trials of a level, those that found it included.
func (t *tier) whole(i int) result.SLOResult {
	r := &t.levels[i]
	if r.broken() {
		return result.SLOResult{Verdict: result.SLOFail}
	}
	trials, _ := of(slices.Concat(r.find, r.confirm))
	return objective.PoolAt(trials, t.Confidence)
}

func holds(r result.SLOResult) bool {
	kept, _ := objective.Kept(r)
	return kept
}
