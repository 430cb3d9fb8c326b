package validity

import (
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"sweep.dev/sweep/load"
	"sweep.dev/sweep/result"
	"sweep.dev/sweep/result/bounds"
	"sweep.dev/sweep/result/col"
	"sweep.dev/sweep/result/finding"
	"sweep.dev/sweep/result/objective"
	"sweep.dev/sweep/result/summary"
	"sweep.dev/sweep/result/timeline"
)

// loaded returns the evidence of 200 requests on four slots, with nothing wrong: TTFT 100 ms, 20
// gaps of 20 ms. figured fills in what is made of them.
func loaded(open bool) *Evidence {
	e := &Evidence{Open: open, Health: load.Health{Client: "fast", StampKind: result.StampKernel}, Row: result.Row{}}
	for n := range 200 {
		turn := time.Duration(n / 4)
		at := turn*510*ms + time.Duration(n%4)*127*ms
		r := result.Request{
			N: n, Slot: n % 4, Phase: result.Plateau, Scheduled: at, Sent: at, Status: result.Completed, Stamp: result.StampKernel,
			CompletionTokens: 21, TokenSource: "usage", MaxTokens: 21, FirstTokenChunk: 0, ChunkUS: []int32{100_000},
		}
		for range 20 {
			r.ChunkUS = append(r.ChunkUS, 20_000)
		}
		r.FirstToken, r.FirstOutput = at+100*ms, at+100*ms
		r.LastToken, r.End = at+500*ms, at+500*ms
		e.Requests = append(e.Requests, r)
	}
	for range 1000 {
		e.Health.Lag.Add(40 * time.Microsecond)
	}
	return e
}

// figured fills in the figures, and objectives if there are some.
func (e *Evidence) figured(objectives ...objective.Comparison) *Evidence {
	last := e.Requests[len(e.Requests)-1].End
	o := summary.Options{Open: e.Open, Goodput: &summary.Goodput{TTFT: 95}, Span: timeline.Span{Steady: true, To: last, Last: last}}
	e.Figures = func(s *summary.Shift) (result.Row, []result.SLOResult) {
		o.Shift = s
		row, _ := summary.Of(e.Requests, o)
		trial := objective.Of(e.Requests, o)
		var slos []result.SLOResult
		for _, c := range objectives {
			p := result.SLOPart{Rule: result.RulePoint}
			trial.Decide(&p, nil, []objective.Comparison{c}, 0.95)
			slos = append(slos, result.SLOResult{Parts: []result.SLOPart{p}, Verdict: p.Verdict})
		}
		return row, slos
	}
	own, _ := e.Figures(nil)
	maps.Copy(own, e.Row)
	e.Row = own
	return e
}

// merge has the last tokens of a request come in one read, and its first ones if first: their
// times are that of the last of them.
func (e *Evidence) merge(n int, by time.Duration) {
	r := &e.Requests[n]
	k := int(by / (20 * ms))
	r.ChunkUS[0] += int32(k) * 20_000
	for i := range k {
		r.ChunkUS[1+i] = 0
	}
	r.FirstToken += time.Duration(k) * 20 * ms
	r.Coalesced, r.StampError = k, by
}

func (e *Evidence) late(every int, by time.Duration) {
	for i := range e.Requests {
		r := &e.Requests[i]
		if i%every == 0 && i > 8 {
			r.Sent += by
			r.FirstToken, r.FirstOutput, r.LastToken, r.End = r.FirstToken+by, r.FirstOutput+by, r.LastToken+by, r.End+by
		}
	}
}

