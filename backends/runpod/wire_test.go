package runpod

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"sweep.dev/sweep/backends/backendtest"
	"sweep.dev/sweep/backends/bootstrap/wiretest"
)

// TestWire captures all requests to a pod's agent: they hold no secret, and the
// agent refuses each that is sent again or changed.
func TestWire(t *testing.T) {
	e := emulator(t)
	b := backend(t, e)
	var w wiretest.Wire
	b.dial = w.Dial
	d := launch(t, b, spec(t), &backendtest.Ledger{})
	agent := agentAnswers(t, b, d)
	env := environ(t, b, d)
	if err := agent.Beat(t.Context()); err != nil {
		t.Error(err)
	}
	if err := agent.Keep(t.Context(), time.Now().Add(time.Minute)); err != nil {
		t.Error(err)
	}
	samples, err := agent.Samples(t.Context(), 0)
	if err == nil {
		err = samples.Close()
	}
	if err != nil {
		t.Logf("no samples: %v", err) // the request was sent all the same
	}

	captured, all := w.Requests()
	for name, secret := range map[string]string{
		"the agent's token": env["SWEEP_TOKEN"], "the account's key": e.Key(), "the engine's key": env["ENGINE_KEY"],
	} {
		if secret == "" || strings.Contains(all, secret) {
			t.Errorf("%s is in the traffic of the agent", name)
		}
	}
	kinds := map[string]bool{}
	for _, r := range captured {
		line, _, _ := strings.Cut(string(r.Data), " HTTP/")
		kind, _, _ := strings.Cut(line, "?")
		kinds[kind] = true
		if got := wiretest.Send(t, r.Addr, r.Data); got != http.StatusUnauthorized {
			t.Errorf("%s sent again: HTTP %d", line, got)
		}
		stolen := strings.Replace(string(r.Data), line, "POST /end", 1)
		if got := wiretest.Send(t, r.Addr, []byte(stolen)); got != http.StatusUnauthorized {
			t.Errorf("%s made an end: HTTP %d", line, got)
		}
	}
	for _, kind := range []string{"GET /status", "POST /beat", "POST /keep", "GET /smi"} {
		if !kinds[kind] {
			t.Errorf("no %s was captured", kind)
		}
	}
	if s, err := agent.Status(t.Context()); err != nil || s.Over != "" {
		t.Errorf("the pod is %+v, %v", s, err)
	}
	if n := len(e.Audit().Alive()); n != 1 {
		t.Errorf("%d pods live", n)
	}
	stop(t, d)
}
