package search

import (
	"cmp"
	"encoding/binary"
	"hash/fnv"
	"slices"

	"sweep.dev/sweep/result"
	"sweep.dev/sweep/result/objective"
)

// Settings are what a search looks for.
type Settings struct {
	Levels     Levels   `json:"levels"`
	Objectives []string `json:"objectives"` // names of the SLOs; each is searched for
	// Implied are, by the name of an objective, those that are never kept where it is not:
	// a load that is certified for one of them is certified for it.
	Implied    map[string][]string `json:"implied,omitempty"`
	Confidence float64             `json:"confidence"` // of each answer, such as 0.99
	Trials     int                 `json:"trials"`     // fresh trials of a level before the first look at it, such as 3
	MaxTrials  int                 `json:"max_trials"` // of a level in all, such as 12
	MaxProbes  int                 `json:"max_probes"` // trials of the whole search, INVALID ones too
	Seed       uint64              `json:"seed"`       // of the order of trials that confirm
	// Devices is on how many different devices a load has to be certified; 0 is 1, whichever
	// that is.
	Devices int `json:"devices,omitempty"`
}

// Why a trial is run.
const (
	Find    = "find"    // to find where the objectives are first missed
	Confirm = "confirm" // to bound the share over the limit, with no part in the choice of its level
)

// A Probe is a trial to run.
type Probe struct {
	Level int // of the list
	Trial int // of the level, from 1
	Why   string
	// Device is the number of the device that it runs on, from 0: the first is whichever the
	// search has, and each other must be none of those before it, see [Taken].
	Device int
}

// How a probe ended.
const (
	Measured    = "measured"
	Invalid     = "invalid"      // decides nothing, and is repeated
	ClientBound = "client_bound" // the client was at its limit: no higher level can be measured
	Failed      = "failed"       // the server failed under the load
	Seen        = "seen"         // not run: the server is on a device that was taken
	// Drifting is INVALID since its figures changed while it was measured, as those of a
	// load do that the server cannot keep up with. It counts against an objective that it
	// missed, and never for one.
	Drifting = "drifting"
)

// An Outcome is a probe that has ended.
type Outcome struct {
	Probe
	State    string
	Requests int
	SLOs     []result.SLOResult
	On       string // id of the device, as the column gpu_uuid has it; "" if unknown
}

// measured says whether the outcome has figures of its load.
func (o *Outcome) measured() bool { return o.State == Measured || o.State == Drifting }

// maxInvalid is how often one level may be INVALID, or fail, before that is its answer.
const maxInvalid = 3

// Next is the next trial to run, or ok false if every answer is there. The outcomes are
// in the order in which the probes were asked for.
func Next(s Settings, outcomes []Outcome) (next Probe, ok bool) {
	if len(outcomes) >= s.MaxProbes {
		return Probe{}, false
	}
	_, next, ok = walk(s, outcomes)
	return next, ok
}

// Replay goes through a search again over the trials that there are. It returns their
// outcomes in the order in which they were asked for, and the first that is not there; ok
// is false if the search has ended.
func Replay(s Settings, ended func(Probe) (Outcome, bool)) (outcomes []Outcome, next Probe, ok bool) {
	for {
		if next, ok = Next(s, outcomes); !ok {
			return outcomes, Probe{}, false
		}
		o, there := ended(next)
		if !there {
			return outcomes, next, true
		}
		o.Probe = next
		outcomes = append(outcomes, o)
	}
}

// Answers are what the outcomes show, an answer for each objective. A search that has
// not ended has the reason [Budget].
func Answers(s Settings, outcomes []Outcome) []Answer {
	answers, _, _ := walk(s, outcomes)
	for i := range answers {
		for _, o := range outcomes {
			answers[i].Requests += o.Requests
		}
	}
	return answers
}

// walk goes through a search as far as the outcomes tell: on its first device, and then on
// each further one for the objectives that have a certified load so far. next is the first
// trial that is not there, if more is true.
func walk(s Settings, outcomes []Outcome) (answers []Answer, next Probe, more bool) {
	answers = make([]Answer, len(s.Objectives))
	low := make([]int, len(s.Objectives)) // the certified level so far; -1: none
	open := make([]bool, len(s.Objectives))
	on := devices(s, outcomes)
	turns, families := s.turns(), s.families()
	for device := range on {
		if device > 0 && (on[device-1] == "" || seen(device, on, outcomes) > maxSeen) {
			break // it cannot be told from another, or no other comes
		}
		certified := map[string]int{} // on this device
		looks := map[int]int{}        // at it, of families of objectives
		for _, i := range turns {
			name := s.Objectives[i]
			if device > 0 && (open[i] || low[i] < 0) {
				continue
			}
			t := newTier(s, name, device, on, outcomes)
			for _, strict := range s.Implied[name] {
				if level, ok := certified[strict]; ok && level > t.floor {
					t.floor, t.by = level, strict
				}
			}
			t.looks = looks[families[i]]
			level, why := t.run(low[i])
			looks[families[i]] = t.looks
			if why == "" && t.best >= 0 {
				certified[name] = t.best
			}
			if open[i] = why != ""; open[i] && !more {
				next, more = Probe{Level: level, Trial: len(t.levels[level].all) + 1, Why: why, Device: device}, true
			}
			answers[i].Objective = name
			low[i] = answers[i].add(t, open[i], low[i])
		}
	}
	return answers, next, more
}

