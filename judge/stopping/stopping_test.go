package stopping

import (
	"container/heap"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"sweep.dev/sweep/internal/quantile"
	"sweep.dev/sweep/internal/slow"
	"sweep.dev/sweep/result"
)

func completed(end, e2e time.Duration) *result.Request {
	return &result.Request{
		Scheduled: end - e2e, Sent: end - e2e, FirstToken: end - e2e/2, LastToken: end, End: end,
		CompletionTokens: 11, Status: result.Completed,
	}
}

// A rule of nothing ends nothing.
func TestRule_nothing(t *testing.T) {
	r := New(Config{})
	for i := range 1000 {
		q := completed(time.Duration(i)*time.Second, time.Second)
		q.Status = result.Failed
		r.End(q)
		r.InFlight(q.End, i, i)
	}
	if d, over := r.Over(); over {
		t.Errorf("%+v", d)
	}
}

func TestRule_errorRate(t *testing.T) {
	for _, c := range []struct {
		name  string
		fails func(i int) bool
		at    int // requests after which it ends; 0: never
	}{
		{"all", func(int) bool { return true }, 12}, // ln(0.65/0.3) each
		{"at the limit", func(i int) bool { return i%10 >= 7 }, 0},
		{"above it", func(i int) bool { return i%10 < 4 }, 364},
		{"far above it", func(i int) bool { return i%10 < 8 }, 16},
		{"a bad start", func(i int) bool { return i < 6 }, 0},
		{"from a moment on", func(i int) bool { return i >= 500 }, 512},
		{"a burst of it", func(i int) bool { return i >= 500 && i < 510 }, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := New(Config{ErrorRate: 0.3})
			for i := range 1000 {
				q := completed(time.Duration(i)*time.Second, time.Second)
				if c.fails(i) {
					q.Status = result.Failed
				}
				r.End(q)
				// A request that sweep cancelled is neither.
				r.End(&result.Request{Status: result.Cancelled})
				r.End(&result.Request{Status: result.Failed, Phase: result.Probe})
				d, over := r.Over()
				if over && (i+1 != c.at || d.By != Failing || !d.Cancel || !strings.Contains(d.Text, "30 %")) {
					t.Fatalf("after %d: %+v, want %d", i+1, d, c.at)
				}
				if over {
					return
				}
			}
			if c.at > 0 {
				t.Errorf("it did not end")
			}
		})
	}
}

// The interval is as it is in textbooks, and its mean is in it as often as it
// says, also where one value follows the other.
func TestInterval(t *testing.T) {
	mean, half := interval([]float64{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}, 0.95)
	if mean != 5.5 || math.Abs(half-2.1659) > 0.001 { // R: t.test(1:10)
		t.Errorf("%g +- %g", mean, half)
	}
	for _, c := range []struct{ p, want float64 }{{0.975, 2.2622}, {0.95, 1.8331}, {0.995, 3.2498}} {
		if got := quantile.Student(c.p, 9); math.Abs(got/c.want-1) > 2e-3 {
			t.Errorf("t(%g, 9) = %g, want %g", c.p, got, c.want)
		}
	}
}

// Few great values make a mean less known than their spread says; symmetric ones do not.
func TestSkewed(t *testing.T) {
	for _, c := range []struct {
		last, want float64
	}{{10, 0}, {30, 19.0677}} { // the second by Willink's formula, without this code
		values := []float64{1, 2, 3, 4, 5, 6, 7, 8, 9, c.last}
		_, plain := interval(values, 0.95)
		mean, half := skewed(values, 0.95)
		if c.last == 10 {
			c.want = plain
		}
		if mean != (45+c.last)/10 || math.Abs(half/c.want-1) > 1e-4 {
			t.Errorf("last %g: %g +- %g, want %g", c.last, mean, half, c.want)
		}
		for i := range values {
			values[i] = -values[i]
		}
		if _, mirrored := skewed(values, 0.95); math.Abs(mirrored/half-1) > 1e-9 {
			t.Errorf("last %g: the mirror of %g is %g", c.last, half, mirrored)
		}
	}
	if _, half := skewed([]float64{5, 5, 5, 5}, 0.95); half != 0 {
		t.Errorf("equal values: %g", half)
	}
}

