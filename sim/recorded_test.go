package sim

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"sweep.dev/sweep/internal/recordtest"
)

// names returns the families of a body with their types, and the label names of
// their series. A value of le is a part of the name.
func names(body string, labels bool) []string {
	var list []string
	series := regexp.MustCompile(`^([a-zA-Z_:0-9]+)(?:\{(.*)\})? `)
	label := regexp.MustCompile(`([a-z_]+)="([^"]*)"`)
	for line := range strings.Lines(body) {
		if strings.HasPrefix(line, "# TYPE ") {
			list = append(list, strings.TrimSpace(line))
		}
		if m := series.FindStringSubmatch(line); m != nil && labels {
			var keys []string
			for _, l := range label.FindAllStringSubmatch(m[2], -1) {
				if l[1] == "le" {
					l[1] += "=" + l[2]
				}
				keys = append(keys, l[1])
			}
			list = append(list, fmt.Sprint(m[1], keys))
		}
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// TestLlamaCpp_isTheRecordedOne: the same metrics with the same help in the
// same order, and the same keys in every chunk.
func TestLlamaCpp_isTheRecordedOne(t *testing.T) {
	s := speaker{"llamacpp", ""}
	in := s.start(t)
	_, got := in.do("POST", "/v1/chat/completions", chat("Hello", `,"stream":true,"max_tokens":12,"ignore_eos":true,"stream_options":{"include_usage":true}`))
	float := regexp.MustCompile(`:[0-9.e+-]+`)
	blank := func(s string) []string {
		list := shape(s)
		for i := range list {
			list[i] = float.ReplaceAllString(list[i], ":_")
			list[i] = strings.ReplaceAll(list[i], ":_.", ":_")
		}
		return list
	}
	decimals := regexp.MustCompile(`(\d)\.\d+`)
	clean := func(s string) string { return decimals.ReplaceAllString(s, "$1") }
	if d := cmp.Diff(blank(clean(string(recordtest.Read(t, "recorded__llamacpp-b11549__chat.sse")))), blank(clean(got))); d != "" {
		t.Errorf("recorded (-) and simulated (+) streams differ:\n%s", d)
	}
	value := regexp.MustCompile(`(?m) [0-9.e+-]+$`)
	want := value.ReplaceAllString(string(recordtest.Read(t, "recorded__llamacpp-b11549__metrics.txt")), " _")
	if d := cmp.Diff(want, value.ReplaceAllString(in.scrape(s.profile(t)), " _")); d != "" {
		t.Errorf("recorded (-) and simulated (+) metrics differ:\n%s", d)
	}
}

// TestSGLang_hasThePublishedNames: what a recording of 0.5.10 has is there with
// the same type, but for what has been renamed since.
func TestSGLang_hasThePublishedNames(t *testing.T) {
	published := string(recordtest.Read(t, "datadog__sglang_metrics__v0.5.10.txt"))
	s := speaker{"sglang", ""}
	in := s.start(t)
	in.do("POST", "/v1/chat/completions", chat("one", `,"max_tokens":2`))
	in.do("POST", "/v1/chat/completions", chat(strings.Repeat("one two three ", 40), `,"max_tokens":2`))
	in.do("POST", "/v1/chat/completions", chat(strings.Repeat("one two three ", 40), `,"max_tokens":2`))
	have := names(in.scrape(s.profile(t)), false)
	gone := []string{"sglang:http_requests_active", "sglang:engine_startup_time", "sglang:engine_load_weights_time"}
	for _, f := range names(published, false) {
		if name := strings.Fields(f)[2]; !slices.Contains(have, f) && !slices.Contains(gone, name) {
			t.Errorf("the simulator has no %s", f)
		}
	}
}

// TestTRTLLM_hasTheRecordedNames: a Dynamo worker exposes TensorRT-LLM's own
// metrics; the same names, labels and buckets are here, without _created, which
// several processes do not have.
func TestTRTLLM_hasTheRecordedNames(t *testing.T) {
	worker := string(recordtest.Read(t, "dynamo__worker_trtllm__2026-01.txt"))
	s := speaker{"trtllm", ""}
	in := s.start(t)
	in.do("POST", "/v1/chat/completions", chat("one", `,"max_tokens":2,"ignore_eos":true`))
	have := names(in.scrape(s.profile(t)), true)
	n := 0
	for _, f := range names(worker, true) {
		if !strings.Contains(f, "trtllm_") || strings.Contains(f, "_created") {
			continue
		}
		n++
		if !slices.Contains(have, f) {
			t.Errorf("the simulator has no %s", f)
		}
	}
	if n < 100 {
		t.Errorf("only %d names in the recording", n)
	}
}

// TestVLLM08_hasThePublishedNames: a recording of 2025 has both generations, but
// for the prefix cache of 0.7.3 to 0.9.
func TestVLLM08_hasThePublishedNames(t *testing.T) {
	published := names(string(recordtest.Read(t, "datadog__vllm_metrics__v0_plus_v1_names.txt")), false)
	s := speaker{"vllm", "0.8"}
	in := s.start(t)
	in.do("POST", "/v1/chat/completions", chat("one", `,"max_tokens":2`))
	for _, f := range names(in.scrape(s.profile(t)), false) {
		if !slices.Contains(published, f) && !strings.Contains(f, "http_request") && !strings.Contains(f, "gpu_prefix_cache_") {
			t.Errorf("vLLM of 2025 has no %s", f)
		}
	}
}
