package owner_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"sweep.dev/sweep/backends/kubernetes/kubetest"
	"sweep.dev/sweep/backends/kubernetes/owner"
	"sweep.dev/sweep/internal/polltest"
)

// Whoever deletes an owner, on whichever machine, sees the objects gone that it notes, and
// hears who holds one.
func TestDelete_noted(t *testing.T) {
	t.Parallel()
	f, n := connect(t)
	o, err := n.Create(t.Context(), request("me@here", time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	graph := owner.Ref{APIVersion: "nvidia.com/v1beta1", Resource: "dynamographdeployments", Name: "g"}
	service := owner.Ref{APIVersion: "v1", Resource: "services", Name: "s"}
	if err := n.Note(t.Context(), o, []owner.Ref{graph, service}); err != nil {
		t.Fatal(err)
	}
	object := func(launch string, finalizers ...any) kubetest.Object {
		made := kubetest.Object{"metadata": map[string]any{"labels": map[string]any{owner.LabelLaunch: launch}, "finalizers": finalizers}}
		if len(finalizers) > 0 {
			made.Set(time.Now().UTC().Format(time.RFC3339), "metadata", "deletionTimestamp")
		}
		return made
	}
	f.Put(graph.Path("ns"), object(o.Name.String(), "nvidia.com/finalizer"))
	f.Put(service.Path("ns"), object("another launch"))
	if !polltest.Longer(t.Context(), time.Second, func(ctx context.Context) bool {
		err = n.Delete(ctx, o.Name.String(), "")
		return err == nil || strings.Contains(err.Error(), "dynamographdeployments g, held by the finalizer nvidia.com/finalizer (is its operator at work?)")
	}) || err == nil || strings.Contains(err.Error(), "services") {
		t.Error(err)
	}
	// The Job is gone by now: only the caller still knows of the object.
	if !polltest.Longer(t.Context(), time.Second, func(ctx context.Context) bool {
		err = n.Delete(ctx, o.Name.String(), "", graph)
		return err == nil || strings.Contains(err.Error(), "dynamographdeployments g")
	}) || err == nil {
		t.Error(err)
	}
	f.Remove(graph.Path("ns"))
	if err := n.Delete(t.Context(), o.Name.String(), "", graph, service); err != nil {
		t.Error(err)
	}
}

func TestParseRefs(t *testing.T) {
	t.Parallel()
	refs := []owner.Ref{{APIVersion: "v1", Resource: "services", Name: "a"}, {APIVersion: "apps/v1", Resource: "deployments", Name: "b.c"}}
	if got := owner.ParseRefs(owner.RefsText(refs) + " x a//b a/b/c/d/e"); !slices.Equal(got, refs) {
		t.Errorf("%+v", got)
	}
}
