package result

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// A name of before is none of today, of any column, and leads to one.
func TestRenamings(t *testing.T) {
	cols := names(Columns(Extra{}))
	seen := map[string]bool{}
	for _, r := range Renamings() {
		if slices.Contains(cols, r.Before) || seen[r.Before] {
			t.Errorf("%s was and is the name of a column", r.Before)
		}
		seen[r.Before] = true
		if Today(r.Before) != r.Today || Today(r.Today) != r.Today {
			t.Errorf("%s leads to %s, want %s", r.Before, Today(r.Before), r.Today)
		}
	}
	if len(seen) != 48 {
		t.Errorf("%d columns had another name, want 48: each name that is listed names a column", len(seen))
	}
}

func TestToday(t *testing.T) {
	for before, today := range map[string]string{
		"worker_requests_running_mean":      "worker_mean_requests_running",
		"decode_worker_server_p95_ttft_ms":  "decode_worker_p95_server_ttft_ms",
		"prefill_decode_prealloc_queue_max": "prefill_max_decode_prealloc_queue",
		"worker_gpu_util_mean":              "worker_gpu_util_mean", // no role has it
		"arg_max_num_seqs":                  "arg_max_num_seqs",
		"slo_requests_running_max":          "slo_requests_running_max",
		"arg_kv_cache_usage_max":            "arg_kv_cache_usage_max",
		"p95_ttft_ms":                       "p95_ttft_ms",
	} {
		if got := Today(before); got != today {
			t.Errorf("%s is %s, want %s", before, got, today)
		}
	}
}

func TestOutcome_Modern(t *testing.T) {
	o := Outcome{
		Row: Row{
			"kv_cache_usage_max": 0.5, "worker_kv_cache_usage_max": 0.25, "p95_ttft_ms": 3.0, "gpu_util_mean": nil,
			"server_percentile_bounds":        "server_p50_queue_ms < 300, server_p99_ttft_ms 1000 to 2500",
			"worker_server_percentile_bounds": "worker_server_p50_queue_ms < 300",
		},
		SLOs: []SLOResult{{Name: "a", Values: Row{"gpu_power_mean_w": 1.0}}, {Name: "b"}},
	}
	o.Modern()
	want := Outcome{
		Row: Row{
			"max_kv_cache_usage": 0.5, "worker_max_kv_cache_usage": 0.25, "p95_ttft_ms": 3.0, "mean_gpu_util": nil,
			"server_percentile_bounds":        "p50_server_queue_ms < 300, p99_server_ttft_ms 1000 to 2500",
			"worker_server_percentile_bounds": "worker_p50_server_queue_ms < 300",
		},
		SLOs: []SLOResult{{Name: "a", Values: Row{"mean_gpu_power_w": 1.0}}, {Name: "b"}},
	}
	if diff := cmp.Diff(want, o); diff != "" {
		t.Error(diff)
	}
	o.Modern()
	if diff := cmp.Diff(want, o); diff != "" {
		t.Errorf("brought up to date again: %s", diff)
	}
}

// The columns of a plan have the names of before for roles too.
func TestWithBefore(t *testing.T) {
	cols := Columns(Extra{Roles: []string{"decode-worker"}})
	with := WithBefore(cols)
	for i, c := range with {
		if c.Before == "" {
			continue
		}
		if Today(c.Before) != c.Name {
			t.Errorf("%s is said to have been %s", c.Name, c.Before)
		}
		with[i].Name = c.Before
	}
	for i, c := range Modern(with) {
		if c.Name != cols[i].Name {
			t.Errorf("%s came back as %s", cols[i].Name, c.Name)
		}
	}
	if c, ok := Lookup(WithBefore(cols), "decode_worker_max_kv_cache_usage"); !ok || c.Before != "decode_worker_kv_cache_usage_max" {
		t.Errorf("%+v", c)
	}
}
