// Package collectortest holds what every collector must do, whatever it
// measures. A collector's own test says how to make one and what a good target
// looks like; the suite makes the bad ones.
package collectortest

import (
	"context"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"sweep.dev/sweep/backends/host"
	"sweep.dev/sweep/collectors"
	"sweep.dev/sweep/engine"
	"sweep.dev/sweep/internal/polltest"
	"sweep.dev/sweep/load/loadtest"
	"sweep.dev/sweep/result"
	"sweep.dev/sweep/result/finding"
)

// A Suite is one collector under test.
type Suite struct {
	// New makes the collector with an interval of at most 200ms, or its
	// shortest.
	New func() collectors.Collector
	// HTTP, Exec and PIDs are a target as it should be; each may be nil.
	HTTP http.Handler
	Exec func(ctx context.Context, argv ...string) ([]byte, error)
	PIDs func() []int
	// Measures names columns that a good target fills, beside its samples.
	Measures []string
}

// bound is how long Start or Finish may take with the worst of targets.
const bound = 15 * time.Second

// Run runs the contract, each part of it in virtual time: hosts are in memory, and what
// waits takes no time.
func Run(t *testing.T, s Suite) {
	t.Helper()
	garbage := []byte(strings.Repeat("\x00\xff{\"a\": 1}<html>x 1 2 3\n\"", 1<<10))
	huge := strings.NewReader(strings.Repeat("garbage ", 1<<16))
	targets := []struct {
		name string
		http http.HandlerFunc
		exec func(ctx context.Context, argv ...string) ([]byte, error)
	}{
		{"gone", nil, func(context.Context, ...string) ([]byte, error) { return nil, host.ErrNotSupported }},
		{
			"hanging",
			func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
			func(ctx context.Context, _ ...string) ([]byte, error) {
				<-ctx.Done()
				return nil, context.Cause(ctx)
			},
		},
		{
			"trickling",
			func(w http.ResponseWriter, r *http.Request) {
				for r.Context().Err() == nil {
					_, _ = io.WriteString(w, "x")
					_ = http.NewResponseController(w).Flush()
					select {
					case <-r.Context().Done():
					case <-time.After(20 * time.Millisecond):
					}
				}
			},
			func(context.Context, ...string) ([]byte, error) { return []byte("0, "), nil },
		},
		{
			"full of garbage",
			func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(garbage) },
			func(context.Context, ...string) ([]byte, error) { return garbage, nil },
		},
		{
			"sending 50 MB",
			func(w http.ResponseWriter, _ *http.Request) {
				for range 100 {
					if _, err := io.Copy(w, io.NewSectionReader(huge, 0, huge.Size())); err != nil {
						return
					}
				}
			},
			func(context.Context, ...string) ([]byte, error) { return make([]byte, 4<<20), nil },
		},
	}
	columns := s.good(t)
	for _, target := range targets {
		virtual(t, target.name, func(t *testing.T) {
			row := s.session(t, target.http, target.exec, 400*time.Millisecond, new(Sink))
			for name := range columns {
				if v, ok := row[name]; !ok && row != nil {
					t.Errorf("the row lacks %s", name)
				} else if v != nil {
					t.Errorf("%s = %v out of nothing", name, v)
				}
			}
		})
	}
	virtual(t, "two targets", func(t *testing.T) {
		row := s.pair(t, s.HTTP, s.Exec, true)
		for name := range columns {
			if _, ok := row[name]; !ok {
				t.Errorf("the row lacks %s", name)
			}
		}
		for _, name := range s.Measures {
			if row[name] == nil {
				t.Errorf("%s was not measured", name)
			}
		}
		checkColumns(t, row)
	})
	for _, target := range targets[:2] { // gone and hanging: the others take as long and show no more
		virtual(t, "one of two "+target.name, func(t *testing.T) {
			var handler http.Handler
			if target.http != nil {
				handler = target.http
			}
			// The collector decides whether it reports the other target alone.
			checkColumns(t, s.pair(t, handler, target.exec, false))
		})
	}
	virtual(t, "cancelled before the start", func(t *testing.T) {
		defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		h, stop := newHost(s.HTTP, s.Exec)
		defer stop()
		if session, err := s.New().Start(ctx, Trial(h), new(Sink)); err == nil {
			finish(t, session)
		}
	})
	virtual(t, "cancelled in between", func(t *testing.T) {
		defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
		ctx, cancel := context.WithCancel(context.Background())
		h, stop := newHost(s.HTTP, s.Exec)
		defer stop()
		session, err := s.New().Start(ctx, Trial(h), new(Sink))
		if err != nil {
			t.Fatal(err)
		}
		cancel()
		finish(t, session)
	})
	virtual(t, "no time to finish", func(t *testing.T) {
		defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
		h, stop := newHost(s.HTTP, s.Exec)
		defer stop()
		session, err := s.New().Start(t.Context(), Trial(h), new(Sink))
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		begun := time.Now()
		_, _ = session.Finish(ctx) // the error, if any, is the collector's own affair
		if took := time.Since(begun); took > bound {
			t.Errorf("Finish took %v", took)
		}
	})
}

