package server

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"sweep.dev/sweep/sim/core"
	"sweep.dev/sweep/sim/live"
)

// fingerprint is the system_fingerprint of every answer.
const fingerprint = "vllm-0.32.0-sim"

// A chunker writes the events of one stream in vLLM's shape, byte for byte but
// for the values. It builds them by hand: at 20,000 events a second, JSON by
// reflection is what would cost most.
type chunker struct {
	s    *Server
	j    *job
	head []byte // up to and with "choices":[
	sent int    // bytes of text
}

func newChunker(s *Server, j *job) *chunker {
	kind := "text_completion"
	if j.chat {
		kind = "chat.completion.chunk"
	}
	id, _ := json.Marshal(j.id) // a string always marshals
	model, _ := json.Marshal(j.model)
	head := fmt.Appendf(nil, `data: {"id":%s,"object":"%s","created":%d,"model":%s,"choices":[`, id, kind, j.created, model)
	return &chunker{s: s, j: j, head: head}
}

// role appends the chunk that a chat starts with; it comes in the same write
// as the first token.
func (c *chunker) role(b []byte, o core.Output) []byte {
	b = append(b, c.head...)
	b = append(b, `{"index":0,"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null}],"prompt_token_ids":null,"prompt_text":null`...)
	if c.j.continuous() {
		o.N = 0
		b = append(b, `,"usage":`...)
		b = c.s.usage(b, c.j, o)
	}
	return append(b, "}\n\n"...)
}

// token appends the chunk of one token.
func (c *chunker) token(b []byte, o core.Output) []byte {
	piece := c.j.answer.Piece(o.N-1, c.sent)
	c.sent += len(piece)
	b = append(b, c.head...)
	if c.j.chat {
		b = append(b, `{"index":0,"delta":{"content":"`...)
		b = append(b, piece...)
		b = append(b, `"},"logprobs":null,"finish_reason":`...)
		if o.Finish != core.Running {
			b = c.finish(b, o.Finish)
		} else {
			b = append(b, "null"...)
		}
		b = append(b, `,"token_ids":null}]`...)
	} else {
		b = append(b, `{"index":0,"text":"`...)
		b = append(b, piece...)
		b = append(b, `","logprobs":null,"finish_reason":`...)
		if o.Finish != core.Running {
			b = c.finish(b, o.Finish)
		} else {
			b = append(b, `null,"stop_reason":null`...)
		}
		b = append(b, "}]"...)
	}
	if c.j.continuous() {
		b = append(b, `,"usage":`...)
		b = c.s.usage(b, c.j, o)
	}
	return append(b, "}\n\n"...)
}

func (c *chunker) finish(b []byte, f core.Finish) []byte {
	b = append(b, '"')
	b = append(b, f...)
	b = append(b, `","stop_reason":`...)
	reason, _ := json.Marshal(c.j.stopReason(f)) // a string or nil
	return append(b, reason...)
}

// end appends what follows the last token.
func (c *chunker) end(b []byte, o core.Output) []byte {
	if c.j.usage() {
		b = append(b, c.head...)
		b = append(b, `],"usage":`...)
		b = c.s.usage(b, c.j, o)
		b = append(b, `,"system_fingerprint":"`+fingerprint+`"`...)
		b = append(b, "}\n\n"...)
	}
	if f := &c.s.cfg.Faults; !f.noDone || !f.hits(c.j.n) {
		b = append(b, "data: [DONE]\n\n"...)
	}
	return b
}

// usage appends the usage object after o.
func (s *Server) usage(b []byte, j *job, o core.Output) []byte {
	n := o.N
	if o.Finish != core.Running && s.cfg.Faults.hits(j.n) {
		n += s.cfg.Faults.wrongUsage
	}
	b = append(b, `{"prompt_tokens":`...)
	b = strconv.AppendInt(b, int64(j.prompt), 10)
	b = append(b, `,"total_tokens":`...)
	b = strconv.AppendInt(b, int64(j.prompt+n), 10)
	b = append(b, `,"completion_tokens":`...)
	b = strconv.AppendInt(b, int64(n), 10)
	if s.cfg.PromptDetails {
		b = append(b, `,"prompt_tokens_details":{"cached_tokens":`...)
		b = strconv.AppendInt(b, int64(o.Cached), 10)
		b = append(b, '}')
	}
	return append(b, '}')
}

