package manifests

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"sweep.dev/sweep/backends"
	"sweep.dev/sweep/backends/kubernetes/kubetest"
	"sweep.dev/sweep/backends/kubernetes/owner"
	"sweep.dev/sweep/backends/kubernetes/signs"
	"sweep.dev/sweep/internal/kubeapi"
	"sweep.dev/sweep/internal/manifest"
	"sweep.dev/sweep/internal/polltest"
	"sweep.dev/sweep/internal/slow"
	"sweep.dev/sweep/internal/syntax"
)

func TestMain(m *testing.M) {
	polltest.Parallel(16)
	goleak.VerifyTestMain(m, goleak.IgnoreTopFunction("internal/poll.runtime_pollWait"), goleak.IgnoreTopFunction("net/http.(*persistConn).writeLoop"))
}

const decode = `apiVersion: apps/v1
kind: Deployment
metadata: {name: decode}
spec: {replicas: 1, template: {spec: {}}}
---
apiVersion: v1
kind: Service
metadata: {name: decode}
spec: {}
`

// The paths of the objects.
const (
	deployment = "/apis/apps/v1/namespaces/ns/deployments/decode"
	service    = "/api/v1/namespaces/ns/services/decode"
)

// A notebook is a ledger that keeps its states.
type notebook []string

func (b *notebook) Record(_ context.Context, t backends.Transition) error {
	*b = append(*b, string(t.State))
	return nil
}

// setup returns a launcher of manifests in a cluster that has the kinds of the tests.
func setup(t *testing.T, text string) (*Launcher, *kubetest.Server) {
	t.Helper()
	var r syntax.Report
	set := manifest.Parse([]manifest.File{{Name: "stack.yaml", Text: []byte(text)}}, &r)
	if err := r.Err(); err != nil {
		t.Fatal(err)
	}
	f := kubetest.Start(t)
	kinds := func(all ...map[string]any) kubetest.Object {
		var list []any
		for _, k := range all {
			list = append(list, k)
		}
		return kubetest.Object{"resources": list}
	}
	f.Put("/apis/apps/v1", kinds(map[string]any{"name": "deployments", "kind": "Deployment", "namespaced": true}, map[string]any{"name": "deployments/status", "kind": "Deployment", "namespaced": true}))
	f.Put("/api/v1", kinds(map[string]any{"name": "services", "kind": "Service", "namespaced": true}, map[string]any{"name": "namespaces", "kind": "Namespace"}))
	f.Before(rehearse)
	api, err := kubeapi.Connect(kubeapi.Config{Kubeconfig: f.Kubeconfig})
	if err != nil {
		t.Fatal(err)
	}
	return &Launcher{In: owner.Namespace{API: api, Name: "ns"}, Set: set, Kind: "kubernetes", Lease: time.Minute}, f
}

// rehearse accepts every object that is only tried out.
func rehearse(w http.ResponseWriter, r *http.Request, _ func()) bool {
	if r.URL.Query().Get("dryRun") == "" {
		return false
	}
	w.WriteHeader(http.StatusCreated)
	_, _ = w.Write([]byte("{}"))
	return true
}

// An answerer answers a request in place of the server, or says false.
type answerer = func(w http.ResponseWriter, r *http.Request, do func()) bool

// ready lets the Deployment be ready whenever somebody looks at it; then the answerer
// comes.
func ready(f *kubetest.Server, then answerer) {
	f.Before(func(w http.ResponseWriter, r *http.Request, do func()) bool {
		if r.Method == http.MethodGet && r.URL.Path == deployment {
			f.Edit(deployment, func(o kubetest.Object) {
				o.Set(map[string]any{
					"observedGeneration": 0, "replicas": 3, "readyReplicas": 3, "updatedReplicas": 3,
					"conditions": []any{map[string]any{"type": "Available", "status": "True"}},
				}, "status")
			})
		}
		return then(w, r, do)
	})
}

