package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"sweep.dev/sweep/internal/layout"
	"sweep.dev/sweep/internal/slow"
	"sweep.dev/sweep/report"
	"sweep.dev/sweep/report/reporttest"
	"sweep.dev/sweep/result"
	"sweep.dev/sweep/result/col"
)

// rehearsal makes a shipped plan short, with validity bounds that a busy machine cannot
// break: the plan is tested, not this machine.
var rehearsal = []string{
	"--set", "validity.max_moved=1000",
	"--set", "validity.max_steal=1", "--set", "validity.max_drift=100",
}

// ranThrough are the exit codes of a rehearsal that measured every cell: of few requests
// on a busy machine an objective may be missed, or a cell have no plateau to judge. What
// its rows must say is asked of the rows.
var ranThrough = []int{exitOK, exitSLO, exitIncomplete}

// unmeasured are the columns that are null in every row of a plan that has no
// use for them: no axis, no bound, no fault.
var unmeasured = []string{
	"error", "error_class", "findings", "good_share", "goodput_req_s", "goodput_req_s_whole", "infinite", "image_digest", "invalid_figures", "invalid_reasons", "model_revision", "request_rate", "reused_from", "why",
	// Of speculative decoding, and of deployments of several roles.
	"spec_accept_rate", "spec_accept_length", "max_prefill_bootstrap_queue", "max_prefill_inflight_queue", "max_decode_prealloc_queue",
	"max_decode_transfer_queue", "mean_kv_transfer_ms", "p95_kv_transfer_ms", "kv_transfer_bytes", "active_endpoints", "transport_up", "transport_errors", "pods", "pod_restarts", "pd", "pd_share", "pd_left", "kv_transfer_tokens", "kv_transfer_failures",
	// vLLM counts no streamed answers, and its log has its output every ten seconds.
	"server_response_bytes", "server_reported_throughput_tok_s",
	"gpu_throttle_reasons",
	// Only rented GPUs give a fingerprint.
	"device_prefill_ms", "device_decode_ms",
	// Of so few requests an objective may be undecided.
	"slo_pass",
	// Of what these plans do not ask for: a probe.
	"probe_requests", "probe_failed", "p50_probe_ttft_ms", "p95_probe_ttft_ms", "p50_probe_tpot_ms", "p50_probe_e2e_ms", "p95_probe_e2e_ms",
	// And answers to quality prompts.
	"quality_score", "quality_n", "quality_refused", "quality_unknown", "quality_cut", "quality_repeat_rate",
	// Of several clients, and of stages with a burst.
	"client_skew_ms", "limiting_client", "burst_recovery_s",
	// Of long trials, of chunks that share a read, of a client with event loops and of one that was calibrated.
	"ttft_drift", "tpot_drift", "throughput_drift", "stamp_error_ms", "client_loop", "calibrated_error_ms", "calibrated_ceiling_chunks_s",
}

// perhaps are those of them that a plan may have after all.
var perhaps = []string{
	"device_prefill_ms", "device_decode_ms",
	"slo_pass", "findings", "server_reported_throughput_tok_s", "kv_transfer_tokens",
	"ttft_drift", "tpot_drift", "throughput_drift", "stamp_error_ms", "client_loop", "calibrated_error_ms", "calibrated_ceiling_chunks_s",
}

