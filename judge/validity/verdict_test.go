package validity

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"sweep.dev/sweep/load"
	"sweep.dev/sweep/result"
	"sweep.dev/sweep/result/bounds"
	"sweep.dev/sweep/result/finding"
)

// clean is evidence that nothing is wrong with: 200 requests of 4 tokens, 20 ms
// between chunks, on a client with kernel stamps.
func clean() *Evidence {
	e := &Evidence{
		Row: result.Row{
			"duration_s": 10.0, "error_rate": 0.0, "p50_icl_ms": 20.0, "cpu_steal": 0.0,
			"calibrated_error_ms": 0.05, "prefix_cache_hit_rate": 0.0,
			"gpu_throttled_ms": 0.0, "gpu_foreign_processes": int64(0),
		},
		Health: load.Health{Client: "fast", StampKind: result.StampKernel, CPU: 0.3, Loop: 0.3, MaxGap: 10 * time.Millisecond, Chunks: 1000},
		Exact:  true, Warmup: 2, Shared: new(float64), Ceiling: 1000,
	}
	for n := range 2 {
		e.Requests = append(e.Requests, result.Request{N: n, Phase: result.Warmup, Status: result.Completed, PromptTokens: 100, CachedTokens: 90})
	}
	for n := range 200 {
		at := time.Duration(n) * 50 * time.Millisecond
		e.Requests = append(e.Requests, result.Request{
			N: 2 + n, Slot: n % 2, Phase: result.Plateau, Scheduled: at, Sent: at + time.Millisecond, End: at + 40*time.Millisecond,
			Status: result.Completed, MaxTokens: 4, CompletionTokens: 4, FinishReason: "length",
			PromptTokens: 100, TargetTokens: 100, ChunkUS: []int32{0, 1, 20000, 20000, 20000}, FirstTokenChunk: 1,
		})
	}
	for range 1000 {
		e.Health.Lag.Add(40 * time.Microsecond)
	}
	return e
}

// measured are the requests that count.
func (e *Evidence) measured() []result.Request { return e.Requests[2:] }

func (e *Evidence) lags(n int, by time.Duration) {
	for range n {
		e.Health.Lag.Add(by)
	}
}

// coalesce lets so many chunks of eight hundred share a read.
func (e *Evidence) coalesce(n int) {
	for i := range n {
		e.measured()[i].Coalesced = 1
		e.measured()[i].StampError = 15 * time.Millisecond
	}
}

func (e *Evidence) late(n int, by time.Duration) {
	for i := range n {
		r := &e.measured()[i+2] // the first of each slot does not count
		r.Sent = r.Scheduled + by
	}
}

func (e *Evidence) short(n int) {
	for i := range n {
		e.measured()[100+i].CompletionTokens = 3
	}
}

// broken has n requests fail that time after they were sent, without an answer.
func (e *Evidence) broken(n int, after time.Duration) {
	for i := range n {
		r := &e.measured()[len(e.measured())-1-i]
		r.Status, r.ErrorClass = result.Failed, result.ErrReset
		r.FirstByte, r.End = result.Never, r.Sent+after
	}
}

func (e *Evidence) cache(tokens int) {
	delete(e.Row, "prefix_cache_hit_rate")
	for i := range e.measured() {
		e.measured()[i].CachedTokens = tokens
	}
}

