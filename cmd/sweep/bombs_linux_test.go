package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"sweep.dev/sweep/internal/input"
)

const bombPlan = `version: 1
name: bomb
model: m
backend: process
matrix: {engine: vllm, concurrency: 1, max_tokens: 8}
load: {requests: 2, prompts: {input_tokens: 20}}
`

// bombs returns files that cost little to write and, without bounds, all memory or
// all time to read. Each is a folder with a plan and what the plan names.
func bombs() map[string]map[string]string {
	engine := func(text string) map[string]string {
		return map[string]string{"plan.yaml": bombPlan + "engine_files: [own.yaml]\n", "own.yaml": text}
	}
	role := func(more string) map[string]string {
		return engine("name: vllm\nlike: vllm\nroles:\n  - name: server\n" + more)
	}
	command := func(element string) map[string]string {
		return map[string]string{"plan.yaml": bombPlan + "engines: {vllm: {command: [serve, '" + element + "']}}\n"}
	}
	var laughs strings.Builder
	laughs.WriteString("name: vllm\nlike: vllm\napi:\n  body:\n    a0: &a0 [x, x, x, x, x, x, x, x, x]\n")
	for i := 1; i < 20; i++ {
		fmt.Fprintf(&laughs, "    a%d: &a%d [%s]\n", i, i, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*a%d, ", i-1), 9), ", "))
	}
	var keys strings.Builder
	for i := range 15_000 {
		fmt.Fprintf(&keys, "k%d: 1\n", i)
	}
	var ranges strings.Builder
	for range 3000 {
		ranges.WriteString(`      - '{{range .Peers.server}}{{if 0}}{{end}}{{end}}'` + "\n")
	}
	var patterns strings.Builder
	patterns.WriteString("failures:\n")
	for range 2000 {
		patterns.WriteString("  - {class: a, match: '" + strings.Repeat(`(\pL{100}){10}`, 6) + "'}\n")
	}
	return map[string]map[string]string{
		"brackets":              engine(strings.Repeat("[", 50_000)),
		"braces":                engine(strings.Repeat("{a: ", 50_000)),
		"dashes":                engine(strings.Repeat("- ", 100_000)),
		"laughs":                engine(laughs.String()),
		"keys":                  engine("name: x\n" + keys.String()),
		"replicas":              role("    command: [serve]\n    replicas: 2000000000\n"),
		"range over a number":   role("    command: [serve, '{{range 1000000000000}}{{end}}']\n"),
		"range in an env":       role("    command: [serve]\n    env: {A: '{{range 1000000000000}}{{end}}'}\n"),
		"range in a file":       role("    command: [serve]\n    files: {a: '{{range 1000000000000}}{{end}}'}\n"),
		"range in a range":      role("    command: [serve, '{{range .Peers.server}}{{range $.Peers.server}}{{end}}{{end}}']\n    replicas: 1024\n"),
		"many ranges":           role("    replicas: 1024\n    command:\n      - serve\n" + ranges.String()),
		"doubled text":          role("    command: [serve, '{{$a := .Model}}{{range .Peers.server}}{{$a = print $a $a}}{{end}}']\n    replicas: 1024\n"),
		"wide print":            role("    command: [serve, '{{printf \"%999999d%999999d\" 1 1}}']\n"),
		"recursion":             role("    command: [serve, '{{define \"a\"}}{{template \"a\"}}{{template \"a\"}}{{end}}{{template \"a\"}}']\n"),
		"parentheses":           role("    command: [serve, '{{" + strings.Repeat("(", 60_000) + "']\n"),
		"expressions":           engine("name: vllm\nlike: vllm\n" + patterns.String()),
		"plan: range":           command("{{range 1000000000000}}{{end}}"),
		"plan: doubled text":    command(`{{$a := .Model}}{{range .Peers.server}}{{$a = print $a $a}}{{end}}`),
		"plan: a number of one": command(`{{$a := .Model}}{{range 100}}{{$a = print $a $a}}{{end}}`),
		"plan: many ranges":     {"plan.yaml": bombPlan + "engines:\n  vllm:\n    command:\n      - serve\n" + ranges.String()},
		"engine: pipe":          {"plan.yaml": bombPlan + "engine_files: [pipe]\n"},
		"prompts: pipe":         {"plan.yaml": strings.Replace(bombPlan, "input_tokens: 20", "kind: jsonl, file: pipe", 1)},
		"trace: device":         {"plan.yaml": strings.Replace(strings.Replace(bombPlan, "concurrency: 1, ", "", 1), "requests: 2", "trace: {file: /dev/zero, format: timestamps}", 1)},
		"prompts: huge":         {"plan.yaml": strings.Replace(bombPlan, "input_tokens: 20", "kind: jsonl, file: data", 1), "data": "huge"},
	}
}

// TestBombs validates each in a process of its own: it is refused as bad input, within
// 300 MB, and before a minute of processor time is over, at which the kernel kills it. How
// much work a plan may make is held by planfile.TestBombs, which counts it.
func TestBombs(t *testing.T) {
	t.Parallel()
	self := executable(t)
	for name, files := range bombs() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			for file, text := range files {
				write(t, filepath.Join(dir, file), text)
				if text == "huge" {
					if err := os.Truncate(filepath.Join(dir, file), 2*input.MaxData); err != nil { // sparse
						t.Fatal(err)
					}
				}
			}
			if err := syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o600); err != nil {
				t.Fatal(err)
			}
			cmd := exec.CommandContext(t.Context(), "/bin/sh", "-c", `ulimit -v 4000000 && ulimit -t 60 && exec "$0" validate plan.yaml`, self)
			cmd.Dir = dir
			cmd.Env = append(os.Environ(), asSweep+"=1", "GOGC=100")
			out, err := cmd.CombinedOutput()
			// A crash of Go's runtime exits with 2 as well.
			if exit, ok := errors.AsType[*exec.ExitError](err); !ok || exit.ExitCode() != exitUsage || bytes.Contains(out, []byte("\ngoroutine ")) {
				t.Fatalf("%v, want exit status %d\n%.2000s", err, exitUsage, out)
			}
			if !bytes.Contains(out, []byte("\nsweep: ")) && !bytes.HasPrefix(out, []byte("sweep: ")) { // a shell's mistake exits with 2, too
				t.Errorf("sweep says nothing:\n%.300s", out)
			}
			state := cmd.ProcessState
			if peak := state.SysUsage().(*syscall.Rusage).Maxrss << 10; peak > 300<<20 {
				t.Errorf("it took %d MB", peak>>20)
			}
		})
	}
}
