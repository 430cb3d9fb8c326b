// Package loadtest is a fake inference server for tests of the measuring
// client: its tokens come by an exact clock, and it can go wrong in every way
// that real servers and the networks before them do. It counts what it sent,
// so that a test can hold the client's figures against the truth.
package loadtest

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"time"

	"sweep.dev/sweep/result"
)

// A Fault is a way in which an answer goes wrong.
type Fault int

// The faults. Those in mid-stream happen after Answer.After token chunks.
const (
	None              Fault = iota
	HangBeforeHeaders       // accepts the request and says nothing
	HangMidStream           // stops sending and keeps the connection
	ResetMidStream          // breaks the connection with a TCP reset
	DropMidStream           // closes the connection in the middle of the answer
	EndMidStream            // ends the answer properly, without finish_reason
	Trickle                 // sends a byte each Answer.ITL
	Garbage                 // sends an event that is not JSON
	LongLine                // sends a line of 10 MB
	ErrorObject             // sends an error object, then [DONE]
	ErrorEvent              // sends event: error with a comment, and ends
	NoDone                  // a good answer without [DONE]
	NoUsage                 // leaves out the usage that was asked for
	NoEnd                   // leaves out the usage that was asked for, and [DONE]
	NoFinish                // ends with [DONE], without finish_reason and usage
	NoTokens                // finishes without a token
	HTML                    // 200 with a page of a proxy
	Status                  // Answer.Code, with Answer.RetryAfter
	Redirect                // 307 to Answer.Location
	LingerAfterDone         // keeps the connection open after [DONE]
	NotHTTP                 // answers with something that is not HTTP
	Flood                   // ignores max_tokens, and sends tokens as fast as it can without end
)

// An Answer is how the engine answers one request.
type Answer struct {
	TTFT, ITL time.Duration // token i is sent at TTFT + i ITL after the request came
	Tokens    int           // 0 is the request's max_tokens
	PerChunk  int           // tokens a chunk; 0 is 1
	Reasoning int           // the first tokens that are reasoning
	LineEnd   string        // default LF
	Split     int           // flush after so many bytes; 0 is after each event
	Pause     time.Duration // between the parts that Split makes of a token's event
	Batch     int           // token chunks that leave in one write; 0 is 1
	Times     bool          // the text of a chunk is when it was made: T and 19 digits, since the engine's start
	Usage     int           // what usage claims beyond the truth
	FinishOwn bool          // finish_reason in a chunk of its own

	Fault      Fault
	After      int
	Code       int
	RetryAfter string // header of Status; "" is none
	Location   string
}

// A Request is one request as the engine saw it.
type Request struct {
	N      int // from 0, in the order of arrival
	ID     string
	Path   string
	Header http.Header
	At     time.Duration // since the engine's start
	Conn   string        // the client's address

	Body struct {
		Model         string `json:"model"`
		Prompt        string `json:"prompt"`
		Messages      []struct{ Role, Content string }
		MaxTokens     int  `json:"max_tokens"`
		Stream        bool `json:"stream"`
		StreamOptions struct {
			IncludeUsage    bool `json:"include_usage"`
			ContinuousUsage bool `json:"continuous_usage_stats"`
		} `json:"stream_options"`
	}
	Raw []byte
}

// Stats counts the engine's work so far.
type Stats struct {
	Requests, Peak, Conns int            // Peak: most requests at once
	Tokens                map[string]int // sent, by request id
}

// An Engine is a running server on loopback.
type Engine struct {
	URL string

	server *httptest.Server
	answer func(*Request) Answer
	start  time.Time
	closed chan struct{}

	mu       sync.Mutex
	requests []*Request
	stalls   []stall
	running  int
	stats    Stats
}

type stall struct{ from, to time.Duration }

// New starts an engine whose answers are chosen by answer; nil answers well and
// at once. Close must follow.
func New(answer func(*Request) Answer) *Engine {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(fmt.Sprintf("loadtest: %v", err)) // as httptest does
	}
	return NewOn(l, answer)
}

