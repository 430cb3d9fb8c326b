package loadtest

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// An answer is one answer being given.
type answer struct {
	*Engine
	Answer
	q     *Request
	w     http.ResponseWriter
	r     *http.Request
	begun time.Time
	sent  int             // tokens
	held  strings.Builder // events of a batch that is not complete
}

// instead answers with the faults that have no stream, and reports whether it
// did.
func (a *answer) instead() bool {
	switch a.Fault {
	case HangBeforeHeaders:
		a.hang()
	case Status:
		a.w.Header().Set("Content-Type", "application/json")
		if a.RetryAfter != "" {
			a.w.Header().Set("Retry-After", a.RetryAfter)
		}
		a.w.WriteHeader(a.Code)
		fmt.Fprintf(a.w, `{"error":{"message":"status %d","type":"T","param":null,"code":%d}}`, a.Code, a.Code)
	case Redirect:
		http.Redirect(a.w, a.r, a.Location, http.StatusTemporaryRedirect)
	case HTML:
		a.w.Header().Set("Content-Type", "text/html")
		fmt.Fprint(a.w, "<html>\n<body>bad gateway</body></html>\n")
	case NotHTTP:
		if c := a.hijack(); c != nil {
			defer c.Close()
			fmt.Fprint(c, "SSH-2.0-OpenSSH_9.6\r\n")
		}
	default:
		return false
	}
	return true
}

// hang waits for the client to give up.
func (a *answer) hang() {
	select {
	case <-a.r.Context().Done():
	case <-a.closed:
	}
}

func (a *answer) hijack() net.Conn {
	c, _, err := http.NewResponseController(a.w).Hijack()
	if err != nil {
		return nil
	}
	return c
}

// wait sleeps until a moment after the request, or the end of a stall that it
// falls into.
func (a *answer) wait(d time.Duration) {
	at := a.begun.Add(d).Sub(a.start)
	a.mu.Lock()
	for _, s := range a.stalls {
		if at >= s.from && at < s.to {
			at = s.to
		}
	}
	a.mu.Unlock()
	left := at - a.Now()
	if left <= 0 {
		return
	}
	t := time.NewTimer(left)
	defer t.Stop()
	select {
	case <-t.C:
	case <-a.r.Context().Done():
	case <-a.closed:
	}
}

func (a *answer) stream() {
	a.w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
	a.w.WriteHeader(http.StatusOK)
	if a.Fault == Trickle {
		a.Split = 1
	}
	if a.Fault == NoTokens {
		a.Tokens = 0
	}
	a.wait(a.TTFT)
	if a.chat() {
		a.event(a.choice(`"delta":{"role":"assistant","content":""}`, false))
	}
	for i := 0; a.sent < a.Tokens; i++ {
		if i == a.After && a.midStream() {
			return
		}
		if i%a.Batch == 0 {
			a.wait(a.TTFT + time.Duration(a.sent)*a.ITL)
		}
		n := min(a.PerChunk, a.Tokens-a.sent)
		a.sent += n
		last := a.sent == a.Tokens && !a.FinishOwn
		text := strings.Repeat("w ", n)
		if a.Times {
			text = fmt.Sprintf("T%019d", a.Now())
		}
		if !a.token(a.choice(a.text("delta", text), last), (i+1)%a.Batch == 0 || a.sent == a.Tokens) {
			return
		}
	}
	if a.Fault == NoTokens || a.FinishOwn {
		a.event(a.choice(a.text("delta", ""), true))
	}
	if a.q.Body.StreamOptions.IncludeUsage && a.Fault != NoUsage && a.Fault != NoEnd {
		a.event(`{"id":"x","choices":[],"usage":` + a.usage() + `}`)
	}
	if a.Fault != NoDone && a.Fault != NoEnd {
		a.event("[DONE]")
	}
	if a.Fault == LingerAfterDone {
		a.hang()
	}
}

