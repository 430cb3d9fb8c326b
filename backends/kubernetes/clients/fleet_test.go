package clients

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"sweep.dev/sweep/backends"
	"sweep.dev/sweep/backends/kubernetes/kubetest"
	"sweep.dev/sweep/internal/kubeapi"
	"sweep.dev/sweep/internal/polltest"
)

const overQuota = `"x" is forbidden: exceeded quota: q, requested: count/x=1, used: count/x=2, limited: count/x=2`

// onCluster returns a fleet of two pods on a cluster that makes none.
func onCluster(t *testing.T) (*Fleet, *kubetest.Server) {
	t.Helper()
	f := kubetest.Start(t)
	api, err := kubeapi.Connect(kubeapi.Config{Kubeconfig: f.Kubeconfig})
	if err != nil {
		t.Fatal(err)
	}
	fleet := New(Config{API: api, Name: backends.NewName("user@host", "run1", time.Now().Add(time.Hour)), Want: backends.ClientsWant{N: 2, Namespace: "ns"}})
	t.Cleanup(func() {
		if err := fleet.Close(context.Background()); err != nil || len(f.Pods()) != 0 {
			t.Errorf("close: %v", err)
		}
	})
	return fleet, f
}

// start makes the owner, the Secret, the Job and its pods.
func start(ctx context.Context, f *Fleet) error {
	if err := f.Own(ctx); err != nil {
		return err
	}
	_, err := f.Clients(ctx, 2)
	return err
}

var errLate = errors.New("timeouts.launch")

// A quota that refuses an object of the load pods is waited for until the launch is over. The
// error then has its class, and the API server's sentence.
func TestQuota(t *testing.T) {
	t.Parallel()
	for name, refused := range map[string]func(path string) bool{
		"owner":  func(path string) bool { return strings.HasSuffix(path, "/jobs") },
		"secret": func(path string) bool { return strings.HasSuffix(path, "/secrets") },
	} {
		for _, room := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, room later %v", name, room), func(t *testing.T) {
				t.Parallel()
				fleet, f := onCluster(t)
				var tries atomic.Int64
				f.Before(func(w http.ResponseWriter, r *http.Request, _ func()) bool {
					if r.Method != http.MethodPost || !refused(r.URL.Path) || tries.Add(1) > 2 && room {
						return false
					}
					w.WriteHeader(http.StatusForbidden)
					_ = json.NewEncoder(w).Encode(map[string]any{"kind": "Status", "reason": "Forbidden", "code": 403, "message": overQuota})
					return true
				})
				ctx, cancel := context.WithCancelCause(t.Context())
				defer cancel(nil)
				made := make(chan error, 1)
				go func() { made <- fleet.Own(ctx) }()
				polltest.Until(t, "it is tried again", func() bool { return tries.Load() >= 2 })
				if !room {
					cancel(errLate)
				}
				err := <-made
				if room {
					if err != nil {
						t.Error(err)
					}
					return
				}
				isQuota(t, err)
			})
		}
	}
}

func isQuota(t *testing.T, err error) {
	t.Helper()
	f, ok := errors.AsType[*backends.Failure](err)
	if !ok || f.Class != "quota" || !strings.Contains(f.Hint, "timeouts.launch") || !errors.Is(err, errLate) || !strings.Contains(err.Error(), overQuota) {
		t.Errorf("%#v: %v", f, err)
	}
}

// So is the Job of the pods, and a quota that lets the Job make none.
func TestQuota_pods(t *testing.T) {
	t.Parallel()
	fleet, f := onCluster(t)
	var jobs, looks atomic.Int64
	f.Before(func(w http.ResponseWriter, r *http.Request, _ func()) bool {
		switch {
		case r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/jobs") && jobs.Add(1) == 2: // after the owner
			w.WriteHeader(http.StatusForbidden)
			_ = json.NewEncoder(w).Encode(map[string]any{"kind": "Status", "reason": "Forbidden", "code": 403, "message": overQuota})
			return true
		case strings.HasSuffix(r.URL.Path, "/events"):
			looks.Add(1)
		}
		return false
	})
	f.Put("/api/v1/namespaces/ns/events/e", kubetest.Object{"metadata": map[string]any{"name": "e"}, "reason": "FailedCreate", "message": "Error creating: pods " + overQuota})
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	made := make(chan error, 1)
	go func() { made <- start(ctx, fleet) }()
	polltest.Until(t, "the cluster is asked again why it makes no pods", func() bool { return looks.Load() >= 2 })
	cancel(errLate)
	isQuota(t, <-made)
	if jobs.Load() != 3 {
		t.Errorf("%d Jobs were asked for", jobs.Load())
	}
	// However long that lasts, it is not final. Another refusal is.
	if _, final, err := fleet.look(t.Context(), 2, time.Hour); final || err == nil {
		t.Errorf("final %v, %v", final, err)
	}
	f.Edit("/api/v1/namespaces/ns/events/e", func(o kubetest.Object) {
		o.Set(`pods "x" is forbidden: violates PodSecurity "restricted"`, "message")
	})
	_, final, err := fleet.look(t.Context(), 2, time.Hour)
	if failed, ok := errors.AsType[*backends.Failure](err); !final || !ok || failed.Class != "admission" || failed.Hint != "" {
		t.Errorf("final %v, %#v", final, failed)
	}
}

