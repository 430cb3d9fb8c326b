package stopping

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"sweep.dev/sweep/result"
	"sweep.dev/sweep/result/objective"
	"sweep.dev/sweep/result/summary"
)

// memoryless returns a request whose TTFT is that of an exponential law with a mean of 100
// ms: its p95 is 299.6 ms.
func memoryless(random *rand.Rand, i int) *result.Request {
	sent := time.Duration(i) * time.Second
	ttft := time.Duration(random.ExpFloat64() * float64(100*time.Millisecond))
	return &result.Request{
		Scheduled: sent, Sent: sent, FirstToken: sent + ttft, LastToken: sent + ttft, End: sent + ttft,
		CompletionTokens: 1, Phase: result.Plateau, Status: result.Completed,
	}
}

// endsAt is after how many requests a rule ends a load; 0 is never.
func endsAt(c Config, most int, next func(i int) *result.Request) (n int, by string) {
	r := New(c)
	for i := range most {
		r.InFlight(time.Duration(i)*time.Second, i+1, 1)
		r.End(next(i))
		if d, over := r.Over(); over {
			return i + 1, d.By
		}
	}
	return 0, ""
}

// A percentile that ends a load is near the truth as often as it says.
func TestRule_percentile(t *testing.T) {
	t.Parallel()
	const truth, within, runs = 299.57, 0.1, 100
	ended, wrong := 0, 0
	for seed := range uint64(runs) {
		random := rand.New(rand.NewPCG(seed, 2))
		var values []float64
		c := Config{Until: &Precision{Metric: "p95_ttft_ms", Within: within, Confidence: 0.95, MinRequests: 30}}
		n, by := endsAt(c, 6000, func(i int) *result.Request {
			q := memoryless(random, i)
			values = append(values, float64(q.FirstToken-q.Sent)/1e6)
			return q
		})
		if n == 0 {
			continue
		}
		if ended++; by != Precise || n < fewestOrdered {
			t.Fatalf("seed %d: ended after %d requests by %s", seed, n, by)
		}
		// The interval without the first tenth ended it; the row reports the percentile of
		// all.
		low, high := objective.Interval(values, 0.95, 0.5)
		if math.Abs((low+high)/2/truth-1) > within {
			wrong++
		}
	}
	if ended < runs/2 { // the others reach the cap first
		t.Errorf("%d of %d loads ended", ended, runs)
	}
	if wrong > runs/20 {
		t.Errorf("%d of %d were further than %.0f %% from the truth, want 5 %% at most", wrong, ended, 100*within)
	}
}

// A percentile that is known at one look may be so by luck: the next has to find it again.
func TestRule_percentileTwice(t *testing.T) {
	t.Parallel()
	c := Config{Until: &Precision{Metric: "p95_ttft_ms", Within: 0.1, Confidence: 0.95}}
	n, by := endsAt(c, 1000, func(i int) *result.Request {
		sent := time.Duration(i) * time.Second
		at := sent + 100*time.Millisecond + time.Duration(i%7)*time.Microsecond
		return &result.Request{
			Scheduled: sent, Sent: sent, FirstToken: at, LastToken: at, End: at,
			CompletionTokens: 1, Phase: result.Plateau, Status: result.Completed,
		}
	})
	if want := longer * fewestOrdered; float64(n) != want || by != Precise {
		t.Errorf("ended after %d requests by %q, want %g: at the second look", n, by, want)
	}
}

// A percentile is not known while it goes up, nor while requests fail, of which each is
// infinite; and a few requests never tell one.
func TestRule_percentileUnknown(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		most   int
		change func(i int, q *result.Request)
	}{
		"rises": {4000, func(i int, q *result.Request) { q.FirstToken += time.Duration(i) * time.Millisecond }},
		"a tenth fails": {2000, func(i int, q *result.Request) {
			if i%10 == 0 {
				q.Status, q.End = result.Failed, q.Sent+time.Second
			}
		}},
		"few": {fewestOrdered, func(int, *result.Request) {}},
	} {
		random := rand.New(rand.NewPCG(1, 2))
		cfg := Config{Until: &Precision{Metric: "p95_ttft_ms", Within: 0.1, Confidence: 0.95, MinRequests: 30}}
		if n, by := endsAt(cfg, c.most, func(i int) *result.Request {
			q := memoryless(random, i)
			c.change(i, q)
			return q
		}); n > 0 {
			t.Errorf("%s: ended after %d requests by %s", name, n, by)
		}
	}
}

// Objectives end a load once they are decided, and one that is at its limit in truth
// is wrongly passed no oftener than its confidence allows, however often it is looked at.
func TestRule_objectives(t *testing.T) {
	t.Parallel()
	watch := func(limit float64) *objective.Watch {
		return objective.NewWatch([]objective.Watched{{
			Name: "fast", Confidence: 0.95, Parts: [][]objective.Comparison{{{Column: "p95_ttft_ms", Op: "<", Limit: limit}}},
		}}, summary.Options{})
	}
	for _, c := range []struct {
		limit float64
		least int // requests, in one run
		most  int
	}{{3000, fewestDecided, 210}, {10, fewestDecided, fewestDecided}, {450, 100, 2000}} {
		random := rand.New(rand.NewPCG(3, 4))
		n, by := endsAt(Config{Objectives: watch(c.limit)}, 4000, func(i int) *result.Request { return memoryless(random, i) })
		if n < c.least || n > c.most || by != Decided {
			t.Errorf("limit %g ms: ended after %d requests by %q, want %d to %d", c.limit, n, by, c.least, c.most)
		}
	}
	ended := 0
	for seed := range uint64(100) {
		random := rand.New(rand.NewPCG(seed, 5))
		if n, _ := endsAt(Config{Objectives: watch(299.57)}, 1200, func(i int) *result.Request { return memoryless(random, i) }); n > 0 {
			ended++
		}
	}
	if ended > 100/10 { // 5 % a side
		t.Errorf("%d of 100 loads at their limit were decided, want 10 %% at most", ended)
	}
}

// The reason why a load ended names its figure.
func TestRule_percentileText(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	r := New(Config{Until: &Precision{Metric: "p50_e2e_ms", Within: 0.2, Confidence: 0.95, MinRequests: 30}})
	for i := range 5000 {
		r.End(memoryless(random, i))
	}
	d, over := r.Over()
	if !over || !strings.Contains(d.Text, "the p50_e2e_ms is ") || !strings.Contains(d.Text, "within 20 %") {
		t.Errorf("%+v", d)
	}
}
