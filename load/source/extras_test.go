package source

import (
	"math"
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

// Any first so many requests hold their share of cancelled ones to within one.
func TestCancel_share(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		share := rapid.OneOf(rapid.Float64Range(0, 1), rapid.SampledFrom([]float64{0, 0.01, 0.1, 1.0 / 3, 0.5, 0.9, 1})).Draw(t, "share")
		p := picker{Cancel{share, time.Second}, rapid.Uint64().Draw(t, "key")}
		n := 0
		for id := range 2000 {
			switch p.after(id) {
			case 0:
			case time.Second:
				n++
			default:
				t.Fatalf("request %d is given up after %v", id, p.after(id))
			}
			if want := share * float64(id+1); math.Abs(float64(n)-want) > 1+1e-6 {
				t.Fatalf("%d of the first %d are cancelled, want %g", n, id+1, want)
			}
		}
	})
}

// Which requests are cancelled is drawn by chance: it has no beat, and another
// trial cancels others.
func TestCancel_chance(t *testing.T) {
	c := base()
	c.Concurrency, c.Requests, c.WarmupRequests, c.Cancel = 1, 400, 5, Cancel{0.1, 2 * time.Second}
	cancelled := func(c Config) (ids []int) {
		for _, j := range pull(t, must(t, c), 0) {
			if j.CancelAfter == 2*time.Second {
				ids = append(ids, j.N)
			}
		}
		return ids
	}
	first := cancelled(c)
	gaps := map[int]bool{}
	for i := 1; i < len(first); i++ {
		gaps[first[i]-first[i-1]] = true
	}
	if len(first) != 40 || len(gaps) < 10 {
		t.Errorf("%d cancelled, %d different gaps", len(first), len(gaps))
	}
	c.Trial++
	if slices.Equal(first, cancelled(c)) {
		t.Error("two trials cancel the same requests")
	}
	w, err := phased(c, result.Warmup)
	if err != nil {
		t.Fatal(err)
	}
	for _, j := range pull(t, w, 0) {
		if j.CancelAfter != 0 {
			t.Error("the warm-up is cancelled")
		}
	}
}

func TestHeaders(t *testing.T) {
	c := conversations(2)
	c.Concurrency, c.RequestsPerWorker, c.WarmupRequests, c.Prompts.System = 4, 2, 3, ""
	c.Shard = Shard{1, 2}
	c.Headers = []load.Header{
		{Name: "x-all", Value: "{n} {slot} {turn} {max_tokens} {input_tokens};"},
		{Name: "X-Session", Value: "s-{conversation}"},
		{Name: "X-SLO", Value: `{"ttft_ms":500, {N} {} {n`},
	}
	jobs := pull(t, must(t, c), 0)
	var all, sessions []string
	for _, j := range jobs {
		all = append(all, j.Headers[0].Value)
		sessions = append(sessions, j.Headers[1].Value)
		if j.Headers[2].Value != c.Headers[2].Value {
			t.Errorf("%q", j.Headers[2].Value)
		}
	}
	// Slots 0 and 1 of the second of two shards are 1 and 3 of the whole.
	if diff := gocmp.Diff([]string{"5 1 0 16 40;", "9 3 0 16 40;", "6 1 1 16 ;", "10 3 1 16 ;"}, all); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if sessions[0] != sessions[2] || sessions[1] != sessions[3] || sessions[0] == sessions[1] || !strings.HasPrefix(sessions[0], "s-") {
		t.Errorf("sessions %q", sessions)
	}
	seen := map[string]bool{}
	for trial := range 3 {
		for attempt := 1; attempt < 3; attempt++ {
			c.Trial, c.Attempt = trial, attempt
			for _, phase := range []result.Phase{"", result.Warmup} {
				s, err := phased(c, phase)
				if err != nil {
					t.Fatal(err)
				}
				for _, j := range pull(t, s, 0) {
					if v := j.Headers[1].Value; j.Turn == 0 && seen[v] {
						t.Errorf("%s is led twice", v)
					} else {
						seen[v] = true
					}
				}
			}
		}
	}
}

func TestHeaders_refuses(t *testing.T) {
	for _, c := range []struct {
		headers []load.Header
		want    string
	}{
		{[]load.Header{{Name: "", Value: "a"}}, "cannot be the name"},
		{[]load.Header{{Name: "X Y", Value: "a"}}, "cannot be the name"},
		{[]load.Header{{Name: "X:", Value: "a"}}, "cannot be the name"},
		{[]load.Header{{Name: "X\r\nY", Value: "a"}}, "cannot be the name"},
		{[]load.Header{{Name: "content-length", Value: "3"}}, "no request's own"},
		{[]load.Header{{Name: "x-request-id", Value: "3"}}, "no request's own"},
		{[]load.Header{{Name: "X-A", Value: "1"}, {Name: "x-a", Value: "2"}}, "twice"},
		{[]load.Header{{Name: "X-A", Value: "1\r\nX-B: 2"}}, "not one line"},
		{[]load.Header{{Name: "X-A", Value: "1\n"}}, "not one line"},
		{[]load.Header{{Name: "X-A", Value: "\x00"}}, "not one line"},
		{[]load.Header{{Name: "X-A", Value: "é"}}, "not one line"},
		{[]load.Header{{Name: "X-A", Value: " 1"}}, "begins or ends"},
		{[]load.Header{{Name: "X-A", Value: "{slots}"}}, "{slots}"},
	} {
		cfg := base()
		cfg.Concurrency, cfg.Requests, cfg.Headers = 1, 1, c.headers
		if _, err := New(cfg); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: error %v, want %q in it", c.headers, err, c.want)
		}
	}
}

