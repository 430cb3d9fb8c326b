package search

import (
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"sweep.dev/sweep/result"
	"sweep.dev/sweep/result/objective"
)

// allowed is the share of requests that may be over the limit.
const allowed = 0.05

func settings(seed uint64) Settings {
	return Settings{
		Levels: NewLevels(5, 400, 0.05, false), Objectives: []string{"fast"},
		Confidence: 0.99, Trials: 3, MaxTrials: 32, MaxProbes: 400, Seed: seed,
	}
}

// search runs a whole search.
func search(s Settings, probe func(Probe) Outcome) ([]Answer, []Outcome) {
	var outcomes []Outcome
	for {
		p, ok := Next(s, outcomes)
		if !ok {
			return Answers(s, outcomes), outcomes
		}
		outcomes = append(outcomes, probe(p))
	}
}

// sure returns a server without chance: it keeps the objective on the levels that keep says.
func sure(keep func(level int) bool) func(Probe) Outcome {
	return func(p Probe) Outcome {
		over := 0
		if !keep(p.Level) {
			over = 200
		}
		part := result.SLOPart{
			Expr: "p95_ttft_ms < 200", Rule: result.RuleShare, Column: "p95_ttft_ms", Op: "<", Limit: 200,
			Confidence: 0.95, Allowed: allowed, Requests: 1000, N: 1000, Over: over, Deff: 1,
		}
		r := objective.PoolAt([]result.SLOResult{{Name: "fast", Parts: []result.SLOPart{part}}}, 0.95)
		return Outcome{Probe: p, State: Measured, Requests: 1000, SLOs: []result.SLOResult{r}}
	}
}

func TestAnswers_reasons(t *testing.T) {
	t.Parallel()
	s := settings(1)
	top := len(s.Levels) - 1
	below := func(n int) func(int) bool { return func(level int) bool { return level < n } }
	state := func(probe func(Probe) Outcome, state string, on func(Probe) bool) func(Probe) Outcome {
		return func(p Probe) Outcome {
			if on(p) {
				return Outcome{Probe: p, State: state, SLOs: []result.SLOResult{{Name: "fast", Verdict: result.SLOFail}}}
			}
			return probe(p)
		}
	}
	for _, c := range []struct {
		name     string
		probe    func(Probe) Outcome
		reason   string
		capacity int // the level; -1 for none
		fails    int
	}{
		{"an edge", sure(below(30)), Certified, 29, 30},
		{"all kept", sure(below(top + 1)), AboveRange, top, -1},
		{"none kept", sure(below(0)), BelowRange, -1, 0},
		{"only the lowest", sure(below(1)), Certified, 0, 1},
		{"the client is at its limit", state(sure(below(top+1)), ClientBound, func(p Probe) bool { return p.Level >= 20 }), Client, 19, -1},
		{"the client is at its limit at once", state(sure(below(30)), ClientBound, func(Probe) bool { return true }), Client, -1, -1},
		{"the client is once at its limit", state(sure(below(30)), ClientBound, func(p Probe) bool { return p.Level == 20 && p.Trial == 1 }), Certified, 29, 30},
		{"the server fails above", state(sure(below(top+1)), Failed, func(p Probe) bool { return p.Level >= 20 }), Certified, 19, 20},
		{"the server fails", state(sure(below(30)), Failed, func(Probe) bool { return true }), ServerFails, -1, 0},
		{"every other trial is INVALID", state(sure(below(30)), Invalid, func(p Probe) bool { return p.Trial%2 == 1 && p.Trial < 4 }), Certified, 29, 30},
		{"nothing is VALID", state(sure(below(30)), Invalid, func(Probe) bool { return true }), NotMeasured, -1, -1},
		{"nothing is VALID where it was kept", state(sure(below(30)), Invalid, func(p Probe) bool { return p.Why == Confirm }), NotMeasured, -1, 30},
		{"many are INVALID, not three in a row", state(sure(below(30)), Invalid, func(p Probe) bool { return p.Trial%3 > 0 }), Certified, 29, 30},
		{"the server refuses above", state(sure(below(top+1)), Refusing, func(p Probe) bool { return p.Level >= 20 }), Certified, 19, 20},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, outcomes := search(s, c.probe)
			a := got[0]
			if a.Reason != c.reason || indexOf(s.Levels, a.Capacity) != c.capacity || indexOf(s.Levels, a.FailsAt) != c.fails {
				t.Errorf("%s, capacity on level %d, fails on %d; want %s, %d, %d (%d trials)",
					a.Reason, indexOf(s.Levels, a.Capacity), indexOf(s.Levels, a.FailsAt), c.reason, c.capacity, c.fails, len(outcomes))
			}
		})
	}
}

