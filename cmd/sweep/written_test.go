package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/urfave/cli/v3"

	"sweep.dev/sweep/backends"
	"sweep.dev/sweep/backends/kubernetes/kubetest"
	"sweep.dev/sweep/internal/polltest"
	"sweep.dev/sweep/internal/slow"
)

// heard says who hears what a command prints, on both of its streams.
var heard = []string{"left", "full", "closed", "late"}

// A changing is a command that changes something.
type changing struct {
	args []string
	made []string // files that are there afterwards
	gone []string // and that are not
	want int      // what is said of the world, whoever hears it
	slow bool     // too dear without the tag slow
	pods bool     // it is about money: nobody is waited for, and each of heard is tried
}

var changes = map[string]changing{
	"gc":              {args: []string{"gc", "--yes"}, gone: []string{"account/old.json"}, pods: true},
	"gc, rows":        {args: []string{"gc", "--yes", "--json"}, gone: []string{"account/old.json"}, pods: true},
	"gc, stuck":       {args: []string{"gc", "--yes", "--owner", "stuck@here"}, made: []string{"account/stuck.json"}, gone: []string{"account/loose.json"}, want: exitCleanup, pods: true},
	"pods":            {args: []string{"pods"}, want: exitCleanup},
	"pods stop":       {args: []string{"pods", "stop", "--yes", "young"}, made: []string{"account/young.json EXITED"}, pods: true},
	"pods start":      {args: []string{"pods", "start", "--yes", "paused"}, made: []string{"account/paused.json RUNNING"}, pods: true},
	"pods terminate":  {args: []string{"pods", "terminate", "--yes", "young", "paused"}, gone: []string{"account/young.json", "account/paused.json"}, pods: true},
	"terminate stuck": {args: []string{"pods", "terminate", "--force", "--yes", "stuck", "young"}, gone: []string{"account/young.json"}, want: exitCleanup, pods: true},
	"prune":           {args: []string{"runs", "prune", "--keep", "1", "--yes", "runs"}, gone: []string{"runs/a"}, pods: true},
	"prune, rows":     {args: []string{"runs", "prune", "--keep", "1", "--yes", "--json", "runs"}, gone: []string{"runs/a"}},
	"init":            {args: []string{"init", "new.yaml"}, made: []string{"new.yaml"}},
	"schedule":        {args: []string{"night", "schedule", "--target", "cron", "-o", "cron", "chat.yaml"}, made: []string{"cron"}},
	"accept":          {args: []string{"night", "accept", "--history", "h.jsonl", "--note", "fine", "runs/a"}, made: []string{"h.jsonl fine"}},
	"gate":            {args: []string{"night", "gate", "--history", "new.jsonl", "runs/a"}, made: []string{"new.jsonl"}},
	"gate, worse":     {args: []string{"night", "gate", "--history", "worse.jsonl", "runs/b"}, want: exitRegression},
	"merge":           {args: []string{"runs", "merge", "runs/a", "half", "-o", "both"}, made: []string{"both/summary.md"}},
	"compare":         {args: []string{"compare", "--csv", "c.csv", "runs/a", "half"}, made: []string{"c.csv"}, want: exitIncomplete},
	"noise":           {args: []string{"compare", "noise", "-o", "noise.json", "runs/a", "runs/b"}, made: []string{"noise.json"}},
	"report":          {args: []string{"report", "-o", "r.html", "runs/a"}, made: []string{"r.html"}},
	"charts":          {args: []string{"report", "--charts", "charts", "runs/a"}, made: []string{"charts"}},
	"export":          {args: []string{"export", "--format", "prometheus", "-o", "x.prom", "runs/a"}, made: []string{"x.prom"}},
	"trend":           {args: []string{"night", "trend", "--history", "h.jsonl", "-o", "t.html"}, made: []string{"t.html"}},
	"run":             {args: []string{"run", "-o", "new", "chat.yaml"}, made: []string{"new/summary.md"}},
	"resume":          {args: []string{"resume", "runs/a"}, made: []string{"runs/a/summary.md"}},
	"night":           {args: []string{"night", "run", "chat.yaml"}, made: []string{"chat.jsonl"}, slow: true},
	"fetch":           {args: []string{"night", "fetch", "--kube", "ns/chat"}, want: exitCleanup, pods: true},
}

