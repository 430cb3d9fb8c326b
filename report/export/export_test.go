package export

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"sweep.dev/sweep/internal/effect"
	"sweep.dev/sweep/internal/layout"
	"sweep.dev/sweep/report"
	"sweep.dev/sweep/report/conclude"
	"sweep.dev/sweep/result"
	"sweep.dev/sweep/result/col"
	"sweep.dev/sweep/result/store"
	"sweep.dev/sweep/rundir"
)

const second = time.Second

// answer returns a completed request of a closed loop: a chunk with the role alone, then two
// tokens, then the chunk that ends the answer.
func answer(n int, sent time.Duration) result.Request {
	return result.Request{
		N: n, Phase: result.Plateau, Status: result.Completed, Scheduled: sent, Sent: sent, FirstByte: sent + second,
		FirstToken: sent + 3*second/2, FirstOutput: sent + 3*second/2, LastToken: sent + 4*second, End: sent + 4*second,
		PromptTokens: 10, CompletionTokens: 3, CachedTokens: result.Unknown, TargetTokens: 10, TokenSource: "usage", MaxTokens: 3,
		ChunkUS: []int32{1e6, 5e5, 1e6, 15e5}, FirstTokenChunk: 1,
	}
}

// failed returns a request that failed after half a second.
func failed(n int, sent time.Duration) result.Request {
	r := answer(n, sent)
	r.Status, r.ErrorClass, r.End, r.FirstToken, r.ChunkUS = result.Failed, result.ErrReset, sent+second/2, result.Never, nil
	return r
}

// A trial of a made-up run.
type madeUp struct {
	cell     string
	set      map[string]any // axes
	row      result.Row     // beside what identifies it
	requests []result.Request
}

func (m madeUp) with(column string, value any) madeUp {
	m.row = maps.Clone(m.row)
	m.row[column] = value
	return m
}

// plain returns a valid trial of two requests, one after the other, and one that failed.
func plain() madeUp {
	return madeUp{
		cell: "4be1", set: map[string]any{col.Engine: "vllm", col.Concurrency: 2, "tensor-parallel-size": 2},
		requests: []result.Request{answer(0, 0), answer(1, 4*second), failed(2, second)},
		row: result.Row{
			col.Valid: true, col.Simulated: false, col.Engine: "vllm", col.EngineVersion: "0.32.0", col.Model: "Qwen/Qwen3-0.6B", col.GPU: "l40s",
			col.GPUCount: int64(2), col.Concurrency: int64(2), col.MaxTokens: int64(3), col.TargetInputTokens: int64(10),
			col.StartedAt: time.Date(2026, 11, 24, 9, 0, 0, 0, time.UTC), col.FinishedAt: time.Date(2026, 11, 24, 9, 0, 8, 0, time.UTC),
			col.Requests: int64(3), col.Completed: int64(2), col.Failed: int64(1), col.InputTokens: int64(20), col.OutputTokens: int64(6),
			"mean_ttft_ms_whole": 2000.0, "p95_ttft_ms_whole": 2000.0, col.P95TTFTMs: nil, col.P50TTFTMs: 2000.0, col.ThroughputTokS: 1.5,
			col.ThroughputTokSWhole: 0.75, col.P50UserTokS: 1.0,
		},
	}
}

// open writes trials as a run directory and opens it.
func open(t *testing.T, trials ...madeUp) *report.Run {
	t.Helper()
	resolved := report.Resolved{Sweep: "test", Repeats: 1}
	for _, m := range trials {
		c := conclude.Cell{ID: m.cell, Deployment: "d1", Label: m.cell}
		for _, name := range slices.Sorted(maps.Keys(m.set)) {
			c.Settings = append(c.Settings, conclude.Setting{Column: name, Server: name == col.Engine, Value: m.set[name], Text: fmt.Sprint(m.set[name])})
		}
		resolved.Cells = append(resolved.Cells, c)
	}
	data, err := json.Marshal(resolved)
	if err != nil {
		t.Fatal(err)
	}
	fx, err := effect.New("")
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "run")
	rd, err := rundir.Create(fx, dir, rundir.Manifest{RunID: "3f2a", Plan: "made-up", Method: result.Method}, nil, data)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range trials {
		a, err := rd.Begin(t.Context(), rundir.Key{Cell: m.cell, Trial: 1}, 1)
		if err != nil {
			t.Fatal(err)
		}
		w, err := a.Create(layout.Requests)
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(store.WriteRequests(w, store.IDs{Run: "3f2a", Cell: m.cell, Trial: 1, Attempt: 1}, m.requests), w.Close()); err != nil {
			t.Fatal(err)
		}
		row := maps.Clone(m.row)
		row[col.RunID], row[col.Plan], row[col.CellID], row[col.Status], row[col.Method] = "3f2a", "made-up", m.cell, result.StatusOK, int64(result.Method)
		o := &result.Outcome{CellID: m.cell, Trial: 1, Attempt: 1, Row: row}
		if err := a.Commit(t.Context(), o, "digest"); err != nil {
			t.Fatal(err)
		}
	}
	if err := rd.Close(); err != nil {
		t.Fatal(err)
	}
	run, err := report.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	return run
}