// The looks at the bounds of levels share the risk of a wrong answer, and so do devices:
// over all looks there may ever be, it is what the confidence leaves.
func TestTier_looksShareTheRisk(t *testing.T) {
	t.Parallel()
	for devices := 1; devices <= 2; devices++ {
		s := settings(1)
		s.Devices = devices
		tier := &tier{Settings: s}
		sum := 0.0
		for look := 1; look <= 1000; look++ {
			want := (1 - s.Confidence) * (1/float64(look) - 1/float64(look+1)) / float64(devices)
			got := 1 - tier.confidence(look)
			if math.Abs(got-want) > 1e-12 {
				t.Errorf("%d devices, look %d: %v, want %v", devices, look, got, want)
			}
			sum += got
		}
		if most := (1 - s.Confidence) / float64(devices); sum > most || sum < 0.998*most {
			t.Errorf("%d devices: all looks have a risk of %v, want %v", devices, sum, most)
		}
	}
}

// A search over the trials that it has asked for goes on where it stopped, wherever that
// was, and ends with the same answer.
func TestReplay(t *testing.T) {
	t.Parallel()
	s := settings(1)
	server := sure(func(level int) bool { return level < 30 })
	invalid := func(p Probe) Outcome {
		if p.Trial == 2 {
			return Outcome{Probe: p, State: Invalid}
		}
		return server(p)
	}
	want, all := search(s, invalid)
	for n := range len(all) + 1 {
		have := map[[2]int]Outcome{}
		for _, o := range all[:n] {
			have[[2]int{o.Level, o.Trial}] = o
		}
		recall := func(p Probe) (Outcome, bool) {
			o, ok := have[[2]int{p.Level, p.Trial}]
			o.Probe = Probe{} // a row does not say why it was asked for
			return o, ok
		}
		outcomes, next, more := Replay(s, recall)
		if len(outcomes) != n || more != (n < len(all)) || more && next != all[n].Probe {
			t.Fatalf("after %d trials: %d recalled, next %+v, %v", n, len(outcomes), next, more)
		}
	}
	outcomes, _, _ := Replay(s, func(p Probe) (Outcome, bool) { return invalid(p), true })
	if got := Answers(s, outcomes); !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
}

func TestRehearse(t *testing.T) {
	t.Parallel()
	s := settings(1)
	for edge := 1; edge < len(s.Levels); edge += 7 {
		sure, unsure := Rehearse(s, Server{Edge: edge}), Rehearse(s, Server{Edge: edge, Hard: true})
		if len(sure) <= s.Trials || len(unsure) <= len(sure) || len(unsure) >= s.MaxProbes {
			t.Errorf("edge %d: %d probes, %d if nothing is sure", edge, len(sure), len(unsure))
		}
	}
}

// What is left of a search is what it had in all without what it has done, wherever it was
// stopped, and in all one of the answers that its trials leave open.
func TestRehearseFrom(t *testing.T) {
	t.Parallel()
	s := settings(1)
	const edge = 20
	whole := Rehearse(s, Server{Edge: edge})
	var done []Outcome
	for i, p := range whole {
		if left := RehearseFrom(s, done, Server{Edge: edge}); !reflect.DeepEqual(left, whole[i:]) {
			t.Errorf("after %d of %d probes %d are left", i, len(whole), len(left))
		}
		low, high := Edges(s, done)
		if low >= edge || high < edge {
			t.Errorf("after %d probes the edge is above %d up to %d, it is %d", i, low, high, edge)
		}
		if most := RehearseFrom(s, done, Server{Edge: edge, Hard: true}); len(most) < len(whole)-i {
			t.Errorf("after %d probes at most %d are left, expected %d", i, len(most), len(whole)-i)
		}
		done = append(done, Server{Edge: edge}.Ends(s, p))
	}
	if left := RehearseFrom(s, done, Server{Edge: edge}); len(left) != 0 {
		t.Errorf("of a search that has ended %d are left", len(left))
	}
	if low, high := Edges(s, nil); low != 0 || high != len(s.Levels) {
		t.Errorf("a fresh one: above %d up to %d", low, high)
	}
}

