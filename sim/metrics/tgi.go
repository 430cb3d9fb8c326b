package metrics

import (
	"io"
	"math"

	"sweep.dev/sweep/sim/live"
)

// TGIBounds returns the buckets of TGI's router
// (https://github.com/huggingface/text-generation-inference/blob/main/router/src/server.rs):
// of times a geometric row, of tokens a hundredth of the longest sequence.
func TGIBounds(longest int) live.Bounds {
	times := geometric(0.00015, 1.5, 35)
	tokens := make([]float64, 100)
	for i := range tokens {
		tokens[i] = float64(longest) / 100 * float64(i+1)
	}
	return live.Bounds{TTFT: times, Gap: times, TPOT: times, E2E: times, Queue: times, Prefill: times, Phase: times, Tokens: tokens}
}

// TGI writes the names of TGI's router. Its counters lack _total, and a counter
// of tokens there is only as the sum of a histogram.
func TGI(w io.Writer, s *Snapshot) {
	e := &exposition{w: w, digits: -1}
	e.family("tgi_request_count", "counter", "Total number of requests")
	e.series("tgi_request_count", "", float64(s.Counts.MaxTokens.Total()))
	e.counter("tgi_request_success", "Number of successful requests", float64(s.finished()-s.Counts.Finished["abort"]))
	e.family("tgi_request_failure", "counter", "Number of failed requests, by error")
	if n := s.Counts.Finished["abort"]; n > 0 {
		e.series("tgi_request_failure", `err="generation"`, float64(n))
	}
	e.gauge("tgi_queue_size", "Current number of requests in the queue", float64(s.Waiting))
	e.gauge("tgi_batch_current_size", "Current batch size", float64(s.Running))
	e.gauge("tgi_batch_current_max_tokens", "Maximum tokens for the current batch", math.Round(s.KVUsage*float64(s.Config.KVTokens())))
	e.histogram("tgi_request_duration", "Request duration", s.Counts.E2E)
	e.histogram("tgi_request_queue_duration", "Request queue duration", s.Counts.Queue)
	e.histogram("tgi_request_inference_duration", "Request inference duration", s.Counts.Inference)
	e.histogram("tgi_request_mean_time_per_token_duration", "Mean time per token per request", s.Counts.TPOT)
	e.histogram("tgi_request_input_length", "Input token length per request", s.Counts.Prompt)
	e.histogram("tgi_request_generated_tokens", "Generated tokens per request", s.Counts.Generation)
	e.histogram("tgi_request_max_new_tokens", "Maximum new tokens per request", s.Counts.MaxTokens)
	none := live.Histogram{Bounds: s.Counts.Prompt.Bounds, Counts: make([]uint64, len(s.Counts.Prompt.Counts))}
	none.Counts[0] = s.Counts.Prompt.Total()
	e.histogram("tgi_request_skipped_tokens", "Speculated tokens per request", none)
	e.family("tgi_batch_inference_count", "counter", "Inference calls per method (prefill or decode)")
	e.series("tgi_batch_inference_count", `method="prefill"`, float64(s.Counts.TTFT.Total()))
	e.series("tgi_batch_inference_count", `method="decode"`, float64(s.Steps))
	e.family("tgi_batch_inference_success", "counter", "Number of successful inference calls per method (prefill or decode)")
	e.series("tgi_batch_inference_success", `method="prefill"`, float64(s.Counts.TTFT.Total()))
	e.series("tgi_batch_inference_success", `method="decode"`, float64(s.Steps))
}