func TestRule_precision(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	const runs, mean = 400, 100.0
	inside, ended, requests := 0, 0, 0
	for range runs {
		r := New(Config{Until: &Precision{Metric: "e2e_ms", Within: 0.05, Confidence: 0.95, MinRequests: 30}})
		sum, n, drift := 0.0, 0, 0.0
		for i := range 20_000 {
			// An autoregressive series, as neighbours in a queue are.
			drift = 0.7*drift + rng.NormFloat64()*20
			ms := mean + drift
			q := completed(time.Hour+time.Duration(i)*time.Second, time.Duration(ms*float64(time.Millisecond)))
			r.End(q)
			sum, n = sum+ms, n+1
			if d, over := r.Over(); over {
				if d.By != Precise || d.Cancel {
					t.Fatalf("%+v", d)
				}
				ended++
				requests += n
				if math.Abs(sum/float64(n)-mean) <= 0.05*mean {
					inside++
				}
				break
			}
		}
	}
	if float64(ended) < 0.98*runs || float64(inside) < 0.95*runs {
		t.Errorf("of %d runs %d ended after %d requests each, %d with the mean within 5 %%", runs, ended, requests/max(1, ended), inside)
	}
	t.Logf("%d of %d within, %d requests each", inside, runs, requests/max(1, ended))
}

// The estimate is of the metric that the plan names: the mean gap of all tokens
// counts a long answer for more than a short one, the mean of the requests' times
// per token does not.
func TestRule_precisionMetrics(t *testing.T) {
	for metric, want := range map[string]float64{
		"ttft_ms": 50, "e2e_ms": 100, "tpot_ms": 50.0 / 2 * (1.0/10 + 1.0/40), "itl_ms": 100.0 / 50, "throughput_tok_s": 26,
	} {
		r := New(Config{Until: &Precision{Metric: metric, Within: 0.1, Confidence: 0.9, MinRequests: 40}})
		rng := rand.New(rand.NewPCG(5, 6))
		ended := 0
		for i := range 1000 {
			q := completed(time.Duration(i+1)*time.Second, time.Duration((100+rng.NormFloat64())*float64(time.Millisecond)))
			if i%2 == 0 {
				q.CompletionTokens = 41
			}
			if r.End(q); ended == 0 && r.over != nil {
				ended = i + 1
			}
		}
		d, over := r.Over()
		var got float64
		if _, err := fmt.Sscanf(d.Text, "after %d requests the mean "+metric+" is %g, within 10 %%", new(int), &got); !over || ended < 300 || err != nil || math.Abs(got/want-1) > 0.02 {
			t.Errorf("%s after %d: %+v (%v)", metric, ended, d, err)
		}
	}
	// Values that are all equal have told nothing of how they vary.
	r := New(Config{Until: &Precision{Metric: "e2e_ms", Within: 0.1, Confidence: 0.9, MinRequests: 40}})
	for i := range 2000 {
		r.End(completed(time.Duration(i+1)*time.Second, 100*time.Millisecond))
	}
	if d, over := r.Over(); over {
		t.Errorf("%+v", d)
	}
	// Values that differ widely are not known soon.
	r = New(Config{Until: &Precision{Metric: "e2e_ms", Within: 0.01, Confidence: 0.95, MinRequests: 30}})
	rng := rand.New(rand.NewPCG(5, 6))
	for i := range 500 {
		r.End(completed(time.Hour+time.Duration(i)*time.Second, time.Duration(rng.ExpFloat64()*float64(time.Second))))
	}
	if d, over := r.Over(); over {
		t.Errorf("%+v", d)
	}
}

// A queue is k servers with a common line.
type queue struct {
	k       int
	rate    float64 // arrivals per second
	service func(*rand.Rand) float64
	gap     func(*rand.Rand) float64 // between arrivals, of mean 1; nil: exponential
	ramp    float64                  // seconds over which the rate goes up from 0
	limit   int                      // of requests in flight; 0: none
}

