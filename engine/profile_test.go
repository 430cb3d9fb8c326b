package engine

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestLookup_builtin(t *testing.T) {
	want := []string{
		"dynamo", "dynamo-disagg", "dynamo-mocker", "dynamo-sglang", "dynamo-trtllm", "generic-openai", "llamacpp", "llm-d", "nim",
		"sglang", "sglang-router-llamacpp", "sim", "tgi", "trtllm", "vllm",
	}
	if diff := cmp.Diff(want, Names()); diff != "" {
		t.Fatalf("names (-want +got):\n%s", diff)
	}
	for _, name := range Names() {
		p, ok := Lookup(name)
		if !ok || p.Name != name || p.Doc == "" || p.API.Chat == "" || p.API.MaxTokensField == "" {
			t.Errorf("profile %q is incomplete: %+v", name, p)
		}
		if p.Ready.Timeout <= 0 {
			t.Errorf("profile %q has no time limit for its start", name)
		}
		for _, list := range [][]string{p.Flags.Known, p.Flags.Negate} {
			if !slices.IsSorted(list) {
				t.Errorf("profile %q: a list of flags is not sorted: %v", name, list)
			}
		}
		for _, flag := range p.Flags.Negate {
			if !p.Known(flag) {
				t.Errorf("profile %q negates %q, which it does not know", name, flag)
			}
		}
	}
	if _, ok := Lookup("no-such-engine"); ok {
		t.Error("an engine that does not exist was found")
	}
}

// The simulated engine is vLLM but for how it is started; a profile that is
// like another must not write into it.
func TestParse_like(t *testing.T) {
	sim, _ := Lookup("sim")
	vllm, _ := Lookup("vllm")
	if diff := cmp.Diff(vllm.API, sim.API); diff != "" {
		t.Errorf("api (-vllm +sim):\n%s", diff)
	}
	if diff := cmp.Diff(vllm.Metrics, sim.Metrics); diff != "" {
		t.Errorf("metrics (-vllm +sim):\n%s", diff)
	}
	if sim.Flags.Style != vllm.Flags.Style || !slices.Equal(sim.Flags.Negate, vllm.Flags.Negate) {
		t.Errorf("flags that sim says nothing of: %+v", sim.Flags)
	}
	for _, flag := range vllm.Flags.Known {
		if !sim.Known(flag) {
			t.Errorf("sim does not know vLLM's %q", flag)
		}
	}
	if !sim.Known("time-scale") || vllm.Known("time-scale") || !sim.Reserved("gpu") || vllm.Reserved("gpu") {
		t.Error("sim's own flags went to vLLM, or were lost")
	}
	if len(sim.Roles[0].Env) != 0 || sim.Roles[0].Image != "" {
		t.Errorf("sim took over vLLM's role: %+v", sim.Roles[0])
	}
	if sim.Ready.Timeout != time.Minute || vllm.Ready.Timeout != 30*time.Minute {
		t.Errorf("time limits: sim %v, vllm %v", sim.Ready.Timeout, vllm.Ready.Timeout)
	}
	p, err := Parse([]byte("name: mine\nlike: vllm\nflags: {style: underscore}\n"))
	if err != nil {
		t.Fatal(err)
	}
	if p.Flags.Style != "underscore" || p.Flags.Served != "served-model-name" || !p.API.MinTokens {
		t.Errorf("like does not keep what is not said: %+v %+v", p.Flags, p.API)
	}
}

