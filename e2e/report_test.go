//go:build e2e

package e2e

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"sweep.dev/sweep/internal/polltest"
)

// TestReport opens a report in a real browser that has no network: nothing is asked for,
// nothing is complained of, and axe finds no fault, in light and dark, at three widths.
// SHOTS names a folder for what it looks like.
func TestReport(t *testing.T) {
	need(t, "engines:report", ".engines/report/axe.min.js")
	axe, err := os.ReadFile(".engines/report/axe.min.js")
	if err != nil {
		t.Fatal(err)
	}
	dir := os.Getenv("RUN") // of a run that is there already
	if dir == "" {
		dir = filepath.Join(t.TempDir(), "run")
		if out, err := exec.Command(program, "run", "-o", dir, "e2e/testdata/report.yaml").CombinedOutput(); err != nil && !strings.Contains(err.Error(), "exit status 99") && !strings.Contains(err.Error(), "exit status 3") {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	file := filepath.Join(t.TempDir(), "report.html")
	if out, err := exec.Command(program, "report", "-o", file, dir).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	b := browse(t)
	for _, scheme := range []string{"light", "dark"} {
		for _, width := range []int{360, 1024, 1600} {
			name := fmt.Sprintf("%s-%d", scheme, width)
			b.show(file, width, scheme, true)
			b.wait(`document.documentElement.classList.contains("js")`)
			b.shot(name)
			if wide := b.number(`document.documentElement.scrollWidth`); wide > float64(width) {
				t.Errorf("%s: the page is %v pixels wide, of %d", name, wide, width)
			}
			b.eval(string(axe) + ";0")
			if found := b.text(`axe.run(document, {resultTypes: ["violations"]}).then(r => r.violations.map(v => v.id + ": " + v.nodes.slice(0, 3).map(n => n.html.slice(0, 200) + " " + n.failureSummary).join(" | ")).join("\n"))`); found != "" {
				t.Errorf("%s: axe: %s", name, found)
			}
			b.eval(`document.querySelector("g[data-cell]").dispatchEvent(new MouseEvent("click", {bubbles: true}));0`)
			if n := b.number(`document.querySelectorAll("dialog[open] .uplot canvas").length`); n < 3 {
				t.Errorf("%s: an opened cell has %v timelines, want at least 3", name, n)
			}
			b.shot(name + "-cell")
		}
	}
	b.eval(`document.querySelector("dialog").close();const i=document.querySelector("input[type=search]");i.value="concurrency=1";i.dispatchEvent(new Event("input"));0`)
	if n := b.number(`[...document.querySelectorAll("[id$=rows] tbody tr")].filter(r => !r.textContent.includes("concurrency=1")).length`); n > 0 {
		t.Errorf("%v rows do not fit the filter", n)
	}
	b.show(file, 1024, "light", false)
	if n := b.number(`document.querySelectorAll("svg.chart").length`); n < 5 {
		t.Errorf("without JavaScript there are %v charts, want at least 5", n)
	}
	b.shot("no-js")
	for _, s := range b.complaints {
		t.Error(s)
	}
}

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

// evaluated is the value of an expression in the page.
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
