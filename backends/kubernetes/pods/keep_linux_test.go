package pods_test

import (
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"sweep.dev/sweep/backends"
	"sweep.dev/sweep/backends/backendtest"
	"sweep.dev/sweep/backends/kubernetes/kubetest"
	"sweep.dev/sweep/backends/kubernetes/pods"
	"sweep.dev/sweep/internal/polltest"
)

// jobs returns the paths of the Jobs that there are.
func jobs(f *kubetest.Server) []string {
	return slices.DeleteFunc(f.Paths(), func(path string) bool { return !strings.Contains(path, "/jobs/") })
}

// A deployment that was kept ends at its time without sweep, unless a later run takes it
// over, which then ends it.
func TestKeep(t *testing.T) {
	t.Parallel()
	f := kubetest.Start(t)
	f.Run()
	dir := t.TempDir()
	b, spec, err := made(nil, f.Kubeconfig, dir)
	if err != nil {
		t.Fatal(err)
	}
	spec.Digest, spec.Expires = "digest", time.Now().Add(time.Hour)
	spec.Roles[0].Replicas = 2
	var ledger backendtest.Ledger
	d, err := b.Launch(t.Context(), spec, &ledger)
	if err != nil {
		t.Fatal(err)
	}
	ref := termsOf(t, d).Ref
	keep := func(d backends.Deployment, left time.Duration) {
		t.Helper()
		k, ok := d.(backends.Keeper)
		if !ok {
			t.Fatalf("%T cannot be kept", d)
		}
		if err := k.Keep(t.Context(), time.Now().Add(left)); err != nil {
			t.Fatal(err)
		}
	}
	keep(d, 5*time.Minute)
	if err := d.Stop(t.Context()); err != nil || len(f.Pods()) != 2 {
		t.Errorf("Stop of what is kept: %v, pods %q", err, f.Pods())
	}
	if at := deadline(t, f); at < 290 || at > 310 {
		t.Errorf("the cluster ends it after %v s, want 300", at)
	}

	other := spec
	other.Digest = "another"
	if _, err := b.Adopt(t.Context(), other, ref); err == nil || errors.Is(err, backends.ErrNotFound) {
		t.Errorf("another server was taken over: %v", err)
	}
	again, _, err := made(nil, f.Kubeconfig, dir)
	if err != nil {
		t.Fatal(err)
	}
	spec.RunID = "run2"
	d, err = again.Adopt(t.Context(), spec, ref)
	if err != nil {
		t.Fatal(err)
	}
	for n := range 2 {
		h := d.Host("server", n)
		polltest.Until(t, "the server takes a connection", func() bool { // which comes up meanwhile
			conn, err := h.Dial(t.Context(), "tcp", strings.TrimPrefix(h.URL(), "http://"))
			if err != nil {
				return false
			}
			conn.Close()
			return true
		})
	}
	if at := deadline(t, f); at < 590 || at > 620 {
		t.Errorf("the cluster ends it after %v s, want 600: the default heartbeat", at)
	}
	keep(d, time.Second)
	polltest.Until(t, "the cluster has ended it", func() bool { return len(f.Paths()) == 0 })
	if _, err := again.Adopt(t.Context(), spec, ref); !errors.Is(err, backends.ErrNotFound) {
		t.Errorf("what is gone was taken over: %v", err)
	}
}

