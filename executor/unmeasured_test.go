package executor

import (
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"sweep.dev/sweep/backends"
	"sweep.dev/sweep/collectors/gpu"
	"sweep.dev/sweep/collectors/proc"
	"sweep.dev/sweep/collectors/prom"
	"sweep.dev/sweep/executor/observe"
	"sweep.dev/sweep/internal/procfs"
	"sweep.dev/sweep/result"
)

// realCollectors returns those of every run.
func realCollectors(t testing.TB) []observe.Named {
	t.Helper()
	metrics, err := prom.New(prom.Default)
	if err != nil {
		t.Fatal(err)
	}
	boards, err := gpu.New(gpu.Default)
	if err != nil {
		t.Fatal(err)
	}
	processes, err := proc.New(proc.Default)
	if err != nil {
		t.Fatal(err)
	}
	return []observe.Named{{Kind: "prom", Collector: metrics}, {Kind: "gpu", Collector: boards}, {Kind: "proc", Collector: processes}}
}

// No column has a number that was not measured. The test walks the registry: a
// new column is null here, or it stands in this list with its reason.
func TestRow_unmeasuredIsNull(t *testing.T) {
	t.Parallel()
	if _, ok := procfs.ReadCPUTime(); !ok {
		t.Skip("the kernel does not show the machine's CPU time")
	}
	// The columns that the client fills in by itself, if all requests are refused.
	refused := []string{
		"requests", "completed", "failed", "cancelled", "cancelled_planned", "finish_stop", "finish_length", "finish_tool_calls", "finish_content_filter", "finish_other", "slot_paused_s", "error_rate", "duration_s",
		"request_throughput", "achieved_rate", "ramp_s", "plateau_s", "tail_s", "mean_in_flight", "request_throughput_whole", "plateau_requests", "infinite", "ended_by", "client", "client_cpu", "max_client_stall_ms", "clock_steps",
		"reopened_connections", "cpu_steal", "p50_rtt_ms", "max_rtt_ms", "tcp_retransmits",
		"p50_client_lag_ms", "p99_client_lag_ms", "max_client_lag_ms", "client_loop", "clients",
	}
	for name, tt := range map[string]struct {
		script   script
		status   string
		measured func(column string) bool
	}{
		"a server that does not start": {
			script{exit: &backends.Exit{Code: 1}},
			result.StatusFailed,
			func(c string) bool { return strings.HasPrefix(c, "extra_") }, // it was asked whether it is ready
		},
		"an endpoint that refuses, without metrics and GPUs": {
			script{status: http.StatusServiceUnavailable, mute: true},
			result.StatusFailed,
			func(c string) bool {
				return slices.Contains(refused, c) || strings.HasPrefix(c, "extra_") || strings.Contains(c, "schedule_lag")
			},
		},
		"an endpoint that answers, without metrics and GPUs": {
			script{mute: true},
			"",
			func(c string) bool {
				server, _ := result.Lookup(result.Columns(result.Extra{Roles: []string{"x"}}), "x_"+c)
				return server.Name == "" && !strings.HasPrefix(c, "gpu_") && !strings.HasPrefix(c, "probe_") &&
					!strings.Contains(c, "_probe_") && !strings.Contains(c, "goodput") && !strings.Contains(c, "usd") &&
					!strings.Contains(c, "joules") && !strings.HasPrefix(c, "calibrated_") && c != "cached_tokens"
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, func(int, backends.Spec) script { return tt.script }, `matrix: {engine: sim, concurrency: [2]}`)
			w.collectors = realCollectors(t)
			_, _ = w.run(t.Context())
			list := w.outcomes()
			if len(list) != 1 {
				t.Fatalf("%d outcomes", len(list))
			}
			row := list[0].Row
			if tt.status != "" {
				want(t, "status", row["status"], any(tt.status))
			}
			for _, c := range w.plan.Columns() {
				switch v := row[c.Name]; {
				case v == nil, c.Given, tt.measured(c.Name):
				default:
					t.Errorf("%s is %v, which was not measured", c.Name, v)
				}
			}
		})
	}
}

// A length that each prompt brings itself is no axis of 0 tokens.
func TestRow_lengthsOfPrompts(t *testing.T) {
	t.Parallel()
	trace := filepath.Join(t.TempDir(), "trace.jsonl")
	lines := strings.Repeat(`{"timestamp": 0, "input_length": 40, "output_length": 3, "hash_ids": [1]}`+"\n", 2)
	if err := os.WriteFile(trace, []byte(lines), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, lines := range map[string][]string{
		"empirical": {
			`matrix: {engine: sim, concurrency: [1]}`,
			`load: {requests: 1, warmup: {requests: 0}, prompts: {distribution: empirical, length: words, pairs: [[24, 3], [30, 4]]}}`,
		},
		"trace": {
			`matrix: {engine: sim}`,
			`load: {requests: 2, warmup: {requests: 0}, prompts: {length: words}, trace: {file: ` + trace + `, format: mooncake}}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, nil, lines...)
			w.must()
			for _, o := range w.outcomes() {
				want(t, "completed", o.Row["completed"], any(int64(2)))
				want(t, "max_tokens", o.Row["max_tokens"], nil)
				want(t, "target_input_tokens", o.Row["target_input_tokens"], nil)
			}
		})
	}
}

// The number of GPUs of a given server is unknown unless the plan gives it.
func TestRow_gpuCount(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		matrix string
		want   any
	}{
		"nothing said": {`matrix: {engine: sim, concurrency: [1]}`, nil},
		"a GPU":        {`matrix: {engine: sim, gpu: a, concurrency: [1]}`, int64(1)},
		"a number":     {`matrix: {engine: sim, gpu_count: [2], concurrency: [1]}`, int64(2)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, nil, tt.matrix, `backend: given`)
			w.must()
			for _, o := range w.outcomes() {
				want(t, "gpu_count", o.Row["gpu_count"], tt.want)
			}
		})
	}
}
