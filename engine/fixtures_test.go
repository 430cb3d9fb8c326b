package engine_test

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"sweep.dev/sweep/engine"
	"sweep.dev/sweep/internal/exposition"
	"sweep.dev/sweep/internal/recordtest"
)

var update = flag.Bool("update", false, "write the golden files anew")

// bodies are what real servers exposed, and of which profile and role they are.
var bodies = []struct{ file, profile, role string }{
	{"recorded__vllm-0.32.0__metrics.txt", "vllm", "server"},
	{"recorded__llamacpp-b11549__metrics.txt", "llamacpp", "server"},
	{"recorded__llamacpp-b11549__metrics.txt", "sglang-router-llamacpp", "server"},
	{"testdata/recorded/sglang-router-0.3.2.txt", "sglang-router-llamacpp", "router"},
	{"recorded__dynamo-1.6.1__frontend-metrics.txt", "dynamo", "frontend"},
	{"recorded__dynamo-1.6.1__worker-metrics.txt", "dynamo-mocker", "worker"},
	{"recorded__dynamo-1.6.1-disagg__frontend-metrics.txt", "dynamo-disagg", "frontend"},
	{"recorded__dynamo-1.6.1-disagg__prefill-metrics.txt", "dynamo-disagg", "prefill"},
	{"recorded__dynamo-1.6.1-disagg__decode-metrics.txt", "dynamo-disagg", "decode"},
	{"datadog__vllm_metrics__v0_plus_v1_names.txt", "vllm", "server"},
	{"datadog__sglang_metrics__v0.5.10.txt", "sglang", "server"},
	{"dynamo__frontend__2026-01.txt", "dynamo-trtllm", "frontend"},
	{"dynamo__worker_trtllm__2026-01.txt", "dynamo-trtllm", "worker"},
	{"epp__llm_d__request_total_metric.txt", "llm-d", "epp"},
	{"epp__llm_d__kv_cache_avg_metrics.txt", "llm-d", "epp"},
	{"epp__llm_d__running_requests_metrics.txt", "llm-d", "epp"},
	{"epp__llm_d__request_ttft_seconds_metric.txt", "llm-d", "epp"},
	{"epp__legacy__request_total_metric.txt", "llm-d", "epp"},
	{"epp__legacy__kv_cache_avg_metrics.txt", "llm-d", "epp"},
}

// TestProfiles_names holds what profiles say of metrics against what servers
// really exposed: the name under which each quantity and setting is found.
func TestProfiles_names(t *testing.T) {
	for file, read := range map[string]func(name string) bool{
		"recorded.golden": func(name string) bool { return strings.HasPrefix(name, "recorded__") },
		"routers.golden":  func(name string) bool { return strings.HasPrefix(name, "testdata/") },
		"fixtures.golden": func(name string) bool {
			return !strings.HasPrefix(name, "recorded__") && !strings.HasPrefix(name, "testdata/")
		},
	} {
		t.Run(file, func(t *testing.T) {
			var b strings.Builder
			for _, body := range bodies {
				if !read(body.file) {
					continue
				}
				src := bodyOf(t, body.file)
				e, err := exposition.Parse(src, true)
				if e == nil || len(e.Flat()) == 0 {
					t.Fatalf("%s: %v", body.file, err)
				}
				p, ok := engine.Lookup(body.profile)
				if !ok {
					t.Fatalf("no profile %s", body.profile)
				}
				fmt.Fprintf(&b, "%s is %s, %s\n", filepath.Base(body.file), body.profile, body.role)
				m := p.MetricsOf(body.role)
				b.WriteString(namesIn(e, m, "", m.Series))
				b.WriteString(namesIn(e, m, "setting ", m.Settings))
				b.WriteByte('\n')
			}
			golden(t, "testdata/"+file, b.String())
		})
	}
}

// bodyOf reads a page of this package's testdata, or a recording.
func bodyOf(t *testing.T, file string) []byte {
	t.Helper()
	if !strings.HasPrefix(file, "testdata/") {
		return recordtest.Read(t, file)
	}
	src, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return src
}

// namesIn says under which name, of those that a profile tries, each quantity is.
func namesIn(e *exposition.Exposition, m *engine.Metrics, kind string, all map[string][]engine.Series) string {
	var b strings.Builder
	for _, quantity := range slices.Sorted(maps.Keys(all)) {
		for _, s := range all[quantity] {
			if name := nameIn(e, m, s); name != "" {
				fmt.Fprintf(&b, "  %s%s: %s\n", kind, quantity, name)
				break
			}
		}
	}
	return b.String()
}

func nameIn(e *exposition.Exposition, m *engine.Metrics, s engine.Series) string {
	names := []string{s.Name}
	if len(m.Prefixes) > 1 && strings.HasPrefix(s.Name, m.Prefixes[0]) {
		for _, other := range m.Prefixes[1:] {
			names = append(names, other+strings.TrimPrefix(s.Name, m.Prefixes[0]))
		}
	}
	for _, name := range names {
		for _, p := range e.Flat() {
			flat := p.Name == name || p.Name == name+"_count" && p.Kind != "gauge"
			if flat && fits(p.Labels, s) {
				return name
			}
		}
	}
	return ""
}

func fits(labels []exposition.Label, s engine.Series) bool {
	values := make(map[string]string, len(labels))
	for _, l := range labels {
		values[l.Name] = l.Value
	}
	for name, value := range s.Match {
		if values[name] != value {
			return false
		}
	}
	for name, not := range s.Not {
		if slices.Contains(not, values[name]) {
			return false
		}
	}
	_, has := values[s.Label]
	return s.Label == "" || has
}

func golden(t *testing.T, file, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", file, diff)
	}
}

// The log of the real engine contains the line that makes a server count as ready.
func TestProfiles_readyLine(t *testing.T) {
	p, _ := engine.Lookup("dynamo-disagg")
	if log := recordtest.Read(t, "recorded__dynamo-1.6.1-disagg__frontend.log"); !regexp.MustCompile(p.Ready.Line).Match(log) {
		t.Errorf("%q is not in the recorded log", p.Ready.Line)
	}
}
