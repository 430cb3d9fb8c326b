package source

import (
	"cmp"
	"flag"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"sweep.dev/sweep/load"
	"sweep.dev/sweep/load/arrivals"
	"sweep.dev/sweep/load/trace"
	"sweep.dev/sweep/result"
)

var update = flag.Bool("update", false, "rewrite golden files")

func base() Config {
	return Config{Seed: 7, Cell: "0123456789ab", Trial: 1, MaxTokens: 16, Prompts: Prompts{InputTokens: 40}}
}

// pull takes every job of a source; each request takes took, one slot after
// the other.
func pull(t testing.TB, s load.Source, took time.Duration) []load.Job {
	t.Helper()
	var jobs []load.Job
	l := s.Loop()
	if l.Open {
		for {
			j, ok := s.Next(0, nil)
			if !ok {
				return jobs
			}
			jobs = append(jobs, j)
		}
	}
	prev := make([]*result.Request, l.Slots)
	alive := l.Slots
	done := make([]bool, l.Slots)
	for alive > 0 {
		for slot := range l.Slots {
			if done[slot] {
				continue
			}
			j, ok := s.Next(slot, prev[slot])
			if !ok {
				done[slot] = true
				alive--
				continue
			}
			if j.Slot != slot {
				t.Fatalf("a job of slot %d for slot %d", j.Slot, slot)
			}
			at := j.At
			if prev[slot] != nil {
				at += prev[slot].End
			}
			prev[slot] = &result.Request{Scheduled: at, Sent: at, End: at + took, Status: result.Completed}
			if j.KeepAnswer {
				prev[slot].Answer = fmt.Sprintf("answer %d", j.N)
			}
			jobs = append(jobs, j)
		}
	}
	return jobs
}