// The trials of another objective go higher, and show that the first is kept there again.
func TestAnswers_notMonotone(t *testing.T) {
	t.Parallel()
	s := settings(1)
	s.Objectives = []string{"fast", "loose"}
	got, _ := search(s, func(p Probe) Outcome {
		o := sure(func(level int) bool { return level < 28 || level == 45 })(p)
		loose := sure(func(level int) bool { return level < 46 })(p).SLOs[0]
		loose.Name = "loose"
		o.SLOs = append(o.SLOs, loose)
		return o
	})
	a := got[0]
	if a.Reason != NotMonotone || indexOf(s.Levels, a.Capacity) != 27 || indexOf(s.Levels, a.FailsAt) != 28 || indexOf(s.Levels, a.Contradicts) != 45 {
		t.Errorf("%s, capacity on level %d, fails on %d, contradicted by %d; want not_monotone, 27, 28, 45",
			a.Reason, indexOf(s.Levels, a.Capacity), indexOf(s.Levels, a.FailsAt), indexOf(s.Levels, a.Contradicts))
	}
}

// A load that is left open is not taken for one that fails: the search goes on beside it, and
// says between which loads nothing is decided, and what would.
func TestAnswers_open(t *testing.T) {
	t.Parallel()
	s := settings(1)
	got, outcomes := search(s, func(p Probe) Outcome {
		o := sure(func(level int) bool { return level < 33 })(p)
		o.Requests, o.Seconds = o.Requests*p.Times, float64(10*p.Times)
		part := &o.SLOs[0].Parts[0]
		part.N, part.Requests, part.Over = part.N*p.Times, part.Requests*p.Times, part.Over*p.Times
		if p.Level >= 30 && p.Level < 33 {
			part.Over = 45 * p.Times
		}
		o.SLOs[0] = objective.PoolAt(o.SLOs, 0.95)
		return o
	})
	a := got[0]
	if indexOf(s.Levels, a.Capacity) != 29 || indexOf(s.Levels, a.FailsAt) != 33 || indexOf(s.Levels, a.OpenFrom) != 30 || indexOf(s.Levels, a.OpenTo) != 32 {
		t.Errorf("%+v", a)
	}
	if a.MoreRequests < 1000 || math.Abs(a.MoreSeconds-float64(a.MoreRequests)/100) > 1e-6 {
		t.Errorf("%d requests more in %v s", a.MoreRequests, a.MoreSeconds)
	}
	for _, o := range outcomes {
		if n := o.Requests; o.Level == 30 && n > mostRequests {
			t.Errorf("a trial of %d requests at a load that nothing decides", n)
		}
	}
	for n := range outcomes { // the point is never below what is certified, wherever the search ends
		if a := Answers(s, outcomes[:n])[0]; a.Capacity != nil && (a.Point == nil || *a.Point < *a.Capacity) {
			t.Errorf("after %d trials: the point is %v, the capacity %v", n, a.Point, *a.Capacity)
		}
	}
}

// A level that is not decided takes no more than a quarter of what the search may have of time, and
// of money.
func TestAnswers_quarter(t *testing.T) {
	t.Parallel()
	longest := func(change func(*Settings)) (most int) {
		s := settings(1)
		change(&s)
		l := limited{capacity: 100, deff: 15, rng: rand.New(rand.NewPCG(1, 2))}
		_, outcomes := search(s, func(p Probe) Outcome {
			o := l.probe(s.Levels)(p)
			o.Seconds, o.USDPerHour = float64(10*p.Times), 36
			return o
		})
		level := map[int]int{}
		for _, o := range outcomes {
			if o.Why == Confirm {
				level[o.Level] += o.Times
				most = max(most, level[o.Level])
			}
		}
		return most
	}
	const quarter = 12
	if n := longest(func(*Settings) {}); n <= quarter {
		t.Fatalf("without a budget a level has %d times a trial", n)
	}
	for name, change := range map[string]func(*Settings){
		"time":  func(s *Settings) { s.Seconds = 4 * quarter * 10 },
		"money": func(s *Settings) { s.USD = 4 * quarter * 0.1 },
	} {
		if n := longest(change); n > quarter {
			t.Errorf("%s: a level has %d times a trial of a search that has %d", name, n, 4*quarter)
		}
	}
}

