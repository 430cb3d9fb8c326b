package kubelock

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"sweep.dev/sweep/internal/kubeapi"
	"sweep.dev/sweep/internal/polltest"
)

// A cluster has one Lease. It compares resourceVersions as a real one does.
type cluster struct {
	mu      sync.Mutex
	lease   map[string]any // nil: there is none
	version int
	down    bool // every answer is an error
	lost    int  // answers to writes that are not sent, after the write
}

func (c *cluster) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	fail := func(code int, reason string) {
		w.WriteHeader(code)
		fmt.Fprintf(w, `{"kind":"Status","reason":%q,"message":%q,"code":%d}`, reason, reason, code)
	}
	switch {
	case c.down:
		fail(http.StatusInternalServerError, "InternalError")
		return
	case c.lease == nil:
		fail(http.StatusNotFound, "NotFound")
		return
	case r.Method == http.MethodPut:
		var object map[string]any
		if err := json.NewDecoder(r.Body).Decode(&object); err != nil {
			fail(http.StatusBadRequest, "BadRequest")
			return
		}
		meta, _ := object["metadata"].(map[string]any)
		if meta["resourceVersion"] != strconv.Itoa(c.version) {
			fail(http.StatusConflict, "Conflict")
			return
		}
		c.set(object["spec"])
		if c.lost > 0 {
			c.lost--
			panic(http.ErrAbortHandler)
		}
	}
	_ = json.NewEncoder(w).Encode(c.lease)
}

// set writes the spec, as a user of the Lease does.
func (c *cluster) set(spec any) {
	c.version++
	c.lease = map[string]any{"metadata": map[string]any{"name": "gpus", "resourceVersion": strconv.Itoa(c.version)}, "spec": spec}
}

func (c *cluster) do(f func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f()
}

func (c *cluster) holder() (holder string) {
	c.do(func() { holder = lease(c.lease).holder() })
	return holder
}

func start(t *testing.T) (*cluster, func(holder string) *Lock) {
	t.Helper()
	c := &cluster{}
	c.set(map[string]any{})
	s := httptest.NewTLSServer(c)
	t.Cleanup(s.Close)
	file := filepath.Join(t.TempDir(), "config")
	text := fmt.Sprintf("apiVersion: v1\nkind: Config\nclusters: [{name: c, cluster: {server: %q, insecure-skip-tls-verify: true}}]\ncontexts: [{name: c, context: {cluster: c, user: \"\"}}]\ncurrent-context: c\n", s.URL)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	api, err := kubeapi.Connect(kubeapi.Config{Kubeconfig: file})
	if err != nil {
		t.Fatal(err)
	}
	return c, func(holder string) *Lock {
		return &Lock{API: api, Namespace: "ns", Name: "gpus", Holder: holder, Times: Times{
			Duration: time.Second, Renew: 20 * time.Millisecond, GiveUp: 500 * time.Millisecond, Poll: 5 * time.Millisecond,
		}}
	}
}

// patient makes a lock one that a machine which stands still for seconds does not lose.
func patient(l *Lock) *Lock {
	l.Times.Duration, l.Times.GiveUp = 4*time.Second, 3*time.Second
	return l
}