func exported(t *testing.T, run *report.Run, format string, o Options) *Export {
	t.Helper()
	e, err := try(run, format, o)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func try(run *report.Run, format string, o Options) (*Export, error) {
	for _, f := range Formats() {
		if f.Name == format {
			return Of(run, f, o)
		}
	}
	return nil, errors.New("no such format")
}

// data returns the file of a name that a pattern matches.
func (e *Export) data(t *testing.T, pattern string) []byte {
	t.Helper()
	for _, f := range e.Files {
		if regexp.MustCompile(pattern).MatchString(f.Name) {
			return f.Data
		}
	}
	t.Fatalf("no file %s", pattern)
	return nil
}

// TestVLLM: the figures are those of vllm bench: the whole trial, completed requests
// alone, TTFT to the first chunk even if it has no text, gaps between chunks.
func TestVLLM(t *testing.T) {
	e := exported(t, open(t, plain()), "vllm", Options{})
	var list []map[string]any
	if err := json.Unmarshal(e.data(t, "summary.json"), &list); err != nil || len(list) != 1 {
		t.Fatalf("summary.json: %v, %d results", err, len(list))
	}
	got := list[0]
	for key, want := range map[string]any{
		"completed": 2.0, "failed": 1.0, "num_prompts": 3.0, "duration": 8.0, "total_input_tokens": 20.0, "total_output_tokens": 6.0,
		"output_throughput": 6.0 / 8, "total_token_throughput": 26.0 / 8, "request_throughput": 0.25,
		"mean_ttft_ms": 1000.0, "mean_itl_ms": 1000.0, "p90_itl_ms": 1500.0, "median_itl_ms": 1000.0, "mean_e2el_ms": 4000.0, "mean_tpot_ms": 1500.0, "std_ttft_ms": 0.0, "p99_e2el_ms": 4000.0,
		"max_concurrency": 2.0, "request_rate": "inf", "max_concurrent_requests": 2.0, "max_output_tokens_per_s": 2.0,
		"gpu_count": 2.0, "tensor_parallel_size": 2.0, "axis_tensor-parallel-size": 2.0, "run_number": 0.0, "sweep_valid": true, "sweep_cell": "4be1",
	} {
		if got[key] != want {
			t.Errorf("%s is %v, want %v", key, got[key], want)
		}
	}
	// plot_pareto multiplies what looks like a parallel size; a percentile of too few
	// values has no key.
	for _, key := range []string{"tensor-parallel-size", "p99.9_itl_ms", "request_goodput"} {
		if _, ok := got[key]; ok {
			t.Errorf("there is a key %s", key)
		}
	}
	if text := string(e.data(t, "README.txt")); !strings.Contains(text, "interactivity") || !strings.Contains(text, "throughput per GPU") {
		t.Error("README.txt defines neither interactivity nor throughput per GPU")
	}
}

func TestVLLM_openLoop(t *testing.T) {
	m := plain().with(col.Concurrency, nil).with(col.RequestRate, 0.5).with(col.GPUCount, nil)
	m.set = map[string]any{col.RequestRate: 0.5}
	e := exported(t, open(t, m), "vllm", Options{})
	var got map[string]any
	if err := json.Unmarshal(e.data(t, "run=0.json"), &got); err != nil {
		t.Fatal(err)
	}
	// With the key missing plot_pareto would take the rate for users.
	if v, ok := got["max_concurrency"]; v != nil || !ok {
		t.Errorf("max_concurrency is %v, %v; want null", v, ok)
	}
	if got["request_rate"] != 0.5 || got["gpu_count"] != nil || got["tensor_parallel_size"] != nil {
		t.Errorf("request_rate %v, gpu_count %v", got["request_rate"], got["gpu_count"])
	}
	if len(e.Notes) != 1 || !strings.Contains(e.Notes[0], "gpu_count") {
		t.Errorf("notes: %q", e.Notes)
	}
}

// TestInvalid: INVALID trials are left out and counted, or marked.
func TestInvalid(t *testing.T) {
	invalid := plain().with(col.Valid, false).with(col.InvalidReasons, "client_bound")
	invalid.cell = "9c02"
	invalid.set = map[string]any{col.Engine: "vllm", col.Concurrency: 4}
	never := plain().with(col.Valid, nil)
	never.cell = "aa07"
	run := open(t, plain(), invalid, never)
	facts := map[string]string{"MODEL_PREFIX": "q", "PRECISION": "bf16", "SPEC_DECODING": "none", "IMAGE": "i", "TP": "2", "EP_SIZE": "1", "DP_ATTENTION": "false"}
	for _, f := range Formats() {
		o := Options{}
		if f.Name == "inferencex" {
			o.Facts = facts
		}
		e := exported(t, run, f.Name, o)
		if e.Trials != 1 || len(e.Notes) != 2 || !strings.Contains(e.Notes[0], "1 trial left out: INVALID") || !strings.Contains(e.Notes[1], "nothing was measured") {
			t.Errorf("%s: %d trials, %q", f.Name, e.Trials, e.Notes)
		}
		o.Invalid = true
		e = exported(t, run, f.Name, o)
		mark := map[string]string{
			"vllm": `"sweep_valid": false`, "inferencex": `"sweep_valid": 0`, "llmd": "INVALID (client_bound)",
			"prometheus": `sweep_trial_valid{plan="made-up",run="3f2a",cell="9c02"`, "openmetrics": `cell="9c02"`,
		}[f.Name]
		marked := slices.ContainsFunc(e.Files, func(f File) bool { return bytes.Contains(f.Data, []byte(mark)) })
		if e.Trials != 2 || !marked {
			t.Errorf("%s: %d trials with --invalid, marked: %v", f.Name, e.Trials, marked)
		}
		for _, file := range e.Files {
			if bytes.Contains(file.Data, []byte("NaN")) || bytes.Contains(file.Data, []byte("Inf")) && f.Name != "inferencex" && !strings.HasPrefix(file.Name, "README") {
				t.Errorf("%s: %s has a number that is none", f.Name, file.Name)
			}
		}
	}
	if _, err := try(open(t, invalid), "vllm", Options{}); err == nil || !strings.Contains(err.Error(), "no trial to export") {
		t.Errorf("without a valid trial: %v", err)
	}
}

// process returns what InferenceX' process_result.py does with a result of one node: each key
// that ends in ms becomes seconds, each with tpot an interactivity too, and whatever it
// cannot make a number of ends it.
func process(result map[string]any, env map[string]string) (row map[string]any, err error) {
	for _, name := range []string{"RUNNER_TYPE", "FRAMEWORK", "PRECISION", "SPEC_DECODING", "RESULT_FILENAME", "ISL", "OSL", "DISAGG", "MODEL_PREFIX", "IMAGE", "TP", "EP_SIZE", "DP_ATTENTION"} {
		if env[name] == "" {
			return nil, fmt.Errorf("KeyError: %s", name)
		}
	}
	number := func(v any) (float64, error) {
		switch v := v.(type) {
		case float64:
			return v, nil
		case string:
			return strconv.ParseFloat(v, 64)
		}
		return 0, fmt.Errorf("TypeError: %v", v)
	}
	integer := func(name string) float64 {
		n, parsed := strconv.Atoi(env[name])
		err = errors.Join(err, parsed)
		return float64(n)
	}
	tp, pp := integer("TP"), 1.0
	if env["PP_SIZE"] != "" {
		pp = integer("PP_SIZE")
	}
	conc, ok := result["max_concurrency"].(float64)
	if !ok || conc != math.Trunc(conc) {
		return nil, errors.New("TypeError: max_concurrency")
	}
	total, output := result["total_token_throughput"].(float64), result["output_throughput"].(float64)
	row = map[string]any{
		"hw": env["RUNNER_TYPE"], "conc": conc, "image": env["IMAGE"], "model": result["model_id"], "infmax_model_prefix": env["MODEL_PREFIX"],
		"framework": env["FRAMEWORK"], "precision": env["PRECISION"], "spec_decoding": env["SPEC_DECODING"], "disagg": env["DISAGG"] == "true",
		"isl": integer("ISL"), "osl": integer("OSL"), "is_multinode": false, "tp": tp, "pp": pp, "dcp_size": 1.0, "pcp_size": 1.0,
		"ep": integer("EP_SIZE"), "dp_attention": env["DP_ATTENTION"],
		"tput_per_gpu": total / (tp * pp), "output_tput_per_gpu": output / (tp * pp), "input_tput_per_gpu": (total - output) / (tp * pp),
		"power_metric_schema_version": 2.0, "power_valid": 0.0,
	}
	for key, value := range result {
		latency := strings.HasSuffix(key, "ms")
		if !latency && !strings.Contains(key, "tpot") {
			continue
		}
		v, bad := number(value)
		if bad != nil {
			return nil, fmt.Errorf("%s: %w", key, bad)
		}
		if latency {
			row[strings.TrimSuffix(key, "_ms")] = v / 1000
		}
		if strings.Contains(key, "tpot") {
			if v == 0 {
				return nil, fmt.Errorf("ZeroDivisionError: %s", key)
			}
			row[strings.TrimSuffix(strings.ReplaceAll(key, "tpot", "intvty"), "_ms")] = 1000 / v
		}
	}
	return row, err
}

// TestInferenceX: the row is what InferenceX' own script makes of the result and the
// environment that stand beside it.
func TestInferenceX(t *testing.T) {
	m := plain()
	m.set["params"] = "a text whose name ends like a unit"
	m.set["params_ms"] = "again"
	m.set["slo_tpot"] = "50ms"
	run := open(t, m)
	facts := map[string]string{"MODEL_PREFIX": "q", "PRECISION": "bf16", "SPEC_DECODING": "none", "IMAGE": "i", "TP": "1", "PP_SIZE": "2", "EP_SIZE": "1", "DP_ATTENTION": "false"}
	e := exported(t, run, "inferencex", Options{Facts: facts})
	env := map[string]string{}
	for line := range strings.Lines(string(e.data(t, `\.env$`))) {
		name, value, _ := strings.Cut(strings.TrimPrefix(strings.TrimSpace(line), "export "), "=")
		env[name] = strings.Trim(value, "'")
	}
	var raw, row map[string]any
	if err := json.Unmarshal(e.data(t, `^raw/.*\.json$`), &raw); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(e.data(t, `^agg/agg_`), &row); err != nil {
		t.Fatal(err)
	}
	want, err := process(raw, env)
	if err != nil {
		t.Fatal(err)
	}
	for key, v := range want {
		if row[key] != v {
			t.Errorf("%s is %v, want %v", key, row[key], v)
		}
	}
	for key := range row {
		if _, ok := want[key]; !ok && !strings.HasPrefix(key, "sweep_") {
			t.Errorf("the script makes no %s", key)
		}
	}
	if row["tput_per_gpu"] != 26.0/8/2 || row["median_intvty"] != 1000/1500.0 {
		t.Errorf("tput_per_gpu %v, median_intvty %v", row["tput_per_gpu"], row["median_intvty"])
	}
	for _, f := range e.Files {
		if strings.HasPrefix(f.Name, "agg/") && !strings.HasPrefix(f.Name, "agg/agg_") {
			t.Errorf("%s lies where collect_results.py takes every file", f.Name)
		}
	}
}

func TestInferenceX_refuses(t *testing.T) {
	run := open(t, plain())
	all := map[string]string{"MODEL_PREFIX": "q", "PRECISION": "bf16", "SPEC_DECODING": "none", "IMAGE": "i", "TP": "2", "EP_SIZE": "1", "DP_ATTENTION": "false"}
	with := func(name, value string) map[string]string {
		m := maps.Clone(all)
		m[name] = value
		return m
	}
	for want, facts := range map[string]map[string]string{
		"InferenceX wants IMAGE, MODEL_PREFIX, PRECISION, SPEC_DECODING, TP": nil,
		"want one of PP_SIZE":    with("HARDWARE", "x"),
		"TP x PP_SIZE is 4 GPUs": with("TP", "4"),
		"TP=two":                 with("TP", "two"),
		"without quotes":         with("IMAGE", "a'b"),
		"several nodes or roles": with("DISAGG", "true"),
		"ISL=long":               with("ISL", "long"),
	} {
		if _, err := try(run, "inferencex", Options{Facts: facts}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v, want %s", facts, err, want)
		}
	}
	rate := plain().with(col.Concurrency, nil).with(col.RequestRate, 1.0)
	if _, err := try(open(t, rate), "inferencex", Options{Facts: all}); err == nil || !strings.Contains(err.Error(), "an open loop") {
		t.Errorf("an open loop: %v", err)
	}
}

// TestLLMD: what llm-d's schema does not check: the units of each field, no null, and
// seconds. The schema itself is checked by its own reader, in e2e.
func TestLLMD(t *testing.T) {
	e := exported(t, open(t, plain()), "llmd", Options{})
	var got map[string]any
	data := e.data(t, "^4be1/t01/benchmark_report_v0.2.yaml$")
	if err := yaml.Unmarshal(data, &got); err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(data, []byte("null")) || !bytes.Contains(data, []byte("# throughput per GPU")) || !bytes.Contains(data, []byte("# interactivity")) {
		t.Errorf("a null, or no definition:\n%s", data)
	}
	units := map[string]string{
		"time_to_first_token": "s", "request_latency": "s", "time_per_output_token": "s/token", "inter_token_latency": "s/token",
		"output_token_rate": "tokens/s", "total_token_rate": "tokens/s", "request_rate": "queries/s", "input_length": "count", "output_length": "count",
	}
	seen := 0
	var walk func(at string, v any)
	walk = func(at string, v any) {
		m, ok := v.(map[string]any)
		if !ok {
			return
		}
		if u, ok := m["units"]; ok && units[at] != "" {
			seen++
			if u != units[at] {
				t.Errorf("%s is in %v, want %s", at, u, units[at])
			}
			if _, ok := m["mean"].(float64); !ok {
				t.Errorf("%s has the mean %v", at, m["mean"])
			}
		}
		for k, v := range m {
			walk(k, v)
		}
	}
	walk("", got)
	if seen != 4 { // ttft, output rate, lengths; nothing else was measured
		t.Errorf("%d fields have units", seen)
	}
	if !bytes.Contains(data, []byte("mean: 2.0\n")) {
		t.Errorf("the mean TTFT is not 2 s:\n%s", data)
	}
}

// TestPrometheus: the text can be read back, has no null as 0, and says its definitions.
func TestPrometheus(t *testing.T) {
	m := plain()
	m.set["quantile"] = "x"
	m.set["0odd name"] = "a\"b\\c\nd"
	e := exported(t, open(t, m), "prometheus", Options{})
	parser := expfmt.NewTextParser(model.LegacyValidation)
	families, err := parser.TextToMetricFamilies(bytes.NewReader(e.Files[0].Data))
	if err != nil {
		t.Fatal(err)
	}
	value := func(name, percentile string) (float64, bool) {
		for _, m := range families[name].GetMetric() {
			for _, l := range m.Label {
				if l.GetName() == "percentile" && l.GetValue() == percentile || percentile == "" {
					return m.GetGauge().GetValue(), true
				}
			}
		}
		return 0, false
	}
	if v, ok := value("sweep_ttft_seconds", "50"); !ok || v != 2 {
		t.Errorf("p50 TTFT is %v, %v", v, ok)
	}
	if v, ok := value("sweep_ttft_seconds", "95"); ok {
		t.Errorf("a null p95 TTFT is %v", v)
	}
	if v, _ := value("sweep_output_tokens_per_second_per_gpu", ""); v != 0.75 {
		t.Errorf("%v tokens/s of a GPU", v)
	}
	for name, f := range families {
		if !slices.Contains(metrics(), name) || f.GetHelp() == "" {
			t.Errorf("%s is not among Metrics, or has no help", name)
		}
		for _, m := range f.Metric {
			for _, l := range m.Label {
				if l.GetName() == "quantile" { // promtool refuses it of a gauge
					t.Errorf("%s has a label quantile", name)
				}
			}
			if m.TimestampMs != nil {
				t.Errorf("%s has a time, which the textfile collector refuses", name)
			}
		}
	}
	for name, word := range map[string]string{"sweep_output_tokens_per_second_per_gpu": "Throughput per GPU", "sweep_user_tokens_per_second": "Interactivity"} {
		if !strings.Contains(families[name].GetHelp(), word) {
			t.Errorf("%s does not say its definition", name)
		}
	}
	timed := string(exported(t, open(t, m), "openmetrics", Options{}).Files[0].Data)
	if !strings.HasSuffix(timed, "# EOF\n") || !strings.Contains(timed, " 1.795510808e+09\n") {
		t.Errorf("no end, or no time:\n%.600s", timed)
	}
}

// metrics returns the names of all metrics that the export has.
func metrics() []string {
	names := []string{runTrials}
	for _, g := range gauges() {
		names = append(names, g.name)
	}
	return names
}
