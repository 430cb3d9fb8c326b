package pods_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"sweep.dev/sweep/backends"
	"sweep.dev/sweep/backends/backendtest"
	"sweep.dev/sweep/backends/kubernetes/kubetest"
	"sweep.dev/sweep/internal/polltest"
	"sweep.dev/sweep/internal/slow"
)

const podsPath = "/api/v1/namespaces/ns/pods/"

// started launches a server, and has a function change its pod before it runs.
func started(t *testing.T, f *kubetest.Server, change func(o kubetest.Object)) error {
	t.Helper()
	b, spec, err := made(nil, f.Kubeconfig, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	b.Pending(100 * time.Millisecond)
	var ledger backendtest.Ledger
	launched := make(chan error, 1)
	go func() {
		_, err := b.Launch(t.Context(), spec, &ledger)
		launched <- err
	}()
	polltest.Until(t, "there is a pod", func() bool { return len(f.Pods()) == 1 })
	f.Edit(podsPath+f.Pods()[0], change)
	err = <-launched
	f.Remove("/api/v1/nodes")
	if len(f.Paths()) != 0 {
		t.Errorf("left are %q after %v", f.Paths(), err)
	}
	return err
}

// The taint that keeps a pod off is named if nodes may be read. If not, the advice is how
// to find it.
func TestLaunch_taint(t *testing.T) {
	t.Parallel()
	for hint, list := range map[string]string{"tolerations: [{key: sku, effect: NoSchedule}]": "yes", "kubectl describe nodes": ""} {
		f := kubetest.Start(t)
		if list != "" {
			f.Put("/api/v1/nodes", kubetest.Object{"items": []any{map[string]any{
				"metadata": map[string]any{"name": "node-0"}, "spec": map[string]any{"taints": []any{map[string]any{"key": "sku", "effect": "NoSchedule"}}},
			}}})
		}
		err := started(t, f, func(o kubetest.Object) {
			o.Set("Pending", "status", "phase")
			o.Set([]any{map[string]any{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/1 nodes are available: 1 node(s) had untolerated taint(s)."}}, "status", "conditions")
		})
		failed, ok := errors.AsType[*backends.Failure](err)
		if !ok || failed.Class != "placement" || !errors.Is(err, backends.ErrSpec) || !strings.Contains(failed.Hint, hint) || strings.Contains(err.Error(), "sku:NoSchedule") != (list != "") {
			t.Errorf("%#v: %v", failed, err)
		}
	}
}

// A pod that a kubelet refuses does not wait for the end of the launch, whatever it is
// refused for.
func TestLaunch_refusedByNode(t *testing.T) {
	t.Parallel()
	err := started(t, kubetest.Start(t), func(o kubetest.Object) {
		o.Set("Failed", "status", "phase")
		o.Set("PodFeatureUnsupported", "status", "reason")
		o.Set("no", "status", "message")
	})
	if f, ok := errors.AsType[*backends.Failure](err); !ok || f.Class != "host" || !strings.Contains(err.Error(), "PodFeatureUnsupported: no") {
		t.Error(err)
	}
}

// The pod of a node that is lost is deleted and never goes, or only its Ready is taken away.
// The deployment ends all the same, and says so; its end is not confirmed before the node is
// back.
func TestLost(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		deleted    bool
		conditions []any
	}{
		"deleted": {true, []any{map[string]any{"type": "DisruptionTarget", "status": "True", "reason": "DeletionByTaintManager", "message": "Taint manager: deleting due to NoExecute taint"}}},
		"marked":  {false, []any{map[string]any{"type": "ContainersReady", "status": "True"}, map[string]any{"type": "Ready", "status": "False"}}},
	} {
		if name == "marked" && !slow.Tests { // it is half a minute until it counts as lost
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f, _, d := launched(t)
			f.Lose(true)
			f.Put("/api/v1/nodes/node-0", kubetest.Object{"status": map[string]any{"conditions": []any{
				map[string]any{"type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown", "message": "Kubelet stopped posting node status."},
			}}})
			f.Edit(podsPath+f.Pods()[0], func(o kubetest.Object) {
				o.Set("node-0", "spec", "nodeName")
				o.Set(c.conditions, "status", "conditions")
				if c.deleted {
					o.Set(time.Now().UTC().Format(time.RFC3339), "metadata", "deletionTimestamp")
				}
			})
			select {
			case <-d.Done():
			case <-time.After(2 * time.Minute):
				t.Fatal("the deployment goes on")
			}
			if failed, ok := errors.AsType[*backends.Failure](d.Err()); !ok || failed.Class != "node" || !strings.Contains(d.Err().Error(), "node node-0 is lost: Ready is Unknown") {
				t.Error(d.Err())
			}
			var err error
			if !polltest.Longer(t.Context(), time.Second, func(ctx context.Context) bool {
				err = d.Stop(ctx)
				return err == nil || strings.Contains(err.Error(), "its node node-0 has not ended it")
			}) || err == nil {
				t.Errorf("Stop: %v", err)
			}
			f.Lose(false)
			f.Remove("/api/v1/nodes/node-0")
			if err := d.Stop(t.Context()); err != nil || len(f.Paths()) != 0 {
				t.Errorf("%v, left are %q", err, f.Paths())
			}
		})
	}
}