func asked() backends.Spec {
	return backends.Spec{
		Owner: "me@here", RunID: "run1", Pod: "d1-l01", Engine: "vllm", Expires: time.Now().Add(time.Hour),
		Manifest: map[string]any{"Deployment/decode.spec.replicas": int64(3)},
	}
}

// made returns the paths of the objects that a launch may make.
func made(f *kubetest.Server) []string {
	return slices.DeleteFunc(f.Paths(), func(p string) bool { return !strings.Contains(p, "/namespaces/ns/") })
}

// A launch makes its objects with their owner and its labels, and its end takes them.
func TestLaunch(t *testing.T) {
	t.Parallel()
	l, f := setup(t, decode)
	ready(f, rehearse)
	var states notebook
	run, err := l.Launch(t.Context(), asked(), &states)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(states, notebook{"intent", "create_sent", "created"}) {
		t.Errorf("ledger %v", states)
	}
	job := "/apis/batch/v1/namespaces/ns/jobs/" + run.Ref.Name
	if got, want := made(f), []string{service, deployment, job}; !slices.Equal(got, want) {
		t.Errorf("made %v, want %v", got, want)
	}
	f.Edit(deployment, func(o kubetest.Object) {
		for _, at := range [][]string{{"metadata"}, {"spec", "template", "metadata"}} {
			if got := o.Text(append(at, "labels", owner.LabelLaunch)...); got != run.Ref.Name {
				t.Errorf("%v: label %q", at, got)
			}
			if got := o.Text(append(at, "labels", owner.LabelRun)...); got != "run1" {
				t.Errorf("%v: run %q", at, got)
			}
		}
		if spec, _ := o["spec"].(map[string]any); spec["replicas"] != float64(3) {
			t.Errorf("replicas %v", spec["replicas"])
		}
		meta, _ := o["metadata"].(map[string]any)
		if owners, _ := meta["ownerReferences"].([]any); len(owners) != 1 {
			t.Errorf("owners %v", owners)
		}
	})
	f.Edit(job, func(o kubetest.Object) {
		if got, want := o.Text("metadata", "annotations", "sweep.dev/objects"), "v1/services/decode apps/v1/deployments/decode"; got != want {
			t.Errorf("the owner notes %q, want %q", got, want)
		}
	})
	if err := errors.Join(run.Stop(t.Context()), run.Stop(t.Context())); err != nil {
		t.Error(err)
	}
	if left := made(f); len(left) > 0 {
		t.Errorf("left are %v", left)
	}
}

// What cannot be made is refused before anything is.
func TestLaunch_refused(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		more  string // further documents
		do    func(*kubetest.Server)
		is    error
		wants string
	}{
		"cluster":     {more: "---\n{apiVersion: v1, kind: Namespace, metadata: {name: x}}\n", is: backends.ErrSpec, wants: "stack.yaml:11: Namespace/x belongs to the whole cluster"},
		"no API":      {more: "---\n{apiVersion: x.y/v1, kind: Thing, metadata: {name: x}}\n", is: backends.ErrSpec, wants: "the cluster has no API x.y/v1"},
		"no kind":     {more: "---\n{apiVersion: apps/v1, kind: Deploymnt, metadata: {name: x}}\n", is: backends.ErrSpec, wants: "did you mean Deployment?"},
		"no right":    {do: func(f *kubetest.Server) { f.Deny("create deployments", "delete jobs") }, is: backends.ErrRefused, wants: "may not delete jobs.batch, create deployments.apps in namespace ns"},
		"foreign":     {do: func(f *kubetest.Server) { f.Put(service, kubetest.Object{"kind": "Service"}) }, is: backends.ErrSpec, wants: "Service/decode is in namespace ns already, and sweep did not make it"},
		"another run": {do: func(f *kubetest.Server) { f.Put(service, ofRun("other", false)) }, is: backends.ErrSpec, wants: "of the launch l1: another run uses it"},
		"strict": {do: func(f *kubetest.Server) {
			f.Before(func(w http.ResponseWriter, r *http.Request, do func()) bool {
				if r.URL.Query().Get("dryRun") != "" && strings.Contains(r.URL.Path, "services") {
					w.WriteHeader(http.StatusBadRequest)
					_, _ = w.Write([]byte(`{"kind":"Status","reason":"BadRequest","message":"strict decoding error: unknown field \"spec.portz\""}`))
					return true
				}
				return rehearse(w, r, do)
			})
		}, is: backends.ErrSpec, wants: `Service/decode is refused by the API server: strict decoding error: unknown field "spec.portz"`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l, f := setup(t, decode+c.more)
			if c.do != nil {
				c.do(f)
			}
			before := made(f)
			var states notebook
			_, err := l.Launch(t.Context(), asked(), &states)
			if !errors.Is(err, c.is) || !strings.Contains(err.Error(), c.wants) {
				t.Errorf("%v, want %q", err, c.wants)
			}
			if after := made(f); !slices.Equal(after, before) || len(states) > 0 {
				t.Errorf("made %v, ledger %v", after, states)
			}
		})
	}
}

