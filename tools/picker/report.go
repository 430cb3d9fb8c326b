package main

import (
	"bytes"
	"encoding/json"
	"time"
)

// A report is what the picker saw of a response: sim/fleet's type of that name.
type report struct {
	ID        uint64          `json:"id"`
	Status    int             `json:"status"`
	Streaming bool            `json:"streaming"`
	Seconds   float64         `json:"seconds"`
	First     float64         `json:"first"`
	Gaps      []float64       `json:"gaps"`
	Bytes     int             `json:"bytes"`
	Usage     json.RawMessage `json:"usage,omitempty"`

	rest []byte  // of the last line, or of a body that is no stream
	last float64 // seconds until the last event
}

// see takes a piece of the response, which came so long after the request.
func (r *report) see(piece []byte, after time.Duration) {
	r.Bytes += len(piece)
	r.rest = append(r.rest, piece...)
	if !r.Streaming {
		if r.use(r.rest) {
			r.First = after.Seconds()
		}
		return
	}
	for {
		line, rest, whole := bytes.Cut(r.rest, []byte("\n"))
		if !whole {
			return
		}
		r.rest = rest
		data, event := bytes.CutPrefix(line, []byte("data: {"))
		if !event {
			continue
		}
		r.use(line[len("data: "):])
		// The picker counts events, not tokens.
		switch now := after.Seconds(); {
		case bytes.Contains(data, []byte(`"choices":[]`)):
		case r.First == 0:
			r.First, r.last = now, now
		default:
			r.Gaps = append(r.Gaps, now-r.last)
			r.last = now
		}
	}
}

// use takes the usage of an answer, and says whether it has one.
func (r *report) use(answer []byte) bool {
	var e struct{ Usage json.RawMessage }
	if json.Unmarshal(answer, &e) != nil || len(e.Usage) == 0 || string(e.Usage) == "null" {
		return false
	}
	r.Usage = e.Usage
	return true
}