// runs lets the pods of a fleet's first Job run.
func runs(f *kubetest.Server, fleet *Fleet) {
	for i := range 2 {
		name := fmt.Sprintf("c-%d", i)
		o := kubetest.Object{"kind": "Pod"}
		o.Set(name, "metadata", "name")
		o.Set(map[string]any{jobLabel: fleet.secretName() + "-1", indexLabel: fmt.Sprint(i)}, "metadata", "labels")
		o.Set(map[string]any{"phase": "Running", "containerStatuses": []any{map[string]any{"state": map[string]any{"running": map[string]any{}}}}}, "status")
		f.Put("/api/v1/namespaces/ns/pods/"+name, o)
	}
}

// A copy into a pod that fails has a class: of the image if a command of it fails, of the node
// otherwise, and of the pod's end if that is why.
func TestCopy_class(t *testing.T) {
	t.Parallel()
	program := plain(t)
	failed := func(said string) func(*websocket.Conn) {
		return func(ws *websocket.Conn) {
			_ = ws.WriteMessage(websocket.BinaryMessage, []byte("\x02"+said))
			_ = ws.WriteMessage(websocket.BinaryMessage, []byte("\x03"+`{"status":"Failure","message":"command terminated with exit code 1","details":{"causes":[{"reason":"ExitCode","message":"1"}]}}`))
		}
	}
	for name, c := range map[string]struct {
		answer  func(*websocket.Conn) // to the command in the pod
		program string
		status  map[string]any // of the pods afterwards
		class   string
		is      error
	}{
		"no gzip":      {answer: failed("sh: gzip: not found"), class: "image"},
		"a full disk":  {answer: failed("gzip: write: No space left on device"), class: "disk"},
		"disconnected": {answer: func(*websocket.Conn) {}, class: "host"},
		"another file": {answer: func(ws *websocket.Conn) {
			_ = ws.WriteMessage(websocket.BinaryMessage, []byte("\x01abc  part"))
			_ = ws.WriteMessage(websocket.BinaryMessage, []byte("\x03"+`{"status":"Success"}`))
		}, class: "host"},
		"no memory": {answer: failed("killed"), class: "oom.host", status: map[string]any{
			"phase": "Failed", "containerStatuses": []any{map[string]any{"state": map[string]any{"terminated": map[string]any{"reason": "OOMKilled", "exitCode": 137}}}},
		}},
		"no program": {program: filepath.Join(t.TempDir(), "none"), class: "", is: backends.ErrSpec},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			fleet, f := onCluster(t)
			fleet.Program = cmp.Or(c.program, program)
			f.Before(func(w http.ResponseWriter, r *http.Request, _ func()) bool {
				if !strings.HasSuffix(r.URL.Path, "/exec") {
					return false
				}
				up := websocket.Upgrader{Subprotocols: []string{"v5.channel.k8s.io"}}
				ws, err := up.Upgrade(w, r, nil)
				if err != nil {
					t.Error(err)
					return true
				}
				defer ws.Close()
				if c.status != nil {
					f.Edit(strings.TrimSuffix(r.URL.Path, "/exec"), func(o kubetest.Object) { o.Set(c.status, "status") })
				}
				c.answer(ws)
				return true
			})
			runs(f, fleet)
			err := start(t.Context(), fleet)
			failure, ok := errors.AsType[*backends.Failure](err)
			if err == nil || ok != (c.class != "") || ok && failure.Class != c.class || c.is != nil && !errors.Is(err, c.is) {
				t.Errorf("%#v: %v", failure, err)
			}
			for i := range 2 {
				f.Remove(fmt.Sprintf("/api/v1/namespaces/ns/pods/c-%d", i))
			}
		})
	}
}