// Each cause of the client moves some figures and leaves others, which may be used.
func TestJudge_moved(t *testing.T) {
	for name, c := range map[string]struct {
		open    bool
		spoil   func(*Evidence)
		code    finding.Code // "" for none
		valid   bool
		bad     []string
		good    []string
		says    string
		without string // is not in the words
	}{
		"nothing": {spoil: func(*Evidence) {}, valid: true, good: columns()},
		"one request of a hundred sent late": {
			open: true, spoil: func(e *Evidence) { e.late(100, 40*ms) }, valid: true,
			good: []string{col.P50TTFTMs, col.P95TTFTMs, col.P50TPOTMs, col.P95TPOTMs, col.P95E2EMs, col.ThroughputTokS},
		},
		"half of an open loop sent late": {
			open: true, spoil: func(e *Evidence) { e.late(2, 15*ms) }, code: finding.ScheduleLag,
			bad: []string{col.P95TTFTMs, col.P50TTFTMs}, good: []string{col.P50TPOTMs, col.P95TPOTMs, col.ThroughputTokS}, says: "TTFT not usable",
		},
		"an open loop that cannot be held": {
			open: true, spoil: func(e *Evidence) { e.late(1, 300*ms); e.MaxInFlight = 7 }, code: finding.ScheduleLag,
			bad: []string{col.P95TTFTMs, col.P95TPOTMs, col.P95E2EMs}, says: "max_in_flight 7",
		},
		"a closed loop that lacks 2 %": {
			spoil: func(e *Evidence) { e.late(1, 10*ms) }, code: finding.ScheduleLag, bad: []string{col.P50TTFTMs},
			good: []string{col.P50TPOTMs, col.ThroughputTokS, col.RequestThroughput, col.P95E2EMs}, says: "too short; ", without: "tokens/s not usable",
		},
		"a closed loop that lacks 9 %": {
			spoil: func(e *Evidence) { e.late(1, 50*ms) }, code: finding.ScheduleLag,
			bad: []string{col.P50TPOTMs, col.ThroughputTokS, col.RequestThroughput}, says: "tokens/s not usable, up to 9.5 % too low",
		},
		"a client that stood": {
			spoil: func(e *Evidence) { e.late(1, 50*ms); e.Health.MaxGap = 1500 * ms }, code: finding.ClientStalled,
			bad: []string{col.ThroughputTokS}, says: "the client did not run for 1.5s: its process was stopped",
		},
		"a client that stood, and nothing waited": {spoil: func(e *Evidence) { e.Health.MaxGap = 1500 * ms }, valid: true, good: columns()},
		"its own stamps, 1 ms off":                {spoil: func(e *Evidence) { e.user(ms) }, valid: true, good: []string{col.P50TTFTMs, col.P95TPOTMs, col.P95E2EMs}},
		"its own stamps, 8 ms off": {
			spoil: func(e *Evidence) { e.user(8 * ms) }, code: finding.ClientLag,
			bad: []string{col.P50TTFTMs, col.P99ITLMs, col.GoodShare}, good: []string{col.P50TPOTMs, col.P95E2EMs, col.ThroughputTokS}, says: "TTFT not usable, up to 8 ms too long",
		},
		"one late read": {
			spoil: func(e *Evidence) { e.slowly(); e.merge(50, 100*ms) }, valid: true,
			good: []string{col.P50TTFTMs, col.P95TTFTMs, col.P50TPOTMs, col.P95TPOTMs, col.P95E2EMs, col.ThroughputTokS},
		},
		"late reads of first tokens": {spoil: func(e *Evidence) {
			e.slowly()
			for n := range 30 {
				e.merge(50+n, 100*ms)
			}
		}, code: finding.Coalesced, bad: []string{col.P95TTFTMs}, good: []string{col.P50TTFTMs, col.P50E2EMs, col.P95E2EMs, col.ThroughputTokS}, says: "the client read late or"},
		"a server that holds back": {
			spoil: func(e *Evidence) {
				for n := range 200 {
					e.merge(n, 60*ms)
				}
			}, code: finding.Coalesced, valid: true,
			bad: []string{col.P95ITLMs}, good: []string{col.P50TTFTMs, col.P95TTFTMs, col.P95TPOTMs, col.P95ICLMs},
			says: "the client read soon",
		},
		"connections of few closed": {spoil: func(e *Evidence) { e.Health.Reopened = 2 }, valid: true, good: []string{col.P95TTFTMs, col.ThroughputTokS}},
		"connections closed": {
			spoil: func(e *Evidence) { e.Health.Reopened = 11 }, code: finding.ConnectionsReopened,
			bad: []string{col.P95TTFTMs, col.ThroughputTokS}, good: []string{col.P50TTFTMs}, says: "11 of 200",
		},
		"one connection closed": {spoil: func(e *Evidence) { e.Requests = e.Requests[:12]; e.Health.Reopened = 1 }, valid: true},
		"closed under a request": {spoil: func(e *Evidence) {
			e.Health.Reopened = 3
			for n := range 9 {
				r := &e.Requests[9*n]
				r.Status, r.ErrorClass, r.FirstByte, r.End = result.Failed, result.ErrReset, result.Never, r.Sent+ms
			}
		}, code: finding.ConnectionsReopened, bad: []string{col.ThroughputTokS}, says: "3 waited for another, 9 failed"},
		"closed under a request that was at work": {spoil: func(e *Evidence) {
			for n := range 9 {
				r := &e.Requests[9*n]
				r.Status, r.ErrorClass, r.FirstByte, r.End = result.Failed, result.ErrReset, result.Never, r.Sent+time.Second
			}
		}, valid: true},
		"the clock set once": {
			spoil: func(e *Evidence) { e.Health.ClockSteps = []load.ClockStep{{At: 5 * time.Second, By: -30 * ms}} }, valid: true,
			good: []string{col.P50TTFTMs, col.P95TTFTMs, col.P95TPOTMs},
		},
		"the clock set and set": {spoil: func(e *Evidence) {
			for n := range 100 {
				e.Health.ClockSteps = append(e.Health.ClockSteps, load.ClockStep{At: time.Duration(n) * 250 * ms, By: -30 * ms})
			}
		}, code: finding.ClockStep, bad: []string{col.P50TTFTMs}, good: []string{col.ThroughputTokS}, says: "100 times: by -30ms at 0.0 s"},
		"a clock that no stamp is on": {spoil: func(e *Evidence) {
			e.user(0)
			e.Health.ClockSteps = make([]load.ClockStep, 3)
		}, valid: true, good: columns()},
		"clients that begin together": {spoil: func(e *Evidence) { e.shards(10 * ms); e.Row[col.RampS] = 0.1 }, valid: true, good: columns()},
		"a client that begins late": {
			spoil: func(e *Evidence) { e.shards(2 * time.Second) }, code: finding.ClientSkew,
			bad: []string{col.ThroughputTokS}, says: "began 2s after client 0",
		},
		"a clock that is not known": {
			spoil: func(e *Evidence) { e.shards(0); e.Health.Shards[1].OffsetError = time.Second }, code: finding.ClientClock,
			bad: []string{col.ThroughputTokS}, good: []string{col.P50TTFTMs, col.P95TPOTMs},
		},
		"a clock that drifts": {
			spoil: func(e *Evidence) { e.shards(0); e.Health.Shards[0].Drift = 50 * ms }, code: finding.ClientClock,
			bad: []string{col.P50TTFTMs}, good: []string{col.ThroughputTokS},
		},
	} {
		t.Run(name, func(t *testing.T) {
			e := loaded(c.open)
			c.spoil(e)
			v := Judge(*e.figured(), bounds.Defaults())
			found := slices.Concat(v.Reasons, v.Remarks)
			switch {
			case c.code == finding.Code{}:
			case !slices.ContainsFunc(found, func(f result.Finding) bool { return f.Code == c.code && strings.Contains(f.Text, c.says) }):
				t.Errorf("%s (%q) is not in %+v", c.code, c.says, found)
			case c.without != "" && strings.Contains(found[0].Text, c.without):
				t.Errorf("%q is in %s", c.without, found[0].Text)
			}
			if (len(v.Reasons) == 0) != c.valid {
				t.Errorf("VALID %v: %+v; %v", len(v.Reasons) == 0, found, v.Figures)
			}
			for _, column := range c.bad {
				if !slices.Contains(v.Figures, column) {
					t.Errorf("%s is VALID: %v, %+v", column, v.Figures, found)
				}
			}
			for _, column := range c.good {
				if slices.Contains(v.Figures, column) {
					t.Errorf("%s is INVALID: %v to %v, %+v", column, v.Low[column], v.High[column], found)
				}
			}
			b := bounds.Defaults()
			b.Moved = 1000
			if v := Judge(*e, b); len(v.Reasons) > 0 || len(v.Figures) > 0 {
				t.Errorf("nothing counts, and yet %+v", v)
			}
		})
	}
}

