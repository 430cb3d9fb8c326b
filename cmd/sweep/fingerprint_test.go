package main

import (
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"sweep.dev/sweep/internal/layout"
)

// A card that is five times as slow as another is seen by its fingerprint, which each launch
// gives once: also one of a run that was killed and goes on.
func TestFind_fingerprint(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	text := strings.NewReplacer("[1, 0.5, 2]", "[1, 0.2]", "sweep/tiny", "Qwen/Qwen2.5-1.5B-Instruct", "devices: 3", "devices: 2", "never: p50_ttft_ms < 0.0001, ", "").Replace(devicesPlan)
	text += "sinks: [{csv: {columns: full}}]\n"
	write(t, filepath.Join(dir, "find.yaml"), text)
	plan := sweep(t, dir, nil, "plan", "-v", "find.yaml")
	if !strings.Contains(plan.stdout, "fingerprint  36 completions: ") || !strings.Contains(plan.stdout, "  launches with fingerprints ") {
		t.Errorf("the plan does not announce the questions:\n%s", plan.stdout)
	}
	if got := sweep(t, dir, []string{"SWEEP_FAULT=op:kill@200"}, "run", "-o", "run", "find.yaml"); got.code != -1 {
		t.Fatalf("exit %d\n%s", got.code, got.stderr)
	}
	got := sweep(t, dir, nil, "resume", "run")
	if got.code != exitOK {
		t.Fatalf("exit %d\n%s\n%s", got.code, got.stdout, got.stderr)
	}
	rows := csvRows(t, filepath.Join(dir, "run", "cells.csv"))
	at := func(row []string, column string) string { return row[slices.Index(rows[0], column)] }
	took := map[string]string{} // of each launch
	prefill := false            // it is not known of a launch that was disturbed
	slowest, most := "", 0.0
	for _, row := range rows[1:] {
		if at(row, "status") == "skipped" {
			continue
		}
		launch, decode := at(row, "launch"), at(row, "device_decode_ms")
		if prefill = prefill || at(row, "device_prefill_ms") != ""; decode == "" || took[launch] != "" && took[launch] != decode {
			t.Errorf("launch %s has a decode of %q and of %q", launch, took[launch], decode)
		}
		took[launch] = decode
		if v, err := strconv.ParseFloat(decode, 64); err == nil && v > most {
			slowest, most = at(row, "gpu_uuid"), v
		}
	}
	if len(took) < 2 || !prefill {
		t.Errorf("%d launches, with a prefill: %v", len(took), prefill)
	}
	if want := "slow_device: vllm h100: " + slowest + " took "; !strings.Contains(content(t, filepath.Join(dir, "run", layout.Summary)), want) || !strings.Contains(got.stdout, want) {
		t.Errorf("%q is not said\n%s", want, got.stdout)
	}
	write(t, filepath.Join(dir, "off.yaml"), text+"fingerprint: false\n")
	if plan := sweep(t, dir, nil, "plan", "-v", "off.yaml"); plan.code != exitOK || strings.Contains(plan.stdout, "fingerprint") {
		t.Errorf("exit %d\n%s", plan.code, plan.stdout)
	}
}
