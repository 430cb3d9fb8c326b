package observe

import (
	"maps"
	"strings"
	"testing"

	"sweep.dev/sweep/backends"
	"sweep.dev/sweep/engine"
	"sweep.dev/sweep/result/finding"
)

// The settings that an engine reports are compared with those that its own role was given.
func TestTargets_args(t *testing.T) {
	roles := []backends.Role{
		{Name: "prefill", Replicas: 1, Args: map[string]any{"max-num-seqs": int64(8)}},
		{Name: "decode", Replicas: 2, Args: map[string]any{"max_num_seqs": int64(32)}},
	}
	profile, _ := engine.Lookup("dynamo-disagg")
	c := observed(profile, roles)
	list := c.targets()
	if len(list) != 3 {
		t.Fatalf("targets %+v", list)
	}
	for _, target := range list {
		if !maps.Equal(target.Args, map[string]map[string]any{"prefill": roles[0].Args, "decode": roles[1].Args}[target.Role]) {
			t.Errorf("%s has %v", target.Role, target.Args)
		}
	}
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
	c := observed(profile, roles)
	list := c.targets()
	if len(list) != 1 || list[0].Metrics != nil || list[0].MetricsAddr != "" {
		t.Errorf("targets %+v", list)
	}
	if notes := c.Sink.Notes(); len(notes) != 1 || notes[0].Code != finding.MetricsUnreachable || !strings.Contains(notes[0].Text, "router, server") {
		t.Errorf("findings %v", notes)
	}
}

// A key is sent to its own host alone, and never in the clear if that has TLS.
func TestKeyless(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		own, other string
		want       bool
	}{
		{"https://llm.example", "https://LLM.example:9100/metrics", false},
		{"http://llm.example:8000", "http://llm.example:9100", false},
		{"http://llm.example:8000", "https://llm.example", false},
		{"https://llm.example", "http://llm.example:9100", true},
		{"https://llm.example", "https://metrics.example", true},
		{"https://llm.example", "://", true},
	} {
		if got := keyless(c.own, c.other); got != c.want {
			t.Errorf("%s %s: %t", c.own, c.other, got)
		}
	}
}