func TestParse_rejects(t *testing.T) {
	tests := []struct{ name, src, want string }{
		{"unknown key", "name: x\nheatlh: /h\n", "heatlh"},
		{"unknown nested key", "name: x\nready: {helth: /h}\n", "helth"},
		{"empty", "", "empty"},
		{"no name", "doc: x\n", "name is missing"},
		{"template", "name: x\nroles: [{name: server, command: ['{{.Port']}]\n", "roles[0].command[0]: template: command:1: unclosed action"},
		{"a template that loops", "name: x\nroles: [{name: server, command: ['{{range 1000000000000}}much {{end}}']}]\n", "over the replicas of a role alone"},
		{"what it has from another", "name: x\nlike: dynamo\nroles: [{name: a, command: [b]}]\n", `1:1: entry: there is no role "frontend"`},
		{"no command", "name: x\nroles: [{name: server}]\n", "no command"},
		{"role twice", "name: x\nroles: [{name: a, command: [b]}, {name: a, command: [b]}]\n", "name of its own"},
		{"canonical name", "name: x\nmetrics: {series: {ttfb: [{name: y}]}}\n", "canonical"},
		{"reduce", "name: x\nmetrics: {series: {ttft: [{name: y, reduce: median}]}}\n", "reduce"},
		{"zero of a gauge", "name: x\nmetrics: {series: {requests_running: [{name: y, zero: {name: z}}]}}\n", "is no counter"},
		{"zero of nothing", "name: x\nmetrics: {series: {requests_failed: [{name: y, zero: {label: z}}]}}\n", "without a name"},
		{"zero of zero", "name: x\nmetrics: {series: {requests_failed: [{name: y, zero: {name: z, zero: {name: a}}}]}}\n", "none of these"},
		{"path", "name: x\nready: {health: health}\n", "slash"},
		{"style", "name: x\nflags: {style: camel}\n", "style"},
		{"lists", "name: x\nflags: {lists: heap}\n", "lists"},
		{"expression", "name: x\nfailures: [{class: a, match: '('}]\n", "missing closing"},
		{"memory", "name: x\nmemory_like: llamacpp\n", `memory_like: "llamacpp": want`},
		{"routed", "name: x\nmetrics: {routed: 'to (?P<worker>.*)'}\n", "no group (?P<request>...)"},
		{"event without an id", "name: x\nlogs: {events: [{name: a, says: b, match: [c]}]}\n", "near no other"},
		{"event near nothing", "name: x\nlogs: {events: [{name: a, says: b, match: [c], near: [{event: d, side: after}]}]}\n", `there is no event "d"`},
		{"side of an event", "name: x\nlogs: {events: [{name: a, says: b, match: [c], near: [{event: a, side: left}]}]}\n", "want before or after"},
		{"link of no event", "name: x\nlogs: {links: [host]}\n", `no event has the group "host"`},
		{"noise of all", "name: x\nlogs: {noise: [{roles: [decode]}]}\n", "it matches every line"},
		{"class", "name: x\nfailures: [{match: 'a'}]\n", "no class"},
		{"like nothing", "name: x\nlike: nothing\n", "no profile"},
		{"metrics like nothing", "name: x\nmetrics: {like: [nothing]}\n", "no profile"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p, err := Parse([]byte(tt.src))
			if err == nil {
				t.Fatalf("accepted: %+v", p)
			}
			if !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %q, want it to say %q", err, tt.want)
			}
		})
	}
}

