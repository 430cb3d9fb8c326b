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
		{"template", "name: x\nroles: [{name: server, command: ['{{.Port']}]\n", "command element"},
		{"no command", "name: x\nroles: [{name: server}]\n", "no command"},
		{"role twice", "name: x\nroles: [{name: a, command: [b]}, {name: a, command: [b]}]\n", "name of its own"},
		{"canonical name", "name: x\nmetrics: {series: {ttfb: [{name: y}]}}\n", "canonical"},
		{"reduce", "name: x\nmetrics: {series: {ttft: [{name: y, reduce: median}]}}\n", "reduce"},
		{"path", "name: x\nready: {health: health}\n", "slash"},
		{"style", "name: x\nflags: {style: camel}\n", "style"},
		{"lists", "name: x\nflags: {lists: heap}\n", "lists"},
		{"expression", "name: x\nfailures: [{class: a, match: '('}]\n", "missing closing"},
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
