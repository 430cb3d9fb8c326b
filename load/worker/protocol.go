package worker

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/gob"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"time"

	"sweep.dev/sweep/load"
	"sweep.dev/sweep/load/arrivals"
	"sweep.dev/sweep/load/source"
	"sweep.dev/sweep/load/trace"
	"sweep.dev/sweep/load/wire"
	"sweep.dev/sweep/result"
)

// protocol is the version that both sides must speak.
const protocol = 3

// The paths of a client's control port. All but the clock and dial are POST.
const (
	pathRegister = "/v1/register"
	pathClock    = "/v1/clock"
	pathRun      = "/v1/run"
	pathBegin    = "/v1/begin"
	pathStop     = "/v1/stop"
	pathDial     = "/v1/dial" // ?to=HOST:PORT, see [Dial]
)

// Bounds of what either side takes.
const (
	maxControl = 16 << 20 // bytes of a registration, with its headers and body fields
	maxOrder   = 1 << 30  // bytes of an order, with its prompts or its trace
	maxLine    = 1 << 20  // bytes of a frame's first line: an end has a histogram
	maxPayload = 1 << 30  // bytes of a batch of records
)

// A Target is the server that a load is sent to, and how.
type Target struct {
	Wire wire.Config // Headers, Dial and TLS are not taken over
	// Body are the further fields of requests, as JSON: numbers keep all their digits.
	Body map[string]json.RawMessage
	// Header is sent with each request, with the credentials.
	Header http.Header
	Client string // kind of driver
}

// NewTarget takes a target from what a driver here would be made of.
func NewTarget(c wire.Config, client string) (Target, error) {
	t := Target{Wire: c, Body: map[string]json.RawMessage{}, Header: http.Header{}, Client: client}
	for name, v := range c.Body {
		text, err := json.Marshal(v)
		if err != nil {
			return Target{}, fmt.Errorf("body field %q: %w", name, err)
		}
		t.Body[name] = text
	}
	if c.Headers != nil {
		c.Headers(t.Header)
	}
	t.Wire.Body, t.Wire.Headers, t.Wire.Dial, t.Wire.TLS = nil, nil, nil, nil
	return t, nil
}

// config returns what the driver is made of.
func (t *Target) config() wire.Config {
	c := t.Wire
	c.Body = make(map[string]any, len(t.Body))
	for name, text := range t.Body {
		c.Body[name] = text
	}
	header := t.Header
	c.Headers = func(h http.Header) { maps.Copy(h, header) }
	return c
}

// A registration makes its sender the coordinator of a client. That may register again,
// to ask the same server otherwise.
type registration struct {
	Protocol    int    `json:"protocol"`
	Coordinator string `json:"coordinator,omitempty"` // see [Address]
	Target      Target `json:"target"`
	Index       int    `json:"index"`
}

// registered is its answer.
type registered struct {
	PID  int    `json:"pid"`
	Host string `json:"host"` // equal for clients that share a machine
	// Lease is how long it lives without a word, also while it sends.
	Lease time.Duration `json:"lease_ns"`
}

// A reading is of a client's clocks.
type reading struct {
	Mono time.Duration `json:"mono_ns"` // since its anchor
	Wall int64         `json:"wall_ns"` // since 1970
}

// An order is a load to send. A source's pace is an interface, which JSON cannot make.
type order struct {
	Run       int             `json:"run"`
	Source    source.Config   `json:"source"` // with the client's shard
	Rates     *arrivals.Rates `json:"rates,omitempty"`
	Replay    *trace.Replay   `json:"replay,omitempty"`
	Most      int             `json:"most,omitempty"` // requests of this client at most; 0 is all, none is 0
	RequestID string          `json:"request_id,omitempty"`
	Drain     time.Duration   `json:"drain_ns,omitempty"`
}

// none is an order for no request at all.
const none = -1

// newOrder returns an order for a client's part of a load.
func newOrder(c source.Config) (order, error) {
	o := order{Source: c}
	switch p := c.Pace.(type) {
	case nil:
	case arrivals.Rates:
		o.Rates = &p
	case trace.Replay:
		o.Replay = &p
	default:
		return o, fmt.Errorf("a pace of type %T cannot be sent to another client", p)
	}
	o.Source.Pace = nil
	return o, nil
}

