//go:build e2e || bench

package e2e

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"sweep.dev/sweep/internal/polltest"
)

// A browser is Chromium, driven over a pipe by the DevTools protocol.
type browser struct {
	t          *testing.T
	w          io.Writer
	r          *bufio.Reader
	id         int
	session    string
	loaded     bool
	complaints []string // requests that would leave, and what the console says
}

// A message is one of the DevTools protocol, of either direction.
type message struct {
	ID      int             `json:"id,omitempty"`
	Session string          `json:"sessionId,omitempty"`
	Method  string          `json:"method,omitempty"`
	Params  json.RawMessage `json:"params,omitempty"`
	Result  json.RawMessage `json:"result,omitempty"`
	Error   json.RawMessage `json:"error,omitempty"`
}

func browse(t *testing.T) *browser {
	t.Helper()
	in, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	r, out, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("chromium", "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars",
		"--remote-debugging-pipe", "--user-data-dir="+t.TempDir(), "--proxy-server=127.0.0.1:9", "about:blank")
	cmd.ExtraFiles = []*os.File{in, out}
	var log bytes.Buffer
	cmd.Stderr = &log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	in.Close()
	out.Close()
	b := &browser{t: t, w: w, r: bufio.NewReaderSize(r, 1<<20)}
	t.Cleanup(func() {
		w.Close() // the end of the pipe is the end of the browser
		r.Close()
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("chromium: %s", log.String())
		}
	})
	var target struct{ TargetID string }
	b.call("Target.createTarget", map[string]any{"url": "about:blank"}, &target)
	var attached struct{ SessionID string }
	b.call("Target.attachToTarget", map[string]any{"targetId": target.TargetID, "flatten": true}, &attached)
	b.session = attached.SessionID
	for _, domain := range []string{"Page", "Runtime", "Network", "Log"} {
		b.call(domain+".enable", nil, nil)
	}
	return b
}

// call sends a command and waits for its result.
func (b *browser) call(method string, params, result any) {
	b.t.Helper()
	b.id++
	raw, err := json.Marshal(params)
	if err != nil {
		b.t.Fatal(err)
	}
	if params == nil {
		raw = nil
	}
	text, err := json.Marshal(message{ID: b.id, Session: b.session, Method: method, Params: raw})
	if err != nil {
		b.t.Fatal(err)
	}
	if _, err := b.w.Write(append(text, 0)); err != nil {
		b.t.Fatal(err)
	}
	for {
		m := b.next()
		if m.ID != b.id {
			continue
		}
		if m.Error != nil {
			b.t.Fatalf("%s: %s", method, m.Error)
		}
		if result != nil {
			if err := json.Unmarshal(m.Result, result); err != nil {
				b.t.Fatal(err)
			}
		}
		return
	}
}

// next reads a message and notes what must not be.
func (b *browser) next() message {
	b.t.Helper()
	text, err := b.r.ReadBytes(0)
	if err != nil {
		b.t.Fatalf("the browser is gone: %v", err)
	}
	var m message
	if err := json.Unmarshal(text[:len(text)-1], &m); err != nil {
		b.t.Fatal(err)
	}
	switch m.Method {
	case "Page.loadEventFired":
		b.loaded = true
	case "Network.requestWillBeSent":
		var p struct{ Request struct{ URL string } }
		if err := json.Unmarshal(m.Params, &p); err != nil {
			b.t.Fatal(err)
		}
		if !strings.HasPrefix(p.Request.URL, "file:///") || !strings.HasSuffix(p.Request.URL, ".html") {
			b.complaints = append(b.complaints, "a request: "+p.Request.URL)
		}
	case "Log.entryAdded", "Runtime.exceptionThrown", "Runtime.consoleAPICalled":
		b.complaints = append(b.complaints, m.Method+": "+string(m.Params))
	}
	return m
}

// show opens a file at a width, in light or dark, with JavaScript or without.
func (b *browser) show(file string, width int, scheme string, scripts bool) {
	b.t.Helper()
	b.call("Emulation.setDeviceMetricsOverride", map[string]any{"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": false}, nil)
	b.call("Emulation.setEmulatedMedia", map[string]any{"features": []map[string]string{{"name": "prefers-color-scheme", "value": scheme}}}, nil)
	b.call("Emulation.setScriptExecutionDisabled", map[string]any{"value": !scripts}, nil)
	b.loaded = false
	b.call("Page.navigate", map[string]any{"url": "file://" + file}, nil)
	for !b.loaded {
		b.next()
	}
}

// evaluated returns the value of an expression in the page.
func (b *browser) evaluated(expression string) any {
	b.t.Helper()
	var out struct {
		Result           struct{ Value any }
		ExceptionDetails json.RawMessage
	}
	b.call("Runtime.evaluate", map[string]any{"expression": expression, "awaitPromise": true, "returnByValue": true}, &out)
	if out.ExceptionDetails != nil {
		b.t.Fatalf("%.200s: %s", expression, out.ExceptionDetails)
	}
	return out.Result.Value
}

func (b *browser) eval(expression string) { b.t.Helper(); b.evaluated(expression) }

func (b *browser) number(expression string) float64 {
	b.t.Helper()
	v, _ := b.evaluated(expression).(float64)
	return v
}

func (b *browser) text(expression string) string {
	b.t.Helper()
	v, _ := b.evaluated(expression).(string)
	return v
}

// wait waits until an expression is true.
func (b *browser) wait(expression string) {
	b.t.Helper()
	polltest.Until(b.t, expression, func() bool { return b.evaluated(expression) == true })
}

// shot writes what the page looks like into SHOTS.
func (b *browser) shot(name string) {
	b.t.Helper()
	dir := os.Getenv("SHOTS")
	if dir == "" {
		return
	}
	var out struct{ Data string }
	b.call("Page.captureScreenshot", map[string]any{"captureBeyondViewport": !strings.HasSuffix(name, "-cell")}, &out)
	png, err := base64.StdEncoding.DecodeString(out.Data)
	if err != nil {
		b.t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, name+".png"), png, 0o600); err != nil {
		b.t.Fatal(err)
	}
}