// ofRun returns an object of a run.
func ofRun(run string, held bool) kubetest.Object {
	o := kubetest.Object{"kind": "Service"}
	o.Set(map[string]any{owner.LabelLaunch: "l1", owner.LabelRun: run}, "metadata", "labels")
	if held {
		o.Set([]any{"nvidia.com/finalizer"}, "metadata", "finalizers")
		o.Set(time.Now().UTC().Format(time.RFC3339), "metadata", "deletionTimestamp")
	}
	return o
}

// What an earlier launch of the run has left and is on its way out is waited for.
func TestLaunch_afterAnother(t *testing.T) {
	t.Parallel()
	l, f := setup(t, decode)
	ready(f, rehearse)
	f.Put(service, ofRun("run1", false))
	gone := time.AfterFunc(300*time.Millisecond, func() { f.Remove(service) })
	defer gone.Stop()
	run, err := l.Launch(t.Context(), asked(), &notebook{})
	if err != nil {
		t.Fatal(err)
	}
	if err := run.Stop(t.Context()); err != nil {
		t.Error(err)
	}
	f.Put(service, ofRun("run1", true))
	if !polltest.Longer(t.Context(), 3*time.Second, func(ctx context.Context) bool {
		_, err = l.Launch(ctx, asked(), &notebook{})
		return err != nil && strings.Contains(err.Error(), "held by the finalizer nvidia.com/finalizer")
	}) {
		t.Error(err)
	}
}

// An object that somebody makes at the last moment stays theirs, and what was made
// already goes.
func TestLaunch_race(t *testing.T) {
	t.Parallel()
	l, f := setup(t, decode)
	f.Before(func(w http.ResponseWriter, r *http.Request, do func()) bool {
		if r.Method == http.MethodPost && r.URL.Path == strings.TrimSuffix(deployment, "/decode") && r.URL.Query().Get("dryRun") == "" {
			f.Put(deployment, kubetest.Object{"kind": "Deployment", "of": "somebody"})
		}
		return rehearse(w, r, do)
	})
	var states notebook
	_, err := l.Launch(t.Context(), asked(), &states)
	if !errors.Is(err, backends.ErrSpec) || !strings.Contains(err.Error(), "Deployment/decode was made by somebody else in the meantime") {
		t.Error(err)
	}
	if left := made(f); !slices.Equal(left, []string{deployment}) {
		t.Errorf("left are %v", left)
	}
	if !slices.Equal(states, notebook{"intent", "create_sent", "created", "gone_verified"}) {
		t.Errorf("ledger %v", states)
	}
}