// load returns the share of its capacity that a queue is asked for.
func (q *queue) load() float64 {
	rng := rand.New(rand.NewPCG(9, 9))
	sum := 0.0
	for range 100_000 {
		sum += q.service(rng) / 100_000
	}
	return q.rate * sum / float64(q.k)
}

type times []float64

func (t times) Len() int           { return len(t) }
func (t times) Less(i, j int) bool { return t[i] < t[j] }
func (t times) Swap(i, j int)      { t[i], t[j] = t[j], t[i] }
func (t *times) Push(x any)        { *t = append(*t, x.(float64)) }
func (t *times) Pop() any {
	old := *t
	x := old[len(old)-1]
	*t = old[:len(old)-1]
	return x
}

// ends are requests in flight by their end.
type ends []*result.Request

func (e ends) Len() int           { return len(e) }
func (e ends) Less(i, j int) bool { return e[i].End < e[j].End }
func (e ends) Swap(i, j int)      { e[i], e[j] = e[j], e[i] }
func (e *ends) Push(x any)        { *e = append(*e, x.(*result.Request)) }
func (e *ends) Pop() any {
	old := *e
	x := old[len(old)-1]
	*e = old[:len(old)-1]
	return x
}

// run feeds a rule with n requests of the queue, from empty on, and returns
// after how many it ended the load, and why; 0 is never.
func (q *queue) run(cfg Config, seed uint64, n int) (sent int, by string) {
	gaps, services := rand.New(rand.NewPCG(seed, 7)), rand.New(rand.NewPCG(seed, 8))
	gap := q.gap
	if gap == nil {
		gap = (*rand.Rand).ExpFloat64
	}
	at := func(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
	due := make([]float64, n)           // seconds
	point, most := 0.0, q.rate*q.ramp/2 // of the ramp
	for i := range due {
		point += gap(gaps)
		due[i] = math.Sqrt(2 * point * q.ramp / q.rate)
		if point > most {
			due[i] = q.ramp + (point-most)/q.rate
		}
		cfg.Due = append(cfg.Due, at(due[i]))
	}
	cfg.Open = true
	cfg.Holds = []Hold{{From: at(q.ramp)}}
	r := New(cfg)
	// A request that is sent after a look ends after it.
	free, flying := make(times, q.k), times{}
	var pending ends
	for look := 0.25; sent < n; look += 0.25 {
		for sent < n && due[sent] <= look {
			clock := due[sent]
			for len(flying) > 0 && (flying[0] <= clock || q.limit > 0 && len(flying) == q.limit) {
				clock = max(clock, heap.Pop(&flying).(float64))
			}
			if clock > look {
				heap.Push(&flying, clock) // the limit holds it back
				break
			}
			begun := max(clock, free[0])
			end := begun + q.service(services)
			free[0] = end
			heap.Fix(&free, 0)
			heap.Push(&flying, end)
			heap.Push(&pending, &result.Request{
				Scheduled: at(due[sent]), Sent: at(clock), FirstToken: at(begun + 0.01), LastToken: at(end), End: at(end),
				Status: result.Completed, CompletionTokens: 10,
			})
			sent++
		}
		for len(pending) > 0 && pending[0].End <= at(look) {
			r.End(heap.Pop(&pending).(*result.Request))
		}
		r.InFlight(at(look), sent, len(pending))
		if d, over := r.Over(); over {
			return sent, d.By
		}
	}
	return 0, ""
}

// bursty are gaps of mean 1 whose squared coefficient of variation is 4: short ones,
// and one in ten long.
func bursty(rng *rand.Rand) float64 {
	// A mixture of two exponentials with balanced means.
	const p = 0.8872983346207417 // (1 + sqrt((4-1)/(4+1))) / 2
	if rng.Float64() < p {
		return rng.ExpFloat64() / (2 * p)
	}
	return rng.ExpFloat64() / (2 * (1 - p))
}

func exponential(mean float64) func(*rand.Rand) float64 {
	return func(rng *rand.Rand) float64 { return mean * rng.ExpFloat64() }
}

// lognormal has a coefficient of variation of 1.3.
func lognormal(mean float64) func(*rand.Rand) float64 {
	const sigma = 1.0
	return func(rng *rand.Rand) float64 { return mean * math.Exp(sigma*rng.NormFloat64()-sigma*sigma/2) }
}

func fixed(mean float64) func(*rand.Rand) float64 {
	return func(*rand.Rand) float64 { return mean }
}

// A server that is busy and follows is left alone, and one that does not follow
// is found: queues of many shapes at 80 % and at 120 % of what they carry.
func TestRule_saturated(t *testing.T) {
	const runs, n = 60, 1500
	services := map[string]func(float64) func(*rand.Rand) float64{"exponential": exponential, "lognormal": lognormal, "fixed": fixed}
	falsely, total := 0, 0
	for name, service := range services {
		for _, k := range []int{1, 4, 32} {
			busy := &queue{k: k, rate: 10, service: service(0.08 * float64(k))}
			if rho := busy.load(); math.Abs(rho-0.8) > 0.02 {
				t.Fatalf("%s: load %g", name, rho)
			}
			over := &queue{k: k, rate: 10, service: service(0.12 * float64(k))}
			found, after := 0, 0
			for i := range uint64(runs) {
				if _, by := busy.run(Config{Saturated: true}, i, n); by != "" {
					falsely++
				}
				total++
				if m, by := over.run(Config{Saturated: true}, i, n); by == Saturated {
					found++
					after += m
				}
			}
			t.Logf("%s, %d servers: %d of %d found at 120 %%, after %d requests each", name, k, found, runs, after/max(1, found))
			if float64(found) < 0.9*runs {
				t.Errorf("%s, %d servers: only %d of %d found at 120 %%", name, k, found, runs)
			}
		}
	}
	t.Logf("at 80 %% %d of %d falsely ended", falsely, total)
	if float64(falsely) > 0.01*float64(total) {
		t.Errorf("at 80 %% %d of %d falsely ended", falsely, total)
	}
}

// Bursts, a load that goes up and is carried, and a bound of what is in flight
// neither make a server that follows look like one that does not, nor hide one.
func TestRule_saturatedShapes(t *testing.T) {
	const runs, n = 100, 1500
	for _, c := range []struct {
		name     string
		queue    queue
		at, most float64
	}{
		{"bursts at 90 %", queue{k: 8, rate: 10, service: exponential(0.72), gap: bursty}, 0, 0.03},
		{"bursts at 150 %", queue{k: 8, rate: 10, service: exponential(1.2), gap: bursty}, 0.9, 1},
		{"a ramp that is carried", queue{k: 40, rate: 20, service: exponential(1.4), ramp: 60}, 0, 0.02},
		{"a ramp to 150 %", queue{k: 20, rate: 20, service: exponential(1.5), ramp: 30}, 0.9, 1},
		{"150 % with a limit of 16", queue{k: 8, rate: 10, service: exponential(1.2), limit: 16}, 0.9, 1},
		{"80 % with a limit of 16", queue{k: 8, rate: 10, service: exponential(0.64), limit: 16}, 0, 0.02},
	} {
		found := 0
		for i := range uint64(runs) {
			if _, by := c.queue.run(Config{Saturated: true}, i, n); by == Saturated {
				found++
			}
		}
		t.Logf("%s: %d of %d", c.name, found, runs)
		if share := float64(found) / runs; share < c.at || share > c.most {
			t.Errorf("%s: %d of %d were ended", c.name, found, runs)
		}
	}
}

// However little is asked of an interval, it is no end of a load that its server
// cannot follow; one that it can follow does end so.
func TestRule_precisionOfQueue(t *testing.T) {
	const n = 10_000
	runs := 20
	if slow.Tests {
		runs = 40
	}
	for _, metric := range []string{"ttft_ms", "e2e_ms", "tpot_ms", "throughput_tok_s"} {
		loose := Config{Saturated: true, Until: &Precision{Metric: metric, Within: 0.3, Confidence: 0.8, MinRequests: 30}}
		for _, k := range []int{1, 8} {
			followed, wrong, found := 0, 0, 0
			for i := range uint64(runs) {
				if _, by := (&queue{k: k, rate: 10, service: lognormal(0.04 * float64(k))}).run(loose, i, n); by == Precise {
					followed++
				}
				over := &queue{k: k, rate: 10, service: lognormal(1 * float64(k))}
				if _, by := over.run(loose, i, n); by == Saturated {
					found++
				}
				unwatched := loose
				unwatched.Saturated = false
				if _, by := over.run(unwatched, i, n); by != "" {
					wrong++
				}
			}
			t.Logf("%s, %d servers: at 40 %% %d of %d ended by precision; at 1000 %% %d if nothing else may end it, and %d by saturation", metric, k, followed, runs, wrong, found)
			least := 0.9
			if metric == "ttft_ms" && k == 1 { // services of a cv of 1.3 make waits of a long tail, whose mean takes long
				least = 0.7
			}
			if float64(followed) < least*float64(runs) || float64(wrong) > 0.05*float64(runs) || float64(found) < 0.9*float64(runs) {
				t.Errorf("%s, %d servers: at 40 %% %d of %d ended by precision; at 1000 %% %d if nothing else may end it, and %d by saturation", metric, k, followed, runs, wrong, found)
			}
		}
	}
}

func TestMannKendall(t *testing.T) {
	for _, c := range []struct {
		v    []float64
		want float64
	}{
		{[]float64{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}, 3.936}, // S = 45: (45-1)/sqrt(125)
		{[]float64{10, 9, 8, 7, 6, 5, 4, 3, 2, 1}, -3.936},
		{[]float64{1, 1, 1, 1}, 0},
		{nil, 0},
	} {
		if got := mannKendall(c.v); math.Abs(got-c.want) > 0.001 {
			t.Errorf("%v: %g, want %g", c.v, got, c.want)
		}
	}
}

// A server that refuses at once ends the load, whatever the plan says of errors.
func TestRule_refused(t *testing.T) {
	const ms = time.Millisecond
	refusal := func(took time.Duration) *result.Request {
		return &result.Request{Sent: 5 * ms, End: 5*ms + took, Status: result.Failed, ErrorClass: result.ErrOverload, Error: "HTTP 503"}
	}
	for _, c := range []struct {
		name string
		open bool
		ends func(i int) *result.Request
		at   int // requests after which it ends; 0: never
	}{
		{"all", false, func(int) *result.Request { return refusal(ms) }, refusedRow},
		{"in an open loop", true, func(int) *result.Request { return refusal(ms) }, refusedRow},
		{"just in time", false, func(int) *result.Request { return refusal(100 * ms) }, refusedRow},
		{"slowly", false, func(int) *result.Request { return refusal(101 * ms) }, 0},
		{"one of 50 is slow", false, func(i int) *result.Request { return refusal(time.Duration(i%50+1) / 50 * 101 * ms) }, 0},
		{"one of 50 is answered", false, func(i int) *result.Request {
			if i%50 == 49 {
				return completed(time.Second, time.Second)
			}
			return refusal(ms)
		}, 0},
		{"from a moment on", false, func(i int) *result.Request {
			if i < 300 {
				return completed(time.Second, time.Second)
			}
			return refusal(ms)
		}, 300 + refusedRow},
		{"what was never sent", false, func(int) *result.Request {
			return &result.Request{Sent: result.Never, Status: result.Cancelled}
		}, 0},
		{"the warm-up", false, func(int) *result.Request {
			q := refusal(ms)
			q.Phase = result.Warmup
			return q
		}, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := New(Config{Open: c.open})
			for i := range 1000 {
				r.End(c.ends(i))
				d, over := r.Over()
				if over && (i+1 != c.at || d.By != Refused || !d.Cancel || !strings.Contains(d.Text, "overload: HTTP 503")) {
					t.Fatalf("after %d: %+v", i+1, d)
				}
				if over {
					return
				}
			}
			if c.at > 0 {
				t.Error("it did not end")
			}
		})
	}
}
