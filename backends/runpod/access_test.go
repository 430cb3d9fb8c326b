package runpod

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"sweep.dev/sweep/backends"
	"sweep.dev/sweep/backends/backendtest"
	"sweep.dev/sweep/backends/host"
	"sweep.dev/sweep/backends/runpodapi"
	"sweep.dev/sweep/internal/polltest"
)

// access returns how a pod is reached as another process of the account has it, which
// has no plan.
func access(t *testing.T, b *Backend, ref backends.Ref) (backends.Access, error) {
	t.Helper()
	c := DefaultConfig
	c.Key, c.BaseURL, c.Rate = b.Key, b.BaseURL, b.Rate
	other, err := New(nil, c)
	if err != nil {
		t.Fatal(err)
	}
	all, err := other.Access(t.Context(), ref)
	if err != nil {
		return backends.Access{}, err
	}
	if len(all) != 1 {
		t.Fatalf("%d entries for one server", len(all))
	}
	return all[0], nil
}

// A pod tells any process of its account where it is and what its key is.
func TestAccess(t *testing.T) {
	for network, path := range map[string]host.Path{networkTCP: host.Direct, networkProxy: host.Proxy} {
		t.Run(network, func(t *testing.T) {
			b := backend(t, emulator(t), func(c *Config) { c.Network = network })
			d := launch(t, b, spec(t), &backendtest.Ledger{})
			a, err := access(t, b, d.Terms().Ref)
			if err != nil {
				t.Fatal(err)
			}
			if a.Path != path || a.URL != d.Host("server", 0).URL() || a.Tunnel != nil {
				t.Errorf("got %s, %s, want %s, %s", a.Path, a.URL, path, d.Host("server", 0).URL())
			}
			header := http.Header{}
			d.Authorize(header)
			if header.Get("Authorization") != "Bearer "+a.Key.Reveal() || a.KeyEnv != "ENGINE_KEY" || a.KeyAt == "" {
				t.Errorf("its key is not the one that it was started with: %+v", a)
			}
		})
	}
}

// Where something is not known, the reason is.
func TestAccess_unknown(t *testing.T) {
	e := emulator(t)
	b := backend(t, e)
	d := launch(t, b, spec(t), &backendtest.Ledger{})
	if _, err := access(t, b, backends.Ref{Kind: Kind, ID: "nosuch"}); !errors.Is(err, backends.ErrNotFound) {
		t.Errorf("no such pod: %v", err)
	}
	elsewhere := d.Terms().Ref
	elsewhere.Details = map[string]string{"base_url": "https://api.runpod.io/v2"}
	if _, err := access(t, b, elsewhere); err == nil || errors.Is(err, backends.ErrNotFound) {
		t.Errorf("a pod of another account's API: %v", err)
	}
	if err := b.Pause(t.Context(), d.Terms().Ref); err != nil {
		t.Fatal(err)
	}
	polltest.Until(t, "it is said of a pod that it is stopped", func() bool {
		a, err := access(t, b, d.Terms().Ref)
		return err == nil && a.URL == "" && strings.Contains(a.Why[backends.AccessURL], "stopped") && !a.Key.IsZero()
	})

	// Another version of sweep, and a person, may have made pods of such a name.
	s := spec(t)
	p, err := b.client.Create(t.Context(), runpodapi.CreateRequest{
		Name: backends.NewName(s.Owner, s.RunID, s.Expires).String(), Image: image, Disk: 20, Ports: []string{"8000/tcp"}, Cloud: "SECURE",
		Env: backends.Marks(s), GPU: runpodapi.PodGPU{ID: "NVIDIA RTX 2000 Ada Generation", Count: 1},
	}, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	if a, err := access(t, b, backends.Ref{Kind: Kind, ID: p.ID}); err == nil || !strings.Contains(err.Error(), "how to reach it is not recorded") {
		t.Errorf("a pod without the mark: %+v, %v", a, err)
	}
	// A pod that is no server of sweep's is not looked into.
	p, err = b.client.Create(t.Context(), runpodapi.CreateRequest{
		Name: "mine", Image: image, Disk: 20, Ports: []string{"8000/tcp"}, Cloud: "SECURE",
		Env: map[string]string{backends.MarkServer: "{}"}, GPU: runpodapi.PodGPU{ID: "NVIDIA RTX 2000 Ada Generation", Count: 1},
	}, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	if a, err := access(t, b, backends.Ref{Kind: Kind, ID: p.ID}); !errors.Is(err, backends.ErrNotFound) {
		t.Errorf("somebody else's pod: %+v, %v", a, err)
	}
}
