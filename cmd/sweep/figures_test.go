package main

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"sweep.dev/sweep/result"
	"sweep.dev/sweep/result/col"
	"sweep.dev/sweep/result/store"
	"sweep.dev/sweep/result/store/storetest"
)

// TestFigures_fromRequests works out every load and latency column of the cells
// table once more, from requests.parquet alone and by the formulas as they are
// written down, for each shape of load. It shares no code with what made them.
func TestFigures_fromRequests(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		matrix, load, more string
		code               int
		rows, requests     int // rows; requests of each, -1 if time tells
		failed             int // of each row
		reason             string
		null               []string // latencies that cannot be measured
	}{
		"closed loop": {
			matrix: "concurrency: 3, max_tokens: [2, 16]", load: "requests: 12, warmup: {requests: 3}", more: "repeats: 2",
			rows: 4, requests: 12,
		},
		"open loop": {
			matrix: "request_rate: 200, max_tokens: 8", load: "requests: 60, arrivals: poisson, max_in_flight: 2",
			rows: 1, requests: -1, // what is due in its ramp comes on top
		},
		"open loop by time": {
			matrix: "request_rate: 100, max_tokens: 8", load: "duration: 400ms, arrivals: constant",
			rows: 1, requests: 40,
		},
		"by time": {
			matrix: "concurrency: 2, max_tokens: 8", load: "duration: 300ms",
			rows: 1, requests: -1,
		},
		"thinking": {
			matrix: "concurrency: 2, max_tokens: 8", load: "requests_per_worker: 4, think_time: 20ms",
			rows: 1, requests: 8,
		},
		"not streamed": {
			matrix: "concurrency: 2, max_tokens: 8", load: "requests: 8, stream: false",
			rows: 1, requests: 8, null: []string{"ttft", "ttfo", "tpot", "itl", "icl"},
		},
		"completions, one token": {
			matrix: "concurrency: 2, max_tokens: 1", load: "requests: 8, endpoint: completions",
			rows: 1, requests: 8, null: []string{"tpot", "itl", "icl"},
		},
		"natural": {
			matrix: "concurrency: 4, max_tokens: 64", load: `requests: 24, output: natural, sampling: {stop: ["the"]}`,
			rows: 1, requests: 24,
		},
		"errors in the stream": {
			matrix: "concurrency: 4, max_tokens: 8", load: "requests: 24, warmup: {requests: 0}",
			more: `engines: {vllm: {args: {fault: "error-after=3,every=4"}}}`,
			code: exitIncomplete, rows: 1, requests: 24, failed: 7, reason: "error_rate",
		},
		"silence": {
			matrix: "concurrency: 4, max_tokens: 8", load: "requests: 24, warmup: {requests: 0}",
			more: `
engines: {vllm: {args: {fault: "hang-after=3,every=4"}}}
timeouts: {request: 1s}`,
			code: exitIncomplete, rows: 1, requests: 24, failed: 7, reason: "error_rate",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			write(t, filepath.Join(dir, "figures.yaml"), fmt.Sprintf(`
version: 1
name: figures
model: Qwen/Qwen2.5-1.5B-Instruct
matrix: {engine: vllm, gpu: h100, %s}
backend: {kind: sim}
load: {%s, prompts: {kind: synthetic, input_tokens: 40}}
%s
`, c.matrix, c.load, c.more))
			out := filepath.Join(dir, "run")
			got := sweep(t, dir, nil, append(append([]string{"run", "-o", out}, rehearsal...), "figures.yaml")...)
			if got.code != c.code {
				t.Fatalf("exit %d, want %d\n%s\n%s", got.code, c.code, got.stdout, got.stderr)
			}
			rows := tableOf(t, filepath.Join(out, "cells.parquet"))
			if len(rows) != c.rows {
				t.Fatalf("%d rows, want %d", len(rows), c.rows)
			}
			attempts := requestsOf(t, filepath.Join(out, "requests.parquet"))
			for _, row := range rows {
				requests := attempts[attemptOf(row)]
				workers, _ := row["concurrency"].(int64) // the first of each comes on top
				if n := row["requests"]; c.requests >= 0 && n != int64(c.requests)+workers || n == int64(0) {
					t.Errorf("%v requests, want %d", n, int64(c.requests)+workers)
				}
				if row["failed"] != int64(c.failed) {
					t.Errorf("%v failed, want %d", row["failed"], c.failed)
				}
				if why, _ := row["invalid_reasons"].(string); why != c.reason {
					t.Errorf("invalid for %q, want %q", why, c.reason)
				}
				open := row["request_rate"] != nil
				for column, want := range figures(requests, open) {
					if _, ok := result.Lookup(result.Columns(result.Extra{}), column+col.WholeSuffix); ok {
						column += col.WholeSuffix
					}
					same(t, column, row[column], want)
				}
				plateau := slices.DeleteFunc(slices.Clone(requests), func(r store.Request) bool { return r.Phase != result.Plateau })
				for column, want := range figures(plateau, open) {
					if _, ok := result.Lookup(result.Columns(result.Extra{}), column+col.CompletedSuffix); ok {
						same(t, column+col.CompletedSuffix, row[column+col.CompletedSuffix], want)
					}
				}
				for _, x := range latencyNames {
					if got, null := row["p50_"+x+"_ms_whole"] == nil, slices.Contains(c.null, x); got != null {
						t.Errorf("%s is null: %v, want %v", x, got, null)
					}
				}
			}
		})
	}
}