// turns are the places of the objectives in the order in which they are searched for: one
// comes after those that imply it, which have as many others or fewer that imply them.
func (s *Settings) turns() []int {
	order := make([]int, len(s.Objectives))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		return cmp.Compare(len(s.Implied[s.Objectives[a]]), len(s.Implied[s.Objectives[b]]))
	})
	return order
}

// families are, for each objective, the first of those that imply it or are implied by it,
// over any number of steps. What is wrong with the answer of one may then be wrong with that
// of another, so they share the risk.
func (s *Settings) families() []int {
	of := make([]int, len(s.Objectives))
	for i := range of {
		of[i] = i
	}
	for range of { // each pass reaches one step further at least
		for loose, all := range s.Implied {
			for _, strict := range all {
				i, j := slices.Index(s.Objectives, loose), slices.Index(s.Objectives, strict)
				if i >= 0 && j >= 0 {
					of[i] = min(of[i], of[j])
					of[j] = of[i]
				}
			}
		}
	}
	return of
}

// level is what is known of one load, for one objective.
type level struct {
	all     []Outcome
	find    []result.SLOResult // VALID ones
	confirm []result.SLOResult
	invalid int
	failed  int
	bound   int // trials with the client at its limit
}

// broken says that the server fails under this load.
func (r *level) broken() bool { return r.failed >= 2 && len(r.confirm) == 0 || r.failed >= maxInvalid }

// unmeasurable says that no further trial of the level is worth it.
func (r *level) unmeasurable() bool { return r.invalid >= maxInvalid }

// order is the place of a confirming trial among those of two levels.
func order(seed uint64, level, trial int) uint64 {
	h := fnv.New64a()
	for _, x := range []uint64{seed, uint64(level), uint64(trial)} {
		h.Write(binary.LittleEndian.AppendUint64(nil, x))
	}
	return h.Sum64()
}

// A tier is the search for one objective on one device, over trials that all objectives
// share.
type tier struct {
	Settings
	name   string
	device int
	id     string // of the device; "" if unknown
	levels []level
	top    int // highest level that may be measured
	looks  int // at a bound, each with its share of alpha
	best   int // the certified level; -1: none
	floor  int // the level that is certified for an objective that implies this one; -1: none
	by     string
	answer Answer
}

func newTier(s Settings, name string, device int, on []string, outcomes []Outcome) *tier {
	t := &tier{Settings: s, name: name, device: device, id: on[device], best: -1, floor: -1, levels: make([]level, len(s.Levels)), top: len(s.Levels) - 1}
	for _, o := range outcomes {
		r := &t.levels[o.Level]
		r.all = append(r.all, o)
		if o.State == ClientBound { // once may be another process on its machine
			if r.bound++; r.bound >= 2 {
				t.top = min(t.top, o.Level-1)
			}
		}
		if o.Device != device || !t.counts(o) {
			continue
		}
		switch o.State {
		case Failed:
			r.failed++
		case Measured, Drifting:
			i := slices.IndexFunc(o.SLOs, func(x result.SLOResult) bool { return x.Name == name })
			if i < 0 {
				r.invalid++
			} else if kept, ok := objective.Kept(o.SLOs[i]); !ok || kept && o.State == Drifting {
				r.invalid++
			} else if o.Why == Find {
				r.find = append(r.find, o.SLOs[i])
			} else {
				r.confirm = append(r.confirm, o.SLOs[i])
			}
		default:
			r.invalid++
		}
	}
	return t
}

// kept says whether the first trial of a level kept the objective, or another says that it
// does; known is false if there is none.
func (t *tier) kept(i int) (kept, known bool) {
	r := &t.levels[i]
	switch {
	case i <= t.floor:
		return true, true
	case len(r.find) > 0:
		kept, _ = objective.Kept(r.find[0])
		return kept, true
	case r.broken():
		return false, true
	}
	return false, false
}

// run goes through the search as far as the outcomes tell. It returns the level of the
// next trial and why; an empty why means that the answer is there. A device after the
// first begins with the level that was certified before it.
func (t *tier) run(before int) (next int, why string) {
	if t.top < 0 {
		t.answer.Reason = Client
		return 0, ""
	}
	first := 0
	if t.device > 0 {
		first = min(before, t.top)
	}
	candidate, next, why := t.find(first)
	if why == "" && t.answer.Reason == "" {
		next, why = t.confirm(candidate)
	}
	if t.best < t.floor { // whatever its own trials leave open
		t.certify(t.floor)
		if why == "" {
			t.fails(t.floor + 1)
		}
	}
	return next, why
}

