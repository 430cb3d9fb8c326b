package owner_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"sweep.dev/sweep/backends"
	"sweep.dev/sweep/backends/kubernetes/kubetest"
	"sweep.dev/sweep/backends/kubernetes/owner"
	"sweep.dev/sweep/internal/kubeapi"
	"sweep.dev/sweep/internal/polltest"
)

const jobs = "/apis/batch/v1/namespaces/ns/jobs"

func connect(t *testing.T) (*kubetest.Server, owner.Namespace) {
	t.Helper()
	f := kubetest.Start(t)
	api, err := kubeapi.Connect(kubeapi.Config{Kubeconfig: f.Kubeconfig})
	if err != nil {
		t.Fatal(err)
	}
	return f, owner.Namespace{API: api, Name: "ns"}
}

func request(user string, life time.Duration) owner.Request {
	spec := backends.Spec{Owner: user, RunID: "run1", Pod: "d1-l01", Digest: "d", Expires: time.Now().Add(life)}
	return owner.Request{Name: backends.NewName(user, spec.RunID, spec.Expires), Marks: backends.Marks(spec), Engine: "vllm", Lease: time.Minute}
}

// pod returns one that an owner has.
func pod(o *owner.Owner, name string) kubetest.Object {
	labels := map[string]any{}
	for k, v := range o.Labels(owner.Engine, "server", 0) {
		labels[k] = v
	}
	return kubetest.Object{"kind": "Pod", "metadata": map[string]any{
		"name": name, "labels": labels, "ownerReferences": []any{map[string]any{"uid": o.Reference().UID}},
	}}
}