// unchanging are the commands that are in no table above, each with why.
var unchanging = map[string]string{
	"validate": "reads", "plan": "reads", "cells": "reads", "judge": "reads", "logs": "reads, but for --save", "runs": "reads", "doctor": "reads",
	"probe": "reads", "probe metrics": "reads", "list engines": "reads", "list gpus": "reads", "list columns": "reads", "list schema": "reads",
	"version": "reads", "help": "reads", "completion": "reads", "__complete": "reads", "__files": "is of a pod, whose fetch verifies it",
	"bench": "is a run", "sim fit": "is fit_test's: its file is written before its page", "doctor calibrate": "keeps what can be measured again",
	"pods show": "reads", "completion bash": "reads", "completion zsh": "reads", "completion fish": "reads",
	"__files hold": "is of a pod", "__files list": "is of a pod", "__files send": "is of a pod",
	"sim": "serves", "worker": "serves", "night": "has commands", "list": "has commands",
}

const quickPlan = `version: 1
name: chat
model: sweep/tiny
matrix: {engine: vllm, gpu: h100, concurrency: [1, 2], max_tokens: 3}
backend: {kind: sim}
load: {requests: 4, warmup: {requests: 1}, prompts: {kind: synthetic, input_tokens: 20}}
validity: {max_moved: 1000, max_steal: 1, max_drift: 100}
`

// A command that changes something does so whoever reads what it prints, and its exit code
// is of that alone: 0 if all is done and the reader has left, 1 if what was asked for
// could not be written, and its own if something was not done.
func TestExit_whoeverReads(t *testing.T) {
	t.Parallel()
	var inTables func(commands []*cli.Command, prefix string)
	inTables = func(commands []*cli.Command, prefix string) {
		for _, c := range commands {
			name := prefix + c.Name
			changes := slices.ContainsFunc(slices.Collect(maps.Values(changes)), func(ch changing) bool { return isOf(ch.args, name) })
			if _, reads := unchanging[name]; !reads && !changes && c.Name != "help" {
				t.Errorf("sweep %s is in none of the two tables", name)
			}
			inTables(c.Commands, name+" ")
		}
	}
	inTables(newTestApp().root().Commands, "")
	base := t.TempDir()
	write(t, filepath.Join(base, "chat.yaml"), quickPlan)
	for _, args := range [][]string{
		{"run", "-o", "runs/a", "--only", "concurrency == 1", "chat.yaml"},
		{"run", "-o", "runs/b", "--only", "concurrency == 1", "chat.yaml"},
		{"run", "-o", "half", "--only", "concurrency == 2", "chat.yaml"},
		{"night", "gate", "--history", "h.jsonl", "runs/a"},
		{"night", "gate", "--history", "worse.jsonl", "runs/b"},
	} {
		if got := sweep(t, base, nil, args...); got.code != exitOK {
			t.Fatalf("%q: exit %d\n%s", args, got.code, got.stderr)
		}
	}
	if err := nightsBefore(filepath.Join(base, "worse.jsonl"), 20, 0.02); err != nil {
		t.Fatal(err)
	}
	for name, c := range changes {
		if c.slow && !slow.Tests {
			continue
		}
		for i, who := range heard {
			if !c.pods && !slow.Tests && i != len(name)%2 { // left or full
				continue
			}
			t.Run(name+"/"+who, func(t *testing.T) {
				t.Parallel()
				dir := t.TempDir()
				if err := os.CopyFS(dir, os.DirFS(base)); err != nil {
					t.Fatal(err)
				}
				account(t, filepath.Join(dir, "account"))
				env := []string{rentalEnv + "=" + filepath.Join(dir, "account"), "RENTAL_KEY=k", "SWEEP_STATE_DIR=" + filepath.Join(dir, "state")}
				if slices.Contains(c.args, "fetch") {
					f := kubetest.Start(t)
					f.Put("/apis/batch/v1/namespaces/ns/cronjobs/sweep-chat", kubetest.Object{"kind": "CronJob", "metadata": map[string]any{"name": "sweep-chat"}, "spec": map[string]any{}})
					f.Deny("list pods", "delete jobs")
					env = append(env, "KUBECONFIG="+f.Kubeconfig)
				}
				done := func() error { return c.done(dir) }
				code := hearing(t, who, dir, env, c, done)
				want := c.want
				if who == "full" && len(c.prints()) > 0 {
					want = worst(want, exitInternal)
				}
				if code != want {
					t.Errorf("exit %d, want %d", code, want)
				}
				if err := done(); err != nil {
					t.Error(err)
				}
			})
		}
	}
}

