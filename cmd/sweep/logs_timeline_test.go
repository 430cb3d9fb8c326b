package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sweep.dev/sweep/engine/loglines"
	"sweep.dev/sweep/internal/layout"
	"sweep.dev/sweep/rundir"
)

// oldRequest is the request of the logs of May 2025 in engine/loglines/testdata/old.
const oldRequest = "cmpl-0dec7ca2-42c8-4b79-a753-d355181114f2-0"

// plainLogs writes these logs as kubectl logs prints them, without the times of the container
// runtime, into a folder. The files are of November 2026.
func plainLogs(t *testing.T, dir string, names map[string]string) {
	t.Helper()
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	for from, to := range names {
		text, err := os.ReadFile("../../engine/loglines/testdata/old/" + from)
		if err != nil {
			t.Fatal(err)
		}
		var bare strings.Builder
		for line := range strings.Lines(string(text)) {
			_, rest, _ := strings.Cut(line, " ")
			bare.WriteString(rest)
		}
		writeLog(t, filepath.Join(dir, to), bare.String())
	}
}

func writeLog(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	changed := time.Date(2026, 11, 30, 0, 0, 0, 0, time.UTC)
	if err := os.Chtimes(path, changed, changed); err != nil {
		t.Fatal(err)
	}
}

// docs/kubernetes.md shows files that kubectl logs made: lines with whole seconds are joined
// with the others, and their place within the second is not made up.
func TestLogs_timelineOfPlainFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	plainLogs(t, dir, map[string]string{
		"router.epp-0.epp.log": "epp.log", "decode.llama-decode-0.vllm.log": "decode-0.log",
		"decode.llama-decode-0.routing-proxy.log": "sidecar-0.log", "prefill.llama-prefill-0.vllm.log": "prefill-0.log",
	})
	got := sweep(t, ".", nil, "logs", dir, "--timeline", "--request", oldRequest)
	if got.code != exitOK {
		t.Fatalf("exit %d\n%s", got.code, got.stderr)
	}
	inKubePage(t, got.stdout)
}

// A line without a year is of the run's, or of the year that ended with the newest file.
func TestLogs_timelineYear(t *testing.T) {
	t.Parallel()
	yearOf := func(dir string) (year int, said string) {
		t.Helper()
		got := sweep(t, ".", nil, "logs", dir, "--timeline", "--json", "--request", oldRequest)
		var told loglines.Timeline
		if err := json.Unmarshal([]byte(got.stdout), &told); err != nil || len(told.Steps) == 0 {
			t.Fatalf("%v\n%s%s", err, got.stdout, got.stderr)
		}
		return told.Steps[0].Time.Year(), got.stderr
	}
	names := map[string]string{"decode.llama-decode-0.vllm.log": "decode-0.log"}
	run := filepath.Join(t.TempDir(), "run")
	d, err := rundir.Create(nil, run, rundir.Manifest{RunID: "r", Plan: "p", CreatedAt: time.Date(2025, 5, 9, 19, 0, 0, 0, time.UTC)}, nil, []byte("{}"))
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	plainLogs(t, filepath.Join(run, layout.LaunchDir("d", 1)), names)
	if year, said := yearOf(run); year != 2025 || strings.Contains(said, "year") {
		t.Errorf("of the run: %d, %s", year, said)
	}
	alone := t.TempDir()
	plainLogs(t, alone, names)
	if year, said := yearOf(alone); year != 2026 || !strings.Contains(said, "no line of the logs says its year: they are taken to be of the year until 2026-11-30") {
		t.Errorf("of files alone: %d, %s", year, said)
	}
}

// A request over midnight, and over the end of a year, begins with its date and counts on.
func TestLogs_timelineOverMidnight(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	writeLog(t, filepath.Join(dir, "epp.log"), `{"level":"info","ts":"2025-12-30T08:00:00Z","msg":"x"}`+"\n")
	writeLog(t, filepath.Join(dir, "decode-0.log"),
		"INFO 12-31 23:59:59 [logger.py:39] Received request n-12345678: x\n"+
			"DEBUG 01-01 00:00:01 [scheduler.py:862] Finished recving KV transfer for request n-12345678\n")
	got := sweep(t, ".", nil, "logs", dir, "--timeline", "--request", "n-12345678")
	const want = `request n-12345678: 2 steps in at most 3.0000 s, from 2025-12-31 23:59:59.0000 UTC

      0.____  0/decode  decode server took the request
      2.____  0/decode  decode server has the KV cache (Finished recving KV transfer)
`
	if !strings.HasPrefix(got.stdout, want) {
		t.Errorf("got\n%s\nwant\n%s%s", got.stdout, want, got.stderr)
	}
}
