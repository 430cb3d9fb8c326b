package dialect

import (
	"encoding/json"
	"io"
	"net/http"
	"strconv"
	"time"

	"sweep.dev/sweep/sim/core"
	"sweep.dev/sweep/sim/live"
	"sweep.dev/sweep/sim/metrics"
)

// An Action is what a route does that is not only an answer of its own.
type Action int

// The actions.
const (
	Say      Action = iota // answer with Route.Say
	Models                 // the list of models
	Chat                   // a chat completion
	Complete               // a completion
	Tokenize
	Flush      // empty the prefix cache
	Generate   // one token, to see whether it can
	Metrics    // the text of Prometheus
	Iterations // the statistics of single steps, which are gone once read
)

// A Route is one path of a server.
type Route struct {
	Pattern string // as [net/http.ServeMux] has it
	Do      Action
	// Say is what is answered; nil is nothing, with a status of 200.
	Say func(s *State) any
	// Open needs no key.
	Open bool
	// If says whether the route is there at all; nil is always.
	If func(s *Settings) bool
}

// State is a server as it is at this moment.
type State struct {
	Dialect  *Dialect
	Settings Settings
	Core     core.Config
	Model    string
	Served   []string
	Started  time.Time
	Stats    core.Stats
}

// API is how an engine answers.
type API struct {
	Routes []Route
	// Loading is the answer of every route while the model is loaded. If it is nil,
	// the port is closed until then.
	Loading *Error
	// NotFound is the body for paths that are not there.
	NotFound any

	// Card is an element of the list of models.
	Card func(s *State, name string) any
	// Count is the answer to a request for tokens.
	Count func(s *State, ids []uint32) any
	// Flushed is the text after the prefix cache was emptied, and Busy the error
	// while it is in use.
	Flushed string
	Busy    *Error
	// Generated is the text after a token was generated for a check.
	Generated string

	// ID makes a response's id of a request's; nil is vLLM's way.
	ID func(chat bool, request string) string
	// Head is what all chunks of a reply have in common; it becomes Reply.Head.
	Head func(r *Reply) string
	// First, Token and End append the chunks before the first token, of each
	// token, and after the last one. Each ends its frames itself.
	First, Token, End func(b []byte, r *Reply, t *Token) []byte
	// Whole is an answer that is not streamed.
	Whole func(r *Reply, t *Token, text string) any

	// Refuse words an error of a request: status and body.
	Refuse func(e *Error) (int, any)
	// Break words one after the stream has begun. nil drops the connection.
	Break func(e *Error) any
	// Dead is the text of an engine that died.
	Dead string

	// Ignores are fields of requests that have no effect. Fields, if there are
	// any, are all that are known; others are errors.
	Ignores []string
	Fields  []string
	// AnyModel answers to every model name.
	AnyModel bool
	// TooLong words a prompt that does not fit with the tokens asked for.
	TooLong func(prompt, tokens, limit int) *Error
	// Cuts says that an answer that does not fit is cut short, as long as the
	// prompt fits.
	Cuts bool
	// QueueFull and Overloaded are the refusals of a server at its limits.
	QueueFull, Overloaded *Error

	CachedTokens bool // usage has them, where it is not told
	Metrics      bool // exposed where it is not told
	Concurrent   int  // requests at once, where it is not told
	Ping         int  // seconds between comments, where it is not told

	// Bounds are those of its histograms, with a longest sequence.
	Bounds func(longest int) live.Bounds
	// Expose writes its metrics.
	Expose func(w io.Writer, s *metrics.Snapshot)
	Type   string // of the content of its metrics
}

// A Reply is an answer that is under way.
type Reply struct {
	ID, Model  string
	Created    int64
	Chat       bool
	Prompt     int // tokens
	Usage      bool
	Continuous bool
	Cached     bool   // say how many tokens were cached
	StopString string // that ends it
	Head       string
	Scale      float64 // simulated seconds per real second
	// Remote says that another server will take over from here.
	Remote bool
}

// A Token is one token of a reply.
type Token struct {
	core.Output
	Text  string // needs no escape in JSON
	Count int    // of tokens so far, as usage has it
}

// Object returns the type of a reply.
func (r *Reply) Object(chunk bool) string {
	switch {
	case !r.Chat:
		return "text_completion"
	case chunk:
		return "chat.completion.chunk"
	}
	return "chat.completion"
}

// stopReason is null, or the string that ended the reply.
func (r *Reply) stopReason(f core.Finish) any {
	if f == core.Stop && r.StopString != "" {
		return r.StopString
	}
	return nil
}

// An Error is a refusal, in vLLM's types.
type Error struct {
	Message string  `json:"message"`
	Type    string  `json:"type"`
	Param   *string `json:"param"`
	Code    int     `json:"code"`
	// Prompt does not fit into Limit tokens.
	Prompt, Limit int `json:"-"`
}

func (e *Error) Error() string { return e.Message }

// flat is the older form of an error's body.
type flat struct {
	Object string `json:"object"`
	*Error
}

// object is a JSON object whose order does not matter.
type object = map[string]any

// raw is JSON as it is.
func raw(b []byte) json.RawMessage { return b }

// quote makes a string of JSON.
func quote(s string) string {
	b, err := json.Marshal(s)
	if err != nil {
		return `""` // a string always marshals
	}
	return string(b)
}

// add appends texts.
func add(b []byte, texts ...string) []byte {
	for _, text := range texts {
		b = append(b, text...)
	}
	return b
}

func number(b []byte, key string, n int) []byte {
	b = append(b, key...)
	return strconv.AppendInt(b, int64(n), 10)
}

// usage returns the object that vLLM and those who follow it have, without its end.
func usage(b []byte, r *Reply, t *Token) []byte {
	b = number(b, `{"prompt_tokens":`, r.Prompt)
	b = number(b, `,"total_tokens":`, r.Prompt+t.Count)
	b = number(b, `,"completion_tokens":`, t.Count)
	return b
}

func finish(b []byte, f core.Finish) []byte {
	if f == core.Running {
		return append(b, "null"...)
	}
	b = append(b, '"')
	b = append(b, f...)
	return append(b, '"')
}

// WriteJSON answers with a status and a value.
func WriteJSON(w http.ResponseWriter, status int, v any) {
	b, err := json.Marshal(v)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(b)
}
