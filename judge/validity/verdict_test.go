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

// measured returns the requests that count.
func (e *Evidence) measured() []result.Request { return e.Requests[2:] }

func (e *Evidence) short(n int) {
	for i := range n {
		e.measured()[100+i].CompletionTokens = 3
	}
}

// counted sets what the server says of the trial.
func (e *Evidence) counted(requests, output, input int64) {
	e.Row["server_requests"], e.Row["server_output_tokens"], e.Row["server_input_tokens"] = requests, output, input
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
		func(e *Evidence) {
			e.Reported = []result.Finding{{Code: finding.Collector("gpu"), Text: "there is none"}}
		},
		func(e *Evidence) {
			e.Reported = append(e.Reported, result.Finding{Code: finding.EngineRestarted, Text: "its counters fell from 7 to 0"})
		},
		[]string{"from 7 to 0"},
	},
	{
		"stack", finding.StackChanged,
		func(e *Evidence) { e.Reported = []result.Finding{{Code: finding.LogsUnread, Text: "no answer"}} },
		func(e *Evidence) {
			e.Reported = append(e.Reported, result.Finding{Code: finding.StackChanged, Text: "decode: pod d-0 is gone"})
		},
		[]string{"d-0 is gone"},
	},
	{
		"nobody watched", finding.StackUnwatched,
		func(*Evidence) {},
		func(e *Evidence) {
			e.Reported = append(e.Reported, result.Finding{Code: finding.StackUnwatched, Text: "forbidden"})
		},
		[]string{"forbidden"},
	},
	{
		"tunnel", finding.Tunnelled,
		func(e *Evidence) { e.Reported = []result.Finding{{Code: finding.NetworkProxy, Text: "a provider's"}} },
		func(e *Evidence) {
			e.Reported = append(e.Reported, result.Finding{Code: finding.Tunnelled, Text: "an address of this machine"})
		},
		[]string{"of this machine"},
	},
	{
		"no prefill", finding.PDAbsent,
		func(e *Evidence) { e.Reported = []result.Finding{{Code: finding.PDUnknown, Text: "no counter"}} },
		func(e *Evidence) {
			e.Reported = append(e.Reported, result.Finding{Code: finding.PDAbsent, Text: "no request ended at a prefill server"})
		},
		[]string{"prefill server"},
	},
	{
		"some prefill", finding.PDPartial,
		func(*Evidence) {},
		func(e *Evidence) {
			e.Reported = append(e.Reported, result.Finding{Code: finding.PDPartial, Text: "40 % of the requests"})
		},
		[]string{"40 %"},
	},
	{
		"others on the server", finding.ServerShared,
		func(e *Evidence) { e.counted(210, 842, 21_050) },
		func(e *Evidence) { e.counted(211, 843, 21_100) },
		[]string{"11 requests of others", "5 % of its output tokens and 5 % of its prompt tokens", "5 %"},
	},
	{
		"long prompts of others", finding.ServerShared,
		func(e *Evidence) { e.counted(201, 801, 21_000) },
		func(e *Evidence) { e.counted(201, 801, 40_000) },
		[]string{"1 request of others", "50 % of its prompt tokens"},
	},
	{
		"discarded tokens", finding.ServerShared,
		func(e *Evidence) { e.counted(200, 8_000, 80_000) },
		func(e *Evidence) { e.counted(400, 1_600, 40_000) },
		[]string{"200 requests of others"},
	},
	{
		"errors", finding.ErrorRate,
		func(e *Evidence) { e.Row["error_rate"] = 0.05 },
		func(e *Evidence) { e.Row["error_rate"] = 0.06 },
		[]string{"6.0 %", "5.0 %"},
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
	{
		"output", finding.OutputLength,
		func(e *Evidence) { e.short(2) },
		func(e *Evidence) { e.short(3) },
		[]string{"3 completed requests", "of 200", "3 of 4 tokens", "length"},
	},
}

// strict returns the defaults, with a bound on foreign processes.
func strict() bounds.Bounds {
	b := bounds.Defaults()
	b.Foreign = new(int)
	return b
}

// reasons returns those of a verdict.
func reasons(e Evidence, b bounds.Bounds) []result.Finding { return Judge(e, b).Reasons }