// A create whose answer is lost has made the object, or is made again.
func TestLaunch_lostAnswers(t *testing.T) {
	t.Parallel()
	l, f := setup(t, decode)
	lost := map[string]int{}
	ready(f, func(w http.ResponseWriter, r *http.Request, do func()) bool {
		if r.Method != http.MethodPost || r.URL.Query().Get("dryRun") != "" || strings.Contains(r.URL.Path, "/jobs") || !strings.Contains(r.URL.Path, "/namespaces/ns/") {
			return rehearse(w, r, do)
		}
		if lost[r.URL.Path]++; lost[r.URL.Path] > 1 {
			return false
		}
		if strings.HasSuffix(r.URL.Path, "/services") {
			do() // and the answer is lost
		}
		w.WriteHeader(http.StatusInternalServerError)
		return true
	})
	run, err := l.Launch(t.Context(), asked(), &notebook{})
	if err != nil {
		t.Fatal(err)
	}
	if len(made(f)) != 3 {
		t.Errorf("made %v", made(f))
	}
	if err := run.Stop(t.Context()); err != nil {
		t.Error(err)
	}
}

// A launch that is not ready in time says what is not, and leaves nothing.
func TestLaunch_late(t *testing.T) {
	t.Parallel()
	l, f := setup(t, decode)
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	var looks atomic.Int64
	f.Before(func(w http.ResponseWriter, r *http.Request, do func()) bool {
		if r.Method == http.MethodGet && r.URL.Path == deployment && len(made(f)) == 3 {
			if looks.Add(1) == 3 { // it was seen twice as it is
				cancel(errors.New("timeouts.launch"))
			}
		}
		return rehearse(w, r, do)
	})
	_, err := l.Launch(ctx, asked(), &notebook{})
	if err == nil || !strings.Contains(err.Error(), "timeouts.launch: not ready: Deployment/decode: its controller has not seen it yet") {
		t.Error(err)
	}
	if left := made(f); len(left) > 0 {
		t.Errorf("left are %v", left)
	}
}

// A quota that refuses an object of the manifests, or the Job that owns them, is waited for
// until the launch is over.
func TestLaunch_quota(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"jobs", "services"} {
		for _, room := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, room %v", kind, room), func(t *testing.T) {
				t.Parallel()
				l, f := setup(t, decode)
				ctx, cancel := context.WithCancelCause(t.Context())
				defer cancel(nil)
				var tries atomic.Int64
				ready(f, func(w http.ResponseWriter, r *http.Request, do func()) bool {
					if r.Method != http.MethodPost || !strings.HasSuffix(r.URL.Path, "/"+kind) || r.URL.Query().Get("dryRun") != "" {
						return rehearse(w, r, do)
					}
					if n := tries.Add(1); n > 2 || n == 2 && room {
						return false
					} else if n == 2 {
						cancel(errors.New("timeouts.launch"))
					}
					w.WriteHeader(http.StatusForbidden)
					_, _ = w.Write([]byte(`{"kind":"Status","reason":"Forbidden","code":403,"message":"x is forbidden: exceeded quota: q"}`))
					return true
				})
				run, err := l.Launch(ctx, asked(), &notebook{})
				failure, ok := errors.AsType[*backends.Failure](err)
				switch {
				case room && err == nil:
					err = run.Stop(t.Context())
				case !room && ok && failure.Class == signs.Quota && strings.Contains(failure.Hint, "timeouts.launch") && strings.Contains(err.Error(), "x is forbidden: exceeded quota: q: "):
					err = nil
				}
				if left := made(f); err != nil || len(left) > 0 {
					t.Errorf("%#v, %v, left are %v", failure, err, left)
				}
			})
		}
	}
}

