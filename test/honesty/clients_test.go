//go:build honesty

package honesty

import (
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"sweep.dev/sweep/load"
	"sweep.dev/sweep/load/arrivals"
	"sweep.dev/sweep/load/chance"
	"sweep.dev/sweep/load/shard"
	"sweep.dev/sweep/load/source"
	"sweep.dev/sweep/load/wire"
	"sweep.dev/sweep/load/worker"
	"sweep.dev/sweep/load/worker/processes"
	"sweep.dev/sweep/result"
)

// took returns how long the server of TestClients takes for request n: 100 ms at least, and
// longer by an exponential time of 60 ms on average, at most 1 s.
func took(n int) time.Duration {
	more := chance.New(1, uint64(n)).Exp() * 60
	return time.Duration((100 + min(900, more)) * float64(time.Millisecond))
}

// A lawful server answers each request in a time that its number alone decides.
type lawful struct {
	mu   sync.Mutex
	seen map[int]int
}

var numbered = regexp.MustCompile(`-n(\d+)$`)

func (s *lawful) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	end := time.Now()
	m := numbered.FindStringSubmatch(r.Header.Get("X-Request-Id"))
	if m == nil {
		http.Error(w, "no number", http.StatusBadRequest)
		return
	}
	n, _ := strconv.Atoi(m[1]) // matched
	end = end.Add(took(n))
	timer := load.NewTimer()
	defer timer.Close()
	if timer.WaitUntil(r.Context(), end) != nil {
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	fmt.Fprint(w, `data: {"choices":[{"index":0,"delta":{"content":"a"},"finish_reason":"stop"}]}`, "\n\n",
		`data: {"choices":[],"usage":{"prompt_tokens":1,"completion_tokens":1}}`, "\n\n", "data: [DONE]\n\n")
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seen[n]++
}

// quantiles are p50, p95 and p99 of the time to the first token, in milliseconds.
func quantiles(all []result.Request) (q [3]float64) {
	var ms []float64
	for _, r := range all {
		ms = append(ms, float64(r.FirstToken-r.Scheduled)/1e6)
	}
	slices.Sort(ms)
	for i, p := range []float64{0.5, 0.95, 0.99} {
		q[i] = result.Quantile(ms, p)
	}
	return q
}

type kept struct{ all []result.Request }

func (k *kept) Record(q result.Request) { k.all = append(k.all, q) }

// One client and four find the same percentiles of one load, to 1 %: medians of 5 runs.
// The counts are exact in each.
func TestClients(t *testing.T) {
	const requests, rate, rounds, most = 1000, 250, 5, 0.01
	found := map[int][][3]float64{}
	var truth [3]float64
	for range rounds {
		for _, n := range []int{1, 4} {
			law := &lawful{seen: map[int]int{}}
			server := httptest.NewServer(law)
			all := send(t, server.URL, n, source.Config{
				Seed: 1, Cell: "0123456789ab", Trial: 1, MaxTokens: 1, Requests: requests,
				Pace: arrivals.Steady(rate, arrivals.Process{}), Prompts: source.Prompts{InputTokens: 20},
			})
			server.Close()
			if err := shard.Check(all, n); err != nil || len(all) != requests || len(law.seen) != requests {
				t.Fatalf("%d clients: %d records, %d requests came: %v", n, len(all), len(law.seen), err)
			}
			var want []result.Request
			for _, r := range all {
				if law.seen[r.N] != 1 || r.Status != result.Completed {
					t.Fatalf("request %d came %d times: %+v", r.N, law.seen[r.N], r)
				}
				want = append(want, result.Request{FirstToken: took(r.N)})
			}
			truth = quantiles(want)
			found[n] = append(found[n], quantiles(all))
		}
	}
	for i, p := range []string{"p50", "p95", "p99"} {
		median := func(n int) float64 {
			var v []float64
			for _, q := range found[n] {
				v = append(v, q[i])
			}
			slices.Sort(v)
			return v[len(v)/2]
		}
		one, four := median(1), median(4)
		t.Logf("%s: truth %.2f ms, one client %.2f ms, four clients %.2f ms (%+.2f %%)", p, truth[i], one, four, 100*(four/one-1))
		if math.Abs(four/one-1) > most {
			t.Errorf("%s of four clients differs by %.1f %% (bound %.0f %%)", p, 100*(four/one-1), 100*most)
		}
	}
}

// send has n client processes send a load, and returns their records on one clock.
func send(t *testing.T, url string, n int, c source.Config) []result.Request {
	t.Helper()
	p, err := processes.Start(t.Context(), nil, n, func() *exec.Cmd { return &exec.Cmd{Path: program, Args: []string{program, "worker"}} })
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	}()
	target, err := worker.NewTarget(wire.Config{BaseURL: url, Model: "m", Chat: true, Stream: true, IncludeUsage: true}, "auto")
	if err != nil {
		t.Fatal(err)
	}
	g, err := worker.Join(t.Context(), target, p.Addresses())
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	var rec kept
	h, err := g.Run(t.Context(), worker.Load{Source: c}, &rec, load.Options{Anchor: result.NewAnchor(), RequestID: "x"})
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range h.Shards {
		if s.Lost != "" {
			t.Fatal(s.Lost)
		}
	}
	shard.Sort(rec.all)
	return rec.all
}
