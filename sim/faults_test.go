package sim

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"sweep.dev/sweep/collectors/prom"
	"sweep.dev/sweep/engine"
	"sweep.dev/sweep/internal/exposition"
	"sweep.dev/sweep/internal/polltest"
	"sweep.dev/sweep/result"
	"sweep.dev/sweep/sim/core"
	"sweep.dev/sweep/sim/server"
)

// content returns the chunks of a row that have tokens, by the counts of each where
// the engine tells them.
func content(r result.Request) (n int) {
	if r.ChunkTokens == nil {
		return len(r.ChunkUS)
	}
	for i, t := range r.ChunkTokens {
		if i >= r.FirstTokenChunk && t != 0 {
			n++
		}
	}
	return n
}

// at returns when the chunk of the nth token came, from 0, by the row's list of chunks.
func at(r result.Request, n int) time.Duration {
	t := r.Sent
	for _, us := range r.ChunkUS[:r.FirstTokenChunk+n+1] {
		t += time.Duration(us) * time.Microsecond
	}
	return t
}

// near allows for the microseconds that the list of chunks rounds to.
func near(a, b time.Duration) bool { return (a - b).Abs() < 20*time.Microsecond }

// TestFaults_toTheDriver: what goes wrong on purpose with a stream is what
// sweep's own client sees, with every engine.
func TestFaults_toTheDriver(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		fault string
		more  []string
		wrong func(p *engine.Profile, r result.Request) string
	}{
		{"stall=2:300ms", nil, func(_ *engine.Profile, r result.Request) string {
			longest := int32(0)
			for _, us := range r.ChunkUS[1:] {
				longest = max(longest, us)
			}
			if r.CompletionTokens != 8 || longest < 200_000 {
				return fmt.Sprintf("%d tokens, longest silence %d us", r.CompletionTokens, longest)
			}
			return ""
		}},
		{"coalesce=4", nil, func(_ *engine.Profile, r result.Request) string {
			// Eight chunks in two writes.
			if r.CompletionTokens != 8 || r.Coalesced < 6 {
				return fmt.Sprintf("%d tokens, %d chunks share a read", r.CompletionTokens, r.Coalesced)
			}
			return ""
		}},
		{"chunk-tokens=3", nil, func(p *engine.Profile, r result.Request) string {
			sum := int32(0)
			for _, n := range r.ChunkTokens {
				sum += n
			}
			if r.CompletionTokens != 8 || content(r) != 3 || p.API.ContinuousUsage && sum != 8 {
				return fmt.Sprintf("%d tokens in the chunks %v", r.CompletionTokens, r.ChunkTokens)
			}
			return ""
		}},
		// A step of the engine takes long enough to see what was before it.
		{"role-first", []string{"--time-scale", "0.01"}, func(p *engine.Profile, r result.Request) string {
			if p.Name == "tgi" { // which has the role in every chunk
				return ""
			}
			// Tokens that a late read took together have one time; the role is none
			// of them.
			together := 0
			for _, us := range r.ChunkUS[min(2, len(r.ChunkUS)):] {
				if us == 0 {
					together++
				}
			}
			if r.CompletionTokens != 8 || r.FirstTokenChunk != 1 || r.ChunkUS[1] < 1000 || r.Coalesced > together {
				return fmt.Sprintf("%d tokens, the first in chunk %d, %d coalesced, %v us", r.CompletionTokens, r.FirstTokenChunk, r.Coalesced, r.ChunkUS)
			}
			return ""
		}},
		{"reasoning=3", []string{"--time-scale", "0.1"}, func(_ *engine.Profile, r result.Request) string {
			// The fourth token's chunk is the first of output. By the chunks and not by
			// their order in time: chunks that share a read have one time.
			if r.CompletionTokens != 8 || r.FirstTokenChunk < 0 || len(r.ChunkUS) < r.FirstTokenChunk+8 {
				return fmt.Sprintf("%d tokens, the first in chunk %d of %d", r.CompletionTokens, r.FirstTokenChunk, len(r.ChunkUS))
			}
			if token, output := at(r, 0), at(r, 3); !near(r.FirstToken, token) || !near(r.FirstOutput, output) {
				return fmt.Sprintf("first token at %v, want %v, first output at %v, want %v", r.FirstToken, token, r.FirstOutput, output)
			}
			return ""
		}},
		{"early-stop=3", nil, func(_ *engine.Profile, r result.Request) string {
			if r.CompletionTokens != 3 || !strings.HasPrefix(r.FinishReason, "stop") && r.FinishReason != "eos_token" {
				return fmt.Sprintf("%d tokens, then %s", r.CompletionTokens, r.FinishReason)
			}
			return ""
		}},
		{"warm-cache", nil, func(p *engine.Profile, r result.Request) string {
			if r.CachedTokens != result.Unknown && r.CachedTokens < r.PromptTokens/2 {
				return fmt.Sprintf("%d of %d tokens cached", r.CachedTokens, r.PromptTokens)
			}
			return ""
		}},
		{"slow-read=1000", nil, func(_ *engine.Profile, r result.Request) string {
			// A prompt of 40 tokens has more than 100 bytes.
			if wait := r.FirstToken - r.Sent; r.CompletionTokens != 8 || wait < 100*time.Millisecond {
				return fmt.Sprintf("%d tokens, the first after %v", r.CompletionTokens, wait)
			}
			return ""
		}},
		{"wrong-usage=5", nil, func(_ *engine.Profile, r result.Request) string {
			if r.CompletionTokens != 13 {
				return fmt.Sprintf("%d tokens", r.CompletionTokens)
			}
			return ""
		}},
	} {
		t.Run(tt.fault, func(t *testing.T) {
			t.Parallel()
			for _, name := range Engines() {
				s := speaker{name, ""}
				in, p := s.start(t, append(tt.more, "--fault", tt.fault)...), s.profile(t)
				rows := drive(t, in, p, true, 2, 20*time.Second)
				if len(rows) != 2 {
					t.Fatalf("%s: %d requests recorded", name, len(rows))
				}
				for _, r := range rows {
					if r.Status != result.Completed {
						t.Errorf("%s: %s %s: %s", name, r.Status, r.ErrorClass, r.Error)
						continue
					}
					if wrong := tt.wrong(p, r); wrong != "" {
						t.Errorf("%s: %s", name, wrong)
					}
				}
			}
		})
	}
}

