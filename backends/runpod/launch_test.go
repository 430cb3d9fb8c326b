package runpod

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"sweep.dev/sweep/backends"
	"sweep.dev/sweep/backends/backendtest"
	"sweep.dev/sweep/backends/host"
	"sweep.dev/sweep/backends/runpodapi"
	"sweep.dev/sweep/internal/secret"
)

// A launch that is given up while the pod is provisioned gives the pod back and
// says why.
func TestLaunch_givenUp(t *testing.T) {
	t.Parallel()
	e := emulator(t, "slow-provision=60s")
	b := backend(t, e)
	enough := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	var l backendtest.Ledger
	l.Fail = func(a backends.Transition) error {
		if a.State == backends.Created {
			cancel(enough)
		}
		return nil
	}
	if _, err := b.Launch(ctx, spec(t), &l); !errors.Is(err, enough) {
		t.Errorf("got %v", err)
	}
	if states := l.States(); states[len(states)-1] != backends.Gone {
		t.Errorf("the ledger has %v", states)
	}
	clean(t, e, &l)
}

// A create whose answer never came is found by its name alone, also late.
func TestTerminate_byName(t *testing.T) {
	t.Parallel()
	e := emulator(t, "create-late=1s")
	b := backend(t, e)
	s := spec(t)
	name := backends.NewName(s.Owner, s.RunID, s.Expires).String()
	if _, err := b.client.Create(t.Context(), named(name), time.Minute); err == nil {
		t.Fatal("the create has an answer")
	}
	if err := b.Terminate(t.Context(), backends.Ref{Kind: Kind, Name: name}); err != nil {
		t.Error(err)
	}
	if a := e.Audit(); len(a.Pods) != 1 || len(a.Alive()) != 0 {
		t.Errorf("%d pods, alive %v", len(a.Pods), a.Alive())
	}
	began := time.Now()
	if err := b.Terminate(t.Context(), backends.Ref{Kind: Kind, Name: "sw-nothing"}); err != nil || time.Since(began) < b.Patience {
		t.Errorf("got %v after %v", err, time.Since(began))
	}
}

// Without the bootstrap the engine gets the bare command line, and the key all
// the same.
func TestLaunch_bare(t *testing.T) {
	t.Parallel()
	e := emulator(t)
	d := launch(t, backend(t, e, func(c *Config) { c.Bootstrap = false }), spec(t), &backendtest.Ledger{})
	reaches(t, d)
	h := d.Host("server", 0)
	client := http.Client{Transport: &http.Transport{DialContext: h.Dial, DisableKeepAlives: true}}
	resp, err := client.Get(h.URL() + "/?env=ENGINE_KEY")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	key, err := io.ReadAll(resp.Body)
	asked := http.Header{}
	d.Authorize(asked)
	if err != nil || len(key) < 20 || asked.Get("Authorization") != "Bearer "+string(key) {
		t.Errorf("the engine's key is %q and requests carry %q", key, asked.Get("Authorization"))
	}
	if _, err := h.Exec(t.Context(), "nvidia-smi"); !errors.Is(err, host.ErrNotSupported) {
		t.Errorf("got %v", err)
	}
	if err := d.Keep(t.Context(), time.Now().Add(time.Second)); !errors.Is(err, host.ErrNotSupported) {
		t.Errorf("got %v", err)
	}
}

// Nothing but the pod is dialled with its host.
func TestDial(t *testing.T) {
	t.Parallel()
	e := emulator(t)
	other := httptest.NewServer(http.NotFoundHandler())
	defer other.Close()
	d := launch(t, backend(t, e), spec(t), &backendtest.Ledger{})
	reaches(t, d)
	h := d.Host("server", 0)
	if c, err := h.Dial(t.Context(), "tcp", "127.0.0.1:8000"); err != nil {
		t.Errorf("as seen from the pod: %v", err)
	} else {
		c.Close()
	}
	for _, addr := range []string{other.Listener.Addr().String(), "169.254.169.254:80", "api.runpod.io:443"} {
		if c, err := h.Dial(t.Context(), "tcp", addr); err == nil {
			c.Close()
			t.Errorf("%s was dialled", addr)
		}
	}
}

// A tiny account whose hosts have no public TCP ports.
type portless struct {
	mu   sync.Mutex
	pods []runpodapi.Pod
}

func (p *portless) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var answer any
	switch {
	case r.URL.Path == "/v2/catalog/gpus":
		answer = map[string]any{"gpus": []any{map[string]any{
			"id": "NVIDIA RTX 2000 Ada Generation", "availability": "LOW", "price": map[string]any{"secure": 0.2},
		}}}
	case r.Method == http.MethodPost:
		var c runpodapi.CreateRequest
		if err := json.NewDecoder(r.Body).Decode(&c); err != nil {
			w.WriteHeader(http.StatusUnprocessableEntity)
			return
		}
		uptime := 1
		pod := runpodapi.Pod{
			ID: "pod" + strconv.Itoa(len(p.pods)), Name: c.Name, Status: runpodapi.StatusRunning, Env: c.Env, Ports: c.Ports,
			GPU: &c.GPU, Cost: 0.3, Runtime: &runpodapi.Runtime{Uptime: &uptime},
		}
		p.pods = append(p.pods, pod)
		w.WriteHeader(http.StatusCreated)
		answer = pod
	case r.Method == http.MethodDelete:
		id := strings.TrimPrefix(r.URL.Path, "/v2/pods/")
		for i := range p.pods {
			if p.pods[i].ID == id {
				p.pods[i].Status = "" // gone
			}
		}
		w.WriteHeader(http.StatusNoContent)
		return
	case r.URL.Path == "/v2/pods":
		list := []runpodapi.Pod{}
		for _, pod := range p.pods {
			if pod.Status != "" {
				list = append(list, pod)
			}
		}
		answer = map[string]any{"pods": list}
	default: // logs
		w.WriteHeader(http.StatusNotFound)
		return
	}
	_ = json.NewEncoder(w).Encode(answer)
}

// Where a host has no TCP ports the pod is given back and rented again behind
// the proxy, which the row tells; and so it does of a price above the quote.
func TestLaunch_fallback(t *testing.T) {
	t.Parallel()
	account := &portless{}
	server := httptest.NewServer(account)
	t.Cleanup(server.Close)
	c := DefaultConfig
	c.Key, c.BaseURL, c.ProxyURL = secret.New("${K}", "key"), server.URL, server.URL+"/{pod}-{port}"
	c.Poll, c.Patience, c.Rate = 20*time.Millisecond, 200*time.Millisecond, 60_000
	b, err := New(nil, c)
	if err != nil {
		t.Fatal(err)
	}
	var l backendtest.Ledger
	d := launch(t, b, spec(t), &l)
	if got := d.Host("server", 0); got.Path() != host.Proxy || got.URL() != server.URL+"/pod1-8000" {
		t.Errorf("%s by %s", got.URL(), got.Path())
	}
	var codes []string
	for _, f := range d.Terms().Findings {
		codes = append(codes, f.Code.String())
	}
	if slices.Sort(codes); !slices.Equal(codes, []string{"cost_above_quote", "network_proxy"}) {
		t.Errorf("findings %v", codes)
	}
	if got := d.Terms().USDPerHour; got != 0.3 {
		t.Errorf("$%.2f/h", got)
	}
	want := []backends.State{backends.Intended, backends.Sent, backends.Created, backends.Gone, backends.Intended, backends.Sent, backends.Created}
	if !slices.Equal(l.States(), want) {
		t.Errorf("the ledger has %v", l.States())
	}
}
