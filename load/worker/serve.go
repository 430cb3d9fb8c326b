package worker

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"sweep.dev/sweep/internal/procfs"
	"sweep.dev/sweep/internal/secret"
	"sweep.dev/sweep/result"
)

// DefaultLease is how long a client lives without a word from its coordinator.
const DefaultLease = time.Minute

// endWithin bounds how long a client takes to end its runs when it has to end itself.
const endWithin = 5 * time.Second

// A Config is one client.
type Config struct {
	Token secret.String // that every request must bear; not empty
	Lease time.Duration // without any request it ends; 0 is DefaultLease

	// read reads the clocks; nil reads them. Tests have clocks that are wrong.
	read func(result.Anchor) reading
	// begin is called as a run is told when to begin; nil does nothing. Tests are late.
	begin func()
}

// errLease is why a client ends that nobody asks anything.
var errLease = errors.New("the coordinator has not asked anything for the lease of this client")

// Serve runs a client: it answers its coordinator on ln until ctx is done or the lease is
// over. It closes ln, and when it returns nothing of it runs any more. The error is nil if
// ctx was done.
func Serve(ctx context.Context, ln net.Listener, c Config) error {
	if c.Token.IsZero() {
		ln.Close()
		return errors.New("a client without a token would obey anybody")
	}
	if c.Lease <= 0 {
		c.Lease = DefaultLease
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	s := &server{Config: c, ctx: ctx, anchor: result.NewAnchor(), runs: map[int]*run{}}
	s.touch()
	mux := http.NewServeMux()
	mux.HandleFunc("POST "+pathRegister, s.register)
	mux.HandleFunc("GET "+pathClock, s.clock)
	mux.HandleFunc("POST "+pathRun, s.run)
	mux.HandleFunc("POST "+pathBegin, s.begins)
	mux.HandleFunc("POST "+pathStop, s.stop)
	mux.HandleFunc("GET "+pathDial, s.dial)
	web := &http.Server{Handler: s.guard(mux), ReadHeaderTimeout: 10 * time.Second}

	var background sync.WaitGroup
	background.Go(func() { s.lease(ctx, cancel) })
	stopped := make(chan struct{})
	defer s.relays.Wait() // they end with ctx
	background.Go(func() {
		defer close(stopped)
		<-ctx.Done() // runs end by it too
		late, done := context.WithTimeout(context.WithoutCancel(ctx), endWithin)
		defer done()
		if web.Shutdown(late) != nil {
			_ = web.Close()
		}
	})
	err := web.Serve(ln)
	if errors.Is(err, http.ErrServerClosed) {
		err = nil
	}
	cancel(err)
	<-stopped
	background.Wait()
	if cause := context.Cause(ctx); errors.Is(cause, errLease) {
		return cause
	}
	return err
}

// A server is a client under way.
type server struct {
	Config
	ctx    context.Context
	anchor result.Anchor // of all of its instants
	heard  atomic.Int64  // offset of the last request
	busy   atomic.Int64  // requests under way but for runs, during which the coordinator has to speak
	relays sync.WaitGroup

	mu          sync.Mutex
	registered  bool
	coordinator string
	target      Target
	index       int
	runs        map[int]*run
}

func (s *server) touch() { s.heard.Store(int64(s.anchor.Since())) }

// lease ends the client if its coordinator is silent.
func (s *server) lease(ctx context.Context, cancel context.CancelCauseFunc) {
	t := time.NewTicker(s.Lease / 4)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
			if s.busy.Load() == 0 && s.anchor.Since()-time.Duration(s.heard.Load()) > s.Lease {
				cancel(errLease)
				return
			}
		}
	}
}

// guard lets in what bears the token.
func (s *server) guard(next http.Handler) http.Handler {
	want := sha256.Sum256([]byte("Bearer " + s.Token.Reveal()))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got := sha256.Sum256([]byte(r.Header.Get("Authorization")))
		if subtle.ConstantTimeCompare(got[:], want[:]) != 1 {
			http.Error(w, "the token is not this client's", http.StatusUnauthorized)
			return
		}
		s.touch()
		s.busy.Add(1)
		defer func() {
			s.busy.Add(-1)
			s.touch()
		}()
		next.ServeHTTP(w, r)
	})
}

// decode reads a body of at most so many bytes; false if it has answered that it cannot.
func decode(w http.ResponseWriter, r *http.Request, most int64, to any) bool {
	d := json.NewDecoder(http.MaxBytesReader(w, r.Body, most))
	d.DisallowUnknownFields()
	if err := d.Decode(to); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return false
	}
	return true
}

func answer(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v) // who does not read it has gone
}

