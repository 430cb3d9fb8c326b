package main

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"sweep.dev/sweep/executor/fingerprint"
	"sweep.dev/sweep/internal/layout"
	"sweep.dev/sweep/report"
	"sweep.dev/sweep/sim/fitted"
)

// A run that is rehearsed first keeps what was predicted, also if it is killed, and its
// answers have it beside them. The simulator carries all loads of always, and none of never.
func TestRun_rehearse(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "find.yaml"), strings.Replace(findPlan, "[h100, h200]", "h100", 1))
	if got := sweep(t, dir, []string{"SWEEP_FAULT=op:kill@150"}, "run", "--rehearse", "-o", "run", "find.yaml"); got.code != -1 || !strings.Contains(got.stderr, "Rehearsal of find: a prediction of the simulator") || !strings.Contains(got.stderr, "A run would take ") {
		t.Fatalf("exit %d\n%s", got.code, got.stderr)
	}
	kept := filepath.Join(dir, "run", layout.Rehearsal)
	before, err := os.ReadFile(kept)
	if err != nil {
		t.Fatal(err)
	}
	got := sweep(t, dir, nil, "resume", "run")
	for _, want := range []string{"the simulator predicted 4 at once or more", "the simulator predicted no capacity (below_range)"} {
		if got.code != exitSLO || !strings.Contains(got.stdout, want) {
			t.Fatalf("exit %d, want %q\n%s\n%s", got.code, want, got.stdout, got.stderr)
		}
	}
	if !strings.Contains(got.stderr, "left of each search ") {
		t.Errorf("it does not say what is left\n%s", got.stderr)
	}
	if after, err := os.ReadFile(kept); err != nil || string(after) != string(before) {
		t.Errorf("the prediction has changed: %v", err)
	}
	rows := csvRows(t, filepath.Join(dir, "run", layout.CapacityCSV))
	at := slices.Index(rows[0], "predicted_capacity")
	if at < 0 || len(rows) != 3 || rows[1][at] != "" || rows[2][at] != "4" {
		t.Errorf("%q", rows)
	}
	if got := sweep(t, dir, nil, "report", "-o", "run.html", "run"); got.code != exitOK {
		t.Fatalf("exit %d\n%s", got.code, got.stderr)
	}
	if page := content(t, filepath.Join(dir, "run.html")); !strings.Contains(page, "the simulator predicted 4 at once or more") {
		t.Error("the report does not have the prediction")
	}
}

// besidePlan has a server that the simulator's arithmetic knows, and one that it does not.
const besidePlan = `
version: 1
name: beside
model: sweep/tiny
matrix: {engine: [vllm, spread], gpu: h100, concurrency: 1}
engines: {spread: {profile: vllm, args: {pipeline-parallel-size: 2}}}
on_start_failure: record
backend: sim
load: {requests: 20, max_tokens: 4, warmup: {requests: 1}, prompts: {input_tokens: 20}}
validity: {max_moved: 1000, max_steal: 1, max_drift: 100}
`

// What cannot be rehearsed is run all the same, and said; cells have their predictions beside
// what was measured.
func TestRun_rehearseCells(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "beside.yaml"), besidePlan)
	if got := sweep(t, dir, nil, "run", "--rehearse", "-o", "run", "beside.yaml"); got.code != exitOK || !strings.Contains(got.stderr, "spread h100: not rehearsed: its GPUs do not share") {
		t.Fatalf("exit %d\n%s", got.code, got.stderr)
	}
	summary := content(t, filepath.Join(dir, "run", layout.Summary))
	for _, want := range []string{"What the simulator predicted before the run", "output tokens/s: ", " predicted, ", "spread h100: not rehearsed: its GPUs do not share"} {
		if !strings.Contains(summary, want) {
			t.Errorf("%q is not in\n%s", want, summary)
		}
	}
	if got := sweep(t, dir, nil, "run", "-o", "plain", "beside.yaml"); got.code != exitOK || strings.Contains(content(t, filepath.Join(dir, "plain", layout.Summary)), "predicted before") {
		t.Errorf("exit %d: a run that was not rehearsed\n%s", got.code, got.stderr)
	}
}