// virtual runs a part of the contract in virtual time.
func virtual(t *testing.T, name string, part func(t *testing.T)) {
	t.Helper()
	t.Run(name, func(t *testing.T) { synctest.Test(t, part) })
}

func (s Suite) good(t *testing.T) (columns result.Row) {
	virtual(t, "good", func(t *testing.T) {
		var looked sync.Once
		asked := make(chan struct{})
		sink := new(Sink)
		defer over(t, sink)()
		handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			looked.Do(func() { close(asked) })
			s.HTTP.ServeHTTP(w, r)
		})
		exec := func(ctx context.Context, argv ...string) ([]byte, error) {
			looked.Do(func() { close(asked) })
			return s.Exec(ctx, argv...)
		}
		h, stop := newHost(handler, exec)
		defer stop()
		h.Pids = s.PIDs
		session, err := s.New().Start(t.Context(), Trial(h), sink)
		if err != nil {
			t.Fatal(err)
		}
		if s.HTTP != nil || s.Exec != nil {
			select {
			case <-asked:
			default:
				t.Error("Start returned without a baseline")
			}
		}
		seen(t, sink, h)
		if columns, err = session.Finish(t.Context()); err != nil {
			t.Fatal(err)
		}
		sink.close()
		synctest.Wait()
		if n := h.conns.Load(); n != 0 { // some servers have a thread for each, and few
			t.Errorf("after Finish %d connections to the target are open", n)
		}
		for _, name := range s.Measures {
			if columns[name] == nil {
				t.Errorf("%s was not measured", name)
			}
		}
		checkColumns(t, columns)
	})
	return columns
}

// session returns one whole session with a target that may be as bad as it likes.
func (s Suite) session(t *testing.T, handler http.HandlerFunc, exec func(context.Context, ...string) ([]byte, error), length time.Duration, sink *Sink) result.Row {
	t.Helper()
	defer over(t, sink)()
	var wrapped http.Handler
	if handler != nil {
		wrapped = handler
	}
	h, stop := newHost(wrapped, exec)
	defer stop()
	target := Trial(h)
	target.Clients = nil
	begun := time.Now()
	session, err := s.New().Start(t.Context(), target, sink)
	if took := time.Since(begun); took > bound {
		t.Errorf("Start took %v", took)
	}
	if err != nil {
		return nil // that ends this collector, which is its right
	}
	// A closed port is asked nothing, and one that does not answer is asked once.
	polltest.Within(length, func() bool { return h.looks.Load() >= enough })
	row := finish(t, session)
	sink.close()
	return row
}