// register takes the first coordinator that comes, with its server, for good. That one
// may change how the server is asked.
func (s *server) register(w http.ResponseWriter, r *http.Request) {
	var reg registration
	if !decode(w, r, maxControl, &reg) {
		return
	}
	if reg.Protocol != protocol {
		http.Error(w, fmt.Sprintf("the coordinator speaks version %d of the protocol, and this client %d: use the same sweep on both sides", reg.Protocol, protocol), http.StatusBadRequest)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case !s.registered:
	case s.coordinator == "" || reg.Coordinator != s.coordinator:
		http.Error(w, "this client has a coordinator", http.StatusConflict)
		return
	case reg.Target.Wire.BaseURL != s.target.Wire.BaseURL || reg.Index != s.index:
		http.Error(w, fmt.Sprintf("this is client %d of the server %s, for good", s.index, s.target.Wire.BaseURL), http.StatusConflict)
		return
	}
	s.registered, s.coordinator, s.target, s.index = true, reg.Coordinator, reg.Target, reg.Index
	host, _ := os.Hostname() // "" is of no other
	answer(w, registered{PID: os.Getpid(), Host: host + "/" + procfs.BootID(), Lease: s.Lease})
}

func (s *server) clock(w http.ResponseWriter, _ *http.Request) {
	read := s.read
	if read == nil {
		read = func(a result.Anchor) reading {
			now := time.Now()
			return reading{Mono: now.Sub(a.Start), Wall: now.UnixNano()}
		}
	}
	answer(w, read(s.anchor))
}

// run sends a load and answers with its records.
func (s *server) run(w http.ResponseWriter, r *http.Request) {
	s.busy.Add(-1) // a connection whose other end is gone without a word looks alive for long
	defer s.busy.Add(1)
	var o order
	if !decode(w, r, maxOrder, &o) {
		return
	}
	s.mu.Lock()
	target, index, known := s.target, s.index, s.registered
	s.mu.Unlock()
	switch {
	case !known:
		http.Error(w, "nobody has registered with this client", http.StatusConflict)
		return
	case o.Source.Shard.Index != index:
		http.Error(w, fmt.Sprintf("this is client %d, and the load is that of client %d", index, o.Source.Shard.Index), http.StatusBadRequest)
		return
	}
	n, err := newRun(s, &o, target)
	if err != nil {
		http.Error(w, err.Error(), http.StatusUnprocessableEntity)
		return
	}
	defer n.driver.Close()
	s.mu.Lock()
	_, twice := s.runs[o.Run]
	if !twice {
		s.runs[o.Run] = n
	}
	s.mu.Unlock()
	if twice {
		http.Error(w, fmt.Sprintf("run %d is under way", o.Run), http.StatusConflict)
		return
	}
	defer func() {
		s.mu.Lock()
		delete(s.runs, o.Run)
		s.mu.Unlock()
	}()
	// The connection of the request is the coordinator's interest in the run.
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	defer context.AfterFunc(s.ctx, cancel)()
	n.main(ctx, w)
}

// of returns the run of a number; nil, with an answer, if there is none.
func (s *server) of(w http.ResponseWriter, number int) *run {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.runs[number]
	if n == nil {
		http.Error(w, fmt.Sprintf("there is no run %d", number), http.StatusNotFound)
	}
	return n
}

func (s *server) begins(w http.ResponseWriter, r *http.Request) {
	var b beginning
	if !decode(w, r, maxControl, &b) {
		return
	}
	n := s.of(w, b.Run)
	if n == nil {
		return
	}
	select {
	case n.begun <- b.At:
		answer(w, struct{}{})
	default:
		http.Error(w, "this run has been told when to begin", http.StatusConflict)
	}
}

func (s *server) stop(w http.ResponseWriter, r *http.Request) {
	var b stop
	if !decode(w, r, maxControl, &b) {
		return
	}
	if n := s.of(w, b.Run); n != nil {
		n.end(b.Now)
		answer(w, struct{}{})
	}
}

// Main runs the program of a client: it listens on an address, says it on out in one line
// (a URL), and serves. A token of "" is read from the first line of in, and the end of in
// is then the end of the coordinator.
func Main(ctx context.Context, in io.Reader, out io.Writer, listen, token string) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if token == "" {
		var err error
		if token, err = firstLine(in); err != nil {
			return err
		}
		go func() { // ends with in, or with this process: there is no other way to stop a read
			_, _ = io.Copy(io.Discard, in)
			cancel()
		}()
	}
	ln, err := new(net.ListenConfig).Listen(ctx, "tcp", listen)
	if err != nil {
		return fmt.Errorf("control port: %w", err)
	}
	if _, err := fmt.Fprintf(out, "http://%s\n", ln.Addr()); err != nil {
		ln.Close()
		return err
	}
	return Serve(ctx, ln, Config{Token: secret.New("the client's token", token)})
}

// maxToken bounds a token.
const maxToken = 1024

// firstLine reads a line and nothing beyond it.
func firstLine(in io.Reader) (string, error) {
	var line []byte
	for b := make([]byte, 1); len(line) < maxToken; {
		n, err := in.Read(b)
		if n == 1 && b[0] == '\n' {
			return string(line), nil
		}
		line = append(line, b[:n]...)
		if err != nil {
			return "", fmt.Errorf("read the token from standard input: %w", err)
		}
	}
	return "", fmt.Errorf("the first line of standard input, the token, is longer than %d bytes", maxToken)
}