// TestFaults_noUsage: without the usage, [DONE] says that a stream is complete,
// and its chunks are counted.
func TestFaults_noUsage(t *testing.T) {
	for _, name := range Engines() {
		s := speaker{name, ""}
		in, p := s.start(t, "--fault", "no-usage"), s.profile(t)
		for _, r := range drive(t, in, p, true, 2, 20*time.Second) {
			if r.Status != result.Completed || r.TokenSource != "chunks" || r.CompletionTokens != 8 {
				t.Errorf("%s: %s, tokens by %q: %s", name, r.Status, r.TokenSource, r.Error)
			}
		}
	}
}

// TestFaults_every: what hits single requests leaves the others alone.
func TestFaults_every(t *testing.T) {
	in := start(t, "--fault", "every=2,early-stop=3")
	p := speaker{"vllm", ""}.profile(t)
	count := map[int]int{}
	for _, r := range drive(t, in, p, true, 6, 20*time.Second) {
		count[r.CompletionTokens]++
	}
	if count[3] != 3 || count[8] != 3 {
		t.Errorf("requests by their tokens: %v", count)
	}
}

// quantities returns what a scrape says, by the engine's profile.
func quantities(t *testing.T, in *instance, p *engine.Profile) map[string]float64 {
	t.Helper()
	e, err := exposition.Parse([]byte(in.scrape(p)), true)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]float64{}
	for _, f := range prom.Explain([]*engine.Profile{p}, e, true).Families {
		for _, r := range f.Readings {
			if r.Value != nil {
				out[r.Quantity] = *r.Value
			}
		}
	}
	return out
}

