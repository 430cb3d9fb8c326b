package serving

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sweep.dev/sweep/engine"
	"sweep.dev/sweep/plan"
	"sweep.dev/sweep/plan/plantest"
	"sweep.dev/sweep/rundir"
)

// Every role that is not the entry is waited for, the last one too: the entry
// answers as soon as one worker has come.
func TestSpec_started(t *testing.T) {
	t.Parallel()
	p, ok := engine.Lookup("dynamo-mocker")
	if !ok || p.EntryRole() != "frontend" {
		t.Fatalf("the profile is %+v", p)
	}
	plan := plantest.Parse(t, `matrix: {engine: dynamo-mocker, gpu: t4, concurrency: 1}`)
	d := New(Config{Plan: plan, State: &rundir.State{}, Dir: noDir{}}).Servers(plan.Deployments()[0], p, "", nil)
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
	d := New(Config{Plan: plantest.Parse(t, `timeouts: {ready: 100ms}`), State: &rundir.State{}, Dir: noDir{}, Run: quiet{}}).Servers(plan.Deployment{}, nil, "", nil)
	role := &engine.Role{Name: "worker", Ready: engine.RoleReady{Line: "ready"}}
	err := d.started(role, func(int) string { return path })(t.Context(), nil, 0)
	var over Limit
	if !errors.As(err, &over) || over.Name != "timeouts.ready" || !strings.Contains(err.Error(), "its log does not say") {
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