// pair returns one whole session of two targets, of which the second has this
// handler and exec, and may be good as well.
func (s Suite) pair(t *testing.T, handler http.Handler, exec func(context.Context, ...string) ([]byte, error), good bool) result.Row {
	t.Helper()
	sink := new(Sink)
	defer over(t, sink)()
	first, stop := newHost(s.HTTP, s.Exec)
	defer stop()
	second, stop := newHost(handler, exec)
	defer stop()
	first.Pids, second.Pids = s.PIDs, s.PIDs
	begun := time.Now()
	session, err := s.New().Start(t.Context(), Trial(first, second), sink)
	if took := time.Since(begun); took > bound {
		t.Errorf("Start took %v", took)
	}
	if err != nil {
		return nil
	}
	targets := []*Host{first, second}
	if !good {
		targets = targets[:1]
	}
	seen(t, sink, targets...)
	row := finish(t, session)
	sink.close()
	return row
}

// enough looks at a target show whatever a collector makes of several.
const enough = 4

// seen waits until a session has looked often enough at its targets, of which one may
// show what the others do, and has reported as many looks.
func seen(t *testing.T, sink *Sink, targets ...*Host) {
	t.Helper()
	polltest.Until(t, "enough looks at the targets", func() bool {
		looks := 0
		for _, h := range targets {
			looks += int(h.looks.Load())
		}
		return looks >= enough*len(targets)
	})
	polltest.Until(t, "samples of enough looks", func() bool {
		times := make(map[time.Duration]bool)
		for _, s := range sink.Samples() {
			if s.Source != result.FromClient {
				times[s.T] = true
			}
		}
		return len(times) >= enough
	})
}

// over returns a check of a session that is over: nothing of it works on, and nothing
// came after Finish.
func over(t *testing.T, sink *Sink) func() {
	before := goleak.IgnoreCurrent()
	return func() {
		t.Helper()
		goleak.VerifyNone(t, before)
		if late := sink.Late(); late != "" {
			t.Errorf("after Finish: %s", late)
		}
	}
}

func finish(t *testing.T, session collectors.Session) result.Row {
	t.Helper()
	begun := time.Now()
	row, _ := session.Finish(t.Context()) // it may fail, but not hang
	if took := time.Since(begun); took > bound {
		t.Errorf("Finish took %v", took)
	}
	return row
}

// checkColumns holds a row against the registry.
func checkColumns(t *testing.T, row result.Row) {
	t.Helper()
	types := make(map[string]result.Type)
	for _, c := range result.Columns(result.Extra{}) {
		types[c.Name] = c.Type
	}
	for name, v := range row {
		want, ok := types[name]
		if !ok {
			t.Errorf("%s is no column of the cells table", name)
			continue
		}
		var got result.Type
		switch v.(type) {
		case nil:
			continue
		case string:
			got = result.String
		case int64:
			got = result.Int
		case float64:
			got = result.Float
		case bool:
			got = result.Bool
		case time.Time:
			got = result.Timestamp
		}
		if got != want {
			t.Errorf("%s is a %T, the column is of type %s", name, v, want)
		}
	}
}

// Trial returns one whose targets are replicas of one server on these hosts, with
// vLLM's profile; the client is this process.
func Trial(hosts ...host.Host) collectors.Trial {
	profile, _ := engine.Lookup("vllm")
	t := collectors.Trial{Profile: profile, Anchor: result.NewAnchor(), Clients: []int{os.Getpid()}}
	for i, h := range hosts {
		t.Targets = append(t.Targets, collectors.Target{Role: "server", Replica: i, Tier: engine.TierEngine, Host: h, Metrics: &profile.Metrics})
	}
	return t
}

// A Host is a host of two functions, for tests.
type Host struct {
	Base string
	Run  func(ctx context.Context, argv ...string) ([]byte, error)
	Pids func() []int

	dial  func(ctx context.Context, network, addr string) (net.Conn, error) // nil: by the system
	looks atomic.Int64                                                      // at what it serves, runs and shows
	conns atomic.Int64                                                      // that are open to what it serves
}

var (
	_ host.Host      = (*Host)(nil)
	_ host.Processor = (*Host)(nil)
)