// A container that ends again and again ends the launch with the last lines of its log.
func TestLaunch_broken(t *testing.T) {
	t.Parallel()
	l, f := setup(t, decode)
	f.Before(func(w http.ResponseWriter, r *http.Request, do func()) bool {
		launch, selected := strings.CutPrefix(r.URL.Query().Get("labelSelector"), owner.LabelLaunch+"=")
		switch {
		case strings.HasSuffix(r.URL.Path, "/pods/decode-0/log"):
			if r.URL.Query().Get("previous") != "true" || r.URL.Query().Get("container") != "vllm" {
				t.Errorf("asked for %s", r.URL)
			}
			_, _ = w.Write([]byte("loading\nCUDA error: out of memory\x1b[31m\n"))
			return true
		case selected && len(made(f)) > 0:
			if _, ok := backends.ParseName(launch); !ok {
				t.Errorf("pods of %q", launch)
			}
			_, _ = w.Write([]byte(`{"items":[{"metadata":{"name":"decode-0"},"status":{"phase":"Running","containerStatuses":[` +
				`{"name":"vllm","restartCount":3,"state":{"waiting":{"reason":"CrashLoopBackOff"}},"lastState":{"terminated":{"reason":"Error","exitCode":1}}}]}}]}`))
			return true
		}
		return rehearse(w, r, do)
	})
	var states notebook
	_, err := l.Launch(t.Context(), asked(), &states)
	failure, ok := errors.AsType[*backends.Failure](err)
	if !ok || failure.Class != "exit" {
		t.Fatalf("%T: %v", err, err)
	}
	for _, want := range []string{"container vllm of pod decode-0 was started 4 times", "exit code 1", "decode-0/vllm: loading\nCUDA error: out of memory"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("no %q in %v", want, err)
		}
	}
	if strings.Contains(err.Error(), "\x1b") {
		t.Errorf("it obeys a terminal: %q", err)
	}
	if left := made(f); len(left) > 0 || !slices.Contains(states, "gone_verified") {
		t.Errorf("left are %v, ledger %v", left, states)
	}
}

// What only events say ends a launch too, or is its class at the end. Who may not list
// events waits until then.
func TestLaunch_events(t *testing.T) {
	t.Parallel()
	const set = "apiVersion: apps/v1\nkind: StatefulSet\nmetadata: {name: decode}\nspec: {}\n"
	for name, c := range map[string]struct {
		pod, event  string
		denied      bool
		silent      bool // from the third look on, no object is seen any more
		class, want string
	}{
		"volume": {
			pod:   `{"metadata":{"name":"decode-0","uid":"u1"},"spec":{"nodeName":"gpu-1"},"status":{"phase":"Pending","containerStatuses":[{"name":"vllm","state":{"waiting":{"reason":"ContainerCreating"}}}]}}`,
			event: `{"type":"Warning","reason":"FailedMount","message":"MountVolume.SetUp failed for volume \"v\" : secret \"x\" not found"}`,
			class: "volume", want: `pod decode-0: FailedMount: MountVolume.SetUp failed for volume "v" : secret "x" not found`,
		},
		"quota": {
			event: `{"type":"Warning","reason":"FailedCreate","message":"create Pod decode-0 in StatefulSet decode failed error: pods \"decode-0\" is forbidden: exceeded quota: q"}`,
			class: "quota", want: "StatefulSet/decode: create Pod decode-0 in StatefulSet decode failed",
		},
		"quota, not seen at the end": {
			event:  `{"type":"Warning","reason":"FailedCreate","message":"pods \"decode-0\" is forbidden: exceeded quota: q"}`,
			silent: true, class: "quota", want: "StatefulSet/decode: pods",
		},
		"denied": {denied: true, want: "timeouts.launch: not ready: StatefulSet/decode"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l, f := setup(t, set)
			f.Put("/apis/apps/v1", kubetest.Object{"resources": []any{map[string]any{"name": "statefulsets", "kind": "StatefulSet", "namespaced": true}}})
			if c.denied {
				f.Deny("list events")
			}
			var looks atomic.Int32
			f.Before(func(w http.ResponseWriter, r *http.Request, do func()) bool {
				switch {
				case c.silent && r.Method == http.MethodGet && strings.HasSuffix(r.URL.Path, "/statefulsets/decode") && len(made(f)) > 1 && looks.Add(1) > 2:
					w.WriteHeader(http.StatusServiceUnavailable)
				case strings.HasPrefix(r.URL.Query().Get("labelSelector"), owner.LabelLaunch+"=") && len(made(f)) > 1:
					_, _ = w.Write([]byte(`{"items":[` + c.pod + `]}`))
				case strings.HasSuffix(r.URL.Path, "/events") && !c.denied:
					if uid := strings.TrimPrefix(r.URL.Query().Get("fieldSelector"), "involvedObject.uid="); c.pod == "" == (uid == "u1") || uid == "" {
						_, _ = w.Write([]byte(`{"items":[]}`))
						return true
					}
					_, _ = w.Write([]byte(`{"items":[` + c.event + `]}`))
				default:
					return rehearse(w, r, do)
				}
				return true
			})
			ctx, cancel := context.WithTimeoutCause(t.Context(), 7*time.Second, errors.New("timeouts.launch"))
			defer cancel()
			spec := asked()
			spec.Manifest = nil
			_, err := l.Launch(ctx, spec, &notebook{})
			failure, _ := errors.AsType[*backends.Failure](err)
			if err == nil || (failure == nil) != (c.class == "") || failure != nil && failure.Class != c.class || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%#v: %v", failure, err)
			}
			if left := made(f); len(left) > 0 {
				t.Errorf("left are %v", left)
			}
		})
	}
}