func must(t testing.TB, c Config) load.Source {
	t.Helper()
	s, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func steady(rate float64) arrivals.Pace { return arrivals.Steady(rate, arrivals.Process{}) }

func stages(list ...arrivals.Stage) arrivals.Pace { return arrivals.Rates{Stages: list} }

func phased(c Config, phase result.Phase) (load.Source, error) {
	c.Phase = phase
	return New(c)
}

func TestNewSource_refuses(t *testing.T) {
	for _, c := range []struct {
		name string
		set  func(*Config)
		want string
	}{
		{"no loop", func(c *Config) {}, "neither concurrency nor a pace"},
		{"both loops", func(c *Config) { c.Concurrency, c.Pace, c.Requests = 1, steady(1), 1 }, "only one"},
		{"stages without an end", func(c *Config) { c.Pace = stages(arrivals.Stage{Rate: 1}) }, "nothing bounds"},
		{"a stage without an end", func(c *Config) {
			c.Pace, c.Requests = stages(arrivals.Stage{Rate: 1}, arrivals.Stage{Rate: 2, For: 1}), 1
		}, "stage 1 has no end"},
		{"stages of too many", func(c *Config) { c.Pace = stages(arrivals.Stage{Rate: 1e6, For: time.Hour}) }, "more than"},
		{"trace out of order", func(c *Config) { c.Pace = trace.Replay{Rows: []trace.Row{{At: 2}, {At: 1}}} }, "row 2"},
		{"speed", func(c *Config) { c.Pace = trace.Replay{Rows: make([]trace.Row, 1), Speed: -1} }, "speed"},
		{"empty trace", func(c *Config) { c.Pace, c.Requests = trace.Replay{}, 1 }, "without requests"},
		{"slow motion", func(c *Config) { c.Pace = trace.Replay{Rows: []trace.Row{{At: time.Hour}}, Speed: 1e-9} }, "century"},
		{"turns in an open loop", func(c *Config) { c.Pace, c.Requests, c.Conversation.Turns = steady(1), 1, 2 }, "conversations have no meaning"},
		{"turns", func(c *Config) { c.Concurrency, c.Requests, c.Conversation.Turns = 1, 1, -1 }, "turns"},
		{"share to cancel", func(c *Config) { c.Concurrency, c.Requests, c.Cancel = 1, 1, Cancel{1.5, 1} }, "not between 0 and 1"},
		{"cancel at once", func(c *Config) { c.Concurrency, c.Requests, c.Cancel = 1, 1, Cancel{0.5, 0} }, "not above 0"},
		{"cancel none", func(c *Config) { c.Concurrency, c.Requests, c.Cancel = 1, 1, Cancel{0, 1} }, "without their share"},
		{"probe without a rate", func(c *Config) { c.Concurrency, c.Requests, c.Probe = 1, 1, Probe{InputTokens: 1, MaxTokens: 1} }, "probes a second"},
		{"probe without input", func(c *Config) { c.Concurrency, c.Requests, c.Probe = 1, 1, Probe{Rate: 1, MaxTokens: 1} }, "input tokens"},
		{"probe without output", func(c *Config) { c.Concurrency, c.Requests, c.Probe = 1, 1, Probe{Rate: 1, InputTokens: 1} }, "no tokens"},
		{"no bound", func(c *Config) { c.Concurrency = 1 }, "nothing bounds"},
		{"two counts", func(c *Config) { c.Concurrency, c.Requests, c.RequestsPerWorker = 1, 1, 1 }, "twice"},
		{"negative", func(c *Config) { c.Concurrency, c.Requests = 1, -1 }, "negative"},
		{"too many", func(c *Config) { c.Concurrency, c.Requests = 1, MaxRequests+1 }, "more than"},
		{"product overflows", func(c *Config) { c.Concurrency, c.RequestsPerWorker = 60_000, math.MaxInt/2 }, "more than"},
		{"huge concurrency", func(c *Config) { c.Concurrency, c.Requests = MaxConcurrency+1, 1 }, "concurrency"},
		{"NaN rate", func(c *Config) { c.Pace, c.Requests = steady(math.NaN()), 1 }, "request rate"},
		{"infinite rate", func(c *Config) { c.Pace, c.Requests = steady(math.Inf(1)), 1 }, "request rate"},
		{"rate times duration", func(c *Config) { c.Pace, c.Duration = steady(1e6), time.Hour }, "more than"},
		{"think time in an open loop", func(c *Config) { c.Pace, c.Requests, c.ThinkTime = steady(1), 1, 1 }, "think time"},
		{"per worker in an open loop", func(c *Config) { c.Pace, c.RequestsPerWorker = steady(1), 1 }, "per worker"},
		{"arrivals", func(c *Config) { c.Pace, c.Requests = arrivals.Steady(1, arrivals.Process{Kind: "burst"}), 1 }, "not known"},
		{"burstiness of poisson", func(c *Config) { c.Pace, c.Requests = arrivals.Steady(1, arrivals.Process{Burstiness: 0.5}), 1 }, "no meaning"},
		{"burstiness", func(c *Config) {
			c.Pace, c.Requests = arrivals.Steady(1, arrivals.Process{Kind: arrivals.Gamma, Burstiness: -1}), 1
		}, "burstiness"},
		{"no such shard", func(c *Config) { c.Concurrency, c.Requests, c.Shard = 4, 4, Shard{2, 2} }, "does not exist"},
		{"more shards than slots", func(c *Config) { c.Concurrency, c.Requests, c.Shard = 2, 4, Shard{0, 3} }, "cannot be split"},
		{"no input", func(c *Config) { c.Concurrency, c.Requests, c.Prompts.InputTokens = 1, 1, 0 }, "input tokens"},
		{"spread of fixed", func(c *Config) { c.Concurrency, c.Requests, c.Prompts.Spread = 1, 1, 0.1 }, "spread"},
		{"no spread", func(c *Config) { c.Concurrency, c.Requests, c.Prompts.Distribution = 1, 1, Normal }, "needs a spread"},
		{"distribution", func(c *Config) { c.Concurrency, c.Requests, c.Prompts.Distribution = 1, 1, "zipf" }, "not known"},
		{"prefix", func(c *Config) { c.Concurrency, c.Requests, c.Prompts.SharedPrefix = 1, 1, 1.1 }, "shared prefix"},
		{"too few texts", func(c *Config) {
			c.Concurrency, c.Requests, c.WarmupRequests = 1, 3, 1
			c.Prompts.Entries = InlinePrompts([]string{"a", "b", "c"})
		}, "4 prompts are needed and 3 are left"},
		{"texts for an unknown count", func(c *Config) {
			c.Concurrency, c.Duration = 1, time.Second
			c.Prompts.Entries = InlinePrompts([]string{"a"})
		}, "only time bounds"},
		{"too few texts for the schedule", func(c *Config) {
			c.Pace, c.Duration = arrivals.Steady(10, arrivals.Process{Kind: arrivals.Constant}), time.Second
			c.Prompts.Entries = InlinePrompts([]string{"a"})
		}, "10 prompts are needed"},
	} {
		t.Run(c.name, func(t *testing.T) {
			cfg := base()
			c.set(&cfg)
			_, err := New(cfg)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want %q in it", err, c.want)
			}
			if check := cfg.Check(); check == nil || check.Error() != err.Error() {
				t.Errorf("Check says %v, New %v", check, err)
			}
		})
	}
}

