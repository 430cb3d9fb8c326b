package server

import (
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"sweep.dev/sweep/sim/core"
	"sweep.dev/sweep/sim/dialect"
	"sweep.dev/sweep/sim/live"
)

// stream sends tokens as they come. Tokens that came while the last write was
// under way go out in one write, each as an event of its own. It returns the
// tokens sent and the reason of the end; "" if the client went away or a
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
	j.reply.Head = s.api.Head(&j.reply)
	f := s.faultsOf(j)
	if f.roleFirst {
		if err := s.write(r, w, out, j, s.api.First(nil, &j.reply, &dialect.Token{})); err != nil {
			return 0, ""
		}
	}
	var silent <-chan time.Time
	if n := s.cfg.Settings.Ping; n > 0 {
		tick := time.NewTicker(time.Duration(n) * time.Second)
		defer tick.Stop()
		silent = tick.C
	}
	var outs []core.Output
	var buf []byte
	var text string // of the tokens whose chunk is not complete
	sent := 0       // bytes of text
	held := 0       // chunks in buf
	late := false   // the stream stood still, and what it missed goes into the same write
	for {
		select {
		case <-c.Ready():
		case <-silent:
			if err := s.write(r, w, out, j, []byte(":\n\n")); err != nil {
				return tokens, ""
			}
			continue
		case <-r.Context().Done():
			return tokens, ""
		}
		outs = c.Take(outs[:0])
		var wrong fault
		for _, o := range outs {
			t := s.token(j, o, j.answer.Piece(o.N-1, sent))
			if o.N == 1 && !f.roleFirst {
				buf = s.api.First(buf, &j.reply, t)
			}
			if wrong = s.faultAt(j, o.N-1); wrong != nil {
				break
			}
			if o.N == f.stallAfter {
				if err := s.write(r, w, out, j, buf); err != nil || !sleep(r.Context(), f.stall) {
					return tokens, ""
				}
				buf, held, late = buf[:0], 0, true
			}
			sent += len(t.Text)
			tokens = o.N
			text += t.Text
			if o.Finish == core.Running && f.merge > 0 && o.N%f.merge != 0 {
				continue
			}
			t.Text, text = text, ""
			from := len(buf)
			buf = s.api.Token(buf, &j.reply, t)
			if o.N <= f.reasoning && j.reply.Chat {
				buf = append(buf[:from], reasoned.Replace(string(buf[from:]))...)
			}
			held++
			if o.Finish != core.Running {
				finish = string(o.Finish)
				buf = s.api.End(buf, &j.reply, t)
				if !f.noDone {
					buf = append(buf, done...)
				}
			}
		}
		if wrong == nil && finish == "" && (late || held < max(1, f.coalesce)) {
			late = false
			continue
		}
		if err := s.write(r, w, out, j, buf); err != nil {
			return tokens, ""
		}
		buf, held = buf[:0], 0
		if wrong != nil {
			wrong(w, r, out)
			return tokens, ""
		}
		if finish != "" {
			return tokens, finish
		}
	}
}

// faultsOf returns those of one request.
func (s *Server) faultsOf(j *job) *Faults {
	if !s.cfg.Faults.hits(j.n) {
		return &Faults{}
	}
	return &s.cfg.Faults
}

// reasoned makes reasoning of a chunk's text, and the other way round: what a
// chunk has of the one it has not of the other.
var reasoned = strings.NewReplacer(`"content":`, `"reasoning_content":`, `"reasoning_content":`, `"content":`)

func sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}

// done is the end of every stream.
const done = "data: [DONE]\n\n"

// broken returns the end of a stream that fails in the middle.
func (s *Server) broken(e *dialect.Error) []byte {
	b, err := json.Marshal(s.api.Break(e))
	if err != nil {
		return nil // an error always marshals
	}
	return append(append([]byte("data: "), b...), "\n\n"+done...)
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

// faultAt returns what goes wrong after so many chunks of this stream, or nil.
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
		if s.api.Break == nil { // the connection is dropped
			return func(http.ResponseWriter, *http.Request, *http.ResponseController) { panic(http.ErrAbortHandler) }
		}
		return lastWords(string(s.broken(&dialect.Error{Message: s.api.Dead, Type: "InternalServerError", Code: 500})))
	case f.badAfter:
		return lastWords(`data: {"id":"` + j.reply.ID + `","choices":[{"index":0,"delta":{"content":` + "\n\n")
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