// spoils are one for each reason: what the rule lets pass, what it does not,
// and what the text must say of it.
var spoils = []struct {
	name        string
	code        finding.Code
	below, over func(*Evidence)
	parts       []string
}{
	{
		"time scale", finding.TimeScaled,
		func(e *Evidence) { e.Row["time_scale"] = 1.0 },
		func(e *Evidence) { e.Row["time_scale"] = 0.5 },
		[]string{"0.5 times", "time_scale", "shorten the load"},
	},
	{
		"restart", finding.EngineRestarted,
		func(e *Evidence) { e.Told = []result.Finding{{Code: finding.Collector("gpu"), Text: "there is none"}} },
		func(e *Evidence) {
			e.Told = append(e.Told, result.Finding{Code: finding.EngineRestarted, Text: "its counters fell from 7 to 0"})
		},
		[]string{"from 7 to 0"},
	},
	{
		"stack", finding.StackChanged,
		func(e *Evidence) { e.Told = []result.Finding{{Code: finding.StackUnwatched, Text: "no answer"}} },
		func(e *Evidence) {
			e.Told = append(e.Told, result.Finding{Code: finding.StackChanged, Text: "decode: pod d-0 is gone"})
		},
		[]string{"d-0 is gone"},
	},
	{
		"tunnel", finding.Tunnelled,
		func(e *Evidence) { e.Told = []result.Finding{{Code: finding.NetworkProxy, Text: "a provider's"}} },
		func(e *Evidence) {
			e.Told = append(e.Told, result.Finding{Code: finding.Tunnelled, Text: "an address of this machine"})
		},
		[]string{"of this machine"},
	},
	{
		"no prefill", finding.PDAbsent,
		func(e *Evidence) { e.Told = []result.Finding{{Code: finding.PDPartial, Text: "40 %"}} },
		func(e *Evidence) {
			e.Told = append(e.Told, result.Finding{Code: finding.PDAbsent, Text: "no request ended at a prefill server"})
		},
		[]string{"prefill server"},
	},
	{
		"errors", finding.ErrorRate,
		func(e *Evidence) { e.Row["error_rate"] = 0.05 },
		func(e *Evidence) { e.Row["error_rate"] = 0.06 },
		[]string{"6.0 %", "5.0 %"},
	},
	{
		"schedule", finding.ScheduleLag,
		func(e *Evidence) { e.late(150, 10*time.Millisecond) },
		func(e *Evidence) { e.late(150, 10400*time.Microsecond) },
		[]string{"10.4 ms", "10ms"},
	},
	{
		"output", finding.OutputLength,
		func(e *Evidence) { e.short(2) },
		func(e *Evidence) { e.short(3) },
		[]string{"3 completed requests", "of 200", "3 of 4 tokens", "length"},
	},
	{
		"warm-up", finding.WarmupMissing,
		func(e *Evidence) { e.Requests[0].Status = result.Failed },
		func(e *Evidence) { e.Requests[0].Status, e.Requests[1].Status = result.Failed, result.Failed },
		[]string{"none of the 2 requests"},
	},
	{
		"cache", finding.CacheState,
		func(e *Evidence) { e.cache(5) },
		func(e *Evidence) { e.cache(6) },
		[]string{"the answers reported 6.0 %", "explain 0.0 %", "5 % more", "cache_bust"},
	},
	{
		"reopened", finding.ConnectionsReopened,
		func(e *Evidence) { e.Health.Reopened = 10 },
		func(e *Evidence) { e.Health.Reopened = 11 },
		[]string{"11 of 200", "5 %"},
	},
	{
		"closed under a request", finding.ConnectionsReopened,
		func(e *Evidence) { e.Health.Reopened = 5; e.broken(5, time.Millisecond) },
		func(e *Evidence) { e.Health.Reopened = 5; e.broken(6, time.Millisecond) },
		[]string{"11 of 200", "5 waited for another, 6 failed"},
	},
	{
		"closed under a request that was at work", finding.ConnectionsReopened,
		func(e *Evidence) { e.broken(50, time.Second) },
		func(e *Evidence) { e.broken(50, 100*time.Millisecond) },
		[]string{"50 of 200"},
	},
	{
		"cpu", finding.ClientCPU,
		func(e *Evidence) { e.Health.CPU = 0.85 },
		func(e *Evidence) { e.Health.CPU = 0.9 },
		[]string{"90 %", "85 %"},
	},
	{
		"loop", finding.ClientLoop,
		func(e *Evidence) { e.Health.Loop = 0.7 },
		func(e *Evidence) { e.Health.Loop = 0.75 },
		[]string{"75 %", "70 %"},
	},
	{
		"ceiling", finding.ClientCeiling,
		func(e *Evidence) { e.Ceiling = 142.9 },
		func(e *Evidence) { e.Ceiling = 142 },
		[]string{"100 chunks/s", "machine is 142", "70 %"},
	},
	{
		"lag", finding.ClientLag,
		func(e *Evidence) { e.lags(20, 9900*time.Microsecond) },
		func(e *Evidence) { e.lags(20, 10100*time.Microsecond) },
		[]string{"10.1ms", "bound 10ms", "sent next"},
	},
	{
		"coalesced", finding.Coalesced,
		func(e *Evidence) { e.coalesce(80) },
		func(e *Evidence) { e.coalesce(81) },
		[]string{"81 chunks", "10.1 %", "10 %", "15ms", "the client read soon"},
	},
	{
		"stall", finding.ClientStalled,
		func(e *Evidence) { e.Health.MaxGap = time.Second },
		func(e *Evidence) { e.Health.MaxGap = 1500 * time.Millisecond },
		[]string{"1.5s", "1s"},
	},
	{
		"steal", finding.CPUSteal,
		func(e *Evidence) { e.Row["cpu_steal"] = 0.02 },
		func(e *Evidence) { e.Row["cpu_steal"] = 0.021 },
		[]string{"2.1 %", "2 %"},
	},
	{
		"steal of a short trial", finding.CPUSteal,
		func(e *Evidence) { e.Row["duration_s"], e.Row["cpu_steal"] = 1.6, 0.0249 },
		func(e *Evidence) { e.Row["duration_s"], e.Row["cpu_steal"] = 1.6, 0.0251 },
		[]string{"2.5 %", "2 %"},
	},
	{
		"clock", finding.ClockStep,
		func(*Evidence) {},
		func(e *Evidence) {
			e.Health.ClockSteps = []load.ClockStep{{At: 1500 * time.Millisecond, By: -20 * time.Millisecond}}
		},
		[]string{"1 times", "-20ms", "1.5 s"},
	},
	{
		"throttled", finding.GPUThrottled,
		func(e *Evidence) { e.Row["gpu_throttled_ms"] = 1000.0 },
		func(e *Evidence) {
			e.Row["gpu_throttled_ms"], e.Row["gpu_throttle_reasons"] = 1001.0, "hw_thermal_slowdown"
		},
		[]string{"1.0 of 10.0 s", "10 %", "hw_thermal_slowdown"},
	},
	{
		"foreign", finding.GPUForeign,
		func(*Evidence) {},
		func(e *Evidence) { e.Row["gpu_foreign_processes"] = int64(2) },
		[]string{"2 processes", "bound 0"},
	},
	{
		"drift", finding.Drift,
		func(e *Evidence) { e.Drifts = []Drift{{"ttft", 0.2, 1e-9}, {"tpot", 3, 0.01}} },
		func(e *Evidence) { e.Drifts = []Drift{{"ttft", -0.3, 1e-9}, {"tpot", 3, 0.01}} },
		[]string{"ttft by -30 %", "20 %"},
	},
}

