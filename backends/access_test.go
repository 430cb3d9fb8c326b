package backends_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"sweep.dev/sweep/backends"
	"sweep.dev/sweep/backends/host"
)

// A later process reads the settings with which a replica was started. No verb shows
// its key.
func TestAccess(t *testing.T) {
	t.Parallel()
	router := backends.Role{Name: "router", KeyEnv: "ROUTER_KEY"}
	worker := backends.Role{Name: "worker", MetricsPaths: []string{"/metrics", "/old"}, MetricsPort: "system"}
	spec := backends.Spec{Engine: "dynamo", Model: `org/a "model"` + "\n", Roles: []backends.Role{worker, router}, Entry: "router"}
	url := func(port int) string {
		if port == 9 {
			return ""
		}
		return fmt.Sprintf("http://here:1%d", port)
	}
	read := func(role backends.Role, at backends.Address, more map[string]string) backends.Access {
		t.Helper()
		env := map[string]string{backends.MarkServer: backends.ServerMark(spec, role, at)}
		if strings.ContainsAny(env[backends.MarkServer], "\n\x00") {
			t.Errorf("no environment on a host can hold %q", env[backends.MarkServer])
		}
		maps.Copy(env, more)
		a, err := backends.AccessOf(func(name string) string { return env[name] }, "its place")
		if err != nil {
			t.Fatal(err)
		}
		a.At(host.Direct, "in words", url)
		return a
	}

	a := read(router, backends.Address{Host: "0.0.0.0", Port: 8000}, map[string]string{"ROUTER_KEY": "CANARY"})
	if !a.Entry || a.Model != spec.Model || a.URL != "http://here:18000" || a.Network != "in words" || a.Key.Reveal() != "CANARY" || a.KeyAt != "its place" {
		t.Errorf("the router: %+v", a)
	}
	if text := fmt.Sprintf("%v %+v %#v", a, a, a); strings.Contains(text, "CANARY") {
		t.Errorf("the key is shown: %s", text)
	}
	if a.Why[backends.AccessMetrics] == "" || a.Why[backends.AccessKey] != "" || a.Why[backends.AccessURL] != "" {
		t.Errorf("the router's reasons: %v", a.Why)
	}
	if a := read(router, backends.Address{Port: 8000}, nil); !a.Key.IsZero() || !strings.Contains(a.Why[backends.AccessKey], "ROUTER_KEY is not set in its place") {
		t.Errorf("a router without a key: %v, %v", a.Key, a.Why)
	}

	a = read(worker, backends.Address{Port: 8001, Replica: 1, Ports: map[string]int{"system": 8002}}, nil)
	if a.Entry || a.Replica != 1 || !slices.Equal(a.Metrics, []string{"http://here:18002/metrics", "http://here:18002/old"}) {
		t.Errorf("the worker: %+v", a)
	}
	if !strings.Contains(a.Why[backends.AccessKey], "no variable from which dynamo takes a key") {
		t.Errorf("the worker's reasons: %v", a.Why)
	}
	if a := read(worker, backends.Address{Port: 8001, Ports: map[string]int{"system": 9}}, nil); a.URL == "" || a.Metrics != nil || a.Why[backends.AccessMetrics] == "" {
		t.Errorf("metrics that cannot be reached: %+v", a)
	}
	if a := read(worker, backends.Address{Port: 9}, nil); a.URL != "" || a.Path != "" || a.Metrics != nil || a.Why[backends.AccessURL] == "" || a.Why[backends.AccessMetrics] == "" {
		t.Errorf("a worker that cannot be reached: %+v", a)
	}

	for _, mark := range []string{"", "{", `{"port": "x"}`} {
		if a, err := backends.AccessOf(func(string) string { return mark }, "x"); err == nil {
			t.Errorf("the mark %q: %+v", mark, a)
		}
	}
}