// A rehearsal has the jitter and the devices of the plan's simulator. A time_scale
// changes no prediction. Keys that only started servers follow are named.
func TestPlan_rehearseBackend(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	plain := strings.NewReplacer("[vllm, spread]", "vllm", "engines: {spread: {profile: vllm, args: {pipeline-parallel-size: 2}}}", "fingerprint: true").Replace(besidePlan)
	of := func(plan, backend string) (stdout string) {
		t.Helper()
		write(t, filepath.Join(dir, "beside.yaml"), strings.Replace(plan, "backend: sim", "backend: {"+backend+"}", 1))
		got := sweep(t, dir, nil, "plan", "--rehearse", "--json", "beside.yaml")
		if got.code != exitOK {
			t.Fatalf("%s: exit %d\n%s", backend, got.code, got.stderr)
		}
		return got.stdout
	}
	read := func(text string) (r report.Rehearsal) {
		t.Helper()
		if err := json.Unmarshal([]byte(text), &r); err != nil || len(r.Cells) != 1 {
			t.Fatalf("%v\n%s", err, text)
		}
		return r
	}
	usual := of(plain, "kind: sim")
	scaled := read(of(plain, "kind: sim, time_scale: 20"))
	if !slices.Equal(scaled.Ignored, []string{"backend.time_scale"}) {
		t.Errorf("with a time_scale %q are named", scaled.Ignored)
	}
	scaled.Ignored = read(usual).Ignored
	if !reflect.DeepEqual(scaled, read(usual)) {
		t.Errorf("with a time_scale\n%+v\nwithout\n%s", scaled, usual)
	}
	even, uneven, slow := read(of(plain, "kind: sim, jitter: 0")), read(of(plain, "kind: sim, jitter: 1")), read(of(plain, "kind: sim, devices: [0.01]"))
	if e := *even.Cells[0].E2E; *uneven.Cells[0].E2E < 1.3*e || *slow.Cells[0].E2E < 1.5*e {
		t.Errorf("p95 E2E is %v ms without jitter, %v with it, %v on a slow device", e, *uneven.Cells[0].E2E, *slow.Cells[0].E2E)
	}
	if uneven.Simulator.Jitter != 1 || read(usual).Simulator.Jitter != 0.01 || !slices.Equal(slow.Simulator.Devices, []float64{0.01}) {
		t.Errorf("%+v, %+v", uneven.Simulator, slow.Simulator)
	}
	write(t, filepath.Join(dir, "beside.yaml"), strings.NewReplacer(
		"backend: sim", "backend: {kind: sim, faults: [every=100], start_delay: 1s, time_scale: 2}",
		"max_tokens: 4", "max_tokens: 4, stop: {error_rate: 5%}",
	).Replace(plain))
	got := sweep(t, dir, nil, "plan", "--rehearse", "beside.yaml")
	if want := "  not rehearsed: load.stop, backend.time_scale, backend.faults, backend.start_delay of the plan, which a run follows\n"; got.code != exitOK || !strings.Contains(got.stdout, want) {
		t.Errorf("exit %d, want %q\n%s\n%s", got.code, want, got.stdout, got.stderr)
	}
}

// A rehearsal counts the servers on devices that are taken for each search, and no fingerprint
// of them.
func TestPlan_rehearseTaken(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	hours := map[bool]float64{}
	for _, asked := range []bool{true, false} {
		text := strings.NewReplacer(
			"matrix: {engine: vllm, gpu: l4}", "matrix: {engine: vllm, gpu: l4, max_tokens: [4, 5]}",
			"max_tokens: 4, ", "", "backend: sim", fmt.Sprintf("backend: {kind: sim, devices: [1, 0.9]}\nfingerprint: %t", asked),
		).Replace(hunt("Qwen/Qwen2.5-1.5B-Instruct", 3))
		write(t, filepath.Join(dir, "taken.yaml"), text)
		if got := sweep(t, dir, nil, "plan", "--rehearse", "taken.yaml"); got.code != exitOK || !strings.Contains(got.stdout, " on 12 pods, ") {
			t.Errorf("exit %d, want 12 pods\n%s\n%s", got.code, got.stdout, got.stderr)
		}
		got := sweep(t, dir, nil, "plan", "--rehearse", "--json", "taken.yaml")
		var r report.Rehearsal
		if err := json.Unmarshal([]byte(got.stdout), &r); err != nil {
			t.Fatalf("%v\n%s\n%s", err, got.stdout, got.stderr)
		}
		hours[asked] = r.Hours
	}
	_, d := deploymentOf(t, hunt("Qwen/Qwen2.5-1.5B-Instruct", 3))
	each := time.Duration(fingerprint.Tokens()) * tokenEstimate(d.Server)
	if more := 3600 * (hours[true] - hours[false]); math.Abs(more-2*each.Seconds()) > 0.001 {
		t.Errorf("fingerprints take %v s, want two of %s", more, each)
	}
}

