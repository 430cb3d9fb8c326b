package export

import (
	"iter"
	"maps"
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

	ttft, tpot, e2e []float64 // ms, sorted
	itl             gaps

	maxChunks, maxConcurrent int // in the fullest second
}

// wholeOf goes through the requests twice, as their seconds count from the first send.
func wholeOf(requests iter.Seq2[*result.Request, error]) (*whole, error) {
	first, last := time.Duration(math.MaxInt64), time.Duration(0)
	for r, err := range requests {
		if err != nil {
			return nil, err
		}
		if r.Sent >= 0 {
			first, last = min(first, r.Sent), max(last, r.End)
		}
	}
	w := whole{itl: gaps{}, duration: max(0, last-first)}
	chunks, concurrent := map[int]int{}, map[int]int{}
	for r, err := range requests {
		switch {
		case err != nil:
			return nil, err
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
				w.itl[us]++
			}
		}
		for s := (r.Sent - first) / time.Second; s <= (timeline.Done(r)-first)/time.Second; s++ {
			concurrent[int(s)]++
		}
	}
	for s, n := range concurrent {
		w.maxConcurrent, w.maxChunks = max(w.maxConcurrent, n), max(w.maxChunks, chunks[s])
	}
	for _, values := range [][]float64{w.ttft, w.tpot, w.e2e} {
		slices.Sort(values)
	}
	return &w, nil
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

// plus returns a sum that is unknown once a part of it is.
func plus(sum, n int) int {
	if sum == result.Unknown || n < 0 {
		return result.Unknown
	}
	return sum + n
}

// gaps are times between chunks in microseconds, with how often each came: a load has
// thousands of different ones and may have hundreds of millions in all.
type gaps map[int32]int

// all yields every gap in ms, in ascending order.
func (g gaps) all() iter.Seq[float64] {
	distinct := slices.Sorted(maps.Keys(g))
	return func(yield func(float64) bool) {
		for _, us := range distinct {
			for range g[us] {
				if !yield(float64(us) / 1e3) {
					return
				}
			}
		}
	}
}

// quantile is [result.Quantile] of n sorted values.
func quantile(sorted iter.Seq[float64], n int, p float64) float64 {
	h := p * float64(n-1)
	var near []float64
	i := 0
	for v := range sorted {
		if i++; i > int(h) {
			near = append(near, v)
		}
		if len(near) == 2 {
			break
		}
	}
	return result.Quantile(near, h-math.Floor(h))
}

// moments returns the number of values, their mean and the population's standard deviation,
// as numpy has them.
func moments(values iter.Seq[float64]) (n int, mean, std float64) {
	for v := range values {
		n++
		mean += v
	}
	mean /= float64(n)
	for v := range values {
		std += (v - mean) * (v - mean)
	}
	return n, mean, math.Sqrt(std / float64(n))
}