// TestPlans_onSim runs every plan that ships for the simulated engine, on faster
// GPUs or with a shorter load where it would take too long, and without the tag slow some
// cells of it with a few requests each. All rows are ok unless the plan says why not, and
// every column is measured but for those listed.
func TestPlans_onSim(t *testing.T) {
	t.Parallel()
	for _, p := range []struct {
		plan   string
		set    []string
		cells  int
		code   []int
		failed int
		null   []string  // beyond unmeasured
		short  shortened // without the tag slow
	}{
		{plan: "quickstart", set: []string{"matrix.gpu=h200"}, cells: 6, code: ranThrough, short: shortened{[]string{"matrix.gpu=l40s", "load.requests_per_worker=6", "matrix.concurrency=8", "matrix.max_tokens=16"}, 1, 0, ""}},
		{plan: "chat-capacity", set: []string{"matrix.gpu=h100", "load.requests=32", "matrix.max_tokens=[16, 32, 64]"}, cells: 12, code: ranThrough, short: shortened{[]string{"load.requests=16", "matrix.max_tokens=64", "matrix.concurrency=4"}, 1, 0, ""}},
		{plan: "chat-baseline", set: []string{"matrix.gpu=h100"}, cells: 1, code: ranThrough, short: shortened{[]string{"load.requests=16", "matrix.max_tokens=64"}, 1, 0, ""}},
		{plan: "batch-summarization", set: []string{"matrix.gpu=[h100, h200]", "matrix.max_tokens=32", "load.prompts.input_tokens=1000", "load.requests=32"}, cells: 4, code: ranThrough, short: shortened{[]string{"matrix.gpu=h200", "matrix.max_tokens=32", "matrix.concurrency=8", "load.prompts.input_tokens=300", "load.requests=16"}, 1, 0, ""}},
		// At 60 % of 24 GB the weights of a 7B model leave no room, and a context of
		// 32k fits at 90 % alone.
		{plan: "memory-surface", set: []string{"matrix.max_tokens=8"}, cells: 12, code: []int{exitOK}, failed: 6, null: []string{"slo_pass"}, short: shortened{[]string{"matrix.max_tokens=4", "load.requests=4"}, 4, 2, "arg_max_num_seqs == 16 and arg_gpu_memory_utilization != 0.75"}},
	} {
		t.Run(p.plan, func(t *testing.T) {
			t.Parallel()
			var only []string
			if !slow.Tests {
				p.set, p.cells, p.failed = append(p.set, p.short.set...), p.short.cells, p.short.failed
				if p.short.only != "" {
					only = []string{"--only", p.short.only}
				}
			}
			out := rehearsePlan(t, p.plan, p.set, p.code, only...)
			checkRows(t, out, p.cells, p.failed, p.null)
		})
	}
}

// shortened is a plan with further settings, and the rows that it has then.
type shortened struct {
	set           []string
	cells, failed int
	only          string
}

// TestPlans_loads runs plans/chat-and-batch-loads.yaml, shorter: each load has rows with
// the amount and the objectives of its own, and a grid in the summary.
func TestPlans_loads(t *testing.T) {
	t.Parallel()
	out := rehearsePlan(t, "chat-and-batch-loads", []string{
		"matrix.gpu=h100", "matrix.request_rate=[40, 60]", "matrix.concurrency=[2, 4]", "loads.batch.prompts.input_tokens=400",
		"loads.chat.requests=12", "loads.chat.max_tokens=8", "loads.batch.requests=12", "loads.batch.max_tokens=8",
	}, ranThrough)
	run, err := report.Open(out)
	if err != nil {
		t.Fatal(err)
	}
	count := map[string]int{}
	for _, row := range run.Rows() {
		name := fmt.Sprint(row["load"])
		count[name]++
		own, other, objective, not := "request_rate", "concurrency", "slo_responsive", "slo_worthwhile"
		if name == "batch" {
			own, other, objective, not = other, own, not, objective
		}
		// On a busy machine the client may have moved the objective's figure too far, or a load of
		// so few requests has no plateau.
		decided := row[objective] != nil || row["invalid_figures"] != nil || row["plateau_s"] == nil
		if row["status"] != result.StatusOK || row[own] == nil || row[other] != nil || !decided || row[not] != nil {
			t.Errorf("a row of %s: status %v, %s %v, %s %v, %s %v, %s %v", name, row["status"], own, row[own], other, row[other], objective, row[objective], not, row[not])
		}
	}
	if len(count) != 2 || count["chat"] != 2 || count["batch"] != 2 {
		t.Errorf("rows by load: %v", count)
	}
	summary, err := os.ReadFile(filepath.Join(out, layout.Summary))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"load chat", "load batch"} {
		if !strings.Contains(string(summary), want) {
			t.Errorf("the summary has no grid of %s", want)
		}
	}
}

// TestPlans_chatAndBatch holds that plans/chat-and-batch-loads.yaml has the cells of
// [reporttest.ChatAndBatch], whose whole summary, JUnit XML and data of the page are golden
// files of the report's packages.
func TestPlans_chatAndBatch(t *testing.T) {
	t.Parallel()
	path, err := filepath.Abs("../../plans/chat-and-batch-loads.yaml")
	if err != nil {
		t.Fatal(err)
	}
	got := sweep(t, t.TempDir(), nil, "plan", "--json", path)
	if got.code != exitOK {
		t.Fatalf("exit %d: %s", got.code, got.stderr)
	}
	var deployments []struct {
		Cells []struct{ Settings map[string]any }
	}
	if err := json.Unmarshal([]byte(got.stdout), &deployments); err != nil {
		t.Fatal(err)
	}
	axes := []string{"load", "request_rate", "concurrency"}
	var planned, described []string
	for _, d := range deployments {
		for _, c := range d.Cells {
			text := ""
			for _, axis := range axes {
				text += fmt.Sprintf(" %s=%v", axis, c.Settings[axis])
			}
			planned = append(planned, text)
		}
	}
	for _, c := range reporttest.MadeUp(t, reporttest.ChatAndBatch).Resolved.Cells {
		text := ""
		for _, axis := range axes {
			text += fmt.Sprintf(" %s=%v", axis, c.Value(axis))
		}
		described = append(described, text)
	}
	if !slices.Equal(planned, described) {
		t.Errorf("the plan has the cells\n%s\nreporttest describes\n%s", strings.Join(planned, "\n"), strings.Join(described, "\n"))
	}
}