// A pod that is an object itself is judged as each pod is: its time goes on while the object
// is looked at.
func TestLaunch_barePod(t *testing.T) {
	t.Parallel()
	l, f := setup(t, "apiVersion: v1\nkind: Pod\nmetadata: {name: gateway}\nspec: {}\n")
	f.Put("/api/v1", kubetest.Object{"resources": []any{map[string]any{"name": "pods", "kind": "Pod", "namespaced": true}}})
	f.Before(func(w http.ResponseWriter, r *http.Request, do func()) bool {
		if r.Method == http.MethodGet && r.URL.Path == "/api/v1/namespaces/ns/pods/gateway" {
			f.Edit(r.URL.Path, func(o kubetest.Object) {
				o.Set([]any{map[string]any{"name": "envoy", "state": map[string]any{"waiting": map[string]any{"reason": "CreateContainerError", "message": "no"}}}}, "status", "containerStatuses")
			})
		}
		return rehearse(w, r, do)
	})
	ctx, cancel := context.WithTimeoutCause(t.Context(), 30*time.Second, errors.New("timeouts.launch"))
	defer cancel()
	spec := asked()
	spec.Manifest = nil
	_, err := l.Launch(ctx, spec, &notebook{})
	if f, _ := errors.AsType[*backends.Failure](err); f == nil || f.Class != "host" || !strings.Contains(err.Error(), "container envoy of pod gateway: CreateContainerError: no") || ctx.Err() != nil {
		t.Errorf("%#v: %v", f, err)
	}
}

// Pods that were refused, and then made, are refused for a new time when they are refused
// again.
func TestUnready_again(t *testing.T) {
	t.Parallel()
	l, f := setup(t, decode)
	r, err := l.Prepare(t.Context(), asked())
	if err != nil {
		t.Fatal(err)
	}
	r.objects = slices.DeleteFunc(r.objects, func(o *object) bool { return o.Kind != "Deployment" })
	f.Put(deployment, kubetest.Object{"metadata": map[string]any{"name": "decode"}, "spec": map[string]any{"replicas": 1.0}})
	f.Edit(deployment, func(o kubetest.Object) { r.objects[0].uid = o.Text("metadata", "uid") })
	refused := map[string]any{"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate", "message": `Internal error occurred: failed calling webhook "w": timed out`}
	by, told, begun := judges{}, &warnings{in: r.in, seen: map[string]warned{}}, time.Now()
	for _, c := range []struct {
		after      time.Duration
		conditions []any
		ends       bool
	}{
		{0, []any{refused}, false},
		{time.Second, []any{}, false},
		{time.Minute, []any{refused}, false},
		{99 * time.Second, []any{refused}, false},
		{100 * time.Second, []any{refused}, true},
	} {
		f.Edit(deployment, func(o kubetest.Object) { o.Set(c.conditions, "status", "conditions") })
		_, err := r.unready(t.Context(), by, told, begun.Add(c.after))
		if f, _ := errors.AsType[*backends.Failure](err); (f != nil) != c.ends || f != nil && f.Class != "admission" {
			t.Errorf("after %v: %v", c.after, err)
		}
	}
}