var latencyNames = []string{"ttft", "ttfo", "tpot", "itl", "icl", "e2e", "schedule_lag"}

type attemptID struct {
	cell           string
	trial, attempt int64
}

func attemptOf(row result.Row) attemptID {
	return attemptID{row["cell_id"].(string), row["trial"].(int64), row["attempt"].(int64)}
}

// figures returns the columns that follow from one attempt's rows; nil is null. The
// simulated engine tells the tokens of each chunk or puts one in each.
func figures(requests []store.Request, open bool) map[string]any {
	var measured, completed []store.Request
	var failed, cancelled, in, tokens int
	first, last := math.Inf(1), math.Inf(-1)
	for _, r := range requests {
		if r.Phase == result.Warmup {
			continue
		}
		measured = append(measured, r)
		first = min(first, ms(r.Sent))
		switch r.Status {
		case result.Completed:
			completed = append(completed, r)
			last = max(last, ms(r.End))
			in += r.PromptTokens
			tokens += r.CompletionTokens
		case result.Failed:
			failed++
			last = max(last, ms(r.FirstByte), ms(r.LastToken))
		case result.Cancelled:
			cancelled++
		}
	}

	samples := map[string][]float64{}
	add := func(name string, v float64) { samples[name] = append(samples[name], v) }
	for _, r := range measured {
		add("schedule_lag", ms(r.Sent)-ms(r.Scheduled))
	}
	for _, r := range completed {
		start := ms(r.Sent)
		if open {
			start = ms(r.Scheduled)
		}
		end := ms(r.LastToken)
		if len(r.ChunkUS) == 0 {
			end = ms(r.End)
		}
		add("e2e", end-start)
		if r.FirstTokenChunk < 0 {
			continue
		}
		add("ttft", ms(r.FirstToken)-start)
		add("ttfo", ms(r.FirstOutput)-start)
		if n := r.CompletionTokens; n > 1 {
			add("tpot", (end-ms(r.FirstToken))/float64(n-1))
		}
		at, previous := 0.0, 0.0
		for i, us := range r.ChunkUS {
			at += float64(us) / 1000
			if i > r.FirstTokenChunk && (r.ChunkTokens == nil || r.ChunkTokens[i] != 0) {
				add("icl", at-previous)
				k := 1
				if r.ChunkTokens != nil && r.ChunkTokens[i] > 0 {
					k = int(r.ChunkTokens[i])
				}
				for range k {
					add("itl", (at-previous)/float64(k))
				}
			}
			if i <= r.FirstTokenChunk || r.ChunkTokens == nil || r.ChunkTokens[i] != 0 {
				previous = at
			}
		}
	}

	seconds := (last - first) / 1000
	out := map[string]any{
		"requests": int64(len(measured)), "completed": int64(len(completed)), "failed": int64(failed), "cancelled": int64(cancelled),
		"error_rate":   float64(failed) / float64(len(completed)+failed),
		"input_tokens": int64(in), "output_tokens": int64(tokens), "duration_s": seconds,
		"request_throughput": float64(len(completed)) / seconds, "throughput_tok_s": float64(tokens) / seconds,
		"total_throughput_tok_s": float64(in+tokens) / seconds, "p50_user_tok_s": nil,
	}
	for _, x := range latencyNames {
		for stat, v := range describe(samples[x]) {
			out[stat+"_"+x+"_ms"] = v
		}
	}
	if p50, ok := out["p50_tpot_ms"].(float64); ok {
		out["p50_user_tok_s"] = 1000 / p50
	}
	return out
}