// newHost serves handler in memory; a host with a nil handler refuses connections.
func newHost(handler http.Handler, exec func(context.Context, ...string) ([]byte, error)) (*Host, func()) {
	h := &Host{Base: "http://127.0.0.1:1", Run: exec}
	if handler == nil {
		h.dial = func(_ context.Context, network, _ string) (net.Conn, error) {
			return nil, &net.OpError{Op: "dial", Net: network, Err: syscall.ECONNREFUSED}
		}
		return h, func() {}
	}
	pipe := loadtest.NewPipe()
	h.dial = pipe.Dial
	server := &http.Server{
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			h.looks.Add(1)
			handler.ServeHTTP(w, r)
		}),
		ConnState: func(_ net.Conn, state http.ConnState) {
			switch state {
			case http.StateNew:
				h.conns.Add(1)
			case http.StateHijacked, http.StateClosed:
				h.conns.Add(-1)
			}
		},
	}
	var served sync.WaitGroup
	served.Go(func() { _ = server.Serve(pipe) })
	return h, func() {
		_ = server.Close()
		served.Wait()
	}
}

// URL is Base.
func (h *Host) URL() string { return h.Base }

// Dial dials.
func (h *Host) Dial(ctx context.Context, network, addr string) (net.Conn, error) {
	if h.dial != nil {
		return h.dial(ctx, network, addr)
	}
	return new(net.Dialer).DialContext(ctx, network, addr)
}

// Exec is Run.
func (h *Host) Exec(ctx context.Context, argv ...string) ([]byte, error) {
	h.looks.Add(1)
	if h.Run == nil {
		return nil, host.ErrNotSupported
	}
	return h.Run(ctx, argv...)
}

// Logs is not supported.
func (h *Host) Logs(context.Context) (io.ReadCloser, error) { return nil, host.ErrNotSupported }

// Path is direct.
func (h *Host) Path() host.Path { return host.Direct }

// PIDs is Pids.
func (h *Host) PIDs() []int {
	h.looks.Add(1)
	if h.Pids == nil {
		return nil
	}
	return h.Pids()
}

// A Sink keeps what it is given, and notices what comes after Finish.
type Sink struct {
	mu        sync.Mutex
	samples   []result.Sample
	artifacts map[string][]byte
	notes     []result.Finding
	closed    bool
	late      string
}

var _ collectors.Sink = (*Sink)(nil)

func (s *Sink) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
}

// Sample keeps a sample.
func (s *Sink) Sample(sample result.Sample) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.samples = append(s.samples, sample)
	if s.closed {
		s.late = "sample " + sample.Name
	}
}

// Artifact keeps a file.
func (s *Sink) Artifact(name string, r io.Reader) error {
	b, err := io.ReadAll(r)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.artifacts == nil {
		s.artifacts = make(map[string][]byte)
	}
	s.artifacts[name] = b
	if s.closed {
		s.late = "artifact " + name
	}
	return nil
}

// Note keeps a finding.
func (s *Sink) Note(f result.Finding) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.notes = append(s.notes, f)
	if s.closed {
		s.late = "finding " + f.Code.String()
	}
}

// Samples returns the samples so far.
func (s *Sink) Samples() []result.Sample {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]result.Sample(nil), s.samples...)
}

// Artifacts returns the files so far.
func (s *Sink) Artifacts() map[string][]byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make(map[string][]byte, len(s.artifacts))
	maps.Copy(out, s.artifacts)
	return out
}

// Notes returns the findings so far.
func (s *Sink) Notes() []result.Finding {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]result.Finding(nil), s.notes...)
}

// Codes returns the codes of the findings so far.
func (s *Sink) Codes() []finding.Code {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []finding.Code
	for _, f := range s.notes {
		out = append(out, f.Code)
	}
	return out
}

// Late names something that came after Finish; "" if nothing did.
func (s *Sink) Late() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.late
}

// Want compares columns of a row.
func Want(t *testing.T, row, want result.Row) {
	t.Helper()
	got := make(result.Row, len(want))
	for name := range want {
		got[name] = row[name]
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("row (-want +got):\n%s", diff)
	}
}