// A call for events that is not answered does not hold up the launch, and one that fails is
// not made again at once.
func TestWarnings_unanswered(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]func(w http.ResponseWriter, r *http.Request){
		"silent": func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
		"failed": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) },
	} {
		l, f := setup(t, decode)
		var asked atomic.Int32
		f.Before(func(w http.ResponseWriter, r *http.Request, _ func()) bool {
			asked.Add(1)
			answer(w, r)
			return true
		})
		known := signs.Troubles([]signs.Event{{Type: "Warning", Reason: "FailedMount"}})
		told := warnings{in: l.In, seen: map[string]warned{"u": {time.Now().Add(-eventsEvery), known}}}
		ctx, cancel := context.WithTimeout(t.Context(), 25*time.Second) // the client itself waits for 30
		for range 2 {
			if got := told.of(ctx, "u"); !slices.Equal(got, known) {
				t.Errorf("%s: %v, known are %v", name, got, known)
			}
		}
		if ctx.Err() != nil || asked.Load() != 1 {
			t.Errorf("%s: %v, asked %d times", name, ctx.Err(), asked.Load())
		}
		cancel()
	}
}

// A Deployment that gives up by its own deadline has the class of what its pods wait for.
func TestLaunch_progressDeadline(t *testing.T) {
	t.Parallel()
	l, f := setup(t, decode)
	f.Before(func(w http.ResponseWriter, r *http.Request, do func()) bool {
		switch {
		case strings.HasPrefix(r.URL.Query().Get("labelSelector"), owner.LabelLaunch+"=") && len(made(f)) > 2:
			_, _ = w.Write([]byte(`{"items":[{"metadata":{"name":"decode-0","uid":"u1"},"status":{"phase":"Pending","conditions":[` +
				`{"type":"PodScheduled","status":"False","reason":"Unschedulable","message":"0/1 nodes are available: 1 Insufficient nvidia.com/gpu."}]}}]}`))
			return true
		case r.Method == http.MethodGet && r.URL.Path == deployment && len(made(f)) > 2:
			f.Edit(deployment, func(o kubetest.Object) {
				o.Set([]any{map[string]any{"type": "Progressing", "status": "False", "reason": "ProgressDeadlineExceeded"}}, "status", "conditions")
			})
		}
		return rehearse(w, r, do)
	})
	_, err := l.Launch(t.Context(), asked(), &notebook{})
	failure, ok := errors.AsType[*backends.Failure](err)
	if !ok || failure.Class != "no_capacity" || !errors.Is(err, backends.ErrCapacity) || !strings.Contains(failure.Hint, "progressDeadlineSeconds") || !strings.Contains(err.Error(), "Deployment/decode: ProgressDeadlineExceeded") {
		t.Errorf("%#v: %v", failure, err)
	}
}