// Whatever is let through is one line that says what it should.
func FuzzHeaders(f *testing.F) {
	for _, v := range []string{"{n}", "{{n}}", "{conversation", "a{turn}b{slot}", "{ n }", "\t"} {
		f.Add("X-A", v)
	}
	f.Fuzz(func(t *testing.T, name, value string) {
		c := base()
		c.Concurrency, c.Requests = 1, 1
		c.Headers = []load.Header{{Name: name, Value: value}}
		s, err := New(c)
		if err != nil {
			return
		}
		j, _ := s.Next(0, nil)
		if got := j.Headers[0]; got.Name != name || strings.ContainsAny(got.Value, "\r\n\x00") {
			t.Fatalf("%q", got)
		}
	})
}

func TestProbe(t *testing.T) {
	c := base()
	c.Concurrency, c.Requests = 2, 4
	c.Probe = Probe{Rate: 4, InputTokens: 20, MaxTokens: 3}
	c.Prompts.System, c.Prompts.SharedPrefix, c.Cancel = "s", 0.5, Cancel{1, time.Second}
	first := func(c Config, n int) (jobs []load.Job) {
		s, err := phased(c, result.Probe)
		if err != nil {
			t.Fatal(err)
		}
		if !s.Loop().Open {
			t.Fatal("probes wait for each other")
		}
		for range n {
			j, ok := s.Next(0, nil)
			if !ok {
				break
			}
			jobs = append(jobs, j)
		}
		return jobs
	}
	jobs := first(c, 100)
	if len(jobs) != 100 {
		t.Fatalf("%d probes beside a load whose end nobody knows", len(jobs))
	}
	seen := map[string]bool{}
	for _, j := range pull(t, must(t, c), 0) {
		seen[j.Prompt.Turns[0]] = true
	}
	for i, j := range jobs {
		if j.N != FirstProbe+i || j.Phase != result.Probe || j.At != time.Duration(i)*250*time.Millisecond ||
			j.MaxTokens != 3 || j.Prompt.Target != 20 || j.Prompt.System != "" || j.CancelAfter != 0 {
			t.Fatalf("probe %d is %+v", i, j)
		}
		if seen[j.Prompt.Turns[0]] {
			t.Errorf("probe %d has a prompt that was sent already", i)
		}
		seen[j.Prompt.Turns[0]] = true
	}
	for name, set := range map[string]func(c *Config){
		"duration": func(c *Config) { c.Duration = 2 * time.Second },
		"stages": func(c *Config) {
			c.Concurrency, c.Requests = 0, 0
			c.Pace = stages(arrivals.Stage{Rate: 1, For: time.Second}, arrivals.Stage{Rate: 2, Over: time.Second})
		},
		"trace": func(c *Config) {
			c.Concurrency, c.Requests = 0, 0
			c.Pace = trace.Replay{Rows: []trace.Row{{At: 0}, {At: 1999 * time.Millisecond}}}
		},
	} {
		d := c
		set(&d)
		if n := len(first(d, 100)); n != 8 {
			t.Errorf("%s: %d probes in 2 s", name, n)
		}
	}
	c.Probe = Probe{}
	if jobs := first(c, 1); len(jobs) != 0 {
		t.Error("a probe that nobody asked for")
	}
}

func TestStages(t *testing.T) {
	c := base()
	rates := arrivals.Rates{Process: arrivals.Process{Kind: arrivals.Constant}, Stages: []arrivals.Stage{{Rate: 10, For: time.Second}, {Rate: 30, Over: time.Second}}}
	c.Pace = rates
	if n := len(pull(t, must(t, c), 0)); n != 30 {
		t.Errorf("%d requests", n)
	}
	c.Duration = time.Second
	if n := len(pull(t, must(t, c), 0)); n != 10 {
		t.Errorf("%d requests in the first second", n)
	}
	c.Duration, c.Requests = 0, 7
	if n := len(pull(t, must(t, c), 0)); n != 7 {
		t.Errorf("%d requests", n)
	}
	rates.Stages[1] = arrivals.Stage{Rate: 100}
	c.Requests = 60
	if jobs := pull(t, must(t, c), 0); len(jobs) != 60 || jobs[59].At != 1490*time.Millisecond {
		t.Errorf("%d requests, the last at %v", len(jobs), jobs[len(jobs)-1].At)
	}
	// One stage is the same load as its rate.
	c.Pace, c.Requests, c.Duration = steady(20), 0, time.Second
	want := pull(t, must(t, c), 0)
	c.Pace, c.Duration = stages(arrivals.Stage{Rate: 20, For: time.Second}), 0
	if diff := gocmp.Diff(want, pull(t, must(t, c), 0)); diff != "" {
		t.Error(diff)
	}
}

