package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"sweep.dev/sweep/backends/runpod/runpodtest/podtest"
	"sweep.dev/sweep/internal/layout"
)

// dynamoImage plays an image of Dynamo: its python3 runs the modules of Dynamo as
// simulated roles, and anything else as itself.
func dynamoImage(t *testing.T) podtest.Image {
	t.Helper()
	// The interpreter itself: what PATH has may be a script that changes PATH.
	python, err := exec.Command("python3", "-c", "import sys; print(sys.executable, end='')").Output()
	if err != nil {
		t.Fatal(err)
	}
	sim := podtest.Quote("env", asSweep+"=1", executable(t), "sim", "--engine", "dynamo")
	return podtest.Image{Pattern: "nvcr.io/nvidia/ai-dynamo/vllm-runtime:*", Programs: map[string]string{"python3": `
module=${2:-}
case $module in
dynamo.*) shift 2 ;;
*) exec ` + podtest.Quote(string(python)) + ` "$@" ;;
esac
echo "GPUs [${CUDA_VISIBLE_DEVICES-all}]"
for a in "$@"; do
	shift
	case $a in --http-host) a=--host ;; --http-port) a=--port ;; esac
	set -- "$@" "$a"
done
case $module in
dynamo.frontend) exec ` + sim + ` --role frontend --min-initial-workers 2 --discovery "$DYN_FILE_KV" "$@" ;;
dynamo.vllm) exec ` + sim + ` --role worker --inner vllm --gpu {gpu} --discovery "$DYN_FILE_KV" --port 0 --system-port "$DYN_SYSTEM_PORT" "$@" ;;
esac
`}}
}

// A frontend and two workers are rented as one pod: requests go through the
// entry, each role is measured where it listens and has a log of its own, and the
// workers divide the GPUs.
func TestRent_roles(t *testing.T) {
	t.Parallel()
	a := accountOf(t, dynamoImage(t))
	plan := strings.ReplaceAll(rentPlan, "engine: vllm", "engine: dynamo")
	plan = strings.Replace(plan, `{vllm: {image: "vllm/vllm-openai:v0.29.0"}}`,
		`{dynamo: {image: "nvcr.io/nvidia/ai-dynamo/vllm-runtime:1.6.1", roles: {worker: {replicas: 2}}}}`, 1)
	write(t, filepath.Join(a.dir, "roles.yaml"), plan)

	r := a.sweep("run", "-o", "out", "--yes", "roles.yaml")
	if r.code != exitOK {
		t.Fatalf("exit %d\n%s%s", r.code, r.stdout, r.stderr)
	}
	for name, want := range map[string]string{
		"status": "ok ok", "engine": "dynamo dynamo", "backend": "runpod runpod", "server_requests": "5 6",
		"frontend_server_requests": "5 6", "worker_server_requests": "5 6", "worker_server_output_tokens": "15 18",
	} {
		if got := column(t, filepath.Join(a.dir, "out", "cells.csv"), name); strings.Join(got, " ") != want {
			t.Errorf("%s is %v, want %s", name, got, want)
		}
	}
	logs, err := filepath.Glob(filepath.Join(a.dir, "out", layout.AnyServerLog))
	if err != nil {
		t.Fatal(err)
	}
	var said []string
	for _, path := range logs {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		first, _, _ := strings.Cut(string(text), "\n")
		said = append(said, first)
	}
	if slices.Sort(said); !slices.Equal(said, []string{"GPUs [0]", "GPUs [1]", "GPUs []"}) {
		t.Errorf("%v begin with %q", logs, said)
	}
	if audit := a.Audit(); len(audit.Pods) != 1 || audit.Err(0) != nil {
		t.Errorf("%d pods, %v", len(audit.Pods), audit.Err(0))
	}
	if r := a.sweep("run", "--yes", "--set", "backend.bootstrap=false", "roles.yaml"); r.code != exitUsage || !strings.Contains(r.stderr, "bootstrap") {
		t.Errorf("with nobody to start them: exit %d, %s%s", r.code, r.stdout, r.stderr)
	}
}