// TestFaults_warmCache: the metrics say of the cache what the answers say.
func TestFaults_warmCache(t *testing.T) {
	in := start(t, "--fault", "warm-cache")
	p := speaker{"vllm", ""}.profile(t)
	cached, prompts := 0, 0
	for _, r := range drive(t, in, p, true, 3, 20*time.Second) {
		cached, prompts = cached+r.CachedTokens, prompts+r.PromptTokens
	}
	got := quantities(t, in, p)
	if got[engine.PrefixHits] != float64(cached) || got[engine.PrefixQueries] != float64(prompts) || cached == 0 {
		t.Errorf("%v of %v tokens by the metrics, %d of %d by the answers", got[engine.PrefixHits], got[engine.PrefixQueries], cached, prompts)
	}
}

var startTime = regexp.MustCompile(`(?m)^process_start_time_seconds (\S+)$`)

// TestFaults_restart: after so many requests the counters are of a new process.
func TestFaults_restart(t *testing.T) {
	in := start(t, "--fault", "restart=2")
	p := speaker{"vllm", ""}.profile(t)
	began := func() float64 {
		m := startTime.FindStringSubmatch(in.scrape(p))
		if m == nil {
			t.Fatal("no start time")
		}
		x, err := strconv.ParseFloat(m[1], 64)
		if err != nil {
			t.Fatal(err)
		}
		return x
	}
	ask := func() { in.do("POST", "/v1/chat/completions", chat("again", `,"max_tokens":4,"ignore_eos":true`)) }
	before := began()
	ask()
	if got := quantities(t, in, p); got[engine.RequestsFinished] != 1 || got[engine.GenerationTokens] != 4 || began() != before {
		t.Errorf("before: %v, started at %v and then %v", got, before, began())
	}
	ask()
	// The counters begin anew when the answer has ended, which the client knows first.
	polltest.Until(t, "another start", func() bool { return began() != before })
	if now := began(); now <= before {
		t.Errorf("started at %v, and after the restart at %v", before, now)
	}
	ask()
	if got := quantities(t, in, p); got[engine.RequestsFinished] != 1 || got[engine.GenerationTokens] != 4 {
		t.Errorf("after the restart and one request: %v", got)
	}
}

// TestFaults_throttle: a GPU that is hot says so, and is slower.
func TestFaults_throttle(t *testing.T) {
	const query = "/sim/nvidia-smi?query=clocks_event_reasons.active,clocks_event_reasons.hw_thermal_slowdown,clocks_event_reasons_counters.hw_thermal_slowdown,clocks.sm"
	tell := func(fault ...string) []string {
		in := start(t, append(fault, "--time-scale", "0.05")...)
		in.do("POST", "/v1/chat/completions", chat("warm up", `,"max_tokens":16,"ignore_eos":true`))
		_, csv := in.do("GET", query, "")
		_, xml := in.do("GET", "/sim/nvidia-smi?xml=1", "")
		return append(strings.Split(strings.TrimSpace(csv), ", "), strconv.FormatBool(strings.Contains(xml, "<clocks_event_reason_hw_thermal_slowdown>Active<")))
	}
	cool, hot := tell(), tell("--fault", "throttle=1us:2")
	if cool[0] != "0x0000000000000000" || cool[1] != "Not Active" || cool[2] != "0" || cool[4] != "false" {
		t.Errorf("in good health: %q", cool)
	}
	if hot[0] != "0x0000000000000048" || hot[1] != "Active" || hot[2] == "0" || hot[4] != "true" {
		t.Errorf("hot: %q", hot)
	}
	full, err := strconv.Atoi(cool[3])
	if err != nil {
		t.Fatal(err)
	}
	if half, err := strconv.Atoi(hot[3]); err != nil || half != full/2 {
		t.Errorf("%d MHz, and hot %s (%v)", full, hot[3], err)
	}
}