func TestClosed_counts(t *testing.T) {
	for _, c := range []struct {
		name string
		set  func(*Config)
		want int
	}{
		{"requests", func(c *Config) { c.Requests = 10 }, 10},
		{"fewer than slots", func(c *Config) { c.Requests = 2 }, 2},
		{"per worker", func(c *Config) { c.RequestsPerWorker = 5 }, 15},
		// 3 slots, requests of 10 ms and 5 ms of thought in 100 ms: sent at 0, 15, ..., 90.
		{"duration", func(c *Config) { c.Duration, c.ThinkTime = 100*time.Millisecond, 5*time.Millisecond }, 21},
		// A slot sends nothing at the end itself.
		{"duration, exactly", func(c *Config) { c.Duration = 30 * time.Millisecond }, 9},
		{"duration or requests", func(c *Config) { c.Duration, c.Requests = 30*time.Millisecond, 7 }, 7},
	} {
		t.Run(c.name, func(t *testing.T) {
			cfg := base()
			cfg.Concurrency = 3
			c.set(&cfg)
			jobs := pull(t, must(t, cfg), 10*time.Millisecond)
			if len(jobs) != c.want {
				t.Errorf("%d jobs, want %d", len(jobs), c.want)
			}
		})
	}
}

func TestWarmup(t *testing.T) {
	for _, rate := range []float64{0, 5} {
		cfg := base()
		cfg.Requests, cfg.WarmupRequests = 6, 4
		if rate == 0 {
			cfg.Concurrency, cfg.ThinkTime = 2, time.Second
		} else {
			cfg.Pace = steady(rate)
		}
		w, err := phased(cfg, result.Warmup)
		if err != nil {
			t.Fatal(err)
		}
		warm, measured := pull(t, w, 0), pull(t, must(t, cfg), 0)
		if len(warm) != 4 || len(measured) != 6 {
			t.Fatalf("%d and %d jobs", len(warm), len(measured))
		}
		seen := map[string]bool{}
		for i, j := range append(warm, measured...) {
			if j.N != i {
				t.Errorf("job %d has the number %d", i, j.N)
			}
			if got := j.Phase == result.Warmup; got != (i < 4) {
				t.Errorf("job %d: phase %q", i, j.Phase)
			}
			if i < 4 && j.At != 0 {
				t.Errorf("the warm-up waits %v", j.At)
			}
			if seen[j.Prompt.Turns[0]] {
				t.Errorf("job %d repeats a prompt", i)
			}
			seen[j.Prompt.Turns[0]] = true
		}
	}
	cfg := base()
	cfg.Concurrency, cfg.Requests = 2, 2
	if w, err := phased(cfg, result.Warmup); err != nil || len(pull(t, w, 0)) != 0 {
		t.Errorf("no warm-up: %v", err)
	}
}

