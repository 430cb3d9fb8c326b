package server

import (
	"encoding/json"
	"os"
	"sync"
	"time"
)

// A RequestLog is the server's own account of what it was asked, to be held
// against what a client says it sent. Each line is one write with O_APPEND, so
// that a kill leaves whole lines, and several servers may share a file.
type RequestLog struct {
	mu sync.Mutex
	f  *os.File
}

// A Record is one line. Event is arrived, then ended; or refused alone.
type Record struct {
	Event  string    `json:"event"`
	N      int       `json:"n"`  // from 1, in the order of arrival at this process
	ID     string    `json:"id"` // the request's X-Request-Id
	PID    int       `json:"pid"`
	Time   time.Time `json:"time"`
	Path   string    `json:"path,omitempty"`
	Status int       `json:"status,omitempty"` // of a refusal
	// PromptTokens and MaxTokens stand at the arrival, the rest at the end.
	PromptTokens int    `json:"prompt_tokens,omitempty"`
	MaxTokens    int    `json:"max_tokens,omitempty"`
	OutputTokens int    `json:"output_tokens,omitempty"`
	FinishReason string `json:"finish_reason,omitempty"` // stop, length, abort
}

// OpenRequestLog opens path for appending; nil for "".
func OpenRequestLog(path string) (*RequestLog, error) {
	if path == "" {
		return nil, nil
	}
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	return &RequestLog{f: f}, nil
}

func (l *RequestLog) write(r Record) {
	if l == nil {
		return
	}
	r.PID, r.Time = os.Getpid(), time.Now()
	b, err := json.Marshal(r)
	if err != nil {
		return // a record always marshals
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	_, _ = l.f.Write(append(b, '\n'))
}

// Close closes the file.
func (l *RequestLog) Close() {
	if l != nil {
		_ = l.f.Close()
	}
}