// load returns the client's part of the load.
func (o *order) load() source.Config {
	c := o.Source
	switch {
	case o.Rates != nil:
		c.Pace = *o.Rates
	case o.Replay != nil:
		c.Pace = *o.Replay
	}
	return c
}

// A beginning says when a run begins, by the client's clock.
type beginning struct {
	Run int           `json:"run"`
	At  time.Duration `json:"at_ns"`
}

// A stop ends a run: nothing more is sent, or with Now what is in flight is given up too.
type stop struct {
	Run int  `json:"run"`
	Now bool `json:"now"`
}

// A kind of frame.
type kind string

const (
	kindReady    kind = "ready"    // connections are open: the client waits for the beginning
	kindProgress kind = "progress" // several times a second, also if nothing has happened
	kindRecords  kind = "records"  // a batch, whose bytes follow the line
	kindEnd      kind = "end"      // the last one
)

// A frame is one line of JSON, which so many bytes follow.
type frame struct {
	Kind     kind           `json:"kind"`
	Bytes    int            `json:"bytes,omitempty"`
	SHA256   string         `json:"sha256,omitempty"` // of the bytes, in hex
	Progress *load.Progress `json:"progress,omitempty"`
	End      *ending        `json:"end,omitempty"`

	batch []result.Request
}

// An ending is what a client knows at the end of a run.
type ending struct {
	Health load.Health `json:"health"`
	Error  string      `json:"error,omitempty"` // of the driver
	// Ended says why the client ended in the middle of the run; "" if it did not.
	Ended     string        `json:"ended,omitempty"`
	Requests  int           `json:"requests"` // that it recorded
	SHA256    string        `json:"sha256"`   // of all batches one after the other, in hex
	Late      time.Duration `json:"late_ns"`
	Throttled *int          `json:"throttled_periods"`
}

// write writes a frame; payload is what follows its line.
func (f *frame) write(w io.Writer, payload []byte) error {
	line, err := json.Marshal(f)
	if err != nil {
		return err
	}
	if _, err = w.Write(append(line, '\n')); err == nil && len(payload) > 0 {
		_, err = w.Write(payload)
	}
	return err
}

// encode makes the bytes of a batch.
func encode(batch []result.Request) ([]byte, error) {
	var b bytes.Buffer
	err := gob.NewEncoder(&b).Encode(batch)
	return b.Bytes(), err
}

// readFrame reads the next frame, and writes the bytes that follow its line to sum. It
// refuses bytes that are not of the digest.
func readFrame(r *bufio.Reader, sum io.Writer) (*frame, error) {
	line, err := r.ReadSlice('\n')
	if err != nil {
		return nil, err
	}
	f := &frame{}
	if err := json.Unmarshal(line, f); err != nil {
		return nil, fmt.Errorf("frame %.40q: %w", line, err)
	}
	if f.Kind != kindRecords {
		return f, nil
	}
	if f.Bytes < 0 || f.Bytes > maxPayload {
		return nil, fmt.Errorf("a batch of %d bytes (bound %d)", f.Bytes, maxPayload)
	}
	var payload bytes.Buffer
	if _, err := io.CopyN(&payload, r, int64(f.Bytes)); err != nil {
		return nil, err
	}
	if got := sha256.Sum256(payload.Bytes()); hex.EncodeToString(got[:]) != f.SHA256 {
		return nil, fmt.Errorf("a batch of records has the digest %x and was sent with %s: it was changed on its way", got, f.SHA256)
	}
	_, _ = sum.Write(payload.Bytes()) // a digest takes everything
	if err := gob.NewDecoder(&payload).Decode(&f.batch); err != nil {
		return nil, fmt.Errorf("records: %w", err)
	}
	return f, nil
}

// sameHost reports whether all clients share a machine.
func sameHost(all []registered) bool {
	return !slices.ContainsFunc(all, func(r registered) bool { return r.Host != all[0].Host })
}