// All shards together send exactly what one source would.
func TestShards_merge(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := base()
		c.WarmupRequests = rapid.IntRange(0, 5).Draw(t, "warmup")
		c.Requests = rapid.IntRange(1, 60).Draw(t, "requests")
		of := rapid.IntRange(1, 5).Draw(t, "of")
		switch rapid.SampledFrom([]string{"open", "open by time", "closed", "per worker", "stages", "trace", "conversations"}).Draw(t, "loop") {
		case "open":
			c.Pace, c.MaxInFlight = steady(50), rapid.IntRange(0, 9).Draw(t, "limit")
		case "open by time":
			c.Requests, c.Duration = 0, time.Second
			c.Pace = arrivals.Steady(40, arrivals.Process{Kind: arrivals.Gamma, Burstiness: 0.4})
		case "closed":
			c.Concurrency = rapid.IntRange(of, 12).Draw(t, "slots")
		case "per worker":
			c.Concurrency = rapid.IntRange(of, 12).Draw(t, "slots")
			c.RequestsPerWorker, c.Requests = rapid.IntRange(1, 5).Draw(t, "each"), 0
		case "stages":
			c.Requests, c.Pace = 0, stages(arrivals.Stage{Rate: 30, Over: time.Second}, arrivals.Stage{Rate: 10, For: time.Second})
		case "trace":
			replay := trace.Replay{Speed: 3}
			for i := range rapid.IntRange(1, 60).Draw(t, "rows") {
				replay.Rows = append(replay.Rows, trace.Row{At: time.Duration(i/3) * time.Second, Input: int32(10 + i), Output: int32(1 + i), Blocks: []uint32{uint32(i % 4)}})
			}
			c.Pace, c.Prompts.InputTokens = replay, 0
		case "conversations":
			c.Concurrency = rapid.IntRange(of, 12).Draw(t, "slots")
			c.Conversation.Turns = rapid.IntRange(2, 5).Draw(t, "turns")
			if rapid.Bool().Draw(t, "each") {
				c.RequestsPerWorker, c.Requests = rapid.IntRange(1, 9).Draw(t, "turns each"), 0
			}
		}
		if rapid.Bool().Draw(t, "more") {
			c.Cancel = Cancel{Share: rapid.Float64Range(0.01, 1).Draw(t, "cancelled"), After: time.Second}
			c.Headers = []load.Header{{Name: "X-Session", Value: "{conversation} {n} {turn} {max_tokens} {input_tokens}"}}
			c.Probe = Probe{Rate: 7, InputTokens: 20, MaxTokens: 2}
			if c.Pace == nil {
				c.Duration = 5 * time.Second // nothing takes time here: it bounds the probes alone
			}
		}
		for _, phase := range []result.Phase{"", result.Warmup, result.Probe} {
			if phase == result.Probe && c.length() == 0 {
				continue // they end with the load alone
			}
			make := func(c Config) load.Source {
				s, err := phased(c, phase)
				if err != nil {
					t.Fatal(err)
				}
				return s
			}
			whole := make(c)
			want := pull2(whole)
			var got []load.Job
			slots, limit := 0, 0
			for i := range of {
				c.Shard = Shard{i, of}
				s := make(c)
				slots += s.Loop().Slots
				limit += s.Loop().MaxInFlight
				for _, j := range pull2(s) {
					if j.Shard != i {
						t.Fatalf("%s: a job of shard %d in shard %d", phase, j.Shard, i)
					}
					got = append(got, j)
				}
			}
			c.Shard = Shard{}
			if l := whole.Loop(); !l.Open && slots != l.Slots && phase == "" {
				t.Fatalf("%d slots over the shards, want %d", slots, l.Slots)
			} else if l.Open && l.MaxInFlight >= of && limit != l.MaxInFlight {
				t.Fatalf("%d in flight over the shards, want %d", limit, l.MaxInFlight)
			}
			for _, jobs := range [][]load.Job{got, want} {
				slices.SortFunc(jobs, func(a, b load.Job) int { return cmp.Compare(a.N, b.N) })
				for i := range jobs { // who sends it may differ, what is sent not
					jobs[i].Shard, jobs[i].Slot = 0, 0
				}
			}
			if diff := gocmp.Diff(want, got); diff != "" {
				t.Fatalf("%s (-whole +shards):\n%s", phase, diff)
			}
		}
	})
}

func pull2(s load.Source) []load.Job { return pull(&testing.T{}, s, 0) }

func TestSource_sameAgain(t *testing.T) {
	c := base()
	c.Pace, c.Requests = arrivals.Steady(20, arrivals.Process{Kind: arrivals.Gamma, Burstiness: 0.5}), 30
	c.Prompts.Distribution, c.Prompts.Spread, c.Prompts.SharedPrefix = LogNormal, 0.5, 0.3
	a, b := pull(t, must(t, c), 0), pull(t, must(t, c), 0)
	if diff := gocmp.Diff(a, b); diff != "" {
		t.Fatal(diff)
	}
	for name, change := range map[string]func(*Config){
		"seed":  func(c *Config) { c.Seed++ },
		"cell":  func(c *Config) { c.Cell += "x" },
		"trial": func(c *Config) { c.Trial++ },
		"rate":  func(c *Config) { c.Pace = arrivals.Steady(21, arrivals.Process{Kind: arrivals.Gamma, Burstiness: 0.5}) },
	} {
		d := c
		change(&d)
		for i, j := range pull(t, must(t, d), 0) {
			if name != "rate" && j.Prompt.Turns[0] == a[i].Prompt.Turns[0] {
				t.Errorf("another %s makes the same text %d", name, i)
			}
			// A cell of the same load has its arrivals and lengths in common.
			same := j.At == a[i].At && j.Prompt.Target == a[i].Prompt.Target
			if same != (name == "cell") {
				t.Errorf("request %d of another %s has the same time and length: %t", i, name, same)
			}
		}
	}
}

