package main

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sweep.dev/sweep/backends/kubernetes/stack/logs"
	"sweep.dev/sweep/backends/kubernetes/stack/stacktest"
	"sweep.dev/sweep/engine"
	"sweep.dev/sweep/engine/loglines"
)

const (
	kubeLogs    = "../../engine/loglines/testdata/pd"
	kubeRequest = "710a2ee7-fb67-4151-a3b9-56ad753fb55a"
)

// inKubePage fails unless docs/kubernetes.md shows a text.
func inKubePage(t *testing.T, text string) {
	t.Helper()
	page, err := os.ReadFile("../../docs/kubernetes.md")
	if err != nil {
		t.Fatal(err)
	}
	if text = strings.TrimRight(text, "\n") + "\n"; !strings.Contains(string(page), "```text\n"+text+"```") {
		t.Errorf("docs/kubernetes.md does not show this:\n%s", text)
	}
}

// docs/kubernetes.md shows the steps of a request, and what is missing at the default
// verbosity.
func TestLogs_timeline(t *testing.T) {
	t.Parallel()
	got := sweep(t, ".", nil, "logs", kubeLogs, "--timeline", "--request", kubeRequest)
	if got.code != exitOK {
		t.Fatalf("exit %d\n%s", got.code, got.stderr)
	}
	inKubePage(t, got.stdout)

	quiet := t.TempDir()
	files, err := filepath.Glob(kubeLogs + "/*.log")
	if err != nil || len(files) == 0 {
		t.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var kept strings.Builder
		for line := range strings.Lines(string(text)) {
			if !strings.Contains(line, "DEBUG") && !strings.Contains(line, `"level":"debug"`) && !strings.Contains(line, `"level":"trace"`) {
				kept.WriteString(line)
			}
		}
		if err := os.WriteFile(filepath.Join(quiet, filepath.Base(file)), []byte(kept.String()), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	got = sweep(t, ".", nil, "logs", quiet, "--timeline", "--request", kubeRequest)
	if got.code != exitOK {
		t.Fatalf("exit %d\n%s", got.code, got.stderr)
	}
	inKubePage(t, got.stdout)

	got = sweep(t, ".", nil, "logs", kubeLogs, "--timeline", "--json", "--request", kubeRequest)
	var told loglines.Timeline
	if err := json.Unmarshal([]byte(got.stdout), &told); err != nil || len(told.Steps) != 14 || told.Named != 1 {
		t.Errorf("%v\n%s%s", err, got.stdout, got.stderr)
	}
	if got = sweep(t, ".", nil, "logs", kubeLogs, "--timeline", "--request", "no-such-request"); got.code != 1 || !strings.Contains(got.stderr, "no line of the logs names the request \"no-such-request\"") {
		t.Errorf("exit %d\n%s", got.code, got.stderr)
	}
}

// The files of a run that sweep started on this machine have no times of a runtime: lines
// have their own. Those without a year have that of others, however old the files are.
func TestLogs_timelineOfRoles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for from, to := range map[string]string{
		"router.pd-epp-0.epp": "epp-0", "decode.pd-decode-0.routing-proxy": "sidecar-0", "decode.pd-decode-0.modelserver": "decode-0", "prefill.pd-prefill-0.modelserver": "prefill-0",
	} {
		text, err := os.ReadFile(filepath.Join(kubeLogs, from+".log"))
		if err != nil {
			t.Fatal(err)
		}
		var bare strings.Builder
		for line := range strings.Lines(string(text)) {
			_, rest, _ := strings.Cut(line, " ")
			bare.WriteString(rest)
		}
		name := filepath.Join(dir, to+".log")
		if err := os.WriteFile(name, []byte(bare.String()), 0o600); err != nil {
			t.Fatal(err)
		}
		copied := time.Date(2031, 6, 1, 0, 0, 0, 0, time.UTC)
		if err := os.Chtimes(name, copied, copied); err != nil {
			t.Fatal(err)
		}
	}
	got := sweep(t, ".", nil, "logs", dir, "--timeline", "--json", "--request", kubeRequest)
	var told loglines.Timeline
	if err := json.Unmarshal([]byte(got.stdout), &told); err != nil || len(told.Missing) != 0 || len(told.Steps) < 13 {
		t.Errorf("%v\n%s%s", err, got.stdout, got.stderr)
	}
}

// docs/kubernetes.md shows the view of the same logs.
func TestLogs_view(t *testing.T) {
	t.Parallel()
	p, _ := engine.Lookup("llm-d")
	var out bytes.Buffer
	v := &logView{app: &app{out: &out}, reader: loglines.NewReader(&p.Logs)}
	order := logs.NewOrder(v.show)
	files, err := filepath.Glob(kubeLogs + "/*.log")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		from, ok := logs.ParseFileName(filepath.Base(file))
		if !ok {
			t.Fatal(file)
		}
		for line := range strings.Lines(string(text)) {
			when, rest, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
			at, err := time.Parse(time.RFC3339Nano, when)
			if err != nil {
				t.Fatal(err)
			}
			if err := order.Add(logs.Line{From: &from, Time: at, Text: rest}); err != nil {
				t.Fatal(err)
			}
		}
	}
	over, end := context.WithCancel(t.Context())
	end()
	order.Keep(over)
	lines := strings.SplitAfter(out.String(), "\n")
	if v.noise != 6 || len(lines) != 33 || lines[0] != "==> 2026-08-26 UTC <==\n" {
		t.Errorf("%d lines of noise, %d shown\n%s", v.noise, len(lines)-1, out.String())
	}
	// Of each line the page shows as much as it is wide.
	var shown strings.Builder
	for _, line := range lines[4:11] {
		line = strings.TrimSuffix(line, "\n")
		if len(line) > 120 {
			line = line[:120]
		}
		shown.WriteString(strings.TrimRight(line, " ") + "\n")
	}
	inKubePage(t, shown.String())
}

