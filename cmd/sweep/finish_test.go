package main

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"sweep.dev/sweep/backends"
	"sweep.dev/sweep/executor"
	"sweep.dev/sweep/executor/event"
	"sweep.dev/sweep/executor/serving"
	"sweep.dev/sweep/nightly/notify"
	"sweep.dev/sweep/report"
	"sweep.dev/sweep/rundir"
)

const hookPlan = `version: 1
name: tiny
model: sweep/tiny
matrix: {engine: vllm, gpu: h100, concurrency: [1, 2], max_tokens: 3}
backend: {kind: sim}
load: {requests: 40, prompts: {kind: synthetic, input_tokens: 20}}
validity: {max_moved: 1000, max_steal: 1, max_drift: 100}
slo: {never: p95_e2e_ms < 0.001}
on_finish: {webhook: {url: '${SWEEP_HOOK}'}}
`

// TestWebhook runs a plan whose objective is missed: its webhook is told so if the
// command line permits it, what the webhook answers changes no exit code, and its URL
// is written nowhere.
func TestWebhook(t *testing.T) {
	t.Parallel()
	var bodies []string
	status := http.StatusOK
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		bodies = append(bodies, string(b))
		w.WriteHeader(status)
	}))
	defer s.Close()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "tiny.yaml"), hookPlan)
	env := []string{"SWEEP_HOOK=" + s.URL + "/canary-b81f3c5d7e"}
	call := func(calls int, want string, args ...string) {
		t.Helper()
		got := sweep(t, dir, env, args...)
		if got.code != exitSLO || len(bodies) != calls || !strings.Contains(got.stderr, want) {
			t.Errorf("%v: exit %d, %d calls of %d, want %q in\n%s", args, got.code, len(bodies), calls, want, got.stderr)
		}
		if strings.Contains(got.stdout+got.stderr, "canary") {
			t.Errorf("%v prints the URL\n%s", args, got.stderr)
		}
	}
	call(0, "the webhook of the plan is not told how the run ends: --allow-webhook permits it", "run", "--decide=point", "-o", "first", "tiny.yaml")
	call(1, "exit 99 (an SLO failed)", "run", "--decide=point", "--allow-private-webhook", "-o", "second", "tiny.yaml")
	status = http.StatusInternalServerError
	call(2, "warning: the webhook was not told how the run ended: ${SWEEP_HOOK}: the answer is HTTP 500", "resume", "--allow-private-webhook", "first")
	if got := sweep(t, dir, env, "run", "--allow-webhook", "-o", "third", "tiny.yaml"); got.code != exitUsage || !strings.Contains(got.stderr, "http://") {
		t.Errorf("a URL with http is not refused: exit %d\n%s", got.code, got.stderr)
	}
	var e notify.Ended
	if err := json.Unmarshal([]byte(bodies[0]), &e); err != nil {
		t.Fatal(err)
	}
	if e.Plan != "tiny" || e.Run != "second" || e.Exit != exitSLO || e.Trials == nil || e.Trials.Planned != 2 || e.Trials.Valid != 2 || e.Objectives == nil || e.Objectives.Failed != 2 || e.CostUSD != nil {
		t.Errorf("the webhook was told %s", bodies[0])
	}
	for path, content := range filesOf(t, dir) {
		if strings.Contains(content, "canary") {
			t.Errorf("%s holds the URL", path)
		}
	}
}

// TestVerdict_told: what a webhook gets has the exit code, also if there are no tables,
// and before the last line.
func TestVerdict_told(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		rep  executor.Report
		run  *report.Run
		code int
	}{
		{executor.Report{Left: serving.Left{Cleanup: errors.New("pod p is still there"), Spending: event.Spending{USD: 2}}}, nil, exitCleanup},
		{executor.Report{}, &report.Run{State: &rundir.State{}}, exitOK},
	} {
		var out strings.Builder
		a := &app{err: &out}
		j := madeUp(backends.Factory{})
		var told []notify.Ended
		j.notifyFinish = func(e notify.Ended) { told = append(told, e); a.say("told") }
		if got := exitCode(a.verdict(j, c.run, c.rep, nil)); got != c.code {
			t.Errorf("exit %d, want %d", got, c.code)
		}
		if len(told) != 1 || told[0].Exit != c.code || (told[0].Trials == nil) != (c.run == nil) || (told[0].CostUSD == nil) != (c.code == exitOK) {
			t.Errorf("exit %d: told %+v", c.code, told)
		}
		if lines := strings.Split(strings.TrimSpace(out.String()), "\n"); !strings.Contains(lines[len(lines)-1], "next: ") {
			t.Errorf("the last line is not the next command:\n%s", out.String())
		}
	}
}