// rehearsePlan runs a shipped plan, made short, and returns its run directory. It
// must end with one of the exit codes.
func rehearsePlan(t *testing.T, plan string, set []string, codes []int, more ...string) string {
	t.Helper()
	path, err := filepath.Abs(filepath.Join("../../plans", plan+".yaml"))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	out := filepath.Join(dir, "run")
	args := slices.Concat([]string{"run", "-o", out}, rehearsal, more)
	for _, s := range set {
		args = append(args, "--set", s)
	}
	got := sweep(t, dir, nil, append(args, path)...)
	if !slices.Contains(codes, got.code) {
		t.Fatalf("exit %d\n%s\n%s", got.code, got.stdout, got.stderr)
	}
	return out
}

// TestPlans_endpoint runs plans/endpoint.yaml against a simulated engine that
// was started by hand, as its header says.
func TestPlans_endpoint(t *testing.T) {
	t.Parallel()
	url := startSim(t, "--model", "Qwen/Qwen2.5-1.5B-Instruct", "--gpu", "h100")
	path, err := filepath.Abs("../../plans/endpoint.yaml")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	out := filepath.Join(dir, "run")
	args := slices.Concat([]string{"run", "-o", out}, rehearsal, []string{"--set", "backend.url=" + url, "--set", "load.requests=20", "--set", "matrix.max_tokens=[8, 16]", path})
	got := sweep(t, dir, nil, args...)
	if !slices.Contains(ranThrough, got.code) {
		t.Fatalf("exit %d\n%s\n%s", got.code, got.stdout, got.stderr)
	}
	// Its GPU is a label, has no metrics, and has no price.
	checkRows(t, out, 4, 0, []string{
		"gpu_uuid", "driver_version", "mean_gpu_util", "max_gpu_util", "max_gpu_memory_used_bytes", "mean_gpu_power_w",
		"gpu_energy_j", "gpu_energy_source", "max_gpu_temp_c", "gpu_memory_total_bytes", "min_gpu_memory_free_bytes", "gpu_memory_idle_bytes", "gpu_util_idle",
		"mean_gpu_memory_bandwidth_util", "mean_gpu_clock_mhz", "min_gpu_power_limit_w", "min_gpu_clock_limit_mhz", "gpu_throttled_ms", "gpu_foreign_processes", "launch", "start_up_s", "usd_per_hour", "price_source", "cost_usd", "usd_per_1m_output_tokens", "usd_per_1m_output_tokens_whole", "joules_per_output_token",
		"server_cpu_cores", "server_busiest_thread_cpu",
	}, "findings")

	probe := sweep(t, dir, nil, "probe", url)
	for _, want := range []string{"finish_reason length", "Qwen/Qwen2.5-1.5B-Instruct", "metrics of vllm", "tokens by usage: 8", "[DONE] true", "9 chunks", "one stream  TTFT "} {
		if !strings.Contains(probe.stdout, want) {
			t.Errorf("probe does not say %q:\n%s", want, probe.stdout)
		}
	}
}