// The load of a plan must not change with a release of Go or of sweep: it is
// held in a file.
func TestSource_golden(t *testing.T) {
	c := base()
	c.Requests, c.WarmupRequests = 6, 1
	c.Prompts = Prompts{InputTokens: 24, Distribution: LogNormal, Spread: 0.5, SharedPrefix: 0.4}
	var b strings.Builder
	for _, a := range []arrivals.Kind{arrivals.Constant, arrivals.Poisson, arrivals.Gamma} {
		process := arrivals.Process{Kind: a}
		if a == arrivals.Gamma {
			process.Burstiness = 0.5
		}
		c.Pace = arrivals.Steady(20, process)
		for _, j := range pull(t, must(t, c), 0) {
			// Whole microseconds: the last bits of a logarithm differ between
			// processors.
			fmt.Fprintf(&b, "%s %d at %dus: %s\n", a, j.N, j.At.Microseconds(), j.Prompt.Turns[0])
		}
	}
	golden(t, "source.golden", b.String())
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := gocmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", path, diff)
	}
}

// The slots of a closed loop begin evenly over the ramp, those of all shards
// together as those of the whole; no time is added to what the load sends.
func TestClosed_staggered(t *testing.T) {
	cfg := base()
	cfg.Concurrency, cfg.Requests, cfg.Ramp = 4, 8, 100*time.Millisecond
	begins := func(cfg Config) (at []time.Duration) {
		s := must(t, cfg)
		for slot := range s.Loop().Slots {
			if j, ok := s.Next(slot, nil); ok {
				at = append(at, j.At)
				if j.Paused != 0 {
					t.Errorf("slot %d pauses %v before its first request", slot, j.Paused)
				}
			}
		}
		return at
	}
	want := []time.Duration{0, 25 * time.Millisecond, 50 * time.Millisecond, 75 * time.Millisecond}
	if got := begins(cfg); !slices.Equal(got, want) {
		t.Errorf("begins %v, want %v", got, want)
	}
	cfg.Shard = Shard{1, 2}
	if got := begins(cfg); !slices.Equal(got, []time.Duration{want[1], want[3]}) {
		t.Errorf("the second of two shards begins %v", got)
	}
	cfg.Shard = Shard{}
	cfg.Requests, cfg.Duration = 0, 60*time.Millisecond
	if got := begins(cfg); !slices.Equal(got, want[:3]) {
		t.Errorf("begins %v in 60 ms, want %v", got, want[:3])
	}
	// Requests of 10 ms: slot 0 sends at 0, 10, ..., 50, slot 2 at 50 alone.
	if jobs := pull(t, must(t, cfg), 10*time.Millisecond); len(jobs) != 6+4+1 {
		t.Errorf("%d jobs in 60 ms, want 11", len(jobs))
	}
	w, err := phased(cfg, result.Warmup)
	if err != nil {
		t.Fatal(err)
	}
	for slot := range w.Loop().Slots {
		if j, _ := w.Next(slot, nil); j.At != 0 {
			t.Errorf("slot %d of the warm-up begins at %v", slot, j.At)
		}
	}
}

// The requests of an open loop's ramp are additional, and change none of the others.
func TestOpen_ramp(t *testing.T) {
	cfg := base()
	cfg.Pace, cfg.Requests = arrivals.Steady(10, arrivals.Process{Kind: arrivals.Constant}), 20
	count := func(ramp time.Duration, set func(*Config)) int {
		c := cfg
		c.Ramp = ramp
		set(&c)
		return len(pull(t, must(t, c), 0))
	}
	as := func(*Config) {}
	for _, c := range []struct {
		name string
		ramp time.Duration
		set  func(*Config)
		want int
	}{
		{"none", 0, as, 20},
		{"half a second", 500 * time.Millisecond, as, 25},
		{"more than the load", time.Minute, as, 40},
		{"a duration before", 500 * time.Millisecond, func(c *Config) { c.Duration = 2200 * time.Millisecond }, 22},
		{"by time alone", 500 * time.Millisecond, func(c *Config) { c.Requests, c.Duration = 0, time.Second }, 10},
		{"prompts that are not asked again", time.Second, func(c *Config) { c.Prompts = Prompts{Entries: InlinePrompts(make([]string, 20))} }, 20},
		{"prompts that are", time.Second, func(c *Config) { c.Prompts = Prompts{Entries: InlinePrompts(make([]string, 20)), Reuse: true} }, 30},
	} {
		if got := count(c.ramp, c.set); got != c.want {
			t.Errorf("%s: %d requests, want %d", c.name, got, c.want)
		}
	}
	cfg.Pace = steady(10)
	short := pull(t, must(t, cfg), 0)
	cfg.Ramp = time.Second
	if diff := gocmp.Diff(short, pull(t, must(t, cfg), 0)[:20]); diff != "" {
		t.Errorf("a ramp changes the load (-without +with):\n%s", diff)
	}
}
