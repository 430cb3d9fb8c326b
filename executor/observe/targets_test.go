package observe

import (
	"context"
	"errors"
	"maps"
	"net"
	"strings"
	"testing"

	"sweep.dev/sweep/backends"
	"sweep.dev/sweep/backends/host"
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

// Metrics that a flag turns on are not looked for without it, and nobody misses them. Who names
// their address has them.
func TestTargets_off(t *testing.T) {
	t.Parallel()
	profile := &engine.Profile{Entry: "server", Roles: []engine.Role{
		{Name: "server", Metrics: &engine.Metrics{Path: "/metrics"}},
		{Name: "sidecar", Tier: engine.TierRouter, Metrics: &engine.Metrics{Path: "/metrics", Flag: "metrics-port"}},
	}}
	roles := []backends.Role{{Name: "server", Replicas: 1}, {Name: "sidecar", Replicas: 1}}
	for name, of := range map[string][]backends.Role{"started": roles, "not there": roles[:1]} {
		c := observed(profile, of)
		list := c.targets()
		if len(list) != len(of) || list[0].Metrics == nil || list[len(of)-1].Role == "sidecar" && list[1].Metrics != nil {
			t.Errorf("%s: targets %+v", name, list)
		}
		if notes := c.Sink.Notes(); len(notes) > 0 {
			t.Errorf("%s: findings %v", name, notes)
		}
	}
	c := observed(profile, roles)
	c.Backend, c.Server.Deployment = named{}, aServer{}
	if list := c.targets(); len(list) != 2 || list[1].Metrics == nil || list[1].Host.URL() != "http://10.0.0.1" {
		t.Errorf("targets %+v", list)
	}
}

type aServer struct{ backends.Deployment }

func (aServer) Host(string, int) host.Host { return aPod{} }

// A named backend was told where all metrics are.
type named struct{ backends.Backend }

func (named) Hosts(string, bool) []host.Host { return nil }

func (named) Metrics(string, int) (host.Host, bool) { return aPod{}, true }

// A replica that was found and cannot be read stays a target, whose metrics are not known.
func TestTargets_found(t *testing.T) {
	t.Parallel()
	profile, _ := engine.Lookup("llm-d")
	c := observed(profile, nil)
	c.Server.Deployment = aStack{}
	list := c.targets()
	if len(list) != 3 || list[0].Metrics == nil || list[1].Metrics == nil || list[2].Role != "gateway" {
		t.Fatalf("targets %+v", list)
	}
	for i, want := range []string{"reached", "decode-1 has no address"} {
		if _, err := list[i].Host.Dial(t.Context(), "tcp", "x"); err == nil || err.Error() != want || list[i].Keyless != (i == 1) {
			t.Errorf("%d: %v", i, err)
		}
	}
	notes := c.Sink.Notes()
	if len(notes) != 1 || !strings.HasSuffix(notes[0].Text, "decode: decode-1 has no address; prefill: there is none; epp: there is none") {
		t.Errorf("findings %v", notes)
	}
}

// A stack has two servers that decode.
type aStack struct{ backends.Deployment }

func (aStack) Host(string, int) host.Host { return aPod{} }

func (aStack) Roles() []backends.Role {
	return []backends.Role{{Name: "decode", Replicas: 2}, {Name: "gateway", Replicas: 1}}
}

func (aStack) Metrics(_ string, replica int) (host.Host, string) {
	if replica == 1 {
		return nil, "decode-1 has no address"
	}
	return aPod{}, ""
}

type aPod struct{ host.Host }

func (aPod) URL() string { return "http://10.0.0.1" }

func (aPod) Dial(context.Context, string, string) (net.Conn, error) {
	return nil, errors.New("reached")
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