func TestJudge_clean(t *testing.T) {
	if why := reasons(*clean(), strict()); len(why) != 0 {
		t.Errorf("%+v", why)
	}
	if said := Remarks(*clean(), strict()); len(said) != 0 {
		t.Errorf("%+v", said)
	}
	// Nothing that is not known is held against a trial.
	if why := reasons(Evidence{}, bounds.Defaults()); len(why) != 0 {
		t.Errorf("of nothing: %+v", why)
	}
}

func TestJudge(t *testing.T) {
	for _, s := range spoils {
		t.Run(s.name, func(t *testing.T) {
			e := clean()
			s.below(e)
			if why := reasons(*e, strict()); len(why) != 0 {
				t.Errorf("at its bound: %+v", why)
			}
			e = clean()
			s.over(e)
			why := reasons(*e, strict())
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
		for _, f := range reasons(*e, strict()) {
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
	} {
		t.Run(name, func(t *testing.T) {
			e := clean()
			spoil(e)
			if why := reasons(*e, strict()); len(why) != 0 {
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
		found := slices.ContainsFunc(reasons(*e, strict()), func(f result.Finding) bool { return f.Code == finding.CacheState })
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
	if why := reasons(*e, strict()); len(why) != 1 || !strings.Contains(why[0].Text, "overload: 429 slow down") {
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
	e.Row["cpu_steal"] = 0.5
	e.Expected = []finding.Code{finding.ErrorRate}
	if why := reasons(*e, strict()); len(why) != 1 || why[0].Code != finding.CPUSteal {
		t.Errorf("%+v", why)
	}
}

// Tokens that are not counted are not known to be right.
func TestJudge_uncounted(t *testing.T) {
	e := clean()
	for i := range e.measured() {
		e.measured()[i].CompletionTokens = result.Unknown
	}
	if why := reasons(*e, strict()); len(why) != 1 || !strings.Contains(why[0].Text, "reports no output tokens") {
		t.Errorf("%+v", why)
	}
}

// A plan that loosens a bound says so in every row, with what it hides.
func TestRemarks_loosened(t *testing.T) {
	b := strict()
	b.Steal, b.OutputOff, b.Moved = 1, 0.005, 0.5
	e := clean()
	said := Remarks(*e, b)
	if len(said) != 1 || said[0].Code != finding.BoundLoosened {
		t.Fatalf("%+v", said)
	}
	for _, part := range []string{"max_moved 50 % (default 5 %)", "max_steal 100 % (default 2 %)", "the same"} {
		if !strings.Contains(said[0].Text, part) {
			t.Errorf("%q is not in: %s", part, said[0].Text)
		}
	}
	if strings.Contains(said[0].Text, "max_output_off") {
		t.Errorf("a tighter bound: %s", said[0].Text)
	}
	e.Row["cpu_steal"] = 0.5
	if why := reasons(*e, b); len(why) != 0 {
		t.Errorf("%+v", why)
	}
	if said = Remarks(*e, b); len(said) != 1 || !strings.Contains(said[0].Text, "INVALID: cpu_steal") {
		t.Errorf("%+v", said)
	}
}

// A client with too much to do is worth a remark. What it did late is judged by itself.
func TestRemarks_busy(t *testing.T) {
	for code, set := range map[finding.Code]func(*Evidence){
		finding.ClientCPU:       func(e *Evidence) { e.Health.CPU = 0.9 },
		finding.ClientLoop:      func(e *Evidence) { e.Health.Loop = 0.75 },
		finding.ClientCeiling:   func(e *Evidence) { e.Ceiling = 142 },
		finding.ClientThrottled: func(e *Evidence) { e.Health.Shards = []load.ShardHealth{{Throttled: new(1)}} },
	} {
		e := clean()
		set(e)
		if said := Remarks(*e, strict()); len(said) != 1 || said[0].Code != code {
			t.Errorf("%s: %+v", code, said)
		}
		if why := reasons(*e, strict()); len(why) != 0 {
			t.Errorf("%s: %+v", code, why)
		}
	}
	e := clean()
	e.Health.CPU, e.Health.Loop, e.Row["duration_s"] = 4.1, 4.1, 0.003 // of a moment
	e.Ceiling = 1e9
	if said := Remarks(*e, strict()); len(said) != 0 {
		t.Errorf("%+v", said)
	}
}
