package search

import (
	"cmp"
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
	MaxTrials  int                 `json:"max_trials"` // of a level on each device, however long they are
	// MaxProbes bounds the trials of the whole search, INVALID ones too. A level
	// may have a quarter of them.
	MaxProbes int `json:"max_probes"`
	// Seconds and USD are what the search may take, start-ups aside; 0 is no bound. A level may have
	// a quarter of each.
	Seconds float64 `json:"seconds,omitempty"`
	USD     float64 `json:"usd,omitempty"`
	Seed    uint64  `json:"seed"` // of the order of trials that confirm
	// Devices is on how many different devices a load has to be certified; 0 is 1, whichever
	// that is.
	Devices int `json:"devices,omitempty"`
}

// Why a trial is run.
const (
	Find    = "find"    // to find where the objectives are first missed
	Confirm = "confirm" // to bound the share over the limit, with no part in the choice of its level
	Close   = "close"   // to see at the end of the search whether a certified load is still carried
)

// A Probe is a trial to run.
type Probe struct {
	Level int // of the list
	Trial int // of the level, from 1
	Why   string
	// Device is the number of the device that it runs on, from 0: the first is whichever the
	// search has, and each other must be none of those before it, see [Taken].
	Device int
	Times  int // how many times as long as a trial of the plan it is: 1, 2, 4 or 8
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
	// Refusing is INVALID since more requests failed than may fail, as those do that a server
	// turns away above what it carries. Its objectives are missed.
	Refusing = "refusing"
)

// An Outcome is a probe that has ended.
type Outcome struct {
	Probe
	State    string
	Requests int
	SLOs     []result.SLOResult
	On       string // id of the device, as the column gpu_uuid has it; "" if unknown
	// Unsettled: the trial was too short to show whether the load had settled.
	Unsettled  bool
	Silent     bool    // no request was answered
	Seconds    float64 // of the load; 0 if unknown
	USDPerHour float64 // of the server; 0 if unknown
}

// measured reports whether the outcome has figures of its load.
func (o *Outcome) measured() bool {
	return o.State == Measured || o.State == Drifting || o.State == Refusing
}

// maxInvalid is how often one level may be INVALID, or fail, before that is its answer.
const maxInvalid = 3

// Next returns the next trial to run, or ok false if every answer is there. The outcomes are
// in the order in which the probes were asked for.
func Next(s Settings, outcomes []Outcome) (next Probe, ok bool) {
	if len(outcomes) >= s.MaxProbes || serverGone(outcomes) {
		return Probe{}, false
	}
	answers, next, ok := walk(s, outcomes, false)
	if !ok {
		return closing(s, outcomes, answers)
	}
	if level, doubt := doubted(outcomes); ok && doubt {
		last := outcomes[len(outcomes)-1]
		next = Probe{Level: level, Trial: tried(outcomes, level) + 1, Why: Find, Device: last.Device, Times: 1}
	}
	return next, ok
}

// tried returns how many trials of a level there are.
func tried(outcomes []Outcome, level int) (n int) {
	for _, o := range outcomes {
		if o.Level == level {
			n++
		}
	}
	return n
}

// silent returns how many trials at the end a server answered no request of.
func silent(outcomes []Outcome) (n int) {
	for _, o := range slices.Backward(outcomes) {
		if o.State != Failed || !o.Silent {
			break
		}
		n++
	}
	return n
}

// serverGone reports whether the server is: it answered nothing twice, and then nothing of the least load
// that it had carried.
func serverGone(outcomes []Outcome) bool {
	_, doubt := doubted(outcomes[:max(0, len(outcomes)-1)])
	return doubt && silent(outcomes) > 2
}

// doubted returns the least load that a server carried which has answered nothing twice since: a trial
// of it shows whether the load is too much, or the server is gone.
func doubted(outcomes []Outcome) (level int, ok bool) {
	if silent(outcomes) != 2 {
		return 0, false
	}
	for _, o := range outcomes {
		if o.measured() && (!ok || o.Level < level) {
			level, ok = o.Level, true
		}
	}
	return level, ok
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

// Answers returns what the outcomes show, an answer for each objective. A search that has
// not ended has the reason [Budget].
func Answers(s Settings, outcomes []Outcome) []Answer {
	carried, left := outcomes, serverGone(outcomes)
	if left { // what it did not answer says nothing of its loads
		carried = outcomes[:len(outcomes)-silent(outcomes)]
	}
	answers, _, _ := walk(s, carried, true)
	refuse(s, outcomes, answers)
	for i := range answers {
		if answers[i].Reason == Budget && left {
			answers[i].Reason = ServerGone
		}
		for _, o := range outcomes {
			answers[i].Requests += o.Requests
		}
	}
	return answers
}

// walk goes through a search as far as the outcomes tell: on its first device, and then on
// each further one for the objectives that have a certified load so far. next is the first
// trial that is not there, if more is true. What is known above the certified loads is left
// out unless it is asked for: it takes longer than all else.
func walk(s Settings, outcomes []Outcome, bounds bool) (answers []Answer, next Probe, more bool) {
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
			want := t.run(low[i])
			if bounds {
				t.bounds()
			}
			looks[families[i]] = t.looks
			if want == nil && t.best >= 0 {
				certified[name] = t.best
			}
			if open[i] = want != nil; open[i] && !more {
				want.Trial, want.Device = len(t.levels[want.Level].all)+1, device
				next, more = *want, true
			}
			answers[i].Objective = name
			low[i] = answers[i].add(t, open[i], low[i])
		}
	}
	return answers, next, more
}