// The lines of two days stand below their dates, and a line of the same log whose clock went
// back stays below the one before it.
func TestLogs_viewOverMidnight(t *testing.T) {
	t.Parallel()
	p, _ := engine.Lookup("llm-d")
	var out bytes.Buffer
	order := logs.NewOrder((&logView{app: &app{out: &out}, reader: loglines.NewReader(&p.Logs)}).show)
	one, other := &logs.Container{Role: "decode", Pod: "d", Name: "vllm"}, &logs.Container{Role: "prefill", Pod: "p", Name: "vllm"}
	at := time.Date(2025, 12, 31, 23, 59, 59, 0, time.UTC)
	for _, l := range []logs.Line{
		{From: one, Time: at.Add(2 * time.Second), Text: "b"},
		{From: one, Time: at.Add(1500 * time.Millisecond), Text: "c"},
		{From: other, Time: at.Add(1800 * time.Millisecond), Text: "a"},
		{From: other, Time: at, Text: "a2"},
		{From: other, Time: at.Add(3 * time.Second), Text: "d"},
	} {
		if err := order.Add(l); err != nil {
			t.Fatal(err)
		}
	}
	over, end := context.WithCancel(t.Context())
	end()
	order.Keep(over)
	const want = `==> 2026-01-01 UTC <==
00:00:00.800 prefill/p/vllm a
==> 2025-12-31 UTC <==
23:59:59.000 prefill/p/vllm a2
==> 2026-01-01 UTC <==
00:00:01.000 decode/d/vllm b
00:00:00.500 decode/d/vllm c
00:00:02.000 prefill/p/vllm d
`
	if out.String() != want {
		t.Errorf("got\n%s\nwant\n%s", out.String(), want)
	}
}

// What is asked for and cannot be is said.
func TestLogs_kubeRefused(t *testing.T) {
	t.Parallel()
	const file = "testdata/kube/docs.yaml"
	env := []string{"KUBECONFIG=" + stacktest.Serve(t, file)}
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"--kube", "llm-d", "runs/x"}, "asks the cluster alone"},
		{[]string{"--kube", "/pd"}, "want NAMESPACE"},
		{[]string{"--kube", "llm-d", "-f"}, "--follow is for a run directory"},
		{[]string{"--kube", "llm-d", "--since", "yesterday"}, "want a duration such as 10m"},
		{[]string{"--kube", "llm-d", "--role", "encode"}, `the stack has no "encode", want one of decode, epp, modelserver, prefill, router, routing-proxy`},
		{[]string{"--kube", "llm-d", "--engine", "x"}, "there is no \"x\""},
		{[]string{"--kube", "llm-d", "--timeline"}, "--timeline needs --request"},
		{[]string{"--request", "x"}, "--request is only for --timeline"},
		{[]string{"--all"}, "--all is only for --kube"},
		{[]string{"--engine", "vllm"}, "--engine is only for --kube or --timeline"},
		{[]string{"--timeline", "--request", "x", "testdata/kube"}, "has no logs"},
	} {
		if got := sweep(t, ".", env, append([]string{"logs"}, c.args...)...); got.code != exitUsage || !strings.Contains(got.stderr, c.want) {
			t.Errorf("%v: exit %d\n%s", c.args, got.code, got.stderr)
		}
	}
	got := sweep(t, ".", []string{"KUBECONFIG=" + stacktest.Serve(t, file, "pods")}, "logs", "--kube", "llm-d")
	if got.code != exitProvider || !strings.Contains(got.stderr, "u may not list pods in namespace llm-d") || !strings.Contains(got.stderr, "--print-role") {
		t.Errorf("exit %d\n%s", got.code, got.stderr)
	}
}
