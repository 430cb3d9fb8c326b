//go:build bench

package benchmarks

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"runtime"
	"runtime/metrics"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"sweep.dev/sweep/load"
	"sweep.dev/sweep/load/arrivals"
	"sweep.dev/sweep/load/client"
	"sweep.dev/sweep/load/source"
	"sweep.dev/sweep/load/wire"
	"sweep.dev/sweep/result"
)

// workerEnv makes this test binary the measuring client: it holds an order.
const workerEnv = "SWEEP_BENCH_WORKER"

// An order is one run of a client in a process of its own.
type order struct {
	Client  string // std or fast
	URL     string // of the server
	Query   string // n=200&itl=10000...
	Streams int
	Seconds float64 // measured, after Warm
	Warm    float64
	Once    bool    // one request a stream, to its end
	Rate    float64 // an open loop of so many requests a second, for Seconds
	// Truth keeps the answers, in which the server wrote when it sent each chunk.
	// It costs, so that what is measured then is no cost.
	Truth bool
}

// A finding is what one run says of the client.
type finding struct {
	Wall, CPU   float64 // seconds, of the measured part
	Chunks      int     // in it
	Allocs      float64 // per chunk
	RSSPerSlot  float64 // bytes, without 8 a chunk
	Coalesced   float64 // ratio
	Loop        float64
	Stamps      string
	TTFT        []float64 // ms; mean p50 p99
	TTFTError   float64   // ms; mean TTFT - that of the stamps
	Gap         []float64 // ms; p50 p95 p99
	TruthGap    []float64
	TruthTTFT   []float64 // ms; mean p50 p99
	Error       []float64 // us; p50 p99 p999, receive time - send time
	Lag         []float64 // us; p50 p99: read - kernel stamp
	ScheduleLag []float64 // us; p50 p99
	Throughput  float64   // tokens/s
	Failed      int
	FirstError  string
}

func (f finding) perChunk() float64 { return f.CPU / float64(max(1, f.Chunks)) * 1e6 }

// worker runs the order of the environment, if there is one, or the part of it.
func worker() bool {
	if part() {
		return true
	}
	text := os.Getenv(workerEnv)
	if text == "" {
		return false
	}
	if err := work(context.Background(), text); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	return true
}

// work runs the order of the environment and prints what it found.
func work(ctx context.Context, text string) error {
	var o order
	if err := json.Unmarshal([]byte(text), &o); err != nil {
		return err
	}
	d, err := client.New(wire.Config{
		BaseURL: o.URL, Path: "/v1/chat/completions?" + o.Query, Model: "m", Chat: true, Stream: true, IncludeUsage: true,
	}, o.Client)
	if err != nil {
		return err
	}
	defer d.Close()
	query, err := url.ParseQuery(o.Query)
	if err != nil {
		return err
	}
	tokens, err := strconv.Atoi(query.Get("n"))
	if err != nil {
		return err
	}
	c := source.Config{
		Concurrency: o.Streams, MaxTokens: tokens, Deadline: 5 * time.Minute,
		Duration: time.Duration((o.Warm + o.Seconds) * float64(time.Second)),
		Prompts:  source.Prompts{InputTokens: 16},
	}
	switch {
	case o.Rate > 0:
		c.Concurrency, c.Pace = 0, arrivals.Steady(o.Rate, arrivals.Process{})
	case o.Once:
		c.Duration, c.Requests = 0, o.Streams
	}
	src, err := source.New(c)
	if err != nil {
		return err
	}
	var in load.Source = src
	if o.Truth {
		in = keeping{src}
	}
	w := &watch{from: o.Warm, to: o.Warm + o.Seconds, rss: rss()}
	anchor, mono := anchored()
	drain := time.Minute
	if !o.Once && !o.Truth && o.Rate == 0 {
		// The measured part is over; the test need not wait for the last answers.
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Duration((o.Warm+o.Seconds+0.4)*float64(time.Second)))
		defer cancel()
		drain = 0
	}
	h, err := d.Run(ctx, in, w, load.Options{Anchor: anchor, Progress: w.progress, Drain: drain})
	if err != nil {
		return err
	}
	f := w.finding(&o, h, mono)
	return json.NewEncoder(os.Stdout).Encode(f)
}

// keeping asks for the text of every answer.
type keeping struct{ load.Source }

func (k keeping) Next(slot int, prev *result.Request) (load.Job, bool) {
	j, ok := k.Source.Next(slot, prev)
	j.KeepAnswer = true
	return j, ok
}

// anchored returns an anchor and the monotonic clock, in nanoseconds, at its zero.
func anchored() (result.Anchor, int64) {
	var a result.Anchor
	var mono int64
	for best := int64(1 << 62); best > 200; {
		from := now()
		try := result.NewAnchor()
		if took := now() - from; took < best {
			a, mono, best = try, from+took/2, took
		}
		if best < 2000 {
			break
		}
	}
	return a, mono
}

func now() int64 {
	var t unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &t)
	return t.Nano()
}

// A watch marks what has been used at the two ends of the measured part.
type watch struct {
	from, to float64 // seconds
	rss      int64   // before
	rows     []result.Request

	mu          sync.Mutex
	start       time.Time
	begin, end  mark
	peak        int64
	chunksAtRSS int
}

type mark struct {
	at     time.Time
	cpu    time.Duration
	allocs uint64
	tokens int
}

func (w *watch) Record(r result.Request) { w.rows = append(w.rows, r) }

