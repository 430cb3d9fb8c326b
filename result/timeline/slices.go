package timeline

import (
	"slices"
	"time"

	"sweep.dev/sweep/result"
)

// Step is the usual length of a slice.
const Step = time.Second

// maxSlices bounds the slices of one trial: a day of seconds. Where the step
// would make more, it is lengthened.
const maxSlices = 86_400

// A Slice is what a trial was like in one part of its time. Durations are
// result.Never where nothing in the slice has them.
type Slice struct {
	Start  time.Duration // offset from the trial's anchor
	Length time.Duration

	InFlight  float64 // mean of the requests in flight
	Started   int     // requests sent
	Completed int     // requests that ended as they should
	Failed    int     // requests that ended otherwise, but for the cancelled ones
	Tokens    float64 // output tokens that arrived, of all requests

	TTFT50, TTFTMax time.Duration // of the requests sent in the slice
	TPOT            time.Duration // gaps that ended in the slice / their tokens
	ICL50           time.Duration // median of those gaps
}

// TokensPerSecond returns the rate at which output arrived.
func (s Slice) TokensPerSecond() float64 { return s.Tokens / s.Length.Seconds() }

// Of cuts a trial into slices of the given length, the first from its first
// send and the last with its last byte. The warm-up and the probe do not count.
// In an open loop a time to first token starts when the request was scheduled.
func Of(requests []result.Request, step time.Duration, open bool) []Slice {
	first, last, ok := bounds(requests)
	if !ok || step <= 0 {
		return nil
	}
	step = max(step, (last-first)/maxSlices+1)
	n := max(1, int((last-first+step-1)/step))
	return cut(requests, first, last, step, n, open, true)
}

// cut makes n slices from start on. The last one ends at end, if that is earlier: a rate
// over time in which nothing could come would be too low. Without gaps it leaves ICL50 out, which is
// most of the work.
func cut(requests []result.Request, start, end, step time.Duration, n int, open, gaps bool) []Slice {
	out := make([]Slice, n)
	ttft, icl := make([][]int64, n), make([][]int64, n)
	waited, counted := make([]time.Duration, n), make([]float64, n)
	for i := range out {
		out[i] = Slice{Start: start + time.Duration(i)*step, Length: step}
	}
	if last := &out[n-1]; end > last.Start {
		last.Length = min(step, end-last.Start)
	}
	// at is the slice of a moment, or -1. The end of the last slice is its own:
	// there the last byte of a plateau comes.
	at := func(t time.Duration) int {
		i := int((t - start) / step)
		switch {
		case t < start || i > n || i == n && t > start+time.Duration(n)*step:
			return -1
		}
		return min(i, n-1)
	}
	for i := range requests {
		r := &requests[i]
		if !sent(r) {
			continue
		}
		if s := at(r.Sent); s >= 0 {
			out[s].Started++
			if r.FirstToken >= 0 {
				ttft[s] = append(ttft[s], int64(r.FirstToken-begin(r, open)))
			}
		}
		if s := at(r.End); s >= 0 {
			switch r.Status {
			case result.Completed:
				out[s].Completed++
			case result.Failed:
				out[s].Failed++
			}
		}
		for s := max(0, int((r.Sent-start)/step)); s < n && out[s].Start < r.End; s++ {
			from, to := max(r.Sent, out[s].Start), min(r.End, out[s].Start+out[s].Length)
			if to > from {
				out[s].InFlight += float64(to-from) / float64(out[s].Length)
			}
		}
		previous := result.Never
		Arrivals(r, func(t time.Duration, tokens float64) {
			s := at(t)
			if s >= 0 {
				out[s].Tokens += tokens
				if previous >= 0 {
					waited[s] += t - previous
					counted[s] += tokens
					if gaps {
						icl[s] = append(icl[s], int64(t-previous))
					}
				}
			}
			previous = t
		})
	}
	for i := range out {
		s := &out[i]
		s.TTFT50, s.TTFTMax, s.TPOT = median(ttft[i]), result.Never, result.Never
		if len(ttft[i]) > 0 {
			s.TTFTMax = time.Duration(slices.Max(ttft[i]))
		}
		if counted[i] > 0 {
			s.TPOT = time.Duration(float64(waited[i]) / counted[i])
		}
		s.ICL50 = median(icl[i])
	}
	return out
}

// begin returns the moment from which the latencies of a request count.
func begin(r *result.Request, open bool) time.Duration {
	if open {
		return r.Scheduled
	}
	return r.Sent
}

func median(values []int64) time.Duration {
	if len(values) == 0 {
		return result.Never
	}
	slices.Sort(values)
	return time.Duration(result.Quantile(values, 0.5))
}

// Arrivals yields when the output of a request arrived, and how many tokens at
// a time. Chunks of which the server does not say it are taken for equally many
// tokens, so that all of them are the tokens that it counted in the end; if
// it did not count, for one. An answer that was not streamed came at its end.
func Arrivals(r *result.Request, yield func(at time.Duration, tokens float64)) {
	counted := r.TokenSource == result.FromUsage && r.CompletionTokens >= 0
	if r.FirstTokenChunk < 0 || r.FirstTokenChunk >= len(r.ChunkUS) {
		if r.Status == result.Completed && r.CompletionTokens > 0 {
			yield(Done(r), float64(r.CompletionTokens))
		}
		return
	}
	tokens := func(i int) float64 {
		if i >= len(r.ChunkTokens) || r.ChunkTokens[i] == result.Unknown {
			return 1
		}
		return float64(r.ChunkTokens[i])
	}
	scale := 1.0
	if counted {
		sum := 0.0
		for i := r.FirstTokenChunk; i < len(r.ChunkUS); i++ {
			sum += tokens(i)
		}
		if sum > 0 {
			scale = float64(r.CompletionTokens) / sum
		}
	}
	var us int64
	for i, d := range r.ChunkUS {
		us += int64(d)
		if k := tokens(i); i >= r.FirstTokenChunk && k > 0 {
			yield(r.Sent+time.Duration(us)*time.Microsecond, k*scale)
		}
	}
}

// Samples returns slices as series of the client, each value at the end of its
// slice. What a slice does not have makes no sample.
func Samples(all []Slice) []result.Sample {
	var out []result.Sample
	for _, s := range all {
		add := func(name string, v float64, unit string) {
			out = append(out, result.Sample{T: s.Start + s.Length, Source: result.FromClient, Name: name, Value: v, Unit: unit})
		}
		add(InFlight, s.InFlight, "requests")
		add(Started, float64(s.Started), "requests")
		add(Completed, float64(s.Completed), "requests")
		add(Failed, float64(s.Failed), "requests")
		add(OutputRate, s.TokensPerSecond(), "tokens/s")
		for _, d := range []struct {
			name string
			v    time.Duration
		}{{TTFT50, s.TTFT50}, {TTFTMax, s.TTFTMax}, {TPOT, s.TPOT}, {ICL50, s.ICL50}} {
			if d.v >= 0 {
				add(d.name, float64(d.v)/1e6, "ms")
			}
		}
	}
	return out
}

// The names of those series.
const (
	InFlight   = "client_in_flight"
	Started    = "client_requests_started"
	Completed  = "client_requests_completed"
	Failed     = "client_requests_failed"
	OutputRate = "client_output_tok_s"
	TTFT50     = "client_ttft_p50_ms"
	TTFTMax    = "client_ttft_max_ms"
	TPOT       = "client_tpot_ms"
	ICL50      = "client_icl_p50_ms"
)