// strict are the defaults, with a bound on foreign processes.
func strict() bounds.Bounds {
	b := bounds.Defaults()
	b.Foreign = new(int)
	return b
}

func TestJudge_clean(t *testing.T) {
	if why := Judge(*clean(), strict()); len(why) != 0 {
		t.Errorf("%+v", why)
	}
	if said := Remarks(*clean(), strict()); len(said) != 0 {
		t.Errorf("%+v", said)
	}
	// Nothing that is not known is held against a trial.
	if why := Judge(Evidence{}, bounds.Defaults()); len(why) != 0 {
		t.Errorf("of nothing: %+v", why)
	}
}

func TestJudge(t *testing.T) {
	for _, s := range spoils {
		t.Run(s.name, func(t *testing.T) {
			e := clean()
			s.below(e)
			if why := Judge(*e, strict()); len(why) != 0 {
				t.Errorf("at its bound: %+v", why)
			}
			e = clean()
			s.over(e)
			why := Judge(*e, strict())
			if len(why) != 1 || why[0].Code != s.code {
				t.Fatalf("got %+v, want %s", why, s.code)
			}
			for _, part := range s.parts {
				if !strings.Contains(why[0].Text, part) {
					t.Errorf("%q is not in: %s", part, why[0].Text)
				}
			}
		})
	}
}

// Whatever else is wrong, each rule says the same of its own evidence.
func TestJudge_independent(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 500 {
		e := clean()
		var want []finding.Code
		for _, s := range spoils {
			if rng.IntN(3) == 0 {
				s.over(e)
				want = append(want, s.code)
			}
		}
		var got []finding.Code
		for _, f := range Judge(*e, strict()) {
			got = append(got, f.Code)
		}
		if want = slices.Compact(want); !slices.Equal(got, want) { // some spoil the same
			t.Fatalf("got %v, want %v", got, want)
		}
	}
}

