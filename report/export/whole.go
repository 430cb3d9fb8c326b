package export

import (
	"math"
	"slices"
	"time"

	"sweep.dev/sweep/result"
	"sweep.dev/sweep/result/timeline"
)

// A whole is what vllm bench says of a load: figures over the whole trial, from the
// completed requests alone, each latency from the send.
//
// Its definitions (vllm/benchmarks/serve.py and lib/endpoint_request_func.py, 0.32.0):
// TTFT ends with the first chunk that has a choice, also one without text; ITL are the
// gaps between such chunks, also the one before the chunk that only ends the answer;
// E2EL ends with the last of them; TPOT = (E2EL - TTFT) / (n - 1) for n > 1 output
// tokens. The duration goes from the first send to the end of the last request.
type whole struct {
	completed, failed, cancelled int
	duration                     time.Duration
	input, output                int // tokens; result.Unknown

	ttft, tpot, itl, e2e []float64 // ms, sorted

	maxChunks, maxConcurrent int // in the fullest second
}

func wholeOf(requests []result.Request) whole {
	var w whole
	first, last := time.Duration(math.MaxInt64), time.Duration(0)
	for i := range requests {
		if r := &requests[i]; r.Sent >= 0 {
			first, last = min(first, r.Sent), max(last, r.End)
		}
	}
	chunks, concurrent := map[int]int{}, map[int]int{}
	for i := range requests {
		r := &requests[i]
		switch {
		case r.Sent < 0:
			continue
		case r.Status == result.Failed:
			w.failed++
			continue
		case r.Status != result.Completed:
			w.cancelled++
			continue
		}
		w.completed++
		w.input, w.output = plus(w.input, r.PromptTokens), plus(w.output, r.CompletionTokens)
		w.latencies(r)
		at := r.Sent
		for j, us := range r.ChunkUS {
			at += time.Duration(us) * time.Microsecond
			chunks[int((at-first)/time.Second)]++
			if j > 0 {
				w.itl = append(w.itl, float64(us)/1e3)
			}
		}
		for s := (r.Sent - first) / time.Second; s <= (timeline.Done(r)-first)/time.Second; s++ {
			concurrent[int(s)]++
		}
	}
	if last > first {
		w.duration = last - first
	}
	for s, n := range concurrent {
		w.maxConcurrent, w.maxChunks = max(w.maxConcurrent, n), max(w.maxChunks, chunks[s])
	}
	for _, values := range [][]float64{w.ttft, w.tpot, w.itl, w.e2e} {
		slices.Sort(values)
	}
	return w
}

// latencies takes in those that a completed request has once.
func (w *whole) latencies(r *result.Request) {
	end := timeline.Done(r) - r.Sent
	if len(r.ChunkUS) == 0 { // not streamed
		w.e2e = append(w.e2e, result.Milliseconds(end))
		return
	}
	ttft := time.Duration(r.ChunkUS[0]) * time.Microsecond
	end = 0
	for _, us := range r.ChunkUS {
		end += time.Duration(us) * time.Microsecond
	}
	w.ttft, w.e2e = append(w.ttft, result.Milliseconds(ttft)), append(w.e2e, result.Milliseconds(end))
	if n := r.CompletionTokens; n > 1 {
		w.tpot = append(w.tpot, result.Milliseconds(end-ttft)/float64(n-1))
	}
}

// plus is a sum that is unknown once a part of it is.
func plus(sum, n int) int {
	if sum == result.Unknown || n < 0 {
		return result.Unknown
	}
	return sum + n
}

// moments are the mean and the population's standard deviation, as numpy has them.
func moments(values []float64) (mean, std float64) {
	for _, v := range values {
		mean += v
	}
	mean /= float64(len(values))
	for _, v := range values {
		std += (v - mean) * (v - mean)
	}
	return mean, math.Sqrt(std / float64(len(values)))
}