func (w *watch) progress(p load.Progress) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.start.IsZero() {
		w.start = time.Now()
	}
	m := mark{at: time.Now(), cpu: cpu(), allocs: allocs(), tokens: p.OutputTokens}
	since := m.at.Sub(w.start).Seconds()
	switch {
	case since < w.from:
	case w.begin.at.IsZero():
		w.begin = m
	case since <= w.to:
		w.end = m
		w.peak, w.chunksAtRSS = rss(), p.OutputTokens
	}
}

func allocs() uint64 {
	s := []metrics.Sample{{Name: "/gc/heap/allocs:objects"}}
	metrics.Read(s)
	return s[0].Value.Uint64()
}

// rss returns the memory of the process that is its own: pages of the program that
// come in as it runs belong to no stream.
func rss() int64 {
	b, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0
	}
	_, line, _ := strings.Cut(string(b), "\nRssAnon:")
	var kb int64
	_, _ = fmt.Sscan(line, &kb)
	return kb << 10
}

func (w *watch) finding(o *order, h load.Health, mono int64) finding {
	f := finding{
		Coalesced: float64(h.Coalesced) / float64(max(1, h.Chunks)), Loop: h.Loop, Stamps: h.StampKind,
		Lag: []float64{us(h.Lag.Quantile(0.5)), us(h.Lag.Quantile(0.99))},
	}
	if !w.end.at.IsZero() {
		f.Wall = w.end.at.Sub(w.begin.at).Seconds()
		f.CPU = (w.end.cpu - w.begin.cpu).Seconds()
		f.Chunks = w.end.tokens - w.begin.tokens
		f.Allocs = float64(w.end.allocs-w.begin.allocs) / float64(max(1, f.Chunks))
		f.RSSPerSlot = float64(w.peak-w.rss-8*int64(w.chunksAtRSS)) / float64(max(1, o.Streams))
	}
	var ttft, truth, gaps, truthGaps, errs, lag []float64
	var first, last time.Duration
	tokens := 0
	for i := range w.rows {
		r := &w.rows[i]
		if r.Status == result.Cancelled {
			continue
		}
		if r.Status != result.Completed {
			f.Failed++
			if f.FirstError == "" {
				f.FirstError = string(r.Status) + " " + r.ErrorClass + ": " + r.Error
			}
			continue
		}
		if first == 0 || r.Sent < first {
			first = r.Sent
		}
		last = max(last, r.End)
		tokens += r.CompletionTokens
		lag = append(lag, us(r.Sent-r.Scheduled))
		ttft = append(ttft, us(r.FirstToken-r.Sent)/1000)
		stamps := sent(r.Answer)
		at := r.Sent.Microseconds()
		var before, beforeTruth int64
		for k, n := 0, 0; k < len(r.ChunkUS); k++ {
			at += int64(r.ChunkUS[k])
			if k < r.FirstTokenChunk || k < len(r.ChunkTokens) && r.ChunkTokens[k] == 0 {
				continue
			}
			if o.Truth && n == len(stamps) {
				break
			}
			if n > 0 {
				gaps = append(gaps, float64(at-before)/1000)
			}
			if o.Truth {
				// The receive times are floors of whole microseconds.
				told := float64(stamps[n]-mono) / 1000
				if time.Duration(at)*time.Microsecond > time.Duration(o.Warm*float64(time.Second)) {
					errs = append(errs, float64(at)+0.5-told)
				}
				if n == 0 {
					truth = append(truth, (told-us(r.Sent))/1000)
				} else {
					truthGaps = append(truthGaps, float64(stamps[n]-beforeTruth)/1e6)
				}
				beforeTruth = stamps[n]
			}
			before = at
			n++
		}
	}
	f.Throughput = float64(tokens) / max(1e-9, (last-first).Seconds())
	f.TTFT = []float64{mean(ttft), quantile(ttft, 0.5), quantile(ttft, 0.99)}
	f.TruthTTFT = []float64{mean(truth), quantile(truth, 0.5), quantile(truth, 0.99)}
	f.TTFTError = f.TTFT[0] - f.TruthTTFT[0]
	f.Gap = []float64{quantile(gaps, 0.5), quantile(gaps, 0.95), quantile(gaps, 0.99)}
	f.TruthGap = []float64{quantile(truthGaps, 0.5), quantile(truthGaps, 0.95), quantile(truthGaps, 0.99)}
	f.Error = []float64{quantile(errs, 0.5), quantile(errs, 0.99), quantile(errs, 0.999)}
	f.ScheduleLag = []float64{quantile(lag, 0.5), quantile(lag, 0.99)}
	runtime.KeepAlive(w)
	return f
}

// sent returns the send times in an answer, in nanoseconds: "T" and 20 digits each.
func sent(answer string) []int64 {
	var out []int64
	for len(answer) >= 21 && answer[0] == 'T' {
		ns, err := strconv.ParseInt(answer[1:21], 10, 64)
		if err != nil {
			break
		}
		out = append(out, ns)
		answer = answer[21:]
	}
	return out
}

func us(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

func mean(v []float64) float64 {
	sum := 0.0
	for _, x := range v {
		sum += x
	}
	return sum / float64(max(1, len(v)))
}

// quantile sorts v; 0 for none.
func quantile(v []float64, p float64) float64 {
	if len(v) == 0 {
		return 0
	}
	slices.Sort(v)
	return result.Quantile(v, p)
}
