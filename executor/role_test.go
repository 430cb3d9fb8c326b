package executor

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sweep.dev/sweep/backends"
	"sweep.dev/sweep/engine"
	"sweep.dev/sweep/plan"
	"sweep.dev/sweep/result"
	"sweep.dev/sweep/result/finding"
	"sweep.dev/sweep/serving"
)

// What an engine reports of itself is held against what its own role was given.
func TestTargets_args(t *testing.T) {
	roles := []backends.Role{
		{Name: "prefill", Replicas: 1, Args: map[string]any{"max-num-seqs": int64(8)}},
		{Name: "decode", Replicas: 2, Args: map[string]any{"max_num_seqs": int64(32)}},
	}
	profile, _ := engine.Lookup("dynamo-disagg")
	m := measuring(profile, roles)
	list := m.targets()
	want(t, "targets", len(list), 3)
	for _, target := range list {
		if !maps.Equal(target.Args, map[string]map[string]any{"prefill": roles[0].Args, "decode": roles[1].Args}[target.Role]) {
			t.Errorf("%s has %v", target.Role, target.Args)
		}
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
	m := measuring(nil, []backends.Role{{Name: "prefill", Replicas: 1}, {Name: "decode", Replicas: 2}})
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
	m := measuring(profile, roles)
	list := m.targets()
	if len(list) != 1 || list[0].Metrics != nil || list[0].MetricsAddr != "" {
		t.Errorf("targets %+v", list)
	}
	if len(m.sink.notes) != 1 || m.sink.notes[0].Code != finding.MetricsUnreachable || !strings.Contains(m.sink.notes[0].Text, "router, server") {
		t.Errorf("findings %v", m.sink.notes)
	}
}

// measuring is a measurement of a server with these roles.
func measuring(p *engine.Profile, roles []backends.Role) *measurement {
	r := &run{}
	return newMeasurement(&deployment{
		run: r, config: &r.config, profile: p,
		server: &serving.Server{Deployment: &fakeServer{roles: roles}, Roles: roles},
	}, nil)
}
