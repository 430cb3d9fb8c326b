package sim

import (
	"math"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"sweep.dev/sweep/internal/recordtest"
	"sweep.dev/sweep/sim/text"
)

func TestMetrics(t *testing.T) {
	in := start(t)
	for range 3 {
		in.do("POST", "/v1/chat/completions", chat("count me", `,"max_tokens":10,"ignore_eos":true`))
	}
	_, said := in.do("GET", "/metrics", "")
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(said))
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]float64{
		"vllm:generation_tokens_total": 30, "vllm:num_requests_running": 0, "vllm:num_requests_waiting": 0,
		"vllm:kv_cache_usage_perc": 0, "vllm:num_preemptions_total": 0, "vllm:prompt_tokens_total": 3 * (2 + text.MessageTokens + text.ReplyTokens),
	} {
		f := families[name]
		if f == nil {
			t.Errorf("no %s", name)
			continue
		}
		if got := f.Metric[0].GetCounter().GetValue() + f.Metric[0].GetGauge().GetValue(); got != want {
			t.Errorf("%s = %v, want %v", name, got, want)
		}
	}
	for name, want := range map[string]uint64{
		"vllm:time_to_first_token_seconds": 3, "vllm:inter_token_latency_seconds": 27, "vllm:request_time_per_output_token_seconds": 3,
		"vllm:e2e_request_latency_seconds": 3, "vllm:request_queue_time_seconds": 3, "vllm:request_prefill_time_seconds": 3,
		"vllm:request_decode_time_seconds": 3, "vllm:request_prompt_tokens": 3, "sim_timer_error_seconds": 30,
	} {
		f := families[name]
		if f == nil {
			t.Errorf("no %s", name)
			continue
		}
		h := f.Metric[0].GetHistogram()
		if h.GetSampleCount() != want || h.Bucket[len(h.Bucket)-1].GetCumulativeCount() != want {
			t.Errorf("%s has %d samples, want %d", name, h.GetSampleCount(), want)
		}
	}
	if s := families["process_start_time_seconds"].Metric[0].GetGauge().GetValue(); math.Abs(s-float64(time.Now().Unix())) > 300 {
		t.Errorf("started at %v", s)
	}
	if i := families["vllm:cache_config_info"]; i == nil || !strings.Contains(said, `num_gpu_blocks="`) || !strings.Contains(said, `block_size="16"`) {
		t.Error("no cache_config_info")
	}
}

// TestMetrics_areTheRecordedOnes: every series that is simulated exists under
// the same name, type and buckets at the real engine.
func TestMetrics_areTheRecordedOnes(t *testing.T) {
	recorded := recordtest.Read(t, "recorded__vllm-0.32.0__metrics.txt")
	// The recording's model is 4096 tokens long and takes 2048 in a step.
	in := start(t, "--max-model-len", "4096")
	_, text := in.do("GET", "/metrics", "")
	known := map[string]bool{}
	series := regexp.MustCompile(`^(vllm:\S+?)\{(?:.*?le="([^"]+)")?`)
	keys := func(s string) (list []string) {
		for line := range strings.Lines(s) {
			if strings.HasPrefix(line, "# TYPE vllm:") {
				list = append(list, strings.TrimSpace(line))
			}
			if m := series.FindStringSubmatch(line); m != nil {
				list = append(list, m[1]+" "+m[2])
			}
		}
		return list
	}
	for _, k := range keys(string(recorded)) {
		known[k] = true
	}
	n := 0
	for _, k := range keys(text) {
		n++
		if !known[k] {
			t.Errorf("the real engine has no %q", k)
		}
	}
	if n < 150 {
		t.Errorf("only %d series", n)
	}
}