func take(t *testing.T, l *Lock) *HeldLock {
	t.Helper()
	h, err := l.Take(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// Of many that want the lock one has it at any time, and each gets it.
func TestTake_one(t *testing.T) {
	t.Parallel()
	_, lock := start(t)
	var inside, most int
	var mu sync.Mutex
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			h, err := patient(lock(strconv.Itoa(i))).Take(t.Context())
			if err != nil {
				t.Error(err)
				return
			}
			mu.Lock()
			inside++
			most = max(most, inside)
			mu.Unlock()
			polltest.Within(10*time.Millisecond, func() bool { return h.lost.Err() != nil })
			mu.Lock()
			inside--
			mu.Unlock()
			if err := h.Release(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if most != 1 {
		t.Errorf("%d had the lock at once", most)
	}
}

// The lock of a holder that is gone is taken over, and no sooner than it has expired.
func TestTake_over(t *testing.T) {
	t.Parallel()
	c, lock := start(t)
	// By its own clock the holder renewed it long ago, or will: neither counts.
	for _, at := range []string{"2001-01-01T00:00:00.000000Z", "2101-01-01T00:00:00.000000Z"} {
		c.do(func() {
			c.set(map[string]any{"holderIdentity": "gone", "leaseDurationSeconds": 1, "renewTime": at, "leaseTransitions": 3})
		})
		begin := time.Now()
		said := ""
		l := lock("next")
		l.Say = func(holder string) { said = holder }
		h := take(t, l)
		if waited := time.Since(begin); waited < time.Second {
			t.Errorf("taken over after %v", waited)
		}
		if said != "gone" {
			t.Errorf("it was said that %q has it", said)
		}
		c.do(func() {
			if spec := lease(c.lease).spec(); spec["leaseTransitions"] != 4.0 || spec["acquireTime"] == nil {
				t.Errorf("%v", spec)
			}
		})
		if err := h.Release(t.Context()); err != nil {
			t.Error(err)
		}
	}
}

// A holder that lives keeps its lock beyond its duration, also after it was interrupted.
func TestTake_kept(t *testing.T) {
	t.Parallel()
	c, lock := start(t)
	ctx, interrupt := context.WithCancelCause(t.Context())
	h, err := patient(lock("a")).Take(ctx)
	if err != nil {
		t.Fatal(err)
	}
	work, stop := h.Work(ctx)
	defer stop()
	interrupt(errors.New("SIGTERM"))
	<-work.Done()
	if !polltest.Longer(t.Context(), 6*time.Second, func(ctx context.Context) bool {
		_, err = lock("b").Take(ctx)
		return err == nil || strings.Contains(err.Error(), "a has it: enough")
	}) || err == nil {
		t.Errorf("%v", err)
	}
	if err := h.Release(t.Context()); err != nil || c.holder() != "" {
		t.Errorf("%v, held by %q", err, c.holder())
	}
}

// A lock that cannot be renewed ends the work before another one may take it over.
func TestTake_lost(t *testing.T) {
	t.Parallel()
	for name, disturb := range map[string]func(*cluster){
		"cut off":    func(c *cluster) { c.down = true },
		"deleted":    func(c *cluster) { c.lease = nil },
		"taken over": func(c *cluster) { c.set(map[string]any{"holderIdentity": "other", "leaseDurationSeconds": 1}) },
	} {
		c, lock := start(t)
		h := take(t, lock("a"))
		work, stop := h.Work(t.Context())
		c.do(func() { disturb(c) })
		<-work.Done()
		if err := context.Cause(work); !errors.Is(err, ErrLost) {
			t.Errorf("%s: %v", name, err)
		}
		stop()
		if err := h.Release(t.Context()); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if got := c.holder(); name == "taken over" && got != "other" {
			t.Errorf("%s: the other's lock was given away: %q", name, got)
		}
	}
}

// An answer that does not arrive is no loss, and neither is what others write beside it.
func TestTake_disturbed(t *testing.T) {
	t.Parallel()
	c, lock := start(t)
	h := take(t, patient(lock("a")))
	c.do(func() { c.lost = 1 })
	polltest.Until(t, "an answer was lost", func() (is bool) { c.do(func() { is = c.lost == 0 }); return is })
	before := 0
	c.do(func() { c.set(lease(c.lease).spec()); before = c.version })
	polltest.Until(t, "it is renewed", func() (is bool) { c.do(func() { is = c.version > before+1 }); return is })
	if h.lost.Err() != nil {
		t.Error(context.Cause(h.lost))
	}
	c.do(func() { c.set(lease(c.lease).spec()) })
	if err := h.Release(t.Context()); err != nil || c.holder() != "" {
		t.Errorf("%v, held by %q", err, c.holder())
	}
}

// One that waits goes on waiting while the cluster does not answer.
func TestTake_outage(t *testing.T) {
	t.Parallel()
	c, lock := start(t)
	first := take(t, patient(lock("a")))
	waits := make(chan struct{})
	l := lock("b")
	l.Say = func(string) { close(waits) }
	got := make(chan error)
	go func() {
		h, err := l.Take(t.Context())
		if err == nil {
			err = h.Release(t.Context())
		}
		got <- err
	}()
	<-waits
	c.do(func() { c.down = true })
	polltest.Within(50*time.Millisecond, func() bool { return false })
	c.do(func() { c.down = false })
	if err := errors.Join(first.Release(t.Context()), <-got); err != nil {
		t.Error(err)
	}
}

func TestTake_none(t *testing.T) {
	t.Parallel()
	c, lock := start(t)
	c.do(func() { c.lease = nil })
	if _, err := lock("a").Take(t.Context()); err == nil || !strings.Contains(err.Error(), "no Lease gpus in namespace ns") {
		t.Error(err)
	}
}
