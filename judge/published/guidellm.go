package published

import (
	"encoding/json"
	"math"
)

// readGuideLLM reads benchmarks.json, which has the requests. Its inter-token latency is
// (last - first) / (n - 1) of a request, as TPOT elsewhere; it has no gaps.
func readGuideLLM(data json.RawMessage) ([]*load, error) {
	type stat struct {
		Successful *struct {
			Mean        *float64            `json:"mean"`
			Percentiles map[string]*float64 `json:"percentiles"`
		} `json:"successful"`
	}
	type stats struct {
		Info struct {
			Timings struct {
				Scheduled *float64 `json:"scheduled_at"`
				Start     *float64 `json:"request_start"`
				First     *float64 `json:"first_token_iteration"`
				Last      *float64 `json:"last_token_iteration"`
				Chunks    *int     `json:"token_iterations"`
				End       *float64 `json:"request_end"`
			} `json:"timings"`
		} `json:"info"`
		Input struct {
			Tokens *int `json:"text_tokens"`
			Cached *int `json:"cached_tokens"`
		} `json:"input_metrics"`
		Output struct {
			Tokens *int `json:"total_tokens"`
		} `json:"output_metrics"`
	}
	var f struct {
		Metadata struct {
			Version string `json:"guidellm_version"`
		} `json:"metadata"`
		Benchmarks []struct {
			Config struct {
				Strategy struct {
					Type    string   `json:"type_"`
					Streams int      `json:"streams"`
					Rate    *float64 `json:"rate"`
					Ramp    float64  `json:"rampup_duration"`
				} `json:"strategy"`
			} `json:"config"`
			Scheduler struct {
				Made struct {
					Successful *int `json:"successful"`
					Errored    int  `json:"errored"`
					Incomplete int  `json:"incomplete"`
				} `json:"requests_made"`
			} `json:"scheduler_metrics"`
			Duration *float64        `json:"duration"`
			Metrics  json.RawMessage `json:"metrics"`
			Requests struct {
				Successful []stats `json:"successful"`
			} `json:"requests"`
		} `json:"benchmarks"`
	}
	if err := json.Unmarshal(data, &f); err != nil {
		return nil, err
	}
	if len(f.Benchmarks) > MaxLoads {
		return nil, tooMany()
	}
	var loads []*load
	for _, b := range f.Benchmarks {
		l := newLoad("guidellm", f.Metadata.Version)
		strategy, made := b.Config.Strategy, b.Scheduler.Made
		switch strategy.Type {
		case "concurrent":
			l.concurrency = strategy.Streams
		case "synchronous":
			l.concurrency = 1
		}
		if strategy.Rate != nil {
			l.rate = *strategy.Rate
		}
		l.ramped = strategy.Ramp > 0
		l.completed, l.duration = count(made.Successful, unknown), value(b.Duration)
		if l.completed >= 0 {
			l.failed = made.Errored + made.Incomplete
		}
		var metrics map[string]json.RawMessage
		if err := json.Unmarshal(b.Metrics, &metrics); err != nil {
			return nil, err
		}
		for name, k := range map[string]kind{
			"time_to_first_token_ms": ttft, "inter_token_latency_ms": tpot, "request_latency": e2e,
			"output_tokens_per_second": throughput, "requests_per_second": throughput, "tokens_per_second": throughput,
		} {
			var s stat
			if json.Unmarshal(metrics[name], &s) != nil || s.Successful == nil {
				continue
			}
			if s.Successful.Mean != nil {
				l.figures = append(l.figures, figure{name + " mean", k, 0, name, *s.Successful.Mean})
			}
			if k == throughput {
				continue // its percentiles are of instants
			}
			for p, v := range s.Successful.Percentiles {
				if v != nil && percentileOf(p) >= 0.5 {
					l.figures = append(l.figures, figure{name + " " + p, k, percentileOf(p), name, *v})
				}
			}
		}
		sortFigures(l.figures)
		input, cached, known := 0, 0, len(b.Requests.Successful) > 0
		for _, r := range b.Requests.Successful {
			t := r.Info.Timings
			last := value(t.Last)
			if t.Last == nil {
				last = value(t.End)
			}
			start := value(t.Start)
			l.requests = append(l.requests, request{
				start: start, end: last, ttft: value(t.First) - start, delay: start - value(t.Scheduled),
				tokens: count(r.Output.Tokens, 0), chunks: count(t.Chunks, 0),
			})
			if r.Input.Tokens == nil || r.Input.Cached == nil {
				known = false
				continue
			}
			input, cached = input+*r.Input.Tokens, cached+*r.Input.Cached
		}
		if known && input > 0 {
			l.cachedShare = math.Min(1, float64(cached)/float64(input))
		}
		// Its figures of tokens come from the usage, and of chunks it has none.
		l.chunksAreNamed = true
		loads = append(loads, l)
	}
	return loads, nil
}