// Everything that is wrong is told at once, with the line where it stands.
func TestParse_positions(t *testing.T) {
	src := `name: x
roles:
  - name: front
    tier: middle
    command: [a, "{{.Prot}}", '{{each "workers" "URL"}}']
    env: {A: "{{.Ports.metrics}}", "B C": x}
    ready: {line: "("}
    metrics: {port: metrics, path: metrics}
    port: 70000
    versions:
      - below: newest
  - name: Worker
    command: [b, "{{(index .Peers.front 0).URL}}", "{{.Replica}}{{.Dir}}{{.Ports.kv}}"]
    ports: {kv: 5600}
    files: {../x: y}
    replicas: -1
entry: router
flags: {served: --name, nested_names: [a]}
metrics:
  series:
    ttft: [{name: y, scale: -1}, {label: z}]
    e2e: [{name: y, times: {reduce: sum}}]
  settings: {block-size: [{}]}
totals:
  ttfb: [front]
  ttft: [decode]
`
	_, err := Parse([]byte(src))
	if err == nil {
		t.Fatal("accepted")
	}
	want := []string{
		`4:11: roles[0].tier: "middle": want engine, frontend or router`,
		`9:11: roles[0].port: 70000 is no port`,
		`7:19: roles[0].ready.line: error parsing regexp`,
		`5:18: roles[0].command[1]: template:`,
		`5:31: roles[0].command[2]: there is no role "workers"`,
		`6:14: roles[0].env.A: template:`,
		`6:43: roles[0].env.B C: "B C" is no name of a variable`,
		`11:16: roles[0].versions[0].below: "newest": want a version such as 0.11`,
		`8:36: roles[0].metrics.path: path "metrics" does not start with a slash`,
		`8:21: roles[0].metrics.port: role "front" has no port "metrics"`,
		`12:11: roles[1].name: role "Worker": want small letters`,
		`16:15: roles[1].replicas: -1 is less than none`,
		`15:`, // the file's name
		`17:8: entry: there is no role "router"`,
		`18:`, `18:`, // flags
		`22:`, `21:`, `21:`, // series
		`23:`, // settings
		`25:3: totals.ttfb: "ttfb" is not a canonical quantity`,
		`26:10: totals.ttft[0]: there is no role "decode"`,
	}
	got := strings.Split(err.Error(), "\n")
	for _, w := range want {
		i := slices.IndexFunc(got, func(line string) bool { return strings.HasPrefix(line, w) })
		if i < 0 {
			t.Errorf("nothing begins with %s", w)
			continue
		}
		got = slices.Delete(got, i, i+1)
	}
	if len(got) > 0 || t.Failed() {
		t.Errorf("left: %s\nall: %v", strings.Join(got, "\n"), err)
	}
}

// Metrics that are like two others look for a quantity as the first has it, then
// as the second; what the profile says itself takes the place of both.
func TestParse_metricsLike(t *testing.T) {
	p, err := Parse([]byte(`name: mine
like: llamacpp
roles:
  - name: a
    command: [a]
    metrics:
      path: /m
      like: [vllm, dynamo-worker]
      series:
        ttft: [{name: mine}]
        preemptions: []
metrics:
  series:
    ttft: [{name: ours}]
totals: {ttft: [a]}
`))
	if err != nil {
		t.Fatal(err)
	}
	m := p.MetricsOf("a")
	names := func(list []Series) (out []string) {
		for _, s := range list {
			out = append(out, s.Name)
		}
		return out
	}
	for quantity, want := range map[string][]string{
		RequestsRunning: {"vllm:num_requests_running", "dynamo_component_inflight_requests"},
		TTFT:            {"mine"},
		Preemptions:     nil,
		ITL:             {"vllm:inter_token_latency_seconds", "vllm:time_per_output_token_seconds"},
	} {
		if diff := cmp.Diff(want, names(m.Series[quantity])); diff != "" {
			t.Errorf("%s (-want +got):\n%s", quantity, diff)
		}
	}
	if m.Path != "/m" || m.Prefixes[0] != "vllm:" || m.Meanings["dynamo_engine_request"] == "" {
		t.Errorf("path %q, prefixes %q", m.Path, m.Prefixes)
	}
	if got := names(p.Metrics.Series[TTFT]); !slices.Equal(got, []string{"ours"}) || p.Metrics.Path != "/metrics" || !p.Metrics.Exclusive {
		t.Errorf("the profile's own: ttft %q, %+v", got, p.Metrics.Path)
	}
	if len(p.Metrics.Series[RequestsRunning]) == 0 {
		t.Error("one quantity of its own cost it all the others")
	}
	llamacpp, _ := Lookup("llamacpp")
	if _, has := llamacpp.Metrics.Series[TTFT]; has {
		t.Error("a profile wrote into the one that it is like")
	}
}