// A deployment that the cluster ends is done.
func TestRunning_lost(t *testing.T) {
	t.Parallel()
	l, f := setup(t, decode)
	l.Lease = 5 * time.Second
	ready(f, rehearse)
	run, err := l.Launch(t.Context(), asked(), &notebook{})
	if err != nil {
		t.Fatal(err)
	}
	f.Remove("/apis/batch/v1/namespaces/ns/jobs/" + run.Ref.Name)
	polltest.Until(t, "the launch is done", func() bool {
		select {
		case <-run.Done():
			return true
		default:
			return false
		}
	})
	if err := run.Err(); !errors.Is(err, owner.ErrLost) {
		t.Error(err)
	}
	if err := run.Stop(t.Context()); err != nil {
		t.Error(err)
	}
}

// A launch whose pod is on a lost node is done: the cluster deletes the pod, or takes its
// Ready away and nothing more.
func TestRunning_lostNode(t *testing.T) {
	t.Parallel()
	for name, conditions := range map[string]string{
		"deleted": `{"type":"DisruptionTarget","status":"True","reason":"DeletionByTaintManager","message":"Taint manager: deleting due to NoExecute taint"}`,
		"marked":  `{"type":"ContainersReady","status":"True"},{"type":"Ready","status":"False"}`,
	} {
		if name == "marked" && !slow.Tests { // it is half a minute until it counts as lost
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l, f := setup(t, decode)
			var lost atomic.Bool
			ready(f, func(w http.ResponseWriter, r *http.Request, do func()) bool {
				if !lost.Load() || !strings.HasPrefix(r.URL.Query().Get("labelSelector"), owner.LabelLaunch+"=") {
					return rehearse(w, r, do)
				}
				_, _ = w.Write([]byte(`{"items":[{"metadata":{"name":"done","uid":"u0"},"spec":{"nodeName":"gpu-2"},"status":{"phase":"Succeeded","conditions":[` + conditions + `]}},` +
					`{"metadata":{"name":"decode-0","uid":"u1"},"spec":{"nodeName":"gpu-1"},"status":{"phase":"Running","conditions":[` + conditions + `],` +
					`"containerStatuses":[{"name":"vllm","ready":true,"state":{"running":{}}}]}}]}`))
				return true
			})
			run, err := l.Launch(t.Context(), asked(), &notebook{})
			if err != nil {
				t.Fatal(err)
			}
			lost.Store(true)
			select {
			case <-run.Done():
			case <-time.After(3 * time.Minute):
				t.Fatal("the launch goes on")
			}
			if failed, ok := errors.AsType[*backends.Failure](run.Err()); !ok || failed.Class != "node" || failed.Hint == "" || !strings.Contains(run.Err().Error(), "pod decode-0: ") || !strings.Contains(run.Err().Error(), "its node is gpu-1") {
				t.Errorf("%T: %v", run.Err(), run.Err())
			}
			lost.Store(false)
			if err := run.Stop(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
}

// Whoever ends a launch later reads its objects from the owner, and names what is held.
func TestEnd(t *testing.T) {
	t.Parallel()
	l, f := setup(t, decode)
	ready(f, rehearse)
	run, err := l.Launch(t.Context(), asked(), &notebook{})
	if err != nil {
		t.Fatal(err)
	}
	defer run.quiet()
	f.Edit(deployment, func(o kubetest.Object) {
		o.Set([]any{"nvidia.com/finalizer"}, "metadata", "finalizers")
		o.Set(time.Now().UTC().Format(time.RFC3339), "metadata", "deletionTimestamp")
		o.Set([]any{}, "metadata", "ownerReferences") // so that the fake leaves it there
	})
	later := backends.Ref{Kind: "kubernetes", Name: run.Ref.Name} // as a list has it
	if !polltest.Longer(t.Context(), 3*time.Second, func(ctx context.Context) bool {
		err = End(ctx, l.In, later)
		return err != nil && strings.Contains(err.Error(), "deployments decode, held by the finalizer nvidia.com/finalizer")
	}) {
		t.Error(err)
	}
	f.Remove(deployment)
	if err := End(t.Context(), l.In, run.Ref); err != nil {
		t.Error(err)
	}
	if left := made(f); len(left) > 0 {
		t.Errorf("left are %v", left)
	}
}
