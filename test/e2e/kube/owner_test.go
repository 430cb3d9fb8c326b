//go:build e2e_kube

package kube

import (
	"errors"
	"testing"
	"time"

	"sweep.dev/sweep/backends"
	"sweep.dev/sweep/backends/kubernetes/owner"
	"sweep.dev/sweep/internal/kubeapi"
	"sweep.dev/sweep/internal/polltest"
)

// A real cluster ends all that an owner has when its signs of life stop, and not before;
// and a sign of life for what is gone, or for another one of its name, says so.
func TestOwner(t *testing.T) {
	t.Parallel()
	const ns = "owner"
	lab.namespace(t, ns)
	api, err := kubeapi.Connect(kubeapi.Config{Kubeconfig: lab.file("admin.kubeconfig")})
	if err != nil {
		t.Fatal(err)
	}
	n := owner.Namespace{API: api, Name: ns}
	make := func(lease time.Duration) *owner.Owner {
		t.Helper()
		spec := backends.Spec{Owner: "me@here", RunID: "run1", Pod: "d1-l01", Digest: "d", Expires: time.Now().Add(time.Hour)}
		o, err := n.Create(t.Context(), owner.Request{Name: backends.NewName(spec.Owner, spec.RunID, spec.Expires), Marks: backends.Marks(spec), Engine: "app", Lease: lease})
		if err != nil {
			t.Fatal(err)
		}
		return o
	}
	const lease = 12 * time.Second
	begun := time.Now()
	o, other, orphaned := make(lease), make(5*time.Minute), make(5*time.Minute)
	for _, of := range []*owner.Owner{o, other, orphaned} {
		pod := map[string]any{
			"apiVersion": "v1", "kind": "Pod",
			"metadata": map[string]any{"name": "pod-of-" + of.Name.Serial, "labels": of.Labels(owner.Engine, "server", 0), "ownerReferences": []any{of.Reference()}},
			"spec":     map[string]any{"restartPolicy": "Never", "dnsPolicy": "Default", "containers": []any{map[string]any{"name": "app", "image": appImage, "imagePullPolicy": "Never"}}},
		}
		if err := api.Create(t.Context(), "/api/v1/namespaces/"+ns+"/pods", pod, nil); err != nil {
			t.Fatal(err)
		}
		if err := api.Create(t.Context(), "/api/v1/namespaces/"+ns+"/pods", pod, nil); !kubeapi.Exists(err) {
			t.Errorf("the same name again: %v", err)
		}
	}
	for _, of := range []*owner.Owner{other, orphaned} {
		meta := map[string]any{"name": "of-" + of.Name.Serial, "labels": of.Labels(owner.Engine, "server", 0), "ownerReferences": []any{of.Reference()}}
		for resource, object := range map[string]map[string]any{
			"secrets":  {"apiVersion": "v1", "kind": "Secret", "metadata": meta},
			"services": {"apiVersion": "v1", "kind": "Service", "metadata": meta, "spec": map[string]any{"ports": []any{map[string]any{"port": 80}}}},
		} {
			if err := api.Create(t.Context(), "/api/v1/namespaces/"+ns+"/"+resource, object, nil); err != nil {
				t.Fatal(err)
			}
		}
	}
	// Somebody deletes a Job, and tells the cluster to leave what it owned.
	job := "/apis/batch/v1/namespaces/" + ns + "/jobs/" + orphaned.Name.String()
	if err := api.Delete(t.Context(), job, kubeapi.Deletion{Propagation: "Orphan"}); err != nil {
		t.Fatal(err)
	}
	polltest.Until(t, "the Job is gone", func() bool {
		_, err := n.Find(t.Context(), orphaned.Name.String())
		return errors.Is(err, backends.ErrNotFound)
	})
	for range 2 {
		if err := n.Delete(t.Context(), orphaned.Name.String(), orphaned.UID); err != nil {
			t.Errorf("a Job that was deleted without its pod: %v", err)
		}
	}
	for _, resource := range []string{"secrets", "services"} {
		for of, want := range map[*owner.Owner]int{orphaned: 0, other: 1} {
			left, err := kubeapi.ListSelected[owner.Object](t.Context(), api, kubeapi.Collection("v1", ns, resource), owner.Selector(of.Name.String()))
			if err != nil || len(left) != want {
				t.Errorf("%d %s of %s are left, want %d: %v", len(left), resource, of.Name, want, err)
			}
		}
	}
	wrong := *o
	wrong.UID = other.UID
	if err := n.Extend(t.Context(), &wrong, time.Minute); !errors.Is(err, owner.ErrLost) {
		t.Errorf("a sign of life for another Job of the name: %v", err)
	}
	// Two signs of life, then none.
	for range 2 {
		begun := time.Now()
		polltest.Until(t, "a sign of life is due", func() bool { return time.Since(begun) > 2*time.Second })
		if err := n.Extend(t.Context(), o, lease); err != nil {
			t.Fatal(err)
		}
	}
	last := time.Now()
	polltest.Until(t, "the Job and its pod are gone", func() bool {
		pods, err := n.Pods(t.Context(), o.Name.String())
		if err != nil {
			t.Fatal(err)
		}
		_, err = n.Find(t.Context(), o.Name.String())
		return len(pods) == 0 && errors.Is(err, backends.ErrNotFound)
	})
	t.Logf("gone %.1f s after it was made, %.1f s after the last sign of life, with a lease of %v", time.Since(begun).Seconds(), time.Since(last).Seconds(), lease)
	if after := time.Since(last); after < lease-2*time.Second {
		t.Errorf("gone only %v after the last sign of life", after)
	}
	if err := n.Extend(t.Context(), o, time.Minute); !errors.Is(err, owner.ErrLost) {
		t.Errorf("a sign of life for what is gone: %v", err)
	}
	all, err := n.List(t.Context())
	if err != nil || len(all) != 1 || all[0].Name != other.Name || all[0].Status != "Active" {
		t.Errorf("%+v, %v", all, err)
	}
	if pods, err := n.Pods(t.Context(), other.Name.String()); err != nil || len(pods) != 1 {
		t.Errorf("the other owner's pods: %v, %v", pods, err)
	}
	if err := n.Delete(t.Context(), other.Name.String(), other.UID); err != nil {
		t.Error(err)
	}
	all, err = n.List(t.Context())
	pods, errPods := n.Pods(t.Context(), "")
	if err := errors.Join(err, errPods); err != nil || len(all)+len(pods) > 0 {
		t.Errorf("left are %v and %v, %v", all, pods, err)
	}
}