// prints returns the arguments of a command that prints results to stdout.
func (c changing) prints() []string {
	people := []string{"init", "night schedule", "night accept", "runs merge", "report", "export", "night trend", "night fetch"}
	if slices.ContainsFunc(people, func(command string) bool { return isOf(c.args, command) }) {
		return nil // what it says is for people, on stderr
	}
	return c.args
}

// done says what of the world is not as it should be.
func (c changing) done(dir string) error {
	for _, file := range c.made {
		path, text, _ := strings.Cut(file, " ")
		b, err := os.ReadFile(filepath.Join(dir, path))
		if errors.Is(err, syscall.EISDIR) {
			err = nil
		}
		if err == nil && !bytes.Contains(b, []byte(text)) {
			err = fmt.Errorf("%s does not have %q: %s", path, text, b)
		}
		if err != nil {
			return err
		}
	}
	for _, path := range c.gone {
		switch _, err := os.Stat(filepath.Join(dir, path)); {
		case err == nil:
			return fmt.Errorf("%s is still there", path)
		case !errors.Is(err, fs.ErrNotExist):
			return err
		}
	}
	return nil
}

// account makes the pods of an account.
func account(t *testing.T, dir string) {
	t.Helper()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for id, p := range map[string]struct {
		owner, status string
		left          time.Duration
		stuck, slow   bool
	}{
		"old": {owner(), "RUNNING", -time.Hour, false, false}, "young": {owner(), "RUNNING", time.Hour, false, false}, "paused": {owner(), "EXITED", time.Hour, false, false},
		"stuck": {"stuck@here", "RUNNING", -time.Hour, true, false}, "loose": {"stuck@here", "RUNNING", -time.Hour, false, false},
		"lasts": {"lasts@here", "RUNNING", -time.Hour, false, true},
	} {
		expires := time.Now().Add(p.left)
		name := backends.NewName(p.owner, "0123456789", expires)
		pod := rentalPod{Stuck: p.stuck, Slow: p.slow, Listed: backends.Listed{
			Ref: backends.Ref{Kind: rentalKind, RunID: "0123456789", Pod: id + "-l01", ID: id, Name: name.String()}, Owner: p.owner, Status: p.status,
			Since: time.Now().Add(-2 * time.Hour), Expires: name.Expires, USDPerHour: 0.5,
		}}
		if err := pod.save(dir); err != nil {
			t.Fatal(err)
		}
	}
}

// hearing runs a command whose two streams are heard by somebody, and returns its exit code.
func hearing(t *testing.T, who, dir string, env []string, c changing, done func() error) int {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), executable(t), c.args...)
	cmd.Dir, cmd.Env = dir, append(append(os.Environ(), asSweep+"=1"), env...)
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	switch who {
	case "left":
		r.Close()
	case "full":
		if w, err = os.OpenFile("/dev/full", os.O_WRONLY, 0); err != nil {
			t.Skip(err) // Linux has it
		}
		defer w.Close()
	case "closed":
		cmd.Args = append([]string{"sh", "-c", `exec "$0" "$@" >&- 2>&-`, cmd.Path}, c.args...)
		if cmd.Path, err = exec.LookPath("sh"); err != nil {
			t.Fatal(err)
		}
	case "late":
		fill(t, w)
	}
	if who != "closed" {
		cmd.Stdout, cmd.Stderr = w, w
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if who == "late" {
		w.Close()
		if c.pods {
			polltest.Within(polltest.Patience, func() bool { return done() == nil })
			if err := done(); err != nil {
				t.Errorf("before anybody reads: %v", err)
			}
		}
		if _, err := io.Copy(io.Discard, r); err != nil {
			t.Error(err)
		}
	}
	_ = cmd.Wait() // its exit code is looked at
	return cmd.ProcessState.ExitCode()
}