// A trace says when, how long, how much to answer, and what is shared.
func TestTrace(t *testing.T) {
	c := base()
	c.MaxTokens, c.Prompts.InputTokens, c.WarmupRequests = 0, 0, 2
	replay := trace.Replay{Speed: 2, Rows: []trace.Row{
		{At: 0, Input: 1200, Output: 5, Blocks: []uint32{0, 1, 2}},
		{At: time.Second, Input: 1100, Output: 50, Blocks: []uint32{0, 1, 3}},
		{At: time.Second, Input: 1200, Output: 500, Blocks: []uint32{0, 1, 2}},
		{At: 3 * time.Second, Input: 700, Output: 9},
	}}
	c.Pace = replay
	jobs := pull(t, must(t, c), 0)
	common := func(a, b int) (n int) {
		x, y := strings.Fields(jobs[a].Prompt.Turns[0]), strings.Fields(jobs[b].Prompt.Turns[0])
		for n < len(x) && n < len(y) && x[n] == y[n] {
			n++
		}
		return n
	}
	for i, j := range jobs {
		r := replay.Rows[i]
		if j.At != r.At/2 || j.MaxTokens != int(r.Output) || j.Prompt.Target != int(r.Input) || len(strings.Fields(j.Prompt.Turns[0])) != int(r.Input) {
			t.Errorf("request %d: at %v, %d tokens for %d", i, j.At, j.Prompt.Target, j.MaxTokens)
		}
	}
	// A word may be the same by chance: one in 256.
	if n := common(0, 1); n < 1024 || n > 1026 {
		t.Errorf("prompts with two equal blocks share %d words", n)
	}
	if jobs[0].Prompt.Turns[0] != jobs[2].Prompt.Turns[0] {
		t.Error("prompts of equal blocks differ")
	}
	if n := common(0, 3); n > 2 {
		t.Errorf("prompts without equal blocks share %d words", n)
	}
	w, err := phased(c, result.Warmup)
	if err != nil {
		t.Fatal(err)
	}
	for _, j := range pull(t, w, 0) {
		if j.Prompt.Target != 1050 || j.MaxTokens != 141 {
			t.Errorf("the warm-up asks %d tokens for %d, not the trace's mean", j.Prompt.Target, j.MaxTokens)
		}
	}
	c.MaxTokens, c.Requests, c.Duration = 20, 3, 400*time.Millisecond
	jobs = pull(t, must(t, c), 0)
	if len(jobs) != 1 || jobs[0].MaxTokens != 5 {
		t.Errorf("%d requests, the first for %d", len(jobs), jobs[0].MaxTokens)
	}
	c.Duration = 0
	if jobs = pull(t, must(t, c), 0); len(jobs) != 3 || jobs[1].MaxTokens != 20 {
		t.Errorf("%d requests, the second for %d", len(jobs), jobs[1].MaxTokens)
	}
	// Given prompts keep their text; the trace says the rest.
	c.WarmupRequests, c.MaxTokens, c.Requests = 0, 0, 0
	c.Prompts = Prompts{Entries: InlinePrompts([]string{"a", "b", "c", "d"})}
	if jobs = pull(t, must(t, c), 0); jobs[3].Prompt.Turns[0] != "d" || jobs[3].MaxTokens != 9 {
		t.Errorf("%+v", jobs[3])
	}
	c.Prompts.Entries = c.Prompts.Entries[:3]
	if _, err := New(c); err == nil || !strings.Contains(err.Error(), "4 prompts are needed") {
		t.Errorf("too few prompts for a trace: %v", err)
	}
}

func TestWarmup_byTime(t *testing.T) {
	c := base()
	c.Concurrency, c.Requests, c.WarmupDuration = 2, 3, 10*time.Second
	warm := func(c Config) []load.Job {
		w, err := phased(c, result.Warmup)
		if err != nil {
			t.Fatal(err)
		}
		return pull(t, w, 3*time.Second)
	}
	jobs := warm(c)
	if len(jobs) != 8 || jobs[0].N != firstTimedWarmup || jobs[0].Phase != result.Warmup {
		t.Errorf("%d requests of 3 s in 10 s by 2 slots: %+v", len(jobs), jobs[0])
	}
	if got := pull(t, must(t, c), 0); got[0].N != 0 {
		t.Errorf("the load begins at %d", got[0].N)
	}
	c.WarmupRequests = 3
	if jobs := warm(c); len(jobs) != 3 || jobs[0].N != 0 {
		t.Errorf("%d requests: %+v", len(jobs), jobs[0])
	}
}