// fitFiles writes files of sweep fit.
func fitFiles(t *testing.T, dir string, files map[string]fitted.Profile) {
	t.Helper()
	for name, p := range files {
		p.Version = fitted.Version
		text, err := p.Text()
		if err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(dir, name), string(text))
	}
}

// rehearsedIn returns a rehearsal of beside.yaml.
func rehearsedIn(t *testing.T, dir string, args ...string) (r report.Rehearsal) {
	t.Helper()
	got := sweep(t, dir, nil, append(append([]string{"plan", "--rehearse", "--json"}, args...), "beside.yaml")...)
	if got.code != exitOK {
		t.Fatalf("exit %d\n%s", got.code, got.stderr)
	}
	if err := json.Unmarshal([]byte(got.stdout), &r); err != nil || len(r.Cells) == 0 || r.Cells[0].E2E == nil {
		t.Fatalf("%v: %s", err, got.stdout)
	}
	return r
}

// A plan whose simulator has the rates of a file is rehearsed with them, whichever engine and
// GPU the file is of, unless --fitted names another for the server.
func TestPlan_fittedBackend(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "beside.yaml"), strings.Replace(besidePlan, "backend: sim", "backend: {kind: sim, fitted: slow.json}", 1))
	fitFiles(t, dir, map[string]fitted.Profile{
		"slow.json": {Engine: "sglang", GPU: "l4", Bandwidth: 1, TFLOPS: 0.1, StepUS: 50_000, Model: "sweep/tiny"},
		"fast.json": {Engine: "vllm", GPU: "h100", Bandwidth: 3000, TFLOPS: 900},
	})
	slow, fast := rehearsedIn(t, dir), rehearsedIn(t, dir, "--fitted", "fast.json")
	if *slow.Cells[0].E2E < 200 || *fast.Cells[0].E2E > 100 {
		t.Errorf("p95 E2E %v ms with the plan's rates, %v with those of --fitted", *slow.Cells[0].E2E, *fast.Cells[0].E2E)
	}
	for name, r := range map[string]report.Rehearsal{"slow.json": slow, "fast.json": fast} {
		if f := r.Simulator.Fitted; len(f) != 1 || f[0].File != name || f[0].Engine != "vllm" || f[0].GPU != "h100" {
			t.Errorf("%s: %+v", name, f)
		}
	}
	got := sweep(t, dir, nil, "run", "--rehearse", "-o", "run", "beside.yaml")
	if want := "  vllm h100: rates of slow.json, measured with sweep/tiny (sglang on l4)\n"; got.code != exitOK || !strings.Contains(got.stderr, want) {
		t.Errorf("exit %d, want %q\n%s", got.code, want, got.stderr)
	}
}

// A rehearsal takes the rates of a file of sweep sim fit for the servers that it is of.
func TestPlan_fitted(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "beside.yaml"), besidePlan)
	fitFiles(t, dir, map[string]fitted.Profile{
		"slow.json":  {Engine: "vllm", GPU: "h100", Bandwidth: 1, TFLOPS: 0.1, StepUS: 50_000, Model: "sweep/tiny"},
		"other.json": {Engine: "vllm", GPU: "l4", Bandwidth: 1, TFLOPS: 0.1},
	})
	sheet, slow := rehearsedIn(t, dir), rehearsedIn(t, dir, "--fitted", "slow.json")
	if *slow.Cells[0].E2E < 200 || *sheet.Cells[0].E2E > 100 || sheet.Simulator.Fitted != nil || len(slow.Simulator.Fitted) != 1 {
		t.Errorf("by the data sheet %+v, fitted %+v", sheet, slow)
	}
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"--fitted", "slow.json"}, "give --rehearse too"},
		{[]string{"--rehearse", "--fitted", "other.json"}, "other.json is of vllm on l4, and no server of the plan is"},
		{[]string{"--rehearse", "--fitted", "slow.json", "--fitted", "slow.json"}, "is the second file of vllm on h100"},
		{[]string{"--rehearse", "--fitted", "beside.yaml"}, "is no file of sweep sim fit"},
	} {
		for _, command := range []string{"plan", "run"} {
			if got := sweep(t, dir, nil, append(append([]string{command}, c.args...), "beside.yaml")...); got.code != exitUsage || !strings.Contains(got.stderr, c.want) {
				t.Errorf("%s %v: exit %d\n%s", command, c.args, got.code, got.stderr)
			}
		}
	}
}

// content returns that of a file.
func content(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