// TestJudge_not has evidence that looks wrong and is not.
func TestJudge_not(t *testing.T) {
	for name, spoil := range map[string]func(*Evidence){
		"a natural stop":            func(e *Evidence) { e.Exact = false; e.short(50) },
		"a failed request's output": func(e *Evidence) { e.short(10); fail(e, 100, 110) },
		"the CPU share of a moment": func(e *Evidence) { e.Health.CPU, e.Health.Loop, e.Row["duration_s"] = 4.1, 4.1, 0.003 },
		"steal of a moment": func(e *Evidence) {
			e.Row["cpu_steal"], e.Row["duration_s"] = 0.5, 0.07
			delete(e.Row, "calibrated_ceiling_chunks_s")
		},
		"no steal to be seen": func(e *Evidence) { e.Row["cpu_steal"] = nil },
		"a warm-up nobody wants": func(e *Evidence) {
			e.Warmup = 0
			e.Requests = e.Requests[2:]
		},
		"others without a bound": func(e *Evidence) { e.Row["gpu_foreign_processes"] = nil },
		"slots that start together": func(e *Evidence) {
			e.measured()[0].Sent += time.Second - 950*time.Millisecond
			e.measured()[1].Sent += 48 * time.Millisecond
		},
		"a prefix that the plan shares":   func(e *Evidence) { e.cache(50); *e.Shared = 0.5 },
		"prompts of no known length":      func(e *Evidence) { e.cache(50); *e.Shared = 0.5; e.measured()[0].TargetTokens = result.Unknown },
		"a cache that nobody can explain": func(e *Evidence) { e.cache(90); e.Shared = nil },
		"a cache that is not reported":    func(e *Evidence) { e.cache(result.Unknown) },
		"one late read of twenty": func(e *Evidence) {
			e.Health.Lag = load.Durations{}
			e.lags(19, time.Millisecond)
			e.lags(1, time.Second)
		},
		"four chunks of forty in one read": func(e *Evidence) { e.coalesce(4); e.Row["coalesced_ratio"] = 0.1 },
		"a step that no stamp is on": func(e *Evidence) {
			e.Health.StampKind = result.StampUser
			e.Health.ClockSteps = make([]load.ClockStep, 3)
		},
		"one connection that the server ended": func(e *Evidence) { e.Requests = e.Requests[:12]; e.Health.Reopened = 1 },
	} {
		t.Run(name, func(t *testing.T) {
			e := clean()
			spoil(e)
			if why := Judge(*e, strict()); len(why) != 0 {
				t.Errorf("%+v", why)
			}
		})
	}
}

// TestRemarks_cacheUnknown: what an earlier run may have left in a cache is said
// unless the server says what it had cached, which is judged then.
func TestRemarks_cacheUnknown(t *testing.T) {
	for name, c := range map[string]struct {
		spoil func(*Evidence)
		want  bool
	}{
		"nothing says what was cached": {func(e *Evidence) { e.cache(result.Unknown) }, true},
		"the answers say it":           {func(e *Evidence) { e.cache(0) }, false},
		"the engine says it":           {func(e *Evidence) { e.cache(result.Unknown); e.Row["prefix_cache_hit_rate"] = 0.0 }, false},
		"the plan asks again":          {func(e *Evidence) { e.cache(result.Unknown); e.Shared = nil }, false},
		"no earlier run":               {func(e *Evidence) { e.cache(result.Unknown); e.MayKnow = false }, false},
	} {
		e := clean()
		e.MayKnow = true
		c.spoil(e)
		said := Remarks(*e, strict())
		if got := len(said) == 1 && said[0].Code == finding.CacheUnknown; got != c.want || len(said) > 1 {
			t.Errorf("%s: %+v, want %v", name, said, c.want)
		}
	}
}

func fail(e *Evidence, from, to int) {
	for i := from; i < to; i++ {
		r := &e.measured()[i]
		r.Status, r.ErrorClass, r.Error = result.Failed, result.ErrOverload, "429 slow down"
	}
}

// What a server that decodes was sent is no warm cache, though its answers call it
// cached. Where it did all of it, it is one.
func TestJudge_transferred(t *testing.T) {
	for moves, want := range map[bool]bool{true: false, false: true} {
		e := clean()
		e.cache(99)
		e.Moves = moves
		found := slices.ContainsFunc(Judge(*e, strict()), func(f result.Finding) bool { return f.Code == finding.CacheState })
		if found != want {
			t.Errorf("moves %v: cache_state %v", moves, found)
		}
	}
}