// A trial that was too short to show whether its load had settled is made longer.
func TestNext_longer(t *testing.T) {
	t.Parallel()
	longest := map[string]int{}
	_, outcomes := search(settings(1), func(p Probe) Outcome {
		o := sure(func(level int) bool { return level < 30 })(p)
		part := &o.SLOs[0].Parts[0]
		if p.Level > 20 && p.Level < 30 {
			o.Unsettled = p.Times < 4
			part.Over = 40
			o.SLOs[0] = objective.PoolAt(o.SLOs, 0.95)
		}
		return o
	})
	for _, o := range outcomes {
		longest[o.Why] = max(longest[o.Why], o.Times)
		if o.Level <= 20 && o.Times > 1 {
			t.Errorf("level %d had settled, and a trial is %d times as long", o.Level, o.Times)
		}
	}
	if longest[Find] != 2 || longest[Confirm] < 4 {
		t.Errorf("the longest trials: %v", longest)
	}
}

// A look is of the trials that were there when it was taken: those that come later, for another
// objective too, do not make it again.
func TestTier_looksOnce(t *testing.T) {
	t.Parallel()
	s := settings(1)
	_, outcomes := search(s, limited{capacity: 100, deff: 15, rng: rand.New(rand.NewPCG(1, 2))}.probe(s.Levels))
	looks := func(n int) int {
		t := newTier(s, "fast", 0, devices(s, outcomes[:n]), outcomes[:n])
		t.run(-1)
		return t.looks
	}
	before := 0
	for n := range outcomes {
		now := looks(n + 1)
		if now < before || now > before+2 {
			t.Errorf("%d looks after %d trials, %d before the last", now, n+1, before)
		}
		before = now
	}
	if before >= len(outcomes)/2 {
		t.Errorf("%d looks at %d trials", before, len(outcomes))
	}
}

// A server that answers nothing is asked again at a load that it had carried: if it answers
// that, the load was too much, and if not, the server is gone.
func TestAnswers_gone(t *testing.T) {
	t.Parallel()
	s := settings(1)
	for _, c := range []struct {
		name     string
		silent   func(n int, p Probe) bool
		reason   string
		fails    int
		capacity int
	}{
		{"gone", func(n int, _ Probe) bool { return n >= 4 }, ServerGone, -1, -1},
		{"too much", func(_ int, p Probe) bool { return p.Level >= 20 }, Certified, 20, 19},
	} {
		n := 0
		got, outcomes := search(s, func(p Probe) Outcome {
			n++
			if c.silent(n-1, p) {
				return Outcome{Probe: p, State: Failed, Silent: true}
			}
			return sure(func(level int) bool { return level < 60 })(p)
		})
		a := got[0]
		if a.Reason != c.reason || indexOf(s.Levels, a.FailsAt) != c.fails && c.fails >= 0 || indexOf(s.Levels, a.Capacity) != c.capacity {
			t.Errorf("%s: %+v after %d trials", c.name, a, len(outcomes))
		}
		if c.reason == ServerGone && (len(outcomes) != 7 || a.FailsAt != nil) {
			t.Errorf("%s: after %d trials it fails at %v", c.name, len(outcomes), a.FailsAt)
		}
	}
}

func indexOf(l Levels, level *float64) int {
	if level == nil {
		return -1
	}
	return slices.Index(l, *level)
}

// A budget that ends a search leaves what is certain so far, and says why it ended.
func TestAnswers_budget(t *testing.T) {
	t.Parallel()
	s := settings(1)
	s.MaxProbes = 5
	got, outcomes := search(s, sure(func(level int) bool { return level < 30 }))
	if len(outcomes) != 5 || got[0].Reason != Budget || got[0].Capacity != nil {
		t.Errorf("%d trials, %+v; want 5 trials, budget and no capacity", len(outcomes), got[0])
	}
}