// checkRows holds the rows of a run to what its plan promises. measured are
// columns of unmeasured that this plan has after all.
func checkRows(t *testing.T, out string, cells, failed int, null []string, measured ...string) {
	t.Helper()
	run, err := report.Open(out)
	if err != nil {
		t.Fatal(err)
	}
	rows := run.Rows()
	if len(rows) != cells {
		t.Errorf("%d rows, want %d", len(rows), cells)
	}
	seen := map[string]bool{}
	bad := 0
	for _, row := range rows {
		switch row["status"] {
		case result.StatusOK:
			for name, v := range row {
				if v != nil {
					seen[name] = true
				}
			}
			for name := range row.Bounds() {
				seen[name] = true // a percentile of which only the bucket is known
			}
		case result.StatusFailed:
			bad++
			if failed == 0 || !strings.HasPrefix(fmt.Sprint(row["error_class"]), "oom.") {
				t.Errorf("%v: %v: %v", row["cell_id"], row["error_class"], row["error"])
			}
		default:
			t.Errorf("%v: %v: %v", row["cell_id"], row["status"], row["invalid_reasons"])
		}
	}
	if bad != failed {
		t.Errorf("%d failed rows, want %d", bad, failed)
	}
	may := map[string]bool{}
	for _, name := range append(slices.Clone(unmeasured), null...) {
		may[name] = !slices.Contains(measured, name)
	}
	for _, c := range run.Resolved.Columns { // ends of intervals: these plans send few requests
		if strings.HasSuffix(c.Name, col.LowSuffix) || strings.HasSuffix(c.Name, col.HighSuffix) {
			seen[c.Name] = true
		}
	}
	var missing, surplus []string
	for _, c := range run.Resolved.Columns {
		switch {
		case !seen[c.Name] && !may[c.Name]:
			missing = append(missing, c.Name)
		case seen[c.Name] && may[c.Name] && !slices.Contains(perhaps, c.Name):
			surplus = append(surplus, c.Name)
		}
	}
	if len(missing)+len(surplus) > 0 {
		t.Errorf("null in every row and not listed: %q; listed and measured: %q", missing, surplus)
	}
	for _, name := range layout.Derived() {
		switch name {
		case layout.ComparisonCSV, layout.ComparisonParquet, layout.CapacityCSV, layout.CapacityParquet,
			layout.QualityCSV, layout.QualityParquet, layout.QualityItemsCSV, layout.QualityItemsParquet:
			continue // only of a plan that compares, searches, or asks prompts
		}
		if _, err := os.Stat(filepath.Join(out, name)); err != nil {
			t.Error(err)
		}
	}
}

// startSim starts the simulated engine as a server and returns its URL.
func startSim(t *testing.T, args ...string) string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cmd := exec.CommandContext(ctx, self, append([]string{"sim", "--port", "0"}, args...)...)
	cmd.Env = append(os.Environ(), asSweep+"=1")
	log, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = cmd.Stdout
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := make(chan string)
	go func() {
		defer close(lines)
		s := bufio.NewScanner(log)
		for s.Scan() {
			select {
			case lines <- s.Text():
			case <-ctx.Done():
			}
		}
	}()
	t.Cleanup(func() {
		cancel()
		for range lines {
		}
		_ = cmd.Wait() // killed by us
	})
	address := regexp.MustCompile(`http://127\.0\.0\.1:\d+`)
	var read bytes.Buffer
	deadline := time.After(time.Minute)
	for {
		select {
		case line, ok := <-lines:
			if !ok {
				t.Fatalf("sweep sim ended:\n%s", read.String())
			}
			fmt.Fprintln(&read, line)
			if url := address.FindString(line); url != "" {
				return url
			}
		case <-deadline:
			t.Fatalf("sweep sim does not say where it listens:\n%s", read.String())
		}
	}
}

// TestPlans_valid validates every plan that ships, those for real engines too,
// and finds its question in its header.
func TestPlans_valid(t *testing.T) {
	t.Parallel()
	paths, err := filepath.Glob("../../plans/*.yaml")
	if err != nil || len(paths) < 8 {
		t.Fatalf("%d plans, %v", len(paths), err)
	}
	for _, path := range paths {
		got := sweep(t, ".", nil, "validate", path)
		if got.code != exitOK {
			t.Errorf("%s\n%s", path, got.stderr)
		}
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		head, _, _ := strings.Cut(string(text), "version:")
		if !strings.Contains(head, "?") {
			t.Errorf("%s does not say in its header which question it answers", path)
		}
	}
}

// TestEvents holds that --events are JSON lines with every trial in them.
func TestEvents(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "crash.yaml"), crashPlan)
	got := sweep(t, dir, nil, "run", "-o", filepath.Join(dir, "run"), "--events", "-", "crash.yaml")
	kinds := map[string]int{}
	for line := range strings.Lines(got.stdout) {
		var e struct {
			Type string    `json:"type"`
			Time time.Time `json:"time"`
		}
		if err := json.Unmarshal([]byte(line), &e); err != nil || e.Time.IsZero() {
			t.Fatalf("%q: %v", line, err)
		}
		kinds[e.Type]++
	}
	delete(kinds, "trial_progress")
	delete(kinds, "step")
	delete(kinds, "waiting") // how often depends on how soon a server listens
	want := map[string]int{
		"run_started": 1, "deployment_started": 2, "server_ready": 2, "trial_started": 4, "trial_committed": 4,
		"deployment_stopped": 2, "run_finished": 1,
		"notice": 1, // what is sent beyond the load
	}
	if !maps.Equal(kinds, want) {
		t.Errorf("events %v, want %v\n%s", kinds, want, got.stderr)
	}
}
