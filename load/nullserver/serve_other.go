//go:build !linux

package nullserver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"sync"
	"time"
)

// Clock returns what the clock of the stamps shows at t. Two processes of this
// system have only the wall clock in common.
func Clock(t time.Time) int64 { return t.UnixNano() }

// A Server answers with a goroutine for each stream.
type Server struct {
	listener net.Listener
	start    time.Time

	mu    sync.Mutex
	stats Stats
}

// New makes a server on a free port of loopback. Serve or Close must follow.
func New() (*Server, error) {
	l, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		return nil, fmt.Errorf("null server: %w", err)
	}
	return &Server{listener: l, start: time.Now()}, nil
}

// URL returns where the server listens.
func (s *Server) URL() string { return "http://" + s.listener.Addr().String() }

// Close releases what New took. Serve does it itself.
func (s *Server) Close() { _ = s.listener.Close() }

func (s *Server) now() int64 { return Clock(s.start) + int64(time.Since(s.start)) }

// Serve answers until ctx is done, and closes everything.
func (s *Server) Serve(ctx context.Context) error {
	server := &http.Server{Handler: http.HandlerFunc(s.answer), ReadHeaderTimeout: time.Minute}
	closed := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(closed)
		_ = server.Close()
	})
	err := server.Serve(s.listener)
	if !stop() {
		<-closed
	}
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return fmt.Errorf("null server: %w", err)
}

func (s *Server) count(f func(*Stats)) Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	f(&s.stats)
	return s.stats
}

func (s *Server) answer(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodGet && r.URL.Path == "/stats" {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(s.count(func(*Stats) {}))
		return
	}
	a, err := parse(r.URL.RawQuery)
	switch {
	case r.Method != http.MethodPost:
		http.Error(w, `{"error":{"message":"POST a request, or GET /stats"}}`, http.StatusMethodNotAllowed)
		return
	case err != nil:
		http.Error(w, fmt.Sprintf(`{"error":{"message":%q}}`, err), http.StatusBadRequest)
		return
	}
	s.count(func(st *Stats) { st.Requests++ })
	w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
	s.stream(r.Context(), w, http.NewResponseController(w), a)
}

func (s *Server) stream(ctx context.Context, w http.ResponseWriter, control *http.ResponseController, a ask) {
	frame := newFrame(event(token))
	now := s.now()
	due := a.first(now, rand.Int64N)
	var end, step int64
	if a.dur > 0 {
		end = due + a.dur
	}
	if a.every > 0 {
		step = now + a.every
	}
	fmt.Fprint(w, event(role))
	sent := 0
	for sent < a.chunks && (end == 0 || s.now() < end) {
		t := time.NewTimer(time.Duration(due - s.now()))
		select {
		case <-ctx.Done():
			t.Stop()
			return
		case <-t.C:
		}
		n := min(a.batch, a.chunks-sent)
		for range n {
			frame.stamp(s.now())
			_, _ = w.Write(frame.bytes)
		}
		if control.Flush() != nil {
			return
		}
		sent += n
		now = s.now()
		for step > 0 && now >= step {
			a.faster()
			step += a.every
		}
		var skipped int
		due, skipped = a.next(due, now)
		if a.stall > 0 && sent >= a.chunks/2 {
			due += a.stall
			a.stall = 0
		}
		s.count(func(st *Stats) { st.Chunks += n; st.Writes++; st.Skipped += skipped })
	}
	for _, e := range ending(sent) {
		fmt.Fprint(w, e)
	}
}
