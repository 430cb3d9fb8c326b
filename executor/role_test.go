package executor

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"sweep.dev/sweep/backends"
	"sweep.dev/sweep/engine"
	"sweep.dev/sweep/plan"
	"sweep.dev/sweep/result"
	"sweep.dev/sweep/result/finding"
	"sweep.dev/sweep/rundir"
)

// rolesPlan is a plan whose engine has three roles.
func rolesPlan(t *testing.T, lines ...string) *plan.Plan {
	return parsePlan(t, append([]string{
		`matrix: {engine: dynamo-disagg, roles.decode.replicas: [2], concurrency: [1]}`,
		`engines: {dynamo-disagg: {served_model_name: tiny, args: {max-num-seqs: 8, block-size: 16}, env: {A: engine, B: engine}, cpus: [0],` +
			` roles: {decode: {args: {max_num_seqs: 32}, env: {B: role}, cpus: [1], image: other:1}, frontend: {args: {router-mode: kv, busy-threshold: 0.5}}}}}`,
	}, lines...)...)
}

func TestSpecify_roles(t *testing.T) {
	p := rolesPlan(t)
	d := p.Deployments()[0]
	spec, err := Specify(p, d, "sweep")
	if err != nil {
		t.Fatal(err)
	}
	roles := map[string]backends.Role{}
	for _, r := range spec.Roles {
		roles[r.Name] = r
	}
	if len(spec.Roles) != 3 || roles["prefill"].Replicas != 1 || roles["decode"].Replicas != 2 || roles["frontend"].Replicas != 1 {
		t.Fatalf("got %+v", spec.Roles)
	}
	dec := roles["decode"]
	if dec.Env["A"] != "engine" || dec.Env["B"] != "role" || roles["prefill"].Env["B"] != "engine" || !slices.Equal(dec.CPUs, []int{1}) || dec.Image != "other:1" {
		t.Errorf("decode is %+v", dec)
	}
	// What an engine reports of itself is held against what its own role was given.
	profile, _ := p.Profile(d.Server.Profile)
	m := &measurement{deployment: &deployment{run: &run{}, profile: profile, server: &server{Deployment: &fakeServer{roles: spec.Roles}, roles: spec.Roles}}}
	for _, target := range m.targets() {
		if want := map[string]any{"prefill": int64(8), "decode": nil}[target.Role]; target.Args["max-num-seqs"] != want {
			t.Errorf("%s: max-num-seqs is %v, want %v", target.Role, target.Args["max-num-seqs"], want)
		}
		if target.Role == "decode" && target.Args["max_num_seqs"] != int64(32) {
			t.Errorf("decode has %v", target.Args)
		}
	}
	commands, err := Commands(p, d, "sweep")
	if err != nil {
		t.Fatal(err)
	}
	lines := map[string]string{}
	for _, c := range commands {
		lines[c.Role] = strings.Join(c.Argv, " ")
		if kv := c.Env["DYN_FILE_KV"]; !strings.HasSuffix(kv, "/discovery") || kv != commands[0].Env["DYN_FILE_KV"] {
			t.Errorf("%s: environment %v", c.Role, c.Env)
		}
	}
	for role, wants := range map[string][]string{
		"prefill":  {"--max-num-seqs 8", "--block-size 16"},
		"decode":   {"--max-num-seqs 32", "--block-size 16"},
		"frontend": {"--router-mode kv", "--busy-threshold 0.5"},
	} {
		for _, want := range wants {
			if strings.Count(lines[role], want) != 1 {
				t.Errorf("%s: want %q once in %q", role, want, lines[role])
			}
		}
	}
	if strings.Contains(lines["frontend"], "block-size") || strings.Contains(lines["frontend"], "max-num-seqs") {
		t.Errorf("the engine's arguments reached the frontend: %q", lines["frontend"])
	}
	if dec.Extra == nil {
		t.Fatal("decode's environment depends on where the frontend is, and nothing renders it")
	}
	if _, rendered := dec.Env["DYN_FILE_KV"]; rendered || dec.Env["DYN_DISCOVERY_BACKEND"] != "file" {
		t.Errorf("decode's own environment is %v", dec.Env)
	}
}

// What stands in a server's id changes nothing where there are no roles.
func TestSpecify_oneRole(t *testing.T) {
	p := parsePlan(t)
	spec, err := Specify(p, p.Deployments()[0], "sweep")
	if err != nil {
		t.Fatal(err)
	}
	if r := spec.Roles[0]; len(spec.Roles) != 1 || r.Extra != nil || r.Ports != nil || r.Started != nil || r.Replicas != 1 {
		t.Errorf("got %+v", spec.Roles)
	}
}

