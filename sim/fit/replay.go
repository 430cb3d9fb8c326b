package fit

import (
	"cmp"
	"math"
	"slices"
	"time"

	"sweep.dev/sweep/result"
	"sweep.dev/sweep/result/col"
	"sweep.dev/sweep/sim/core"
)

// A Request is one that a server was sent.
type Request struct {
	Slot   int           // of a closed loop
	Sent   time.Duration // since the load began
	Wait   time.Duration // since the slot's last request ended; unused in an open loop
	Prompt int           // tokens
	Cached int           // of them, as the server said
	Output int           // tokens
	// Times of one that completed; 0 for one that did not, which is load alone.
	TTFT, TPOT, E2E time.Duration
}

// A Cell is what one cell of a run has measured.
type Cell struct {
	Label    string
	Open     bool        // requests are sent at their times, whatever the server does
	Config   core.Config // of its server, on paper
	Requests []Request
}

// Figures are percentiles in ms by their columns; a percentile of nothing is not there.
type Figures map[string]float64

// A figure is one of [Figures].
type figure struct {
	column string
	of     func(*Request) time.Duration
	q      float64
	fitted bool // counts in the least squares
}

func ttft(r *Request) time.Duration { return r.TTFT }
func tpot(r *Request) time.Duration { return r.TPOT }
func e2e(r *Request) time.Duration  { return r.E2E }

// figures returns all of them.
func figures() []figure {
	return []figure{
		{col.P50TTFTMs, ttft, 0.5, true},
		{col.P95TTFTMs, ttft, 0.95, true},
		{col.P50TPOTMs, tpot, 0.5, true},
		{col.P95TPOTMs, tpot, 0.95, false},
		{col.P50E2EMs, e2e, 0.5, false},
		{col.P95E2EMs, e2e, 0.95, false},
	}
}

// Of returns the figures of requests.
func Of(requests []Request) Figures {
	all := Figures{}
	for _, f := range figures() {
		var values []float64
		for i := range requests {
			if d := f.of(&requests[i]); d > 0 {
				values = append(values, float64(d)/1e6)
			}
		}
		if slices.Sort(values); len(values) > 0 {
			all[f.column] = result.Quantile(values, f.q)
		}
	}
	return all
}

// Replay sends the requests of a cell through its server with some constants. Those that
// did not complete are sent too, and have no times.
func (c *Cell) Replay(k core.Constants) []Request {
	cfg := c.Config
	cfg.Constants, cfg.Jitter = k, 0
	engine := core.New(cfg)
	out := slices.Clone(c.Requests)
	var due []int             // of an open loop in order, of a closed one the first of each slot
	next := make(map[int]int) // of each request the slot's next; there is none for the last
	at := make([]time.Duration, len(out))
	order := make([]int, len(out))
	for i := range out {
		order[i], at[i] = i, out[i].Sent
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(out[a].Sent, out[b].Sent) })
	last := map[int]int{}
	for _, i := range order {
		if before, ok := last[out[i].Slot]; ok && !c.Open {
			next[before] = i
		} else {
			due = append(due, i)
		}
		last[out[i].Slot] = i
	}
	running := map[int]int{}
	first := make([]time.Duration, len(out))
	var now time.Duration
	for len(due) > 0 || len(running) > 0 {
		slices.SortStableFunc(due, func(a, b int) int { return cmp.Compare(at[a], at[b]) })
		for len(due) > 0 && at[due[0]] <= now {
			i := due[0]
			due = due[1:]
			running[engine.Add(at[i], core.Request{Prompt: unlike(i, out[i].Prompt), MaxTokens: max(1, out[i].Output), Known: out[i].Cached})] = i
		}
		step, busy := engine.Begin(now)
		if !busy {
			if len(due) == 0 {
				break // what is left can never be scheduled
			}
			now = at[due[0]]
			continue
		}
		now = step.End
		for _, o := range engine.End() {
			i := running[o.ID]
			if o.N == 1 {
				first[i] = now
			}
			if o.Finish == core.Running {
				continue
			}
			delete(running, o.ID)
			r := &out[i]
			if r.E2E > 0 {
				r.TTFT, r.E2E, r.TPOT = first[i]-at[i], now-at[i], 0
				if o.N > 1 {
					r.TPOT = (now - first[i]) / time.Duration(o.N-1)
				}
			}
			if n, ok := next[i]; ok {
				at[n] = now + out[n].Wait
				due = append(due, n)
			}
		}
	}
	return out
}

// unlike returns a prompt that shares no prefix with another.
func unlike(seed, n int) []uint32 {
	p := make([]uint32, max(1, n))
	for i := range p {
		p[i] = uint32(seed)<<12 ^ uint32(i)
	}
	return p
}

// An offset is how far a figure is off: the logarithm of simulated / measured.
type offset struct {
	column string
	log    float64
}

// off returns those of the figures that are fitted.
func (c *Cell) off(k core.Constants, measured Figures) []offset {
	simulated := Of(c.Replay(k))
	var list []offset
	for _, f := range figures() {
		m, known := measured[f.column]
		if !f.fitted || !known {
			continue
		}
		// Nothing at all, where the server could not have served it, is as far off as ten
		// times.
		r := math.Log(10)
		if s := simulated[f.column]; s > 0 {
			r = math.Log(s / m)
		}
		list = append(list, offset{f.column, r})
	}
	return list
}
