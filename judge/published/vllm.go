package published

import (
	"encoding/json"
	"math"
	"slices"
	"strings"
)

// latencyKinds returns the latencies in vllm's and InferenceX' names.
func latencyKinds() map[string]kind {
	return map[string]kind{"ttft": ttft, "tpot": tpot, "intvty": tpot, "itl": gap, "e2el": e2e}
}

// readVLLM reads what vllm bench serve --save-result writes; more can be told with
// --save-detailed.
func readVLLM(data json.RawMessage) ([]*load, error) {
	var f struct {
		Completed   *int     `json:"completed"`
		Failed      *int     `json:"failed"`
		Rate        any      `json:"request_rate"`
		Concurrency *int     `json:"max_concurrency"`
		Ramp        *string  `json:"ramp_up_strategy"`
		Duration    *float64 `json:"duration"`
		ITL         *float64 `json:"mean_itl_ms"`
		TPOT        *float64 `json:"mean_tpot_ms"`
		E2E         *float64 `json:"mean_e2el_ms"`
		Input       *float64 `json:"total_input_tokens"`
		Output      *float64 `json:"total_output_tokens"`

		Starts  []float64   `json:"start_times"`
		TTFTs   []float64   `json:"ttfts"`
		ITLs    [][]float64 `json:"itls"`
		Outputs []int       `json:"output_lens"`
		Errors  []string    `json:"errors"`
	}
	if err := json.Unmarshal(data, &f); err != nil {
		return nil, err
	}
	l := newLoad("vllm bench serve", "")
	l.concurrency, l.ramped = count(f.Concurrency, 0), f.Ramp != nil
	if rate, ok := f.Rate.(float64); ok && finite(rate) { // "inf" is none
		l.rate = rate
	}
	l.completed, l.failed = count(f.Completed, unknown), count(f.Failed, unknown)
	l.duration, l.itlMean, l.tpMean = value(f.Duration), value(f.ITL), value(f.TPOT)
	l.e2eMean = value(f.E2E) / 1e3
	l.rates = []rate{
		{"request_throughput", float64(l.completed), "completed requests"},
		{"output_throughput", value(f.Output), "output tokens"},
		{"total_token_throughput", value(f.Input) + value(f.Output), "tokens"},
	}
	var err error
	if l.figures, err = figuresOf(data, vllmFigure); err != nil {
		return nil, err
	}
	n := len(f.Starts)
	if n == 0 || len(f.TTFTs) != n || len(f.ITLs) != n || len(f.Outputs) != n {
		return []*load{l}, nil
	}
	for i := range n {
		if i < len(f.Errors) && f.Errors[i] != "" || f.TTFTs[i] <= 0 {
			continue // failed
		}
		end := f.Starts[i] + f.TTFTs[i]
		for _, g := range f.ITLs[i] {
			end += g
		}
		l.requests = append(l.requests, request{
			start: f.Starts[i], end: end, ttft: f.TTFTs[i], delay: math.NaN(), gaps: f.ITLs[i], tokens: f.Outputs[i], chunks: len(f.ITLs[i]) + 1,
		})
	}
	return []*load{l}, nil
}

// vllmFigure returns the kind of a figure by its name, and the percentile.
func vllmFigure(name string) (kind, float64) {
	switch name {
	case "request_throughput", "output_throughput", "total_token_throughput":
		return throughput, 0
	case "max_output_tokens_per_s":
		return peak, 0
	}
	statistic, rest, _ := strings.Cut(name, "_")
	latency, ok := strings.CutSuffix(rest, "_ms")
	if !ok {
		return other, 0
	}
	return latencyKinds()[latency], percentileOf(statistic)
}

// readInferenceX reads a row, which has neither requests nor their number.
func readInferenceX(data json.RawMessage) ([]*load, error) {
	var f struct {
		Concurrency int      `json:"conc"`
		Framework   string   `json:"framework"`
		ITL         *float64 `json:"mean_itl"`
		TPOT        *float64 `json:"mean_tpot"`
	}
	if err := json.Unmarshal(data, &f); err != nil {
		return nil, err
	}
	l := newLoad("InferenceX", "")
	l.concurrency, l.itlMean, l.tpMean = f.Concurrency, value(f.ITL), value(f.TPOT)
	var err error
	l.figures, err = figuresOf(data, func(name string) (kind, float64) {
		if strings.HasSuffix(name, "tput_per_gpu") {
			return throughput, 0
		}
		statistic, latency, _ := strings.Cut(name, "_")
		return latencyKinds()[latency], percentileOf(statistic)
	})
	return []*load{l}, err
}

// figuresOf returns the numbers of an object that a function knows, sorted by their kinds.
func figuresOf(data json.RawMessage, of func(name string) (kind, float64)) ([]figure, error) {
	var all map[string]any
	if err := json.Unmarshal(data, &all); err != nil {
		return nil, err
	}
	var list []figure
	for name, v := range all {
		n, ok := v.(float64)
		if !ok {
			continue
		}
		if k, p := of(name); k != other {
			_, family, _ := strings.Cut(name, "_")
			list = append(list, figure{name, k, p, family, n})
		}
	}
	sortFigures(list)
	return list, nil
}

func sortFigures(list []figure) {
	slices.SortFunc(list, func(a, b figure) int {
		switch {
		case a.kind != b.kind:
			return int(a.kind - b.kind)
		case a.p != b.p && a.p < b.p:
			return -1
		case a.p != b.p:
			return 1
		}
		return strings.Compare(a.name, b.name)
	})
}

func count(n *int, none int) int {
	if n == nil || *n < 0 {
		return none
	}
	return *n
}

func value(v *float64) float64 {
	if v == nil || !finite(*v) {
		return math.NaN()
	}
	return *v
}
