package meant

import (
	"slices"
	"strings"
	"testing"

	"sweep.dev/sweep/result"
)

func columnNames() []string {
	var names []string
	for _, c := range result.Columns(result.Extra{}) {
		names = append(names, c.Name)
	}
	return names
}

func TestColumn(t *testing.T) {
	names := columnNames()
	for said, want := range map[string]string{
		// Words.
		"ttft":    "p95_ttft_ms",
		"Latency": "p95_e2e_ms",
		"errors":  "failed",
		// Parts, in whatever order.
		"ttft_p95":           "p95_ttft_ms",
		"ttft_ms_p99":        "p99_ttft_ms",
		"ttft-p50":           "p50_ttft_ms",
		"median_tpot":        "p50_tpot_ms",
		"avg_e2e":            "mean_e2e_ms",
		"latency_p90":        "p90_e2e_ms",
		"p95_ttft":           "p95_ttft_ms",
		"whole_ttft_p95":     "p95_ttft_ms_whole",
		"max_kv_cache_usage": "max_kv_cache_usage",
		"mean_gpu_power":     "mean_gpu_power_w",
		"user_tok_s":         "p50_user_tok_s",
		// Spelling.
		"concurency":  "concurrency",
		"P95_TTFT_MS": "p95_ttft_ms",
		"p95_tftt_ms": "p95_ttft_ms",
		"xyz":         "",
	} {
		if got := Column(said, names); got != want {
			t.Errorf("%s means %q, want %q", said, got, want)
		}
	}
}

// TestTables holds that a table says one thing of a word, in its own notation,
// and that columns exist.
func TestTables(t *testing.T) {
	names := columnNames()
	for _, w := range columns {
		if !slices.Contains(names, w.name) {
			t.Errorf("there is no column %s", w.name)
		}
	}
	for _, table := range [][]word{settings[:], gone[:], parallelism[:], columns[:], parts[:], commands[:], flags[:]} {
		seen := map[string]string{}
		for _, w := range table {
			for said := range strings.FieldsSeq(w.said) {
				if other, twice := seen[plain(said)]; twice {
					t.Errorf("%s means %s and %s", said, other, w.name)
				}
				if said != strings.ToLower(said) {
					t.Errorf("%s is not in small letters", said)
				}
				seen[plain(said)] = w.name
			}
			if w.name == "" && w.hint == "" {
				t.Errorf("%s leads nowhere", w.said)
			}
		}
	}
}