// Objectives share trials: both together take fewer than each alone.
func TestNext_shared(t *testing.T) {
	t.Parallel()
	edges := map[string]int{"strict": 25, "loose": 26}
	probe := func(p Probe) Outcome {
		o := Outcome{Probe: p, State: Measured, Requests: 1000}
		for _, name := range []string{"strict", "loose"} {
			r := sure(func(level int) bool { return level < edges[name] })(p).SLOs[0]
			r.Name = name
			o.SLOs = append(o.SLOs, r)
		}
		return o
	}
	trials := func(objectives ...string) int {
		s := settings(1)
		s.Objectives = objectives
		got, outcomes := search(s, probe)
		for i, name := range objectives {
			if level := indexOf(s.Levels, got[i].Capacity); level != edges[name]-1 {
				t.Errorf("%s: level %d, want %d", name, level, edges[name]-1)
			}
		}
		return len(outcomes)
	}
	both, strict, loose := trials("strict", "loose"), trials("strict"), trials("loose")
	t.Logf("both %d trials, strict %d, loose %d", both, strict, loose)
	if both >= strict+loose {
		t.Errorf("both take %d trials, and %d and %d alone", both, strict, loose)
	}
}

// implied returns a server with two objectives, of which strict implies loose. So many requests
// fare alike in loose that its bound holds on low levels alone, if at all.
func implied(p Probe) Outcome {
	o := sure(func(level int) bool { return level < 25 })(p)
	o.SLOs[0].Name = "strict"
	loose := sure(func(level int) bool { return level < 40 })(p).SLOs[0]
	loose.Name = "loose"
	part := &loose.Parts[0]
	if part.Deff = 40; part.Over == 0 && p.Level >= 10 {
		part.Over = 40
	}
	loose = objective.PoolAt([]result.SLOResult{loose}, 0.95)
	o.SLOs = append(o.SLOs, loose)
	return o
}

// A load that is certified for an objective is so for each that it implies, whichever is
// written first, whatever their own trials say.
func TestAnswers_implied(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		set    func(s *Settings)
		probe  func(Probe) Outcome
		loose  int // the level
		by     string
		reason string
	}{
		{"alone", func(s *Settings) { s.Implied = nil }, implied, 9, "", Certified},
		{"implied", func(*Settings) {}, implied, 24, "strict", Certified},
		{"the other way round", func(s *Settings) { slices.Reverse(s.Objectives) }, implied, 24, "strict", Certified},
		{"the same objective twice", func(s *Settings) { s.Implied["strict"] = []string{"loose"} }, implied, 24, "strict", Certified},
		{"more than is implied", func(*Settings) {}, func(p Probe) Outcome {
			o := implied(p)
			o.SLOs[1].Parts[0].Deff = 1
			return o
		}, 39, "", Certified},
		{"nothing is VALID above", func(*Settings) {}, func(p Probe) Outcome {
			if p.Level > 30 {
				return Outcome{Probe: p, State: Invalid}
			}
			return implied(p)
		}, 24, "strict", NotMeasured},
		{"the budget ends", func(s *Settings) { s.MaxProbes = 15 }, implied, 24, "strict", Budget},
	} {
		s := settings(1)
		s.Objectives, s.Implied = []string{"strict", "loose"}, map[string][]string{"loose": {"strict"}}
		c.set(&s)
		got, outcomes := search(s, c.probe)
		for _, a := range got {
			level, by, reason := 24, "", Certified
			if a.Objective == "loose" {
				level, by, reason = c.loose, c.by, c.reason
			}
			if indexOf(s.Levels, a.Capacity) != level || a.By != by || a.Reason != reason {
				t.Errorf("%s, %s: level %d by %q, %s; want %d by %q, %s (%d trials)",
					c.name, a.Objective, indexOf(s.Levels, a.Capacity), a.By, a.Reason, level, by, reason, len(outcomes))
			}
		}
	}
}

// A load that is certified stays so if the one above it, whose fresh trials kept the
// objective too, is never decided.
func TestAnswers_certifiedBefore(t *testing.T) {
	t.Parallel()
	for seed := range uint64(20) { // of which some try the level above three times
		s := settings(seed)
		_, whole := search(s, lucky)
		for n := range whole {
			s.MaxProbes = n + 1
			got, _ := search(s, lucky)
			if got[0].Capacity == nil || got[0].Reason != Budget {
				continue
			}
			if level := indexOf(s.Levels, got[0].Capacity); level != 24 {
				t.Errorf("seed %d, %d probes: level %d", seed, n+1, level)
			}
			return
		}
	}
	t.Error("no budget ends the search between two certified levels")
}