// A backend is told where the metrics of a role may be, as its profile has them.
func TestRenderer_metrics(t *testing.T) {
	for _, test := range []struct {
		engine, role string
		paths        []string
		port         string
	}{
		{"vllm", "server", []string{"/metrics", "/metrics/"}, ""},
		{"dynamo", "frontend", []string{"/metrics"}, ""},
		{"sglang-router-llamacpp", "router", []string{"/metrics"}, "metrics"},
	} {
		profile, ok := engine.Lookup(test.engine)
		if !ok {
			t.Fatal(test.engine)
		}
		role, err := newRenderer(profile, test.role, plan.Server{Model: "m"}, 0, "sweep").role()
		if err != nil || !slices.Equal(role.MetricsPaths, test.paths) || role.MetricsPort != test.port {
			t.Errorf("%s: %q on port %q, %v", test.engine, role.MetricsPaths, role.MetricsPort, err)
		}
	}
}

func TestAwaitedLine(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	l := newAwaitedLine(path, "added model .*tiny")
	write := func(text string) {
		t.Helper()
		f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if _, err := f.WriteString(text); err != nil {
			t.Fatal(err)
		}
	}
	for _, text := range []string{"", "loading\n", strings.Repeat("x", 3*maxLogLine) + "\n", "\x1b[2madded\x1b[0m model \x1b[3m", "name\x1b[0m=tiny"} {
		if text != "" {
			write(text)
		}
		if l.seen() == nil {
			t.Fatalf("seen after %.40q", text)
		}
	}
	write("\nmore\n")
	if err := l.seen(); err != nil {
		t.Error(err)
	}
	if err := newAwaitedLine(path, "(").seen(); err == nil {
		t.Error("an expression that does not compile was found")
	}
}