func TestJudge_commonError(t *testing.T) {
	e := clean()
	fail(e, 0, 12)
	e.measured()[20].Status = result.Failed
	e.Row["error_rate"] = 0.065
	if why := Judge(*e, strict()); len(why) != 1 || !strings.Contains(why[0].Text, "overload: 429 slow down") {
		t.Errorf("%+v", why)
	}
	if got := CommonError(nil); got != "" {
		t.Errorf("of nothing: %q", got)
	}
}

// A condition by which the plan ends a load is a result and makes no trial INVALID.
func TestJudge_expected(t *testing.T) {
	e := clean()
	e.Row["error_rate"] = 0.5
	e.Health.CPU = 1
	e.Expected = []finding.Code{finding.ErrorRate}
	if why := Judge(*e, strict()); len(why) != 1 || why[0].Code != finding.ClientCPU {
		t.Errorf("%+v", why)
	}
}

// An open loop has a schedule from its first request on.
func TestJudge_openLoop(t *testing.T) {
	e := clean()
	e.Open, e.MaxInFlight = true, 7
	for i := range 3 {
		e.measured()[i].Sent = e.measured()[i].Scheduled + time.Second
	}
	why := Judge(*e, strict())
	if len(why) != 1 || why[0].Code != finding.ScheduleLag || !strings.Contains(why[0].Text, "max_in_flight 7") {
		t.Errorf("got %+v", why)
	}
}

// Tokens that are not counted are not known to be right.
func TestJudge_uncounted(t *testing.T) {
	e := clean()
	for i := range e.measured() {
		e.measured()[i].CompletionTokens = result.Unknown
	}
	if why := Judge(*e, strict()); len(why) != 1 || !strings.Contains(why[0].Text, "reports no output tokens") {
		t.Errorf("%+v", why)
	}
}

// The same lag is in receive times that this process took, and not in the
// kernel's.
func TestJudge_lagByStamp(t *testing.T) {
	for _, c := range []struct {
		kind    string
		lag     time.Duration // measured; 0: none
		byError float64       // ms, by calibration
		reason  bool
		remark  bool
	}{
		{result.StampKernel, 900 * time.Microsecond, 0, false, false},
		{result.StampKernel, 3 * time.Millisecond, 0, false, true},
		{result.StampKernel, 11 * time.Millisecond, 0, true, false},
		{"mixed", 900 * time.Microsecond, 0, false, false},
		{"mixed", 3 * time.Millisecond, 0, true, false},
		{result.StampUser, 0, 0.9, false, false},
		{result.StampUser, 0, 3, true, false},
	} {
		e := clean()
		e.Health.StampKind, e.Health.Lag = c.kind, load.Durations{}
		if c.lag > 0 {
			e.lags(100, c.lag)
		}
		e.Row["calibrated_error_ms"] = c.byError
		why, said := Judge(*e, strict()), Remarks(*e, strict())
		if reason := len(why) == 1 && why[0].Code == finding.ClientLag; reason != c.reason || len(why) > 1 {
			t.Errorf("%+v: %+v", c, why)
		}
		if remark := len(said) == 1 && said[0].Code == finding.ClientLag; remark != c.remark || len(said) > 1 {
			t.Errorf("%+v: remarks %+v", c, said)
		}
	}
	// With gaps of 100 ms the bounds are 5 and 50 ms.
	e := clean()
	e.Row["p50_icl_ms"] = 100.0
	e.lags(200, 40*time.Millisecond)
	if why := Judge(*e, strict()); len(why) != 0 {
		t.Errorf("%+v", why)
	}
	if b := strict(); true {
		b.ClientLag = 2 * time.Millisecond
		if why := Judge(*e, b); len(why) != 1 || !strings.Contains(why[0].Text, "bound 2ms") {
			t.Errorf("%+v", why)
		}
	}
}