// NewOn is New on a listener of the caller's, which the engine closes. With a
// [Pipe] it has a place in a bubble of testing/synctest.
func NewOn(l net.Listener, answer func(*Request) Answer) *Engine {
	e := &Engine{answer: answer, start: time.Now(), closed: make(chan struct{})}
	if e.answer == nil {
		e.answer = func(*Request) Answer { return Answer{} }
	}
	e.stats.Tokens = map[string]int{}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/chat/completions", e.serve)
	mux.HandleFunc("POST /v1/completions", e.serve)
	mux.HandleFunc("GET /stats", func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(e.Stats())
	})
	e.server = &httptest.Server{Listener: l, Config: &http.Server{Handler: mux}}
	e.server.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		if s == http.StateNew {
			e.mu.Lock()
			defer e.mu.Unlock()
			e.stats.Conns++
		}
	}
	e.server.Start()
	e.URL = e.server.URL
	return e
}

// Close ends the engine and everything that hangs in it.
func (e *Engine) Close() {
	close(e.closed)
	e.server.CloseClientConnections()
	e.server.Close()
}

// Anchor returns the engine's start: a load that has it too counts on one clock with
// the engine.
func (e *Engine) Anchor() result.Anchor { return result.Anchor{Start: e.start} }

// Now returns the time since the engine's start.
func (e *Engine) Now() time.Duration { return time.Since(e.start) }

// Stall plans that nothing is sent between two moments: what was due then is
// sent at its end.
func (e *Engine) Stall(from, to time.Duration) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.stalls = append(e.stalls, stall{from, to})
}

// Requests returns what has come so far.
func (e *Engine) Requests() []*Request {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.requests)
}

// Stats returns a copy of the counts.
func (e *Engine) Stats() Stats {
	e.mu.Lock()
	defer e.mu.Unlock()
	s := e.stats
	s.Requests = len(e.requests)
	s.Tokens = make(map[string]int, len(e.stats.Tokens))
	maps.Copy(s.Tokens, e.stats.Tokens)
	return s
}

func (e *Engine) enter(r *http.Request) (*Request, error) {
	q := &Request{Path: r.URL.Path, Header: r.Header.Clone(), ID: r.Header.Get("X-Request-Id"), At: e.Now(), Conn: r.RemoteAddr}
	var err error
	if q.Raw, err = io.ReadAll(r.Body); err == nil {
		err = json.Unmarshal(q.Raw, &q.Body)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	q.N = len(e.requests)
	e.requests = append(e.requests, q)
	e.running++
	e.stats.Peak = max(e.stats.Peak, e.running)
	return q, err
}

func (e *Engine) leave(q *Request, tokens int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.running--
	e.stats.Tokens[q.ID] += tokens
}

func (e *Engine) serve(w http.ResponseWriter, r *http.Request) {
	q, err := e.enter(r)
	a := answer{Engine: e, q: q, w: w, r: r, begun: time.Now()}
	defer func() { e.leave(q, a.sent) }()
	if err != nil {
		http.Error(w, `{"error":{"message":"not JSON","code":400}}`, http.StatusBadRequest)
		return
	}
	a.Answer = e.answer(q)
	if a.Tokens == 0 {
		a.Tokens = max(1, q.Body.MaxTokens)
	}
	a.PerChunk, a.Batch = max(1, a.PerChunk), max(1, a.Batch)
	if a.LineEnd == "" {
		a.LineEnd = "\n"
	}
	if a.instead() {
		return
	}
	if q.Body.Stream {
		a.stream()
		return
	}
	a.wait(a.TTFT + time.Duration(a.Tokens-1)*a.ITL)
	a.sent = a.Tokens
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprintf(w, `{"id":"x","choices":[{"index":0,%s,"finish_reason":"length"}],"usage":%s}`,
		a.text("message", strings.Repeat("w ", a.Tokens)), a.usage())
}
