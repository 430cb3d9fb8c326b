package result

import (
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// An old name leads to one current column, and no two lead to the same one.
func TestRenamings(t *testing.T) {
	cols := names(Columns(Extra{}))
	before, today := map[string]bool{}, map[string]bool{}
	for _, r := range Renamings() {
		if before[r.Before] || today[r.Today] || r.Before == r.Today {
			t.Errorf("%s, which is %s today, is there twice", r.Before, r.Today)
		}
		before[r.Before], today[r.Today] = true, true
		if !slices.Contains(cols, r.Today) {
			t.Errorf("%s is no column", r.Today)
		}
		if got := newRenamer().name(r.Before); got != r.Today {
			t.Errorf("%s leads to %s, want %s", r.Before, got, r.Today)
		}
		want := r.Today
		if slices.Contains(cols, r.Before) {
			want = r.Before
		}
		if got := Today(r.Before); got != want {
			t.Errorf("for %s one writes %s, want %s", r.Before, got, want)
		}
	}
	// 48 had the statistic last; 7 x 8 latencies, 3 rates with a plateau and 3 other
	// figures were of the whole trial.
	if want := 48 + 2*56 + 2*3 + 3; len(before) != want {
		t.Errorf("%d columns had another name, want %d: each name that is listed names a column", len(before), want)
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
		"p95_ttft_ms_plateau":               "p95_ttft_ms_completed",
		"p95_ttft_ms_censored":              "p95_ttft_ms",
		"p95_schedule_lag_ms_plateau":       "p95_schedule_lag_ms",
		"throughput_tok_s_plateau":          "throughput_tok_s",
	} {
		if got := Today(before); got != today {
			t.Errorf("%s is %s, want %s", before, got, today)
		}
	}
}

func TestOutcome_Modern(t *testing.T) {
	o := Outcome{
		Row: Row{
			"kv_cache_usage_max": 0.5, "worker_kv_cache_usage_max": 0.25, "gpu_util_mean": nil,
			"p95_ttft_ms": 3.0, "p95_ttft_ms_plateau": 2.0, "p95_ttft_ms_censored": 4.0,
			"throughput_tok_s": 10.0, "throughput_tok_s_plateau": 11.0,
			"p50_schedule_lag_ms": 0.5, "p50_schedule_lag_ms_plateau": 0.25,
			"slo_a": true, "slo_b": false, "slo_c": nil, "slo_pass": false,
			"low_confidence":                  "p95_ttft_ms,p99_e2e_ms_plateau",
			"server_percentile_bounds":        "server_p50_queue_ms < 300, server_p99_ttft_ms 1000 to 2500",
			"worker_server_percentile_bounds": "worker_server_p50_queue_ms < 300",
		},
		SLOs: []SLOResult{{Name: "a", Values: Row{"gpu_power_mean_w": 1.0, "p95_ttft_ms": 3.0}, LowConfidence: []string{"p95_ttft_ms"}, Pass: new(true)}, {Name: "b", Pass: new(false)}, {Name: "c", Pass: new(false), Error: "not measured"}},
	}
	o.Modern()
	want := Outcome{
		Row: Row{
			"method": int64(1), "max_kv_cache_usage": 0.5, "worker_max_kv_cache_usage": 0.25, "mean_gpu_util": nil,
			"p95_ttft_ms_whole": 3.0, "p95_ttft_ms_completed": 2.0, "p95_ttft_ms_censored": 4.0,
			"throughput_tok_s_whole": 10.0, "throughput_tok_s": 11.0,
			"p50_schedule_lag_ms_whole": 0.5, "p50_schedule_lag_ms": 0.25,
			"slo_a": "pass", "slo_b": "fail", "slo_c": nil, "slo_pass": false,
			"low_confidence":                  "p95_ttft_ms_whole,p99_e2e_ms_completed",
			"server_percentile_bounds":        "p50_server_queue_ms < 300, p99_server_ttft_ms 1000 to 2500",
			"worker_server_percentile_bounds": "worker_p50_server_queue_ms < 300",
		},
		SLOs: []SLOResult{
			{Name: "a", Values: Row{"mean_gpu_power_w": 1.0, "p95_ttft_ms_whole": 3.0}, LowConfidence: []string{"p95_ttft_ms_whole"}, Verdict: SLOPass},
			{Name: "b", Verdict: SLOFail},
			{Name: "c", Error: "not measured"},
		},
	}
	if diff := cmp.Diff(want, o); diff != "" {
		t.Error(diff)
	}
	o.Modern()
	if diff := cmp.Diff(want, o); diff != "" {
		t.Errorf("brought up to date again: %s", diff)
	}
	for _, f := range [][2]string{{"p95_ttft_ms", "p95_ttft_ms_whole"}, {"throughput_tok_s", "throughput_tok_s_whole"}, {"completed", "completed"}} {
		if got := o.Row.Figure(f[0]); got != f[1] {
			t.Errorf("the figure %s is in %s, want %s", f[0], got, f[1])
		}
	}

	// A row of today has the same names and stays.
	today := Row{"method": int64(Method), "p95_ttft_ms": 3.0, "low_confidence": "p95_ttft_ms"}
	o = Outcome{Row: maps.Clone(today)}
	o.Modern()
	if diff := cmp.Diff(today, o.Row); diff != "" {
		t.Error(diff)
	}
	if got := o.Row.Figure("p95_ttft_ms"); got != "p95_ttft_ms" {
		t.Errorf("the figure of today is in %s", got)
	}
}