// stream sends tokens as they come. Tokens that came while the last write was
// under way go out in one write, each as an event of its own. It returns the
// tokens sent and the reason of the end; "" where the client went away or a
// fault ended it.
func (s *Server) stream(w http.ResponseWriter, r *http.Request, j *job, c *live.Call) (tokens int, finish string) {
	h := w.Header()
	h.Set("Content-Type", "text/event-stream; charset=utf-8")
	h.Set("Cache-Control", "no-cache")
	w.WriteHeader(http.StatusOK)
	out := http.NewResponseController(w)
	if err := out.Flush(); err != nil {
		return 0, ""
	}
	chunks := newChunker(s, j)
	var outs []core.Output
	var buf []byte
	for {
		select {
		case <-c.Ready():
		case <-r.Context().Done():
			return tokens, ""
		}
		outs = c.Take(outs[:0])
		buf = buf[:0]
		var wrong fault
		for _, o := range outs {
			if o.N == 1 && j.chat {
				buf = chunks.role(buf, o)
			}
			if wrong = s.faultAt(j, o.N-1); wrong != nil {
				break
			}
			buf = chunks.token(buf, o)
			tokens = o.N
			if o.Finish != core.Running {
				finish = string(o.Finish)
				buf = chunks.end(buf, o)
			}
		}
		if err := s.write(r, w, out, j, buf); err != nil {
			return tokens, ""
		}
		if wrong != nil {
			wrong(w, r, out)
			return tokens, ""
		}
		if finish != "" {
			return tokens, finish
		}
	}
}

// write sends b at once, or in a trickle.
func (s *Server) write(r *http.Request, w io.Writer, out *http.ResponseController, j *job, b []byte) error {
	pause := s.cfg.Faults.trickle
	if pause == 0 || !s.cfg.Faults.hits(j.n) {
		if _, err := w.Write(b); err != nil {
			return err
		}
		return out.Flush()
	}
	tick := time.NewTicker(pause)
	defer tick.Stop()
	for i := range b {
		if _, err := w.Write(b[i : i+1]); err != nil {
			return err
		}
		if err := out.Flush(); err != nil {
			return err
		}
		select {
		case <-tick.C:
		case <-r.Context().Done():
			return r.Context().Err()
		}
	}
	return nil
}

// A fault ends one stream in its own way. What was sent before is flushed.
type fault func(w http.ResponseWriter, r *http.Request, out *http.ResponseController)

// faultAt is what goes wrong after so many chunks of this stream, or nil.
func (s *Server) faultAt(j *job, chunks int) fault {
	f := &s.cfg.Faults
	if !f.hits(j.n) {
		return nil
	}
	switch chunks + 1 {
	case f.hangAfter:
		return func(_ http.ResponseWriter, r *http.Request, _ *http.ResponseController) { <-r.Context().Done() }
	case f.resetAfter:
		return reset
	case f.cutAfter:
		return lastWords("")
	case f.errorAfter:
		return lastWords(`data: {"error":{"message":"EngineCore encountered an issue. See stack trace (above) for the root cause.","type":"InternalServerError","param":null,"code":500}}` + "\n\ndata: [DONE]\n\n")
	case f.badAfter:
		return lastWords(`data: {"id":"` + j.id + `","choices":[{"index":0,"delta":{"content":` + "\n\n")
	case f.longAfter:
		return lastWords("data: " + strings.Repeat("x", 2<<20) + "\n\n")
	}
	return nil
}

func lastWords(text string) fault {
	return func(w http.ResponseWriter, _ *http.Request, _ *http.ResponseController) {
		_, _ = io.WriteString(w, text)
	}
}

// reset ends the connection with RST instead of FIN.
func reset(_ http.ResponseWriter, _ *http.Request, out *http.ResponseController) {
	conn, _, err := out.Hijack()
	if err != nil {
		return
	}
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = conn.Close()
}