// user has the client take the times itself, known to be so far off.
func (e *Evidence) user(by time.Duration) {
	e.Health.StampKind, e.Health.Lag = result.StampUser, load.Durations{}
	for i := range e.Requests {
		e.Requests[i].Stamp = result.StampUser
	}
	e.Row[col.CalibratedErrorMs] = float64(by) / float64(ms)
}

// slowly has seen as many late reads as chunks that shared one.
func (e *Evidence) slowly() {
	for range 200 {
		e.Health.Lag.Add(8 * ms)
	}
}

// shards has two clients, of which the second begins late.
func (e *Evidence) shards(late time.Duration) {
	e.Health.Shards = []load.ShardHealth{{}, {Shard: 1, Late: late}}
	for i := range e.Requests {
		e.Requests[i].Shard = i % 2
	}
}

// An objective that holds at one end of what the truth may be and not at the other is no
// verdict: undecided where requests are too few for it, and INVALID where it would turn over.
func TestJudge_objective(t *testing.T) {
	for limit, want := range map[float64]string{200: result.SLOPass, 103.3: result.SLOUndecided, 100.5: "INVALID"} {
		e := loaded(false)
		rng := rand.New(rand.NewPCG(1, 2))
		for i := range e.Requests {
			by := time.Duration(rng.IntN(1000)) * time.Microsecond
			r := &e.Requests[i]
			r.FirstToken -= by
			r.ChunkUS[0] -= int32(by / time.Microsecond)
		}
		e.late(1, 4*ms) // 0.8 % of the load is missing
		e.figured(objective.Comparison{Column: col.P50TTFTMs, Op: "<", Limit: limit})
		again := e.Figures
		own, slos := again(nil) // made once, as of a trial
		e.Figures = func(s *summary.Shift) (result.Row, []result.SLOResult) {
			if s == nil {
				return own, slos
			}
			return again(s)
		}
		v := Judge(*e, bounds.Defaults())
		got := v.SLOs[0].Verdict
		wide := bounds.Defaults()
		if wide.Moved = 1000; Judge(*e, wide).SLOs[0].Verdict != result.SLOPass {
			t.Errorf("limit %v: the verdict by other bounds stays", limit)
		}
		if slices.Contains(v.Figures, col.P50TTFTMs) {
			got = "INVALID"
		}
		if got != want {
			t.Errorf("limit %v: %s, want %s; %v to %v, %+v", limit, got, want, v.Low[col.P50TTFTMs], v.High[col.P50TTFTMs], v.SLOs)
		}
	}
}