// A calibration of a machine that did other things meanwhile judges no trial,
// and says so of those that it speaks against.
func TestJudge_disturbedCalibration(t *testing.T) {
	for code, set := range map[finding.Code]func(*Evidence){
		finding.ClientCeiling: func(e *Evidence) { e.Ceiling = 55 },
		finding.ClientLag: func(e *Evidence) {
			e.Health.StampKind, e.Health.Lag = result.StampUser, load.Durations{}
			e.Row["calibrated_error_ms"] = 300.0
		},
		{}: func(*Evidence) {},
	} {
		e := clean()
		set(e)
		if why := Judge(*e, strict()); code != (finding.Code{}) && (len(why) != 1 || why[0].Code != code) {
			t.Errorf("%s: a quiet calibration: %+v", code, why)
		}
		e.Disturbed = "the client did not run for 80ms"
		if why := Judge(*e, strict()); len(why) != 0 {
			t.Errorf("%s: %+v", code, why)
		}
		said := Remarks(*e, strict())
		if code == (finding.Code{}) {
			if len(said) != 0 {
				t.Errorf("nothing speaks against the trial: %+v", said)
			}
			continue
		}
		if len(said) != 1 || said[0].Code != finding.CalibrationDisturbed || !strings.Contains(said[0].Text, "INVALID ("+code.String()+")") || !strings.Contains(said[0].Text, e.Disturbed) {
			t.Errorf("%s: %+v", code, said)
		}
	}
}

// A read that was late by six gaps has joined six chunks and counts once: the
// client is to blame for all of them.
func TestJudge_togetherByFewReads(t *testing.T) {
	e := clean()
	e.coalesce(60)
	for i := range 60 {
		e.measured()[i].StampError = 90 * time.Millisecond // gaps are of 15 ms
	}
	e.Health.Lag = load.Durations{}
	e.lags(990, 40*time.Microsecond)
	e.lags(10, 8*time.Millisecond)
	why := Judge(*e, strict())
	if len(why) != 1 || why[0].Code != finding.Coalesced || !strings.Contains(why[0].Text, "the client read late or") {
		t.Errorf("%+v", why)
	}
}

// The bound for chunks that share a read depends on when they were read: 1 % if the
// client may have been late, 10 % if it read soon, so that the server is the cause.
func TestJudge_together(t *testing.T) {
	for _, c := range []struct {
		name     string
		late     int // reads by 2 ms, of a thousand
		kernel   bool
		at, over int // chunks of 800
		says     string
	}{
		{"late", 100, true, 8, 9, "the client read late or"},
		{"soon", 2, true, 80, 81, "2 of 1000 reads were later than 1ms: the client read soon"},
		{"who knows", 0, false, 8, 9, "either the client read late or the server"},
	} {
		judge := func(n int) []result.Finding {
			e := clean()
			e.coalesce(n)
			e.Health.Lag = load.Durations{}
			if c.kernel {
				e.lags(1000-c.late, 40*time.Microsecond)
				e.lags(c.late, 2*time.Millisecond)
			}
			return Judge(*e, strict())
		}
		if why := judge(c.at); len(why) != 0 {
			t.Errorf("%s: %+v", c.name, why)
		}
		if why := judge(c.over); len(why) != 1 || why[0].Code != finding.Coalesced || !strings.Contains(why[0].Text, c.says) {
			t.Errorf("%s: %+v", c.name, why)
		}
	}
	// A plan that allows more allows it whoever it was.
	e := clean()
	e.coalesce(200)
	b := strict()
	b.Coalesced = 0.25
	if why := Judge(*e, b); len(why) != 0 {
		t.Errorf("%+v", why)
	}
}

// A plan that loosens a bound says so in every row, with what it hides.
func TestRemarks_loosened(t *testing.T) {
	b := strict()
	b.ClientCPU, b.OutputOff, b.ClientLag = 1, 0.005, time.Second
	e := clean()
	said := Remarks(*e, b)
	if len(said) != 1 || said[0].Code != finding.BoundLoosened {
		t.Fatalf("%+v", said)
	}
	for _, part := range []string{"max_client_cpu 100 % (default 85 %)", "max_client_lag 1s (default 10ms)", "the same"} {
		if !strings.Contains(said[0].Text, part) {
			t.Errorf("%q is not in: %s", part, said[0].Text)
		}
	}
	if strings.Contains(said[0].Text, "max_output_off") {
		t.Errorf("a tighter bound: %s", said[0].Text)
	}
	e.Health.CPU = 0.95
	if why := Judge(*e, b); len(why) != 0 {
		t.Errorf("%+v", why)
	}
	if said = Remarks(*e, b); len(said) != 1 || !strings.Contains(said[0].Text, "INVALID: client_cpu") {
		t.Errorf("%+v", said)
	}
}