// toKeep returns a deployment that is launched a day before its expiry time, and what it is of.
func toKeep(t *testing.T, f *kubetest.Server) (*pods.Backend, backends.Spec, backends.Deployment) {
	t.Helper()
	b, spec, err := made(nil, f.Kubeconfig, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	spec.Digest, spec.Expires = "digest", time.Now().Add(24*time.Hour)
	var ledger backendtest.Ledger
	d, err := b.Launch(t.Context(), spec, &ledger)
	if err != nil {
		t.Fatal(err)
	}
	return b, spec, d
}

// A take-over that fails leaves what was kept its own end; one that succeeds moves it on by
// the cluster's clock.
func TestKeep_takeOver(t *testing.T) {
	t.Parallel()
	for _, ahead := range []time.Duration{-10 * time.Minute, 10 * time.Minute} {
		f := kubetest.Start(t)
		f.Clock(ahead)
		f.Run()
		b, spec, d := toKeep(t, f)
		ref := termsOf(t, d).Ref
		k, _ := d.(backends.Keeper)
		if err := k.Keep(t.Context(), time.Now().Add(2*time.Hour)); err != nil {
			t.Fatal(err)
		}
		kept := deadline(t, f)
		if kept < 7190 || kept > 7230 {
			t.Errorf("the cluster ends it after %v s, want 7200", kept)
		}

		spec.RunID = "run2"
		f.Deny("create secrets") // of the load pods, which the pod is attached with
		spec.Clients.N = 1
		if _, err := b.Adopt(t.Context(), spec, ref); !errors.Is(err, backends.ErrRefused) {
			t.Fatalf("it was taken over without the right to make load pods: %v", err)
		}
		if at := deadline(t, f); at != kept || len(f.Pods()) != 1 {
			t.Errorf("after a take-over that failed the cluster ends it after %v s, pods %q; it was kept for %v s", at, f.Pods(), kept)
		}

		spec.Clients.N = 0
		d, err := b.Adopt(t.Context(), spec, ref)
		if err != nil {
			t.Fatal(err)
		}
		if at := deadline(t, f); at < 590 || at > 630 {
			t.Errorf("a cluster %v ahead ends it after %v s, want 600: the default heartbeat", ahead, at)
		}
		if err := d.Stop(t.Context()); err != nil || len(f.Paths()) != 0 {
			t.Errorf("%v, left are %q", err, f.Paths())
		}
	}
}

// cut carries out what moves the deadline of a Job, and cuts the connection before the
// answer, as often as it is told to.
func cut(f *kubetest.Server, unanswered func(seconds float64) bool) {
	f.Before(func(w http.ResponseWriter, r *http.Request, do func()) bool {
		if r.Method != http.MethodPatch || !strings.Contains(r.URL.Path, "/jobs/") {
			return false
		}
		do()
		var seconds float64
		f.Edit(r.URL.Path, func(o kubetest.Object) { seconds = deadlineOf(o) })
		if !unanswered(seconds) {
			return false
		}
		if conn, _, err := http.NewResponseController(w).Hijack(); err == nil {
			conn.Close()
		}
		return true
	})
}

// A sign of life whose answer is lost was given all the same. What is kept has the time that
// it was kept for, and what is taken over that of a heartbeat; if nobody answers, it has the
// time again that it was kept for.
func TestKeep_lostAnswer(t *testing.T) {
	t.Parallel()
	f := kubetest.Start(t)
	f.Run()
	b, spec, d := toKeep(t, f)
	ref := termsOf(t, d).Ref
	var lost atomic.Int64
	cut(f, func(seconds float64) bool { return seconds > 7000 && lost.Add(1) == 1 })
	k, _ := d.(backends.Keeper)
	if err := k.Keep(t.Context(), time.Now().Add(2*time.Hour)); err != nil {
		t.Errorf("it was not kept, for an answer that was lost: %v", err)
	}
	kept := deadline(t, f)
	if kept < 7190 || kept > 7230 || lost.Load() < 2 {
		t.Errorf("the cluster ends it after %v s, want 7200; %d answers", kept, lost.Load())
	}

	spec.RunID = "run2"
	cut(f, func(seconds float64) bool { return seconds < 7000 }) // all of the take-over
	if _, err := b.Adopt(t.Context(), spec, ref); err == nil || errors.Is(err, backends.ErrNotFound) {
		t.Fatalf("it was taken over without an answer: %v", err)
	}
	if at := deadline(t, f); at != kept || len(f.Pods()) != 1 {
		t.Errorf("after a take-over without an answer the cluster ends it after %v s, pods %q; it was kept for %v s", at, f.Pods(), kept)
	}

	lost.Store(0)
	cut(f, func(seconds float64) bool { return seconds < 7000 && lost.Add(1) == 1 })
	d, err := b.Adopt(t.Context(), spec, ref)
	if err != nil {
		t.Fatalf("it was not taken over, for an answer that was lost: %v", err)
	}
	if at := deadline(t, f); at < 590 || at > 690 || lost.Load() < 2 {
		t.Errorf("the cluster ends it after %v s, want 600: the default heartbeat; %d answers", at, lost.Load())
	}
	if err := d.Stop(t.Context()); err != nil || len(f.Paths()) != 0 {
		t.Errorf("%v, left are %q", err, f.Paths())
	}
}

// A heartbeat that is on its way while the deployment is kept does not move its end: an API
// server carries out what its client gave up.
func TestKeep_lateHeartbeat(t *testing.T) {
	t.Parallel()
	f := kubetest.Start(t)
	f.Run()
	b, spec, err := made(nil, f.Kubeconfig, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	spec.Digest, spec.Expires = "digest", time.Now().Add(time.Hour)
	began, later, carriedOut := make(chan struct{}), make(chan struct{}), make(chan struct{})
	var beats atomic.Int64
	f.Before(func(_ http.ResponseWriter, r *http.Request, do func()) bool {
		if r.Method != http.MethodPatch || !strings.Contains(r.URL.Path, "/jobs/") || beats.Add(1) != 1 {
			return false
		}
		close(began)
		select {
		case <-later: // what was sent after it comes first, if its client did not wait
		case <-time.After(200 * time.Millisecond):
		}
		do()
		close(carriedOut)
		return true
	})
	var ledger backendtest.Ledger
	d, err := b.Launch(t.Context(), spec, &ledger)
	if err != nil {
		t.Fatal(err)
	}
	<-began
	k, ok := d.(backends.Keeper)
	if !ok {
		t.Fatalf("%T cannot be kept", d)
	}
	if err := k.Keep(t.Context(), time.Now().Add(5*time.Minute)); err != nil {
		t.Fatal(err)
	}
	close(later)
	<-carriedOut
	if at := deadline(t, f); at < 290 || at > 330 {
		t.Errorf("the cluster ends it after %v s, want 300", at)
	}
	if err := d.Stop(t.Context()); err != nil {
		t.Error(err)
	}
}

func termsOf(t *testing.T, d backends.Deployment) backends.Terms {
	t.Helper()
	r, ok := d.(backends.Rental)
	if !ok {
		t.Fatalf("%T has no terms", d)
	}
	return r.Terms()
}

// deadline returns that of the only Job, in seconds.
func deadline(t *testing.T, f *kubetest.Server) (seconds float64) {
	t.Helper()
	all := jobs(f)
	if len(all) != 1 {
		t.Fatalf("Jobs %q", all)
	}
	f.Edit(all[0], func(o kubetest.Object) { seconds = deadlineOf(o) })
	return seconds
}

func deadlineOf(job kubetest.Object) float64 {
	spec, _ := job["spec"].(map[string]any)
	seconds, _ := spec["activeDeadlineSeconds"].(float64)
	return seconds
}

// A quota that is used up is waited for as long as a node is, and no longer, whatever it refuses.
func TestLaunch_quota(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"pods", "secrets", "jobs", "services"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			refusedByQuota(t, kind)
		})
	}
}