// lucky returns a server that carries level 25, whose first trial there is unlucky, and where so
// many requests are slow that three more trials leave it open.
func lucky(p Probe) Outcome {
	o := sure(func(level int) bool { return level < 25 || level == 25 && p.Why == Confirm })(p)
	if part := &o.SLOs[0].Parts[0]; p.Level == 25 {
		if part.Over = 42; p.Why == Find {
			part.Over = 60
		}
		o.SLOs[0] = objective.PoolAt(o.SLOs, 0.95)
	}
	return o
}

// Objectives that imply each other share the risk of their looks, and no other pays for it.
func TestSettings_families(t *testing.T) {
	t.Parallel()
	s := Settings{
		Objectives: []string{"a", "b", "c", "d", "e"},
		Implied:    map[string][]string{"d": {"b"}, "b": {"e"}},
	}
	if got, want := s.families(), []int{0, 1, 2, 1, 1}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

func TestNewLevels(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		from, to, within float64
		whole            bool
		want             Levels
	}{
		{1, 8, 0.05, true, Levels{1, 2, 3, 4, 5, 6, 7, 8}},
		{20, 24, 0.1, true, Levels{20, 22, 24}},
		{1, 1, 0.05, false, Levels{1}},
		{1, 4, 1, false, Levels{1, 2, 4}},
		{0, 4, 1, false, nil},
		{4, 1, 1, false, nil},
		{1, 4, 0, false, nil},
		{1, math.Inf(1), 1, false, nil},
		{math.NaN(), 1, 1, false, nil},
		{1, 1e9, 1e-9, false, nil},
	} {
		if got := NewLevels(c.from, c.to, c.within, c.whole); !slices.Equal(got, c.want) {
			t.Errorf("NewLevels(%v, %v, %v, %v) = %v, want %v", c.from, c.to, c.within, c.whole, got, c.want)
		}
	}
}

// A load whose latencies rise while it is measured counts against an objective that it
// misses, and decides nothing if it keeps it.
func TestDrifting(t *testing.T) {
	t.Parallel()
	s := Settings{Levels: Levels{1, 2, 3, 4}, Objectives: []string{"fast"}, Confidence: 0.99, Trials: 3, MaxTrials: 32, MaxProbes: 100, Seed: 1}
	search := func(over int) Answer {
		var outcomes []Outcome
		for {
			p, ok := Next(s, outcomes)
			if !ok {
				return Answers(s, outcomes)[0]
			}
			part := result.SLOPart{Rule: result.RuleShare, Allowed: 0.05, N: 400, Requests: 400, Deff: 1, Verdict: result.SLOUndecided}
			o := Outcome{Probe: p, State: Measured}
			if p.Level >= 2 {
				part.Over, o.State = over, Drifting
			}
			o.SLOs = []result.SLOResult{{Name: "fast", Verdict: result.SLOUndecided, Parts: []result.SLOPart{part}}}
			outcomes = append(outcomes, o)
		}
	}
	if a := search(300); a.Reason != Certified || a.Capacity == nil || *a.Capacity != 2 || a.FailsAt == nil || *a.FailsAt != 3 {
		t.Errorf("loads that drift and miss: %+v", a)
	}
	if a := search(0); a.Reason != NotMeasured || a.Capacity != nil {
		t.Errorf("loads that drift and keep the objective: %+v", a)
	}
}

// limited is a server whose share of slow requests is allowed at its capacity, and logistic
// in the logarithm of the load. So many requests fare alike.
type limited struct {
	capacity float64
	deff     int
	rng      *rand.Rand
}

func (l limited) probe(levels Levels) func(Probe) Outcome {
	const requests = 1000
	return func(p Probe) Outcome {
		off := 8 * math.Log(levels[p.Level]/l.capacity)
		slow := 1 / (1 + math.Exp(-off)*(1-allowed)/allowed)
		over := 0
		for range requests / l.deff {
			if l.rng.Float64() < slow {
				over += l.deff
			}
		}
		r := objective.PoolAt([]result.SLOResult{{Name: "fast", Parts: []result.SLOPart{{
			Expr: "p95_ttft_ms < 200", Rule: result.RuleShare, Column: "p95_ttft_ms", Op: "<", Limit: 200,
			Allowed: allowed, Requests: requests, N: requests, Over: over, Deff: float64(l.deff),
		}}}}, 0.95)
		return Outcome{Probe: p, State: Measured, Requests: requests, SLOs: []result.SLOResult{r}}
	}
}

