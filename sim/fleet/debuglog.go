package fleet

import (
	"encoding/json"
	"io"
	"sync"
	"time"
)

// A debugLog has the lines that llm-d's endpoint picker and sidecar print of each request
// at level 4, in their words (engine/loglines/testdata/pd).
type debugLog struct {
	mu  sync.Mutex
	to  io.Writer
	off bool
}

// levelDebug is from which verbosity on they are printed.
const levelDebug = 4

func newDebugLog(to io.Writer, verbose int) *debugLog {
	return &debugLog{to: to, off: verbose < levelDebug}
}

// A debugLine is one line; the order of its fields is that of the real one.
type debugLine struct {
	Level  string `json:"level"`
	Time   string `json:"ts"`
	Logger string `json:"logger,omitempty"`
	Text   string `json:"msg"`
	ID     string `json:"x-request-id,omitempty"`
	Model  string `json:"incomingModelName,omitempty"`
	Plugin string `json:"plugin,omitempty"`
	To     string `json:"to,omitempty"`
	Result any    `json:"result,omitempty"`
}

func (d *debugLog) print(l debugLine) {
	if d.off {
		return
	}
	l.Level, l.Time = "debug", time.Now().UTC().Format(time.RFC3339)
	text, err := json.Marshal(l)
	if err != nil {
		return // a line always marshals
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	_, _ = d.to.Write(append(text, '\n'))
}

// assembled logs a request that the picker was asked about.
func (d *debugLog) assembled(r *picked) {
	d.print(debugLine{Text: "LLM request assembled", ID: r.id, Model: r.model})
}

// picked logs a choice of the picker.
func (d *debugLog) picked(r *picked, e *endpoint, phase string, score float64) {
	if d.off {
		return
	}
	type name struct{ Namespace, Name string }
	type server struct {
		NamespacedName name
		PodName        string
		Address, Port  string
		Labels         map[string]string
	}
	type scored struct {
		Endpoint server
		Score    float64
	}
	host := e.host[:len(e.host)-len(e.port)-1]
	d.print(debugLine{
		Text: "Completed running picker plugin successfully", ID: r.id, Model: r.model, Plugin: "max-score-picker/max-score-picker",
		Result: map[string][]scored{"TargetEndpoints": {{server{name{"sim", e.pod + "-rank-0"}, e.pod, host, e.port, map[string]string{"llm-d.ai/role": phase}}, score}}},
	})
}

// prefill logs a request that the sidecar sends to a prefill server.
func (d *debugLog) prefill(to string) {
	d.print(debugLine{Logger: "proxy server", Text: "sending prefill request", To: to})
}

// decode logs one that it sends to its own server.
func (d *debugLog) decode(to string) {
	d.print(debugLine{Logger: "proxy server", Text: "sending request to decoder", To: to})
}