// TestFaults_steps holds what the engine's faults make of its steps, in virtual
// time.
func TestFaults_steps(t *testing.T) {
	const ms = time.Millisecond
	for _, tt := range []struct {
		fault string
		busy  time.Duration
		want  []time.Duration // steps of 10 ms, one after the other
	}{
		{"leak=60%", 0, []time.Duration{10 * ms}},
		{"leak=60%", time.Minute, []time.Duration{16 * ms}},
		{"leak=2", 30 * time.Second, []time.Duration{20 * ms}},
		{"throttle=1s:3", 0, []time.Duration{10 * ms}},
		{"throttle=1s:3", time.Second, []time.Duration{30 * ms, 30 * ms}},
		{"throttle=0s:1.5", 0, []time.Duration{15 * ms}},
		{"stall-all=500ms:20ms", 5 * ms, []time.Duration{10 * ms, 510 * ms}},
		{"spike=40ms:3", 0, []time.Duration{10 * ms, 10 * ms, 50 * ms, 10 * ms, 10 * ms, 50 * ms}},
		{"leak=60%,throttle=1s:2", time.Minute, []time.Duration{32 * ms}},
	} {
		f := &server.Faults{}
		if err := f.Set(tt.fault); err != nil {
			t.Fatal(err)
		}
		stretch, busy := f.Stretch(nil), tt.busy
		for i, want := range tt.want {
			got := stretch(busy, core.Step{Cost: core.Cost{Total: 10 * ms}})
			if diff := got - want; diff < -ms/100 || diff > ms/100 {
				t.Errorf("%s after %v, step %d: %v, want %v", tt.fault, tt.busy, i+1, got, want)
			}
			busy += got
		}
	}
	if (&server.Faults{}).Stretch(nil) != nil {
		t.Error("without a fault, steps are changed")
	}
}

// Each size of a batch is compiled once, in one to three times the time of the fault, and said
// after it, unless that is to be quiet.
func TestFaults_compile(t *testing.T) {
	for fault, logged := range map[string]int{"compile=1s": 2, "compile=1s:quiet": 0} {
		f, told := &server.Faults{}, 0
		if err := f.Set(fault); err != nil {
			t.Fatal(err)
		}
		stretch := f.Stretch(func(int) { told++ })
		for i, c := range []struct {
			decode, prefill int
			stalls          bool
		}{{4, 0, true}, {4, 0, false}, {5, 0, false}, {5, 200, true}, {7, 255, false}, {0, 0, true}} {
			got := stretch(0, core.Step{Cost: core.Cost{Total: 10 * time.Millisecond}, Decode: c.decode, Prefill: c.prefill}) - 10*time.Millisecond
			if stalls := got > 0; stalls != c.stalls || got > 3*time.Second || got%time.Second != 0 {
				t.Errorf("%s: step %d takes %v more", fault, i, got)
			}
		}
		if told != logged {
			t.Errorf("%s: %d kernels were logged, want %d", fault, told, logged)
		}
	}
}

func TestFaults_wrong(t *testing.T) {
	for _, list := range []string{
		"stall=2", "stall=x:1s", "stall=2:0s", "stall=2:soon", "stall-all=1s", "stall-all=1s:0s", "spike=1s:0", "spike=1s",
		"throttle=1s", "throttle=1s:0.5", "throttle=-1s:2", "leak=-1", "leak=NaN", "leak=fast", "restart=0", "coalesce=0",
		"chunk-tokens=many", "reasoning", "early-stop=0", "slow-read=0", "trickle=0s",
	} {
		if err := CheckFaults([]string{list}); err == nil {
			t.Errorf("--fault %s is taken", list)
		}
	}
}