// describe returns the eight statistics, by their textbook definitions.
func describe(v []float64) map[string]any {
	names := []string{"mean", "std", "min", "p50", "p90", "p95", "p99", "max"}
	out := map[string]any{}
	for _, name := range names {
		out[name] = nil
	}
	if len(v) == 0 {
		return out
	}
	slices.Sort(v)
	mean, square := 0.0, 0.0
	for _, x := range v {
		mean += x / float64(len(v))
	}
	for _, x := range v {
		square += (x - mean) * (x - mean) / float64(len(v))
	}
	out["mean"], out["std"], out["min"], out["max"] = mean, math.Sqrt(square), v[0], v[len(v)-1]
	for name, p := range map[string]float64{"p50": 50, "p90": 90, "p95": 95, "p99": 99} {
		// Each order statistic counts as much as it is near.
		rank := p / 100 * float64(len(v)-1)
		sum := 0.0
		for i, x := range v {
			sum += x * max(0, 1-math.Abs(float64(i)-rank))
		}
		out[name] = sum
	}
	return out
}

// same compares to a nanosecond in times, to which each request's own figure is
// rounded, and to a millionth elsewhere.
func same(t *testing.T, column string, got, want any) {
	t.Helper()
	g, ok := got.(float64)
	w, ok2 := want.(float64)
	if ok2 && (math.IsInf(w, 0) || math.IsNaN(w)) { // a median of zero: no column holds what is no number
		ok2, want = false, nil
	}
	if ok && ok2 && math.Abs(g-w) <= 1e-6*math.Max(1, math.Abs(w)) {
		return
	}
	if ok || ok2 || got != want {
		t.Errorf("%s is %v, but its requests give %v", column, got, want)
	}
}

func ms[T ~int64](d T) float64 { return float64(d) / 1e6 }

func tableOf(t *testing.T, path string) []result.Row {
	t.Helper()
	f, size := opened(t, path)
	_, rows, err := storetest.ReadTable(f, size)
	if err != nil {
		t.Fatal(err)
	}
	return rows
}

func requestsOf(t *testing.T, path string) map[attemptID][]store.Request {
	t.Helper()
	f, size := opened(t, path)
	out := map[attemptID][]store.Request{}
	for r, err := range store.ReadRequests(f, size) {
		if err != nil {
			t.Fatal(err)
		}
		id := attemptID{r.Cell, int64(r.Trial), int64(r.Attempt)}
		out[id] = append(out[id], r)
	}
	return out
}

func opened(t *testing.T, path string) (*os.File, int64) {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	st, err := f.Stat()
	if err != nil {
		t.Fatal(err)
	}
	return f, st.Size()
}