func TestProfile_At(t *testing.T) {
	p, err := Parse([]byte(`name: x
roles:
  - name: server
    command: [new]
    image: repo/new
    entrypoint: [new]
    versions:
      - {below: "0.9", command: [oldest], image: repo/old}
      - {below: "0.11", command: [old], entrypoint: [old]}
`))
	if err != nil {
		t.Fatal(err)
	}
	for version, want := range map[string]string{
		"": "new repo/new new", "latest": "new repo/new new", "0.8.5.post1": "oldest repo/old new", "0.9": "old repo/new old",
		"v0.10.2": "old repo/new old", "0.11.0": "new repo/new new", "1.0": "new repo/new new",
	} {
		r := p.At(version).Roles[0]
		if got := r.Command[0] + " " + r.Image + " " + r.Entrypoint[0]; got != want {
			t.Errorf("%q: got %s, want %s", version, got, want)
		}
	}
	for image, want := range map[string]string{
		"vllm/vllm-openai:v0.10.2": "0.10.2", "localhost:5000/x/vllm:0.9.1-cu128": "0.9.1", "vllm/vllm-openai": "", "vllm/vllm-openai:latest": "",
		"localhost:5000/vllm": "", "vllm/vllm-openai:v0.9.1@sha256:00": "0.9.1", "x:nightly-0.12": "", "x:25.08": "25.08",
	} {
		if got := ImageVersion(image); got != want {
			t.Errorf("%s: version %q, want %q", image, got, want)
		}
	}
}

func TestExtra_rejects(t *testing.T) {
	p, _ := Lookup("trtllm")
	for name, args := range map[string][]Arg{
		"twice":        {{"kv_cache_config.dtype", "fp8"}, {"kv_cache_config", map[string]any{"dtype": "auto"}}},
		"given as one": {{"disable_overlap_scheduler", true}, {"disable_overlap_scheduler.x", 1}},
		"no name":      {{"kv_cache_config.", 1}},
	} {
		_, files, err := p.Extra("server", vars, args)
		if err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v, %s", name, err, files)
		}
	}
	if _, err := p.Argv("server", vars, []Arg{{"extra_llm_api_options", "mine.yaml"}}, nil); err == nil {
		t.Error("a file of the plan's own, which sweep's would hide, is accepted")
	}
	env, files, err := p.Extra("decode", vars, nil)
	if env != nil || files != nil || err != nil {
		t.Errorf("a role that does not exist has %v, %v, %v", env, files, err)
	}
}

func TestArgv_each(t *testing.T) {
	p, err := Parse([]byte("name: x\nroles: [{name: worker, command: [w]}, {name: router, tier: router, command: [r, '{{each \"worker\" \"Addr\" \"--worker\"}}', '{{arg \"mode\" \"a\"}}']}]\n"))
	if err != nil {
		t.Fatal(err)
	}
	v := vars
	v.Peers = map[string][]Address{"worker": {{Host: "h", Port: 1}, {Host: "::1", Port: 2}}}
	args := []Arg{{"mode", "b"}, {"xx", "y"}}
	for role, want := range map[string]string{"router": "r --worker h:1 --worker [::1]:2 b", "worker": "w --xx y"} {
		got, err := p.Argv(role, v, args, nil)
		if err != nil || strings.Join(got, " ") != want {
			t.Errorf("%s: %q, %v, want %s", role, got, err, want)
		}
	}
	v.Peers = nil
	if got, err := p.Argv("router", v, nil, nil); err == nil {
		t.Errorf("a router without workers: %q", got)
	}
}

func TestCanonical_everySeriesHasOne(t *testing.T) {
	vllm, _ := Lookup("vllm")
	for name := range vllm.Metrics.Series {
		if Canonical(name) == "" {
			t.Errorf("%q has no kind", name)
		}
	}
	if Canonical("nonsense") != "" {
		t.Error("nonsense has a kind")
	}
}

// A ratio is a share in every engine: what lies beyond 1 is none.
func TestQuantities_ratios(t *testing.T) {
	for _, q := range Quantities() {
		if (q.Unit == "ratio") != (q.Range == Share) {
			t.Errorf("%s: unit %q, range %q", q.Name, q.Unit, q.Range)
		}
	}
}
