package render

import (
	"slices"
	"strings"
	"testing"

	"sweep.dev/sweep/backends"
	"sweep.dev/sweep/engine"
	"sweep.dev/sweep/plan"
	"sweep.dev/sweep/plan/plantest"
)

// rolesPlan returns a plan whose engine has three roles.
func rolesPlan(t *testing.T, lines ...string) *plan.Plan {
	return plantest.Parse(t, append([]string{
		`matrix: {engine: dynamo-disagg, roles.decode.replicas: [2], concurrency: [1]}`,
		`engines: {dynamo-disagg: {served_model_name: tiny, args: {max-num-seqs: 8, block-size: 16}, env: {A: engine, B: engine}, cpus: [0],` +
			` roles: {decode: {args: {max_num_seqs: 32}, env: {B: role}, cpus: [1], image: other:1}, frontend: {args: {router-mode: kv, busy-threshold: 0.5}}}}}`,
	}, lines...)...)
}

func TestSpec_roles(t *testing.T) {
	p := rolesPlan(t)
	d := p.Deployments()[0]
	spec, err := Spec(p, d, With{Sweep: "sweep"})
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
	if dec.Args["max_num_seqs"] != int64(32) || dec.Args["max-num-seqs"] != nil || roles["prefill"].Args["max-num-seqs"] != int64(8) {
		t.Errorf("decode has %v, prefill %v", dec.Args, roles["prefill"].Args)
	}
	commands, err := Commands(p, d, With{Sweep: "sweep"})
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

// Without several roles the fields of a role add nothing to a server's id.
func TestSpec_oneRole(t *testing.T) {
	p := plantest.Parse(t)
	spec, err := Spec(p, p.Deployments()[0], With{Sweep: "sweep"})
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
