package ready

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"sweep.dev/sweep/backends/host"
	"sweep.dev/sweep/engine"
	"sweep.dev/sweep/executor/serving/ask"
)

// A proxy or a router refuses until its route exists: it is waited for.
func TestWait_othersThanTheEngine(t *testing.T) {
	t.Parallel()
	refusal := &ask.Status{Code: http.StatusNotFound}
	for name, c := range map[string]struct {
		profile *engine.Profile
		path    host.Path
		ends    bool
	}{
		"engine":   {&engine.Profile{Roles: []engine.Role{{Name: "server"}}}, host.Direct, true},
		"tunnel":   {&engine.Profile{Roles: []engine.Role{{Name: "server"}}}, host.Tunnel, false},
		"proxy":    {&engine.Profile{Roles: []engine.Role{{Name: "server"}}}, host.Proxy, false},
		"frontend": {&engine.Profile{Roles: []engine.Role{{Name: "server", Tier: engine.TierFrontend}}}, host.Direct, false},
		"roles":    {&engine.Profile{Entry: "decode", Roles: []engine.Role{{Name: "prefill"}, {Name: "decode"}}}, host.Direct, false},
	} {
		synctest.Test(t, func(t *testing.T) {
			d := waiting(Check{Patience: Patience{Again: time.Second}}, c.profile)
			w := d.waitFor(pathTo{c.path}, "ready")
			if err := w.judge(refusal); err != nil {
				t.Errorf("%s: the first refusal ended it: %v", name, err)
			}
			time.Sleep(2 * time.Second)
			if err := w.judge(refusal); (err != nil) != c.ends {
				t.Errorf("%s: the second refusal: %v", name, err)
			}
		})
	}
}

// A refusal that another answer follows is forgotten.
func TestWait_refusesAndGoesOn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := waiting(Check{Patience: Patience{Again: time.Second}}, &engine.Profile{})
		w := d.waitFor(pathTo{host.Direct}, "ready")
		for range 3 {
			for _, code := range []int{http.StatusNotFound, http.StatusServiceUnavailable} {
				time.Sleep(2 * time.Second)
				if err := w.judge(&ask.Status{Code: code}); err != nil {
					t.Errorf("%d: %v", code, err)
				}
			}
		}
	})
}

// A given server that does not answer is waited for, but not for long; one that
// answers "not yet" has timeouts.ready.
func TestWait_silence(t *testing.T) {
	t.Parallel()
	none := &ask.NoAnswer{Err: errors.New("connection refused")}
	given := waiting(Check{Given: true, Patience: Patience{Silent: time.Minute}}, &engine.Profile{})
	w := given.waitFor(pathTo{host.Direct}, "ready")
	if err := w.judge(none); err != nil {
		t.Errorf("at once: %v", err)
	}
	w.silent = w.silent.Add(-time.Minute)
	if err := w.judge(none); err == nil || !strings.Contains(err.Error(), "no answer for 1m0s: connection refused") {
		t.Errorf("after its time: %v", err)
	}
	w.silent = w.silent.Add(-time.Minute)
	if err := w.judge(&ask.Status{Code: http.StatusServiceUnavailable}); err != nil {
		t.Errorf("it answers: %v", err)
	}
	if err := w.judge(none); err != nil {
		t.Errorf("it answered a moment ago: %v", err)
	}
	started := waiting(Check{}, &engine.Profile{})
	w = started.waitFor(pathTo{host.Direct}, "ready")
	w.silent = w.silent.Add(-time.Hour)
	if err := w.judge(none); err != nil {
		t.Errorf("a server that is starting: %v", err)
	}
}

func waiting(c Check, p *engine.Profile) *Check {
	c.Profile, c.Show = p, func(string, string) {}
	return &c
}

// pathTo is a deployment that is reached so.
type pathTo struct{ path host.Path }

func (p pathTo) Host(string, int) host.Host { return pathHost{path: p.path} }
func (pathTo) Done() <-chan struct{}        { return nil }
func (pathTo) Err() error                   { return nil }
func (pathTo) Stop(context.Context) error   { return nil }

type pathHost struct {
	host.Host
	path host.Path
}

func (h pathHost) Path() host.Path { return h.path }
