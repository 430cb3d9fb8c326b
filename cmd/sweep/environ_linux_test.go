package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestEnvironment runs a server that prints its environment, and that of its
// guard, which has all of sweep's: no credential of it is in any file, although
// the plan names none.
func TestEnvironment(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "plan.yaml"), `
version: 1
name: environment
model: m
matrix: {engine: vllm, gpu: x, concurrency: 1, max_tokens: 3}
backend: {kind: process}
engines:
  vllm:
    env: {NAMED: "named-by-the-plan"}
    command: [sh, -c, 'env | sed "s/^/own: /"; tr "\000" "\n" < /proc/$PPID/environ; exit 3']
load: {requests: 2, warmup: {requests: 0}, prompts: {input_tokens: 20}}
`)
	env := []string{
		"RUNPOD_API_KEY=CANARY-of-runpod", "aws_secret_access_key=CANARY-of-aws", "Hf_Token=CANARY-of-hub",
		"HF_TOKEN=CANARY-of-the-hub", "HTTPS_PROXY=http://user:CANARY-of-proxy@127.0.0.1:9", "OTHER=visible",
	}
	for _, share := range []bool{false, true} {
		out := filepath.Join(dir, "private")
		args := []string{"run", "-o", out, "plan.yaml"}
		file, folder := fs.FileMode(0o600), fs.FileMode(0o700)
		if share {
			out = filepath.Join(dir, "shared")
			args = []string{"run", "--share", "-o", out, "plan.yaml"}
			file, folder = 0o644, 0o755
		}
		r := sweep(t, dir, env, args...)
		if r.code != exitIncomplete {
			t.Fatalf("exit %d\n%s", r.code, r.stderr)
		}
		var logs, all strings.Builder
		err := filepath.WalkDir(out, func(path string, e fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			info, err := e.Info()
			if err != nil {
				return err
			}
			want := file
			if e.IsDir() {
				want = folder
			}
			if info.Mode().Perm() != want {
				t.Errorf("%s has the mode %v, want %v", path, info.Mode(), want)
			}
			if e.IsDir() {
				return nil
			}
			b, err := os.ReadFile(path)
			if strings.Contains(string(b), "CANARY") {
				t.Errorf("%s holds a credential", path)
			}
			all.Write(b)
			if strings.HasSuffix(path, ".log") {
				logs.Write(b)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		if text := r.stdout + r.stderr; strings.Contains(text, "CANARY") {
			t.Errorf("a credential is printed:\n%s", text)
		}
		for _, want := range []string{
			"own: NAMED=named-by-the-plan", "own: PATH=", "RUNPOD_API_KEY=${RUNPOD_API_KEY}", "aws_secret_access_key=${aws_secret_access_key}",
			"OTHER=visible", "http://user:${HTTPS_PROXY}@127.0.0.1:9",
		} {
			if !strings.Contains(logs.String(), want) {
				t.Errorf("the server's log lacks %s", want)
			}
		}
		for _, no := range []string{"own: OTHER", "own: RUNPOD", "own: HF_TOKEN", "own: Hf_Token", "own: aws"} {
			if strings.Contains(logs.String(), no) {
				t.Errorf("the server got %s", no)
			}
		}
		if !strings.Contains(all.String(), "HF_TOKEN is set here and was not passed to the server") {
			t.Error("nothing says that HF_TOKEN was not passed")
		}
		if t.Failed() {
			t.Log(logs.String(), r.stderr)
			return
		}
	}
}