func refusedByQuota(t *testing.T, kind string) {
	t.Helper()
	const never = 1000
	for room, pending := range map[int64]time.Duration{3: time.Minute, never: 2 * time.Second} { // by the try that it has room for
		f := kubetest.Start(t)
		f.Run()
		var tries atomic.Int64
		f.Before(func(w http.ResponseWriter, r *http.Request, _ func()) bool {
			if r.Method != http.MethodPost || !strings.HasSuffix(r.URL.Path, "/"+kind) || tries.Add(1) >= room {
				return false
			}
			w.WriteHeader(http.StatusForbidden)
			_, _ = w.Write([]byte(`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","code":403,
				"message":"pods \"x\" is forbidden: exceeded quota: q, requested: requests.nvidia.com/gpu=1, used: requests.nvidia.com/gpu=2, limited: requests.nvidia.com/gpu=2"}`))
			return true
		})
		b, spec, err := made(nil, f.Kubeconfig, t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		b.Pending(pending)
		spec.Roles[0].Replicas = 2 // which need a Service
		spec.Roles[0].Env = map[string]string{"OF": "a Secret"}
		var ledger backendtest.Ledger
		d, err := b.Launch(t.Context(), spec, &ledger)
		if err == nil {
			err = d.Stop(t.Context())
			if room == never {
				t.Error("it was started without room")
			}
		} else if failed, ok := errors.AsType[*backends.Failure](err); room != never || !ok || failed.Class != "quota" || !errors.Is(err, backends.ErrCapacity) || tries.Load() < 2 {
			t.Errorf("after %d tries: %v", tries.Load(), err)
		} else {
			err = nil
		}
		if err != nil || len(f.Paths()) != 0 {
			t.Errorf("%v, left are %q", err, f.Paths())
		}
	}
}

// The load pods of a launch are none of its servers.
func TestList_loadPods(t *testing.T) {
	t.Parallel()
	f, b, d := launched(t)
	ref := termsOf(t, d).Ref
	path := "/api/v1/namespaces/ns/pods/"
	var (
		text []byte
		err  error
	)
	f.Edit(path+ref.Name, func(o kubetest.Object) { text, err = json.Marshal(o) })
	if err != nil {
		t.Fatal(err)
	}
	var load kubetest.Object
	if err := json.Unmarshal(text, &load); err != nil {
		t.Fatal(err)
	}
	name := ref.Name + "-cabcd-1-0-xyz"
	load.Set(name, "metadata", "name")
	load.Set("load", "metadata", "labels", "app.kubernetes.io/component")
	f.Put(path+name, load)
	found, err := b.Instances(t.Context(), ref)
	if err != nil || len(found) != 1 || found[0].Unit != ref.Name {
		t.Errorf("%+v, %v", found, err)
	}
	f.Remove(path + name)
	if err := d.Stop(t.Context()); err != nil || len(f.Paths()) != 0 {
		t.Errorf("%v, left are %q", err, f.Paths())
	}
}