// find doubles and bisects; on a further device it goes up or down from its first level, by
// twice as many levels each time. The candidate is the last level that kept the objective;
// the lowest level is one too if even that missed it, since one trial is no proof.
func (t *tier) find(first int) (candidate, next int, why string) {
	low, high := -1, t.top+1
	for i, step := first, 1; ; {
		kept, known := t.kept(i)
		switch {
		case !known && t.levels[i].unmeasurable():
			t.answer.Reason = NotMeasured
			return 0, 0, ""
		case !known:
			return 0, i, Find
		case kept:
			low = i
		default:
			high = i
		}
		if high-low <= 1 {
			break
		}
		switch up := high > t.top; {
		case t.device > 0 && up:
			i, step = min(low+step, t.top), 2*step
		case t.device > 0 && low < 0:
			i, step = max(high-step, 0), 2*step
		case t.device == 0 && up && (low < 0 || t.Levels.double(low) <= t.top):
			i = t.Levels.double(max(0, low))
		default:
			i = low + (high-low)/2
		}
	}
	if low >= 0 {
		t.answer.Point = &t.Levels[low]
	}
	return max(0, low), 0, ""
}

// confirm certifies the candidate, or the next level below that can be, and the one above
// it if that keeps the objective after all.
func (t *tier) confirm(candidate int) (next int, why string) {
	certified, step, steps := -1, 1, 0
	for i := candidate; ; {
		verdict, next, why := t.decide(i)
		switch {
		case verdict == "":
			if certified >= 0 { // whatever the one above it leaves open
				t.certify(certified)
				if why == "" {
					t.fails(certified + 1)
				}
			}
			return next, why
		case verdict == result.SLOPass:
			certified = i
			if i >= candidate && i < t.top && t.lucky(i+1) {
				i++
				continue
			}
			t.end(certified)
			return 0, ""
		case certified >= 0: // the one above it did not hold
			t.end(certified)
			return 0, ""
		case i == 0:
			t.lowest(verdict)
			return 0, ""
		}
		if steps++; steps > 2 {
			step *= 2
		}
		i = max(0, t.floor, i-step)
	}
}

// decide looks at a level, and looks again with more trials. The verdict is "" if it needs
// another trial, and if it can have none.
func (t *tier) decide(i int) (verdict string, next int, why string) {
	if i <= t.floor {
		return result.SLOPass, 0, ""
	}
	for want := min(t.Trials, t.MaxTrials); ; want = min(2*want, t.MaxTrials) {
		if next, why = t.fresh(i, want); why != "" {
			return "", next, why
		}
		if t.levels[i].unmeasurable() && len(t.levels[i].confirm) < want {
			t.answer.Reason = NotMeasured
			return "", 0, ""
		}
		if verdict = t.look(i); verdict != result.SLOUndecided || !t.worthMore(i, want) {
			return verdict, 0, ""
		}
	}
}

// fresh asks for what is missing of a number of confirming trials of a level and, if it
// is the first time, of the one above, in an order by seed.
func (t *tier) fresh(i, want int) (next int, why string) {
	type place struct {
		level int
		key   uint64
	}
	var missing []place
	add := func(level, want int) {
		r := &t.levels[level]
		if r.broken() || r.unmeasurable() {
			return
		}
		for n := len(r.confirm); n < want; n++ {
			missing = append(missing, place{level, order(t.Seed, level, n)})
		}
	}
	add(i, want)
	if len(missing) > 0 && i < t.top {
		add(i+1, t.Trials)
	}
	if len(missing) == 0 {
		return 0, ""
	}
	return slices.MinFunc(missing, func(a, b place) int { return cmp.Compare(a.key, b.key) }).level, Confirm
}

// look bounds a level at the next share of alpha, of which each device has an equal part.
func (t *tier) look(i int) string {
	t.looks++
	r := &t.levels[i]
	if r.broken() || len(r.confirm) == 0 {
		return result.SLOFail
	}
	alpha := (1 - t.Confidence) / float64(max(1, t.Devices)*t.looks*(t.looks+1))
	return objective.PoolAt(r.confirm, 1-alpha).Verdict
}

// worthMore says whether twice as many trials of a level may decide it.
func (t *tier) worthMore(i, have int) bool {
	if have >= t.MaxTrials {
		return false
	}
	pooled := objective.PoolAt(t.levels[i].confirm, t.Confidence)
	if kept, _ := objective.Kept(pooled); !kept {
		return false
	}
	requests := 0
	for _, p := range pooled.Parts {
		requests = max(requests, p.Requests)
	}
	for _, p := range pooled.Parts {
		if p.Verdict == result.SLOUndecided && (p.MoreRequests == 0 || p.MoreRequests > requests) {
			return false
		}
	}
	return true
}

// lucky says whether the fresh trials of a level that missed the objective in the first
// stage kept it, so that it is worth a look.
func (t *tier) lucky(i int) bool {
	r := &t.levels[i]
	if r.broken() || len(r.confirm) < t.Trials {
		return false
	}
	kept, _ := objective.Kept(objective.Pool(r.confirm))
	return kept
}
