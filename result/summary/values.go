package summary

import (
	"time"

	"sweep.dev/sweep/result"
	"sweep.dev/sweep/result/timeline"
)

// Lost reports whether a request counts as infinite if failures do: it failed, or was
// given up because the load was ended for what was measured.
func (o Options) Lost(r *result.Request) bool {
	given := r.Status == result.Cancelled && !r.Planned && o.EndedEarly && (o.Open || r.Sent >= 0)
	return r.Status == result.Failed || given
}

// Prefilled returns when the prompt of a completed request had been read: its first token,
// or where the answer was not streamed, its end.
func Prefilled(r *result.Request) time.Duration {
	if r.FirstToken >= 0 {
		return r.FirstToken
	}
	return timeline.Done(r)
}

// AppendValues adds the values of one latency (ttft, ttfo, tpot, itl, icl, e2e or
// schedule_lag) that a request has, in milliseconds: as many as it has gaps of itl and
// icl, one at most of the others. But for schedule_lag, the request is completed.
func AppendValues(values []float64, r *result.Request, latency string, open bool) []float64 {
	ns := int64(result.Never)
	ttft, tpot, e2e := latenciesOf(r, open)
	switch latency {
	case "ttft":
		ns = ttft
	case "tpot":
		ns = tpot
	case "e2e":
		ns = e2e
	case "ttfo":
		if r.FirstOutput >= 0 {
			ns = int64(r.FirstOutput - begin(r, open))
		}
	case "schedule_lag":
		ns = int64(r.Sent - r.Scheduled)
	case "itl", "icl":
		for _, gap := range gapsOf(r, latency == "itl") {
			values = append(values, float64(gap)/1e6)
		}
		return values
	}
	if ns >= 0 {
		values = append(values, float64(ns)/1e6)
	}
	return values
}

// gapsOf returns the gaps of a request's tokens, or of its chunks, in nanoseconds.
func gapsOf(r *result.Request, tokens bool) []int64 {
	if r.FirstTokenChunk < 0 || r.FirstTokenChunk >= len(r.ChunkUS) {
		return nil
	}
	if !tokens {
		return appendChunkGaps(nil, r)
	}
	return appendTokenGaps(nil, r, grainOf(r))
}