// A search certifies a load above the true capacity in one of a hundred, as its confidence
// says, and seldom one far below. The table "search" of package statistics has more.
func TestAnswers_errors(t *testing.T) {
	t.Parallel()
	const searches = 100
	for _, c := range []struct {
		deff       int
		near, hard int // answers that are near the capacity, and loads above it that one trial each finds
	}{
		{deff: 1, near: 97, hard: 5},
		{deff: 5, near: 80, hard: 20}, // of trials that differ by more than chance a look needs more
	} {
		const most = 1
		above, near, unsure := 0, 0, 0
		for seed := range uint64(searches) {
			rng := rand.New(rand.NewPCG(seed, uint64(c.deff)))
			server := limited{capacity: 60 + 80*rng.Float64(), deff: c.deff, rng: rng}
			s := settings(seed)
			got, _ := search(s, server.probe(s.Levels))
			if got[0].Point != nil && *got[0].Point > server.capacity {
				unsure++
			}
			if load := got[0].Capacity; load != nil {
				switch share := *load / server.capacity; {
				case share > 1:
					above++
				case share >= 0.88:
					near++
				}
			}
		}
		t.Logf("design effect %d: %d of %d above the capacity, %d near it; bisection alone is above in %d", c.deff, above, searches, near, unsure)
		if above > most || near < c.near {
			t.Errorf("design effect %d: %d of %d are above the capacity, want %d at most; %d are within 12 %% below it, want %d at least",
				c.deff, above, searches, most, near, c.near)
		}
		if unsure < c.hard { // else the server would be one that every rule is right about
			t.Errorf("design effect %d: bisection alone is above the capacity in %d of %d, want %d at least", c.deff, unsure, searches, c.hard)
		}
	}
}

// A load whose first fresh trial leaves no doubt that it misses the objective gets no further one.
func TestNext_hopeless(t *testing.T) {
	t.Parallel()
	lucky, server := sure(func(level int) bool { return level < 34 }), sure(func(level int) bool { return level < 30 })
	answers, outcomes := search(settings(1), func(p Probe) Outcome {
		if p.Why == Find {
			return lucky(p)
		}
		return server(p)
	})
	confirming := map[int]int{}
	for _, o := range outcomes {
		if o.Why == Confirm {
			confirming[o.Level]++
		}
	}
	if confirming[33] != 1 || confirming[29] < 3 || answers[0].Reason != Certified || *answers[0].Capacity != settings(1).Levels[29] {
		t.Errorf("%v trials confirm, %+v", confirming, answers[0])
	}
}

// A range that is called below the objective has a lowest level that fails, whatever
// its trials are together: a disturbed one may make their pool undecided.
func TestAnswers_belowRangeFails(t *testing.T) {
	t.Parallel()
	ended := 0
	for seed := range uint64(400) {
		s := settings(seed)
		s.Levels, s.Trials, s.MaxProbes = NewLevels(1, 4, 1, true), 2, 40
		rnd := rand.New(rand.NewPCG(seed, 1))
		answers, _ := search(s, func(p Probe) Outcome {
			n := []int{20, 100, 1000}[rnd.IntN(3)]
			over := n * []int{0, 3, 20, 100}[rnd.IntN(4)] / 100
			part := result.SLOPart{
				Expr: "p95_ttft_ms < 200", Rule: result.RuleShare, Column: "p95_ttft_ms", Op: "<", Limit: 200,
				Confidence: 0.95, Allowed: allowed, Requests: n, N: n, Over: over, Deff: 1,
			}
			r := objective.PoolAt([]result.SLOResult{{Name: "fast", Parts: []result.SLOPart{part}}}, 0.95)
			return Outcome{Probe: p, State: Measured, Requests: n, SLOs: []result.SLOResult{r}}
		})
		for _, a := range answers {
			if a.Reason != BelowRange {
				continue
			}
			ended++
			if a.FailsAt == nil || *a.FailsAt != s.Levels[0] {
				t.Errorf("seed %d: below the range, and %v fails", seed, a.FailsAt)
			}
			if len(a.Missed) == 0 {
				t.Errorf("seed %d: below the range, and nothing is missed", seed)
			}
		}
	}
	if ended == 0 {
		t.Error("no search ended below its range")
	}
}