// What somebody left of a Job that they deleted is deleted by itself, Secrets and Services by their
// label alone, as sweep lists none; without the right to, the error has the command. What others
// have stays.
func TestDelete_orphans(t *testing.T) {
	t.Parallel()
	const below = "/api/v1/namespaces/ns/"
	f, n := connect(t)
	o, err := n.Create(t.Context(), request("me@here", time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	orphan, theirs := pod(o, "orphan"), pod(o, "theirs")
	for _, p := range []kubetest.Object{orphan, theirs} { // else the controllers take them along with the Job
		delete(p["metadata"].(map[string]any), "ownerReferences")
	}
	theirs["metadata"].(map[string]any)["labels"] = map[string]any{}
	f.Put(below+"pods/orphan", orphan)
	for _, at := range []string{"pods/theirs", "secrets/theirs", "services/theirs"} {
		f.Put(below+at, theirs)
	}
	for _, at := range []string{"secrets/orphan", "services/orphan"} {
		f.Put(below+at, kubetest.Object{"metadata": map[string]any{"name": "orphan", "labels": orphan["metadata"].(map[string]any)["labels"]}})
	}
	f.Remove(jobs + "/" + o.Name.String())
	for _, without := range []struct{ right, kinds string }{{"delete pods", "jobs,pods,secrets,services"}, {"deletecollection secrets", "secrets,services"}} {
		f.Deny(without.right)
		err := n.Delete(t.Context(), o.Name.String(), o.UID)
		if err == nil || !strings.Contains(err.Error(), "--cascade=orphan)") || !strings.Contains(err.Error(), "kubectl delete -n ns "+without.kinds+" -l ") {
			t.Errorf("without the right to %s: %v", without.right, err)
		}
	}
	f.Deny()
	if err := n.Delete(t.Context(), o.Name.String(), o.UID); err != nil {
		t.Error(err)
	}
	if got, want := fmt.Sprint(f.Paths()), fmt.Sprint([]string{below + "pods/theirs", below + "secrets/theirs", below + "services/theirs"}); got != want {
		t.Errorf("left are %s, want %s", got, want)
	}
}

// An owner has a deadline from its first moment on. A sign of life moves it on, and never
// past its expiry time.
func TestExtend(t *testing.T) {
	t.Parallel()
	_, n := connect(t)
	o, err := n.Create(t.Context(), request("me@here", time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	if left := time.Until(o.Ends); left < 50*time.Second || left > 65*time.Second {
		t.Errorf("it ends in %v", left)
	}
	for lease, want := range map[time.Duration]time.Duration{10 * time.Minute: 10 * time.Minute, 5 * time.Hour: time.Hour} {
		if err := n.Extend(t.Context(), o, lease); err != nil {
			t.Fatal(err)
		}
		all, err := n.List(t.Context())
		if err != nil || len(all) != 1 {
			t.Fatalf("%v, %v", all, err)
		}
		if left := time.Until(all[0].Ends); left < want-10*time.Second || left > want+5*time.Second {
			t.Errorf("after a lease of %v it ends in %v", lease, left)
		}
		if all[0].Marks()[backends.MarkOwner] != "me@here" || all[0].Name != o.Name {
			t.Errorf("%+v", all[0])
		}
	}
}

// Whoever takes an owner over moves its deadline on by the lease and no more, whatever the
// difference of the clocks.
func TestFind_clocks(t *testing.T) {
	t.Parallel()
	const lease, age = 30 * time.Minute, 20 * time.Minute
	for _, ahead := range []time.Duration{-10 * time.Minute, 0, 10 * time.Minute, 3 * time.Hour} {
		f, n := connect(t)
		f.Clock(ahead)
		made, err := n.Create(t.Context(), request("me@here", 24*time.Hour))
		if err != nil {
			t.Fatal(err)
		}
		cluster := func() time.Time { return time.Now().Add(ahead) }
		f.Edit(jobs+"/"+made.Name.String(), func(j kubetest.Object) {
			j.Set(cluster().Add(-age).UTC().Format(time.RFC3339), "status", "startTime")
			j.Set(3600.0, "spec", "activeDeadlineSeconds")
		})
		o, err := n.Find(t.Context(), made.Name.String())
		if err != nil {
			t.Fatal(err)
		}
		if err := n.Extend(t.Context(), o, lease); err != nil {
			t.Fatalf("a cluster %v ahead: %v", ahead, err)
		}
		all, err := n.List(t.Context())
		if err != nil || len(all) != 1 {
			t.Fatalf("a cluster %v ahead: %v, %v", ahead, all, err)
		}
		if left := all[0].Ends.Sub(cluster()); left < lease-time.Minute || left > lease+time.Minute {
			t.Errorf("a cluster %v ahead ends it in %v, want %v", ahead, left, lease)
		}
		if err := n.Extend(t.Context(), &all[0], lease); err == nil || !strings.Contains(err.Error(), "not known") {
			t.Errorf("an owner of a list, whose age is not known, was extended: %v", err)
		}
	}
}

// What a deployment has goes when its deadline has passed, and a sign of life that comes
// too late says so.
func TestDeadline(t *testing.T) {
	t.Parallel()
	f, n := connect(t)
	o, err := n.Create(t.Context(), request("me@here", 2*time.Second))
	if err != nil {
		t.Fatal(err)
	}
	f.Put("/api/v1/namespaces/ns/pods/p", pod(o, "p"))
	polltest.Until(t, "the namespace is empty", func() bool { return len(f.Paths()) == 0 })
	if err := n.Extend(t.Context(), o, time.Minute); !errors.Is(err, owner.ErrLost) {
		t.Error(err)
	}
}

// A sign of life is for one Job: not for another one of its name, nor for one that fails
// or is deleted.
func TestExtend_lost(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(kubetest.Object){
		"another": func(j kubetest.Object) { j.Set("other", "metadata", "uid") },
		"deleted": func(j kubetest.Object) { j.Set("2026-01-01T00:00:00Z", "metadata", "deletionTimestamp") },
		"failed": func(j kubetest.Object) {
			j.Set([]any{map[string]any{"type": "Failed", "status": "True", "reason": "DeadlineExceeded"}}, "status", "conditions")
		},
		"failing": func(j kubetest.Object) {
			j.Set([]any{map[string]any{"type": "FailureTarget", "status": "True", "reason": "DeadlineExceeded"}}, "status", "conditions")
		},
	} {
		f, n := connect(t)
		o, err := n.Create(t.Context(), request("me@here", time.Hour))
		if err != nil {
			t.Fatal(err)
		}
		f.Controllers(false)
		f.Edit(jobs+"/"+o.Name.String(), change)
		if err := n.Extend(t.Context(), o, time.Minute); !errors.Is(err, owner.ErrLost) {
			t.Errorf("%s: %v", name, err)
		}
	}
	// A cluster that does not answer has lost nothing.
	f, n := connect(t)
	o, err := n.Create(t.Context(), request("me@here", time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	f.Before(func(http.ResponseWriter, *http.Request, func()) bool { panic(http.ErrAbortHandler) })
	if err := n.Extend(t.Context(), o, time.Minute); err == nil || errors.Is(err, owner.ErrLost) {
		t.Error(err)
	}
}

// A Job that is suspended, or that no controller starts, ends nothing: it is deleted and
// refused.
func TestCreate_heldBack(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		hold func(*kubetest.Server)
		want string
	}{
		"suspended":     {(*kubetest.Server).Suspend, "Kueue"},
		"no controller": {func(f *kubetest.Server) { f.Controllers(false) }, "controller manager"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f, n := connect(t)
			c.hold(f)
			n.Patience = 2 * time.Second
			_, err := n.Create(t.Context(), request("me@here", time.Hour))
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Error(err)
			}
			f.Controllers(true)
			polltest.Until(t, "the Job is gone", func() bool { return len(f.Paths()) == 0 })
		})
	}
}

// A name is a fence: who comes second has made nothing and deletes nothing.
func TestCreate_taken(t *testing.T) {
	t.Parallel()
	f, n := connect(t)
	r := request("me@here", time.Hour)
	if _, err := n.Create(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	if _, err := n.Create(t.Context(), r); !errors.Is(err, owner.ErrTaken) {
		t.Error(err)
	}
	if got := f.Paths(); len(got) != 1 {
		t.Errorf("%q", got)
	}
}

// A create is sent once, also if its answer is lost.
func TestCreate_once(t *testing.T) {
	t.Parallel()
	f, n := connect(t)
	posts := 0
	f.Before(func(w http.ResponseWriter, r *http.Request, do func()) bool {
		if r.Method != http.MethodPost {
			return false
		}
		posts++
		do()
		w.WriteHeader(http.StatusGatewayTimeout)
		return true
	})
	r := request("me@here", time.Hour)
	_, err := n.Create(t.Context(), r)
	if err == nil || errors.Is(err, owner.ErrTaken) || kubeapi.Refused(err) || posts != 1 {
		t.Errorf("%v after %d", err, posts)
	}
	if err := n.Delete(t.Context(), r.Name.String(), ""); err != nil || len(f.Paths()) != 0 {
		t.Errorf("%v, %q is left", err, f.Paths())
	}
}

// Delete touches nothing of another owner and nothing that is not sweep's, and is over
// when the pods are gone too.
func TestDelete(t *testing.T) {
	t.Parallel()
	f, n := connect(t)
	mine, err := n.Create(t.Context(), request("me@here", time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	theirs, err := n.Create(t.Context(), request("you@there", time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	f.Put("/api/v1/namespaces/ns/pods/mine", pod(mine, "mine"))
	f.Put("/api/v1/namespaces/ns/pods/theirs", pod(theirs, "theirs"))
	foreign := request("me@here", time.Hour).Name.String() // a name like ours, without our labels
	f.Put(jobs+"/"+foreign, kubetest.Object{"kind": "Job", "metadata": map[string]any{"name": foreign}})
	for _, name := range []string{foreign, "nightly-backup"} {
		if err := n.Delete(t.Context(), name, ""); err == nil || !strings.Contains(err.Error(), "not touched") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := n.Delete(t.Context(), mine.Name.String(), mine.UID); err != nil {
		t.Fatal(err)
	}
	want := fmt.Sprintf("[/api/v1/namespaces/ns/pods/theirs %s/%s %s/%s]", jobs, foreign, jobs, theirs.Name)
	want2 := fmt.Sprintf("[/api/v1/namespaces/ns/pods/theirs %s/%s %s/%s]", jobs, theirs.Name, jobs, foreign)
	if got := fmt.Sprint(f.Paths()); got != want && got != want2 {
		t.Errorf("left are %s, want %s", got, want)
	}
	if err := n.Delete(t.Context(), mine.Name.String(), mine.UID); err != nil {
		t.Errorf("the second time: %v", err)
	}
	// Without controllers nothing goes, and that is said.
	f.Controllers(false)
	if !polltest.Longer(t.Context(), 3*time.Second, func(ctx context.Context) bool {
		err = n.Delete(ctx, theirs.Name.String(), "")
		return err == nil || strings.Contains(err.Error(), "left are its Job")
	}) || err == nil {
		t.Error(err)
	}
}

func TestValue(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{"d1-l01": "d1-l01", "user@host": "user-host", "-a.": "a", "Qwen/Qwen3": "Qwen-Qwen3", "": ""} {
		if got := owner.Value(text); got != want {
			t.Errorf("%q: %q", text, got)
		}
	}
	if a, b := owner.Value(strings.Repeat("x", 70)), owner.Value(strings.Repeat("x", 71)); a == b || len(a) > 63 {
		t.Errorf("%q, %q", a, b)
	}
}

// A refusal says nothing of an earlier call without an answer, which the API server has
// carried out: the owner gets the end back that it had, or the error says that this is not known.
func TestTakeOver_refusedLater(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		refused int32 // requests after the first; the client makes 4 of those of 429
		code    int
	}{
		"limited": {4, http.StatusTooManyRequests}, "denied": {1, http.StatusForbidden}, "denied for good": {99, http.StatusForbidden},
	} {
		f, n := connect(t)
		made, err := n.Create(t.Context(), request("me@here", time.Hour))
		if err != nil {
			t.Fatal(err)
		}
		o, err := n.Find(t.Context(), made.Name.String())
		if err != nil {
			t.Fatal(err)
		}
		ends := o.Ends
		var calls atomic.Int32
		f.Before(func(w http.ResponseWriter, r *http.Request, do func()) bool {
			if r.Method != http.MethodPatch {
				return false
			}
			switch call := calls.Add(1); {
			case call == 1:
				do()
				if conn, _, err := http.NewResponseController(w).Hijack(); err == nil {
					conn.Close()
				}
			case call <= 1+c.refused:
				w.WriteHeader(c.code)
				_, _ = w.Write([]byte(`{"kind":"Status","reason":"Forbidden","message":"no"}`))
			default:
				return false
			}
			return true
		})
		err = n.TakeOver(t.Context(), o, 10*time.Minute)
		if !kubeapi.Refused(err) || strings.Contains(err.Error(), "is not known") != (c.refused == 99) {
			t.Errorf("%s: %v", name, err)
		}
		if o, err = n.Find(t.Context(), made.Name.String()); err != nil || o.Ends.Equal(ends) == (c.refused == 99) {
			t.Errorf("%s: it ends at %v, and ended at %v; %v", name, o.Ends, ends, err)
		}
	}
}