// turns returns the places of the objectives in the order in which they are searched for: one
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
	find    []trial // VALID ones
	confirm []trial
	invalid int // in a row, at the end
	failed  int
	bound   int  // trials with the client at its limit
	looked  bool // at its bound
	misses  bool // the objective, by the trials that confirm
}

// A trial is what a VALID one said of the objective.
type trial struct {
	result.SLOResult
	times     int
	unsettled bool
}

// longer returns how long the next trial of its level is: twice as long if this one was too short to
// show whether its load had settled.
func (t trial) longer() int {
	if t.unsettled {
		return min(2*t.times, maxTimes)
	}
	return t.times
}

// of returns the results of trials, and how many trials of the plan they are as long as.
func of(trials []trial) (results []result.SLOResult, length int) {
	for _, t := range trials {
		results, length = append(results, t.SLOResult), length+t.times
	}
	return results, length
}

// broken reports whether the server fails under this load.
func (r *level) broken() bool { return r.failed >= 2 && len(r.confirm) == 0 || r.failed >= maxInvalid }

// unmeasurable reports whether no further trial of the level is worth it.
func (r *level) unmeasurable() bool { return r.invalid >= maxInvalid }

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
	times  int // how long the trials of the level were that was looked at last
	best   int // the certified level; -1: none
	floor  int // the level that is certified for an objective that implies this one; -1: none
	by     string
	answer Answer
}

func newTier(s Settings, name string, device int, on []string, outcomes []Outcome) *tier {
	t := &tier{Settings: s, name: name, device: device, id: on[device], best: -1, floor: -1, times: 1, levels: make([]level, len(s.Levels)), top: len(s.Levels) - 1}
	for _, o := range outcomes {
		r := &t.levels[o.Level]
		r.all = append(r.all, o)
		if o.State == ClientBound { // once may be another process on its machine
			if r.bound++; r.bound >= 2 {
				t.top = min(t.top, o.Level-1)
			}
		}
		if o.Device != device || o.Why == Close || !t.counts(o) {
			continue
		}
		switch o.State {
		case Failed:
			r.failed++
		case Measured, Drifting, Refusing:
			i := slices.IndexFunc(o.SLOs, func(x result.SLOResult) bool { return x.Name == name })
			if i < 0 {
				r.invalid++
			} else if kept, ok := objective.Kept(o.SLOs[i]); o.State != Refusing && (!ok || kept && o.State == Drifting) {
				r.invalid++
			} else if one := (trial{o.SLOs[i], max(1, o.Times), o.Unsettled}); o.Why == Find {
				r.find, r.invalid = append(r.find, one), 0
			} else {
				r.confirm, r.invalid = append(r.confirm, one), 0
			}
		default:
			r.invalid++
		}
	}
	return t
}

// keptAt reports whether the first trial of a level kept the objective, or another says that it
// does; known is false if there is none.
func (t *tier) keptAt(i int) (keptAt, known bool) {
	r := &t.levels[i]
	switch {
	case i <= t.floor:
		return true, true
	case len(r.find) > 0:
		keptAt = holds(r.find[len(r.find)-1].SLOResult)
		return keptAt, true
	case r.broken():
		return false, true
	}
	return false, false
}

// again returns how long the next trial of a level on the way is, if one was too short to say that
// it keeps the objective; else 0.
func (t *tier) again(i int) int {
	r := &t.levels[i]
	if i > t.floor && len(r.find) == 1 && r.find[0].unsettled && !r.unmeasurable() {
		return r.find[0].longer()
	}
	return 0
}

// run goes through the search as far as the outcomes tell. It returns the next trial; nil
// means that the answer is there. A device after the first begins with the level that was
// certified before it.
func (t *tier) run(before int) *Probe {
	if t.top < 0 {
		t.answer.Reason = Client
		return nil
	}
	first := 0
	if t.device > 0 {
		first = min(before, t.top)
	}
	candidate, next := t.find(first)
	if next == nil && t.answer.Reason == "" {
		next = t.confirm(candidate)
	}
	if t.best < t.floor { // whatever its own trials leave open
		t.certify(t.floor)
	}
	return next
}

// find doubles and bisects; on a further device it goes up or down from its first level, by
// twice as many levels each time. The candidate is the last level that kept the objective;
// the lowest level is one too if even that missed it, since one trial is no proof.
func (t *tier) find(first int) (candidate int, next *Probe) {
	low, high := -1, t.top+1
	for i, step := first, 1; ; {
		kept, known := t.keptAt(i)
		switch {
		case !known && t.levels[i].unmeasurable():
			t.answer.Reason = NotMeasured
			return 0, nil
		case !known:
			return 0, &Probe{Level: i, Why: Find, Times: 1}
		case kept && high <= t.top && t.again(i) > 0:
			return 0, &Probe{Level: i, Why: Find, Times: t.again(i)}
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
	return max(0, low), nil
}