// Every role that is not the entry is waited for, the last one too: the entry
// answers as soon as one worker has come.
func TestSpec_started(t *testing.T) {
	t.Parallel()
	p, ok := engine.Lookup("dynamo-mocker")
	if !ok || p.EntryRole() != "frontend" {
		t.Fatalf("the profile is %+v", p)
	}
	plan := parsePlan(t, `matrix: {engine: dynamo-mocker, gpu: t4, concurrency: 1}`)
	d := &deployment{
		run:        &run{Config: Config{Plan: plan, State: &rundir.State{}}},
		Deployment: plan.Deployments()[0], profile: p,
	}
	spec, err := d.spec(1, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range spec.Roles {
		want(t, r.Name, r.Started != nil, r.Name == "worker")
	}
}

func TestStarted_says(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	if err := os.WriteFile(path, []byte("loading\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	d := &deployment{run: &run{Config: Config{Plan: parsePlan(t, `timeouts: {ready: 100ms}`)}}}
	role := &engine.Role{Name: "worker", Ready: engine.RoleReady{Line: "ready"}}
	err := d.started(role, func(int) string { return path })(t.Context(), nil, 0)
	var over limit
	if !errors.As(err, &over) || over.name != "timeouts.ready" || !strings.Contains(err.Error(), "its log does not say") {
		t.Errorf("got %v", err)
	}
	if d.started(&engine.Role{}, nil) != nil {
		t.Error("a role that is ready at once is waited for")
	}
	role.Ready = engine.RoleReady{Line: "loading", Wait: time.Millisecond}
	if err := d.started(role, func(int) string { return path })(t.Context(), nil, 0); err != nil {
		t.Error(err)
	}
}

// A worker's death explains the frontend's failure.
func TestFailureOf_roles(t *testing.T) {
	p, _ := engine.Lookup("vllm")
	logs := []serverLog{
		{"worker", 0, []string{"all is well"}},
		{"worker", 1, []string{"torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB"}},
		{"frontend", 0, []string{"no workers left"}},
	}
	f := failureOf(context.Background(), &backends.Exit{Role: "frontend", Code: 1}, nil, logs, p, "vllm")
	if !strings.HasPrefix(f.class, "oom") || !strings.Contains(f.text, "CUDA out of memory") || !slices.Equal(f.log, logs[1].lines) {
		t.Errorf("got %+v", f)
	}
	// Nothing is told: the log of the one that ended is shown.
	logs[1].lines = []string{"fine"}
	f = failureOf(context.Background(), &backends.Exit{Role: "frontend", Code: 1}, nil, logs, p, "vllm")
	if f.class != engine.ClassExit || !slices.Equal(f.log, logs[2].lines) {
		t.Errorf("got %+v", f)
	}
}

func TestReadRouting(t *testing.T) {
	f, err := os.Open("testdata/dynamo-1.6.1-disagg.frontend.log")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	dynamo, _ := engine.Lookup("dynamo-disagg")
	choice := regexp.MustCompile(dynamo.MetricsOf(dynamo.EntryRole()).Routed)
	r, err := readRouting(f, choice)
	if err != nil || r == nil {
		t.Fatal(r, err)
	}
	if got := r.String(); got != "prefill 7 (7); decode 7 (7)" {
		t.Errorf("got %q", got)
	}
	one := r.Requests["ecb04fb6-4d36-46a3-9bc0-6c2079e92330"]
	if one["prefill"] != "14432561736065644925" || one["decode"] != "3334648018003761726" {
		t.Errorf("got %v", one)
	}
	if r, err := readRouting(strings.NewReader("Selected model\n"), choice); r != nil || err != nil {
		t.Errorf("got %v, %v", r, err)
	}
	m := &measurement{deployment: &deployment{server: &server{roles: []backends.Role{{Name: "prefill", Replicas: 1}, {Name: "decode", Replicas: 2}}}}}
	idle := m.idle(r)
	if len(idle) != 1 || idle[0].Code != finding.WorkerIdle || !strings.Contains(idle[0].Text, "1 of the 2 workers of decode got no request") {
		t.Errorf("got %v", idle)
	}
}

func TestMoved(t *testing.T) {
	m := &measurement{trial: &trial{cell: plan.Cell{Server: plan.Server{GPU: "l4"}}}}
	want := []result.Finding{{Code: finding.GPUMoved, Text: "it ran on a40, the cell asks for l4"}}
	if got := m.moved(backends.Terms{GPU: "a40"}); !slices.Equal(got, want) {
		t.Errorf("got %v", got)
	}
	for _, gpu := range []string{"", "l4"} {
		if got := m.moved(backends.Terms{GPU: gpu}); got != nil {
			t.Errorf("%q: got %v", gpu, got)
		}
	}
}

// The ready line is necessary, and never sufficient.
func TestReadyLine(t *testing.T) {
	file := filepath.Join(t.TempDir(), "lined.yaml")
	if err := os.WriteFile(file, []byte("name: lined\nlike: sim\ndoc: says when it is up\nready: {line: model is up}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	lines := []string{`matrix: {engine: lined, concurrency: [1]}`, `engine_files: [` + file + `]`, `timeouts: {launch: 5s, ready: 600ms, request: 5s, trial: 20s, stop: 2s}`}
	for name, c := range map[string]struct {
		script script
		want   string
	}{
		"both":   {script{log: []string{"the model is up", ""}}, "ok"},
		"silent": {script{log: []string{"loading", ""}}, "failed"},
		"sick":   {script{log: []string{"the model is up", ""}, health: 503}, "failed"},
	} {
		w := newWorld(t, func(int, backends.Spec) script { return c.script }, lines...)
		if _, err := w.run(t.Context()); err != nil {
			t.Fatal(err)
		}
		o := w.outcomes()[0]
		if o.Row["status"] != c.want {
			t.Errorf("%s: got %v (%v), want %s", name, o.Row["status"], o.Row["error"], c.want)
		}
		if up, ok := o.Row["start_up_s"].(float64); (c.want == "ok") != (ok && up > 0) {
			t.Errorf("%s: start_up_s is %v", name, o.Row["start_up_s"])
		}
	}
}

// Every replica that runs the model has its prefix cache emptied; a frontend has
// none.
func TestReset_everyReplica(t *testing.T) {
	w := newWorld(t, nil, `matrix: {engine: split, concurrency: [1]}`, `engine_files: [`+splitEngine(t)+`]`)
	w.must()
	if n := w.backend.list()[0].looked("reset"); n != 2 {
		t.Errorf("the cache was emptied %d times, want once for each of two workers", n)
	}
}

// splitEngine is the file of an engine with two workers behind a frontend.
func splitEngine(t *testing.T) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "split.yaml")
	text := "name: split\nlike: sim\ndoc: two workers behind a frontend\nentry: frontend\nroles:\n" +
		"  - {name: worker, replicas: 2, command: [worker]}\n  - {name: frontend, tier: frontend, command: [frontend]}\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// Metrics on a port of their own are not looked for on the first port, which has
// those of another role, if the backend does not know the further ports.
func TestTargets_unreachableMetrics(t *testing.T) {
	t.Parallel()
	profile := &engine.Profile{Entry: "router", Roles: []engine.Role{
		{Name: "server", Metrics: &engine.Metrics{Path: "/metrics"}},
		{Name: "router", Tier: engine.TierRouter, Ports: map[string]int{"metrics": 29000}, Metrics: &engine.Metrics{Path: "/metrics", Port: "metrics"}},
	}}
	roles := []backends.Role{{Name: "router", Replicas: 1}}
	m := &measurement{deployment: &deployment{run: &run{}, profile: profile, server: &server{Deployment: &fakeServer{roles: roles}, roles: roles}}}
	list := m.targets()
	if len(list) != 1 || list[0].Metrics != nil || list[0].MetricsAddr != "" {
		t.Errorf("targets %+v", list)
	}
	if len(m.sink.notes) != 1 || m.sink.notes[0].Code != finding.MetricsUnreachable || !strings.Contains(m.sink.notes[0].Text, "router, server") {
		t.Errorf("findings %v", m.sink.notes)
	}
}