// allowed returns how far a figure may be off in any case.
func allowed(column string) float64 {
	if latency, _ := figureOf(column); latency != "" {
		return floor
	}
	return 1e-9
}

// Whatever a late reader does to chunks, no figure is off by more than its bound: the truth is
// known here, and recorded is what a client with the kernel's stamps makes of it.
func TestJudge_lateReader(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	for range 60 {
		truth, seen := loaded(false), loaded(false)
		seen.Health.Lag = load.Durations{}
		worst, busy := time.Duration(1+rng.IntN(80))*ms, 0.02+0.3*rng.Float64()
		for i := range truth.Requests {
			own, r := &truth.Requests[i], &seen.Requests[i]
			jitter(own, rng)
			record(own, r, &seen.Health.Lag, func() time.Duration {
				if rng.Float64() < busy {
					return time.Duration(rng.Int64N(int64(worst)))
				}
				return 30 * time.Microsecond
			})
		}
		truth.figured()
		v := Judge(*seen.figured(), bounds.Defaults())
		for _, column := range columns() {
			if strings.Contains(column, "itl") || strings.Contains(column, "icl") || v.Low == nil {
				continue
			}
			is, was := truth.Row.Float(column), seen.Row.Float(column)
			low, high := v.Low.Float(column), math.Inf(1)
			if v, ok := v.High.Number(column); ok {
				low, high = min(low, v), max(low, v) // of goodput the other way round
			}
			if is < low-1e-6 || is > high+1e-6 {
				t.Errorf("reads late by up to %v: %s is %.3f, was seen as %.3f, from %.3f to %.3f", worst, column, is, was, low, high)
			}
			if off := math.Abs(is - was); !slices.Contains(v.Figures, column) && off > max(0.05*was, allowed(column)) {
				t.Errorf("reads late by up to %v: %s is VALID and off by %.3f of %.3f", worst, column, off, was)
			}
		}
	}
}

// jitter gives a request times of its own.
func jitter(r *result.Request, rng *rand.Rand) {
	t := r.Sent
	for i := range r.ChunkUS {
		r.ChunkUS[i] = int32(float64(r.ChunkUS[i]) * (0.7 + 0.6*rng.Float64()))
		t += time.Duration(r.ChunkUS[i]) * time.Microsecond
		if i == 0 {
			r.FirstToken, r.FirstOutput = t, t
		}
	}
	r.LastToken, r.End = t, t
}

// record is what a client that reads with delays makes of the chunks of a request: each read
// takes all that has come, with the time of the last of them.
func record(truth, r *result.Request, lag *load.Durations, delay func() time.Duration) {
	var at []time.Duration
	t := truth.Sent
	for _, us := range truth.ChunkUS {
		t += time.Duration(us) * time.Microsecond
		at = append(at, t)
	}
	stamps := make([]time.Duration, len(at))
	empty := truth.Sent // when the connection was last seen empty
	for i := 0; i < len(at); {
		read := at[i] + delay()
		j := i
		for j < len(at) && at[j] <= read {
			j++
		}
		for k := i; k < j; k++ {
			stamps[k] = at[j-1]
			if k > i {
				r.Coalesced++
				r.StampError = max(r.StampError, at[j-1]-empty)
			}
		}
		lag.Add(read - at[j-1])
		empty, i = read, j
	}
	r.Sent, r.Scheduled = truth.Sent, truth.Scheduled
	last := r.Sent
	for i, s := range stamps {
		r.ChunkUS[i] = int32((s - last) / time.Microsecond)
		last = s
	}
	r.FirstToken, r.FirstOutput, r.LastToken, r.End = stamps[0], stamps[0], last, last
}