// midStream does what goes wrong in the middle, and reports whether that was
// the end.
func (a *answer) midStream() bool {
	switch a.Fault {
	case HangMidStream:
		a.hang()
	case ResetMidStream, DropMidStream:
		// A panic would end the answer too, but net/http flushes and closes
		// it the polite way.
		c := a.hijack()
		if c == nil {
			return true
		}
		if t, ok := c.(*net.TCPConn); ok && a.Fault == ResetMidStream {
			_ = t.SetLinger(0)
		}
		c.Close()
	case EndMidStream:
	case Flood:
		event := "data: " + a.choice(a.text("delta", "w"), false) + a.LineEnd + a.LineEnd
		many := strings.Repeat(event, 64)
		for a.r.Context().Err() == nil {
			if _, err := io.WriteString(a.w, many); err != nil {
				break
			}
		}
	case NoFinish:
		a.event("[DONE]")
	case Garbage:
		a.event(`{"choices":[{"index":0,"delta":{"content":"w`)
		a.hang()
	case LongLine:
		a.event(strings.Repeat("w", 10<<20))
		a.hang()
	case ErrorObject:
		a.event(`{"error":{"message":"engine died","type":"InternalServerError","param":null,"code":500}}`)
		a.event("[DONE]")
	case ErrorEvent:
		a.raw("event: error" + a.LineEnd + ": engine died" + a.LineEnd + a.LineEnd)
	default:
		return false
	}
	return true
}

func (a *answer) chat() bool { return strings.HasSuffix(a.q.Path, "/chat/completions") }

// text returns the part of a choice that holds s.
func (a *answer) text(key, s string) string {
	switch {
	case !a.chat():
		return `"text":` + strconv.Quote(s)
	case s == "":
		return `"` + key + `":{}`
	case a.sent <= a.Reasoning:
		return `"` + key + `":{"reasoning":` + strconv.Quote(s) + `}`
	}
	return `"` + key + `":{"content":` + strconv.Quote(s) + `}`
}

// choice returns one chunk.
func (a *answer) choice(text string, last bool) string {
	finish := "null"
	if last {
		finish = `"length"`
	}
	usage := ""
	if a.q.Body.StreamOptions.ContinuousUsage {
		usage = `,"usage":` + a.usage()
	}
	return `{"id":"x","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,` +
		text + `,"logprobs":null,"finish_reason":` + finish + `}]` + usage + `}`
}

func (a *answer) usage() string {
	n := a.sent + a.Usage
	return fmt.Sprintf(`{"prompt_tokens":7,"completion_tokens":%d,"total_tokens":%d,"prompt_tokens_details":{"cached_tokens":3}}`, n, n+7)
}

// token sends an event with a token, or holds it back for the next.
func (a *answer) token(data string, now bool) bool {
	a.held.WriteString("data: " + data + a.LineEnd + a.LineEnd)
	if !now {
		return true
	}
	s := a.held.String()
	a.held.Reset()
	if a.Pause == 0 || a.Split == 0 {
		return a.raw(s)
	}
	for len(s) > a.Split {
		if !a.raw(s[:a.Split]) {
			return false
		}
		s = s[a.Split:]
		time.Sleep(a.Pause)
	}
	return a.raw(s)
}

// event sends one event of data.
func (a *answer) event(data string) bool { return a.raw("data: " + data + a.LineEnd + a.LineEnd) }

// raw sends s, and reports whether somebody is still there.
func (a *answer) raw(s string) bool {
	step := len(s)
	if a.Split > 0 {
		step = a.Split
	}
	flush := http.NewResponseController(a.w)
	for len(s) > 0 {
		n := min(step, len(s))
		if _, err := a.w.Write([]byte(s[:n])); err != nil || flush.Flush() != nil {
			return false
		}
		s = s[n:]
		if a.Fault == Trickle {
			select {
			case <-time.After(a.ITL):
			case <-a.r.Context().Done():
				return false
			case <-a.closed:
				return false
			}
		}
	}
	return true
}
