package published

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"math"
	"strconv"
	"strings"
)

// aiperfMetrics returns the figures of aiperf by their tags, with their names in the CSV. Its
// inter-token latency is TPOT; gaps are in inter_chunk_latency.
func aiperfMetrics() []struct {
	tag, title string
	kind       kind
} {
	return []struct {
		tag, title string
		kind       kind
	}{
		{"time_to_first_token", "Time to First Token (ms)", ttft},
		{"inter_token_latency", "Inter Token Latency (ms)", tpot},
		{"inter_chunk_latency", "Inter Chunk Latency (ms)", chunk},
		{"request_latency", "Request Latency (ms)", e2e},
		{"output_token_throughput", "Output Token Throughput (tokens/sec)", throughput},
		{"total_token_throughput", "Total Token Throughput (tokens/sec)", throughput},
		{"request_throughput", "Request Throughput (requests/sec)", throughput},
		{"completed_request_count", "Completed Requests (Success + Error)", other},
		{"request_count", "Request Count", other},
		{"error_request_count", "Error Request Count", other},
		{"benchmark_duration", "Benchmark Duration (sec)", other},
		{"credit_to_start_latency", "Credit-to-Start Latency (ms)", other},
		{"effective_concurrency", "Effective Concurrency", other},
		{"output_token_count", "Output Token Count (tokens)", other},
		{"usage_prompt_tokens", "Usage Prompt Tokens (tokens)", other},
		{"usage_prompt_cache_read_tokens", "Usage Prompt Cache Read Tokens (tokens)", other},
	}
}

// readAIPerf reads profile_export_aiperf.json.
func readAIPerf(data json.RawMessage) ([]*load, error) {
	var f struct {
		Version string `json:"aiperf_version"`
		Input   struct {
			Phases json.RawMessage `json:"phases"`
		} `json:"input_config"`
	}
	if err := json.Unmarshal(data, &f); err != nil {
		return nil, err
	}
	var all map[string]json.RawMessage
	if err := json.Unmarshal(data, &all); err != nil {
		return nil, err
	}
	metrics := map[string]map[string]float64{}
	for _, m := range aiperfMetrics() {
		var stats map[string]any
		if json.Unmarshal(all[m.tag], &stats) != nil {
			continue
		}
		metrics[m.tag] = map[string]float64{}
		for s, v := range stats {
			if n, ok := v.(float64); ok {
				metrics[m.tag][s] = n
			}
		}
	}
	l := aiperfLoad(f.Version, metrics)
	var phases []struct {
		Name        string   `json:"name"`
		Concurrency *int     `json:"concurrency"`
		Rate        *float64 `json:"rate"`
		Ramp        any      `json:"concurrency_ramp"`
	}
	if json.Unmarshal(f.Input.Phases, &phases) == nil {
		for _, p := range phases {
			if p.Name == "profiling" {
				l.concurrency, l.ramped = count(p.Concurrency, 0), p.Ramp != nil
				if p.Rate != nil {
					l.rate = *p.Rate
				}
			}
		}
	}
	return []*load{l}, nil
}

// readAIPerfCSV reads profile_export_aiperf.csv: two decimals, and neither concurrency
// nor version.
func readAIPerfCSV(data []byte) ([]*load, error) {
	r := csv.NewReader(bytes.NewReader(data))
	r.FieldsPerRecord = -1
	rows, err := r.ReadAll()
	if err != nil {
		return nil, err
	}
	metrics := map[string]map[string]float64{}
	var head []string
	for _, row := range rows {
		if row[0] == "Metric" {
			head = row
			continue
		}
		for _, m := range aiperfMetrics() {
			if row[0] != m.title {
				continue
			}
			metrics[m.tag] = map[string]float64{}
			for i := 1; i < min(len(row), len(head)); i++ {
				if v, err := strconv.ParseFloat(row[i], 64); err == nil {
					metrics[m.tag][strings.ReplaceAll(head[i], "Value", "avg")] = v
				}
			}
		}
	}
	return []*load{aiperfLoad("", metrics)}, nil
}

// aiperfLoad returns the load of some metrics, by tag and statistic.
func aiperfLoad(version string, metrics map[string]map[string]float64) *load {
	l := newLoad("aiperf", version)
	get := func(tag, statistic string) float64 {
		if v, ok := metrics[tag][statistic]; ok {
			return v
		}
		return math.NaN()
	}
	for _, m := range aiperfMetrics() {
		if m.kind == other {
			continue
		}
		for s, v := range metrics[m.tag] {
			p := percentileOf(s)
			if s == "avg" || p >= 0.5 && m.kind != throughput {
				l.figures = append(l.figures, figure{m.tag + " " + s, m.kind, p, m.tag, v})
			}
		}
	}
	sortFigures(l.figures)
	whole := func(v float64) int {
		if !finite(v) || v < 0 || v > math.MaxInt32 {
			return unknown
		}
		return int(math.Round(v))
	}
	// request_count are the completed ones, completed_request_count the failed too;
	// there is no count of failures if there were none.
	l.completed = whole(get("request_count", "avg"))
	if all := whole(get("completed_request_count", "avg")); all >= 0 && l.completed >= 0 {
		l.failed = max(0, all-l.completed)
	} else if n := whole(get("error_request_count", "avg")); n >= 0 {
		l.failed = n
	}
	l.duration = get("benchmark_duration", "avg")
	l.rates = []rate{
		{"request_throughput avg", float64(l.completed), "completed requests"},
		{"output_token_throughput avg", get("output_token_count", "sum"), "output tokens"},
	}
	l.delay99 = get("credit_to_start_latency", "p99") / 1e3
	l.delay, l.e2eMean = get("credit_to_start_latency", "avg")/1e3, get("request_latency", "avg")/1e3
	l.inFlight = get("effective_concurrency", "avg")
	l.gapMean, l.gapP1 = get("inter_chunk_latency", "avg")/1e3, get("inter_chunk_latency", "p1")/1e3
	if sum, all := get("usage_prompt_cache_read_tokens", "sum"), get("usage_prompt_tokens", "sum"); all > 0 {
		l.cachedShare = sum / all
	}
	if gaps, tokens := get("inter_chunk_latency", "count"), get("output_token_count", "sum"); gaps > 0 && l.completed > 0 {
		l.tokensPerChunk = tokens / (gaps + float64(l.completed))
	}
	l.chunksAreNamed = true
	return l
}
