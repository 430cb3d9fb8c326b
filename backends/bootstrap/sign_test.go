package bootstrap

import (
	"encoding/base64"
	"encoding/hex"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"sweep.dev/sweep/backends/bootstrap/wiretest"
	"sweep.dev/sweep/internal/polltest"
	"sweep.dev/sweep/internal/procfs"
	"sweep.dev/sweep/internal/secret"
)

// Whoever reads the whole traffic has no secret, and can neither send a request
// again nor change one.
func TestAgent_wire(t *testing.T) {
	t.Parallel()
	box := toolbox(t, "setsid", "python3")
	writeTool(t, box, "nvidia-smi", "echo a GPU\n")
	p := rent(t, rental{path: box, Options: withAgent(t, Options{Argv: sh("exec sleep 1000"), Heartbeat: time.Hour})})
	p.up()
	addr := "127.0.0.1:" + strconv.Itoa(p.port)
	var w wiretest.Wire
	a := NewAgent(w.Dial, "http://"+addr, secret.New("${TOKEN}", testToken))
	ctx := t.Context()
	if err := a.Beat(ctx); err != nil {
		t.Fatal(err)
	}
	if err := a.Keep(ctx, time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	if out, err := a.Exec(ctx, "nvidia-smi", "-L"); err != nil || string(out) != "a GPU\n" {
		t.Fatalf("%q, %v", out, err)
	}
	log, err := a.Log(ctx, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := log.Close(); err != nil {
		t.Error(err)
	}
	before, err := a.Status(ctx)
	if err != nil {
		t.Fatal(err)
	}

	captured, all := w.Requests()
	if len(captured) != 6 { // the first was asked twice, to learn the session
		t.Errorf("%d requests", len(captured))
	}
	for name, secret := range map[string]string{
		"the token": testToken, "the provider's key": testKey,
		"the token in base64": base64.StdEncoding.EncodeToString([]byte(testToken))[:16],
		"the token in hex":    hex.EncodeToString([]byte(testToken)),
	} {
		if strings.Contains(all, secret) {
			t.Errorf("%s crosses the wire", name)
		}
	}
	for _, request := range captured {
		if got := wiretest.Send(t, addr, request.Data); got != http.StatusUnauthorized {
			t.Errorf("sent again: HTTP %d\n%s", got, request.Data)
		}
	}

	// A request that never arrived is as good as new, until it is changed.
	for name, change := range map[string]func(request string) string{
		"the method":     func(s string) string { return strings.Replace(s, "POST ", "GET ", 1) },
		"the path":       func(s string) string { return strings.Replace(s, "/keep", "/end", 1) },
		"a query":        func(s string) string { return strings.Replace(s, "/keep", "/keep?x=1", 1) },
		"the body":       func(s string) string { return strings.Replace(s, `"seconds":60`, `"seconds":90`, 1) },
		"the time":       func(s string) string { return changed(s, 2, func(at string) string { return at + "0" }) },
		"the nonce":      func(s string) string { return changed(s, 3, flip) },
		"the session":    func(s string) string { return changed(s, 1, flip) },
		"the signature":  func(s string) string { return changed(s, 4, flip) },
		"the old scheme": func(s string) string { return strings.Replace(s, scheme, "Bearer", 1) },
	} {
		body := `{"seconds":60}`
		authorization, _ := a.signer.sign("POST", "/keep", []byte(body))
		request := "POST /keep HTTP/1.1\r\nHost: x\r\nContent-Length: " + strconv.Itoa(len(body)) + "\r\nAuthorization: " + authorization + "\r\n\r\n" + body
		if change(request) == request {
			t.Fatalf("%s is not changed", name)
		}
		if got := wiretest.Send(t, addr, []byte(change(request))); got != http.StatusUnauthorized {
			t.Errorf("%s is changed: HTTP %d", name, got)
		}
		if got := wiretest.Send(t, addr, []byte(request)); got != http.StatusOK {
			t.Errorf("unchanged: HTTP %d", got)
		}
	}

	if after := p.up(); after.Beats != before.Beats || after.Over != "" {
		t.Errorf("status was %+v and is %+v", before, after)
	}
}

// changed changes a part of the Authorization of a request.
func changed(request string, part int, change func(string) string) string {
	_, value, _ := strings.Cut(request, "Authorization: ")
	value, _, _ = strings.Cut(value, "\r\n")
	parts := strings.Fields(value)
	parts[part] = change(parts[part])
	return strings.Replace(request, value, strings.Join(parts, " "), 1)
}

// flip changes a number in hex.
func flip(s string) string {
	if s[0] == '0' {
		return "1" + s[1:]
	}
	return "0" + s[1:]
}

// A request that was held back is too old, and one from the future too new.
func TestAgent_window(t *testing.T) {
	t.Parallel()
	p := rent(t, rental{
		Options: withAgent(t, Options{Argv: sh("exec sleep 1000"), Heartbeat: time.Hour}),
		source:  func(py string) string { return strings.Replace(py, "WINDOW = 30000", "WINDOW = 1000", 1) },
	})
	p.up()
	addr := "127.0.0.1:" + strconv.Itoa(p.port)
	end := func(ahead time.Duration) []byte {
		s := p.agent.signer
		off := &signer{key: s.key, began: s.began, session: s.session, ahead: s.ahead + ahead}
		authorization, _ := off.sign("POST", "/end", nil)
		return []byte("POST /end HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\nAuthorization: " + authorization + "\r\n\r\n")
	}
	polltest.Until(t, "the agent is older than its window", func() bool {
		s := p.agent.signer
		return s.ahead+time.Since(s.began) > 1500*time.Millisecond
	})
	if got := wiretest.Send(t, addr, end(-1500*time.Millisecond)); got != http.StatusUnauthorized {
		t.Errorf("held back: HTTP %d", got)
	}
	if got := wiretest.Send(t, addr, end(time.Hour)); got != http.StatusUnauthorized {
		t.Errorf("from the future: HTTP %d", got)
	}
	if s := p.up(); s.Over != "" {
		t.Errorf("status is %+v", s)
	}
}

// A clock that is off, on either side, and an agent that was started anew cost
// one more request; what was captured before is not taken by the new agent.
func TestAgent_otherClock(t *testing.T) {
	t.Parallel()
	p := rent(t, rental{Options: withAgent(t, Options{Argv: sh("exec sleep 1000"), Heartbeat: time.Hour})})
	p.up()
	addr := "127.0.0.1:" + strconv.Itoa(p.port)
	var w wiretest.Wire
	a := NewAgent(w.Dial, "http://"+addr, secret.New("${TOKEN}", testToken))
	for _, by := range []time.Duration{0, 3 * time.Hour, -3 * time.Hour} { // as after this machine's sleep
		a.signer.mu.Lock()
		a.signer.ahead += by
		a.signer.mu.Unlock()
		if err := a.Beat(t.Context()); err != nil {
			t.Errorf("with a clock that is off by %v: %v", by, err)
		}
	}
	captured, _ := w.Requests()

	agents := 0
	for _, process := range procfs.With(p.mark) {
		if process.Parent == p.cmd.Process.Pid && procfs.ReadEnviron(process.PID).Has(map[string]string{"SWEEP_DIR": filepath.Join(p.disk, ".sweep-"+p.name)}) {
			agents++
			if err := syscall.Kill(process.PID, syscall.SIGKILL); err != nil {
				t.Error(err)
			}
		}
	}
	if agents != 1 {
		t.Fatalf("%d agents were found", agents)
	}
	p.says("the agent ended with status 137: it is started again")
	eventually(t, "the new agent takes a beat", func() bool { return a.Beat(t.Context()) == nil })
	before := p.up()
	for _, request := range captured {
		if got := wiretest.Send(t, addr, request.Data); got != http.StatusUnauthorized {
			t.Errorf("sent to the next agent: HTTP %d", got)
		}
	}
	if after := p.up(); after.Beats != before.Beats {
		t.Errorf("%d beats, %d before", after.Beats, before.Beats)
	}
}