// fill writes into a pipe until it takes no more.
func fill(t *testing.T, w *os.File) {
	t.Helper()
	if err := w.SetWriteDeadline(time.Now().Add(50 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(make([]byte, 1<<20)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("the pipe takes a megabyte (%v)", err)
	}
	// A child that shares it blocks, as at a terminal.
	if err := syscall.SetNonblock(int(w.Fd()), false); err != nil {
		t.Fatal(err)
	}
}

// What was interrupted and is not known to be ended is exit 4, and not 130.
func TestExit_interruptedCleanUp(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		args []string
		slow bool // the listing
		kube string
		want int
	}{
		"gc as it looks":        {args: []string{"gc", "--yes"}, slow: true, want: exitCleanup},
		"gc as it ends":         {args: []string{"gc", "--yes", "--owner", "lasts@here"}, want: exitCleanup},
		"terminate as it looks": {args: []string{"pods", "terminate", "--yes", "young"}, slow: true, want: exitCleanup},
		"terminate as it ends":  {args: []string{"pods", "terminate", "--yes", "--force", "lasts"}, want: exitCleanup},
		"stop as it looks":      {args: []string{"pods", "stop", "--yes", "young"}, slow: true, want: exitInt},
		"fetch":                 {args: []string{"night", "fetch", "--kube", "ns/chat"}, kube: "delete jobs", want: exitCleanup},
		"fetch that ends":       {args: []string{"night", "fetch", "--kube", "ns/chat"}, kube: "delete nodes", want: exitInt},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			account(t, filepath.Join(dir, "account"))
			if c.slow {
				write(t, filepath.Join(dir, "account", "SLOW"), "")
			}
			asked := func() bool {
				_, err := os.Stat(filepath.Join(dir, "account", "ASKED"))
				return err == nil
			}
			env := []string{rentalEnv + "=" + filepath.Join(dir, "account"), "RENTAL_KEY=k", "SWEEP_STATE_DIR=" + filepath.Join(dir, "state")}
			if c.kube != "" {
				f := kubetest.Start(t)
				f.Put("/apis/batch/v1/namespaces/ns/cronjobs/sweep-chat", kubetest.Object{"kind": "CronJob", "metadata": map[string]any{"name": "sweep-chat"}, "spec": map[string]any{}})
				f.Deny(c.kube)
				env = append(env, "KUBECONFIG="+f.Kubeconfig)
				asked = func() bool {
					return slices.ContainsFunc(f.Paths(), func(p string) bool { return strings.Contains(p, "/jobs/sweep-fetch-") })
				}
			}
			var said bytes.Buffer
			cmd := exec.CommandContext(t.Context(), executable(t), c.args...)
			cmd.Dir, cmd.Env, cmd.Stderr, cmd.Stdout = dir, append(append(os.Environ(), asSweep+"=1"), env...), &said, &said
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			polltest.Within(polltest.Patience, asked)
			if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
				t.Fatal(err)
			}
			_ = cmd.Wait() // its exit code is looked at
			if got := cmd.ProcessState.ExitCode(); got != c.want {
				t.Errorf("exit %d, want %d\n%s", got, c.want, said.String())
			}
			if c.want == exitCleanup && !strings.Contains(said.String(), "SIGINT") {
				t.Errorf("not said that it was interrupted\n%s", said.String())
			}
		})
	}
}
