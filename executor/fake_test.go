package executor

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"sweep.dev/sweep/backends"
	"sweep.dev/sweep/backends/host"
)

// A script is how one launch of the fake backend behaves. The zero value is a
// server that is ready at once, answers well and stops when asked.
type script struct {
	launch error                       // Launch fails with it
	leak   bool                        // and does not release what it took
	slow   func(context.Context) error // called in Launch, may block
	log    []string                    // what the server writes when it starts
	exit   *backends.Exit              // it ends right after its start
	stop   func(context.Context) error // called in Stop, may block

	health  int                                       // status of the health check; 0 is 200
	models  func(look int) []string                   // what is listed; nil is the model m
	probe   func(look int) (status int, model string) // answer to the completion of one token; nil is 200, m
	reset   int                                       // status of the cache reset; 0 is 200
	kept    error                                     // of Keep
	request func(s *fakeServer, n int)                // before the nth streamed answer, from 1; may block or kill
	watched func(s *fakeServer)                       // before the executor looks whether it has ended
	tokens  int                                       // of each answer; 0 is what was asked for
	status  int                                       // of each streamed answer; 0 is 200
	mute    bool                                      // it exposes no metrics
	after   int                                       // streamed answers before status holds

	answer func(s *fakeServer, prompt string) (status int, text string) // to a question of more than one token outside of the load

	uncounted bool   // streams have no usage
	version   string // that it tells; "" is 1.2.3
	image     string // digest of the image of a server that costs money; "" is sha256:0a
}

// A fakeBackend starts engines in this process and writes down what it is
// asked to do.
type fakeBackend struct {
	script func(n int, spec backends.Spec) script // of the nth launch, from 1
	known  []backends.Listed                      // what List returns
	refuse error                                  // of Terminate

	usdPerHour float64 // what a server costs; its deployment can be kept then
	probe      error   // of Probe

	mu      sync.Mutex
	calls   []string
	servers []*fakeServer
	up      int
	peak    int // most servers at once
}

var (
	_ backends.Backend = (*fakeBackend)(nil)
	_ backends.Prober  = (*fakeBackend)(nil)
)

func (b *fakeBackend) called(format string, args ...any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.calls = append(b.calls, fmt.Sprintf(format, args...))
}

// count returns how many calls begin with prefix.
func (b *fakeBackend) count(prefix string) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := 0
	for _, c := range b.calls {
		if strings.HasPrefix(c, prefix) {
			n++
		}
	}
	return n
}

func (b *fakeBackend) list() []*fakeServer {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.servers)
}

func (b *fakeBackend) Probe(context.Context) error { return b.probe }

func (b *fakeBackend) Launch(ctx context.Context, spec backends.Spec, l backends.Ledger) (backends.Deployment, error) {
	b.called("launch %s", spec.Pod)
	b.mu.Lock()
	usd := b.usdPerHour
	b.mu.Unlock()
	for _, a := range []backends.Transition{
		{Pod: spec.Pod, State: backends.Intended, Kind: "fake", Name: "sw-" + spec.Pod, Expires: &spec.Expires, USDPerHour: usd},
		{Pod: spec.Pod, State: backends.Sent},
	} {
		if err := l.Record(ctx, a); err != nil {
			return nil, err
		}
	}
	s := &fakeServer{backend: b, pod: spec.Pod, roles: spec.Roles, done: make(chan struct{}), ended: make(chan struct{})}
	if b.script != nil {
		s.script = b.script(b.count("launch"), spec)
	}
	err := s.launch
	if s.slow != nil {
		err = s.slow(ctx)
	}
	if err != nil && s.leak {
		return nil, err
	}
	if err != nil {
		return nil, errors.Join(err, l.Record(ctx, backends.Transition{Pod: spec.Pod, State: backends.Gone}))
	}
	if _, err := spec.Roles[0].Argv(backends.Address{Host: "127.0.0.1", Port: 1}); err != nil {
		return nil, err
	}
	if err := os.WriteFile(spec.Roles[0].LogPath(0), []byte(strings.Join(s.log, "\n")), 0o600); err != nil {
		return nil, err
	}
	s.start()
	ref := backends.Ref{Kind: "fake", RunID: spec.RunID, Pod: spec.Pod, ID: "id-" + spec.Pod}
	if err := l.Record(ctx, backends.Transition{Pod: spec.Pod, State: backends.Created, Ref: &ref}); err != nil {
		return nil, err
	}
	b.mu.Lock()
	b.servers = append(b.servers, s)
	b.up++
	b.peak = max(b.peak, b.up)
	b.mu.Unlock()
	if s.exit != nil {
		s.die(s.exit)
	}
	if usd > 0 {
		return rentedServer{s, backends.Terms{Ref: ref, USDPerHour: usd, ImageDigest: cmp.Or(s.image, "sha256:0a")}}, nil
	}
	return s, nil
}

// A rentedServer costs money, and can be left running.
type rentedServer struct {
	*fakeServer
	terms backends.Terms
}

var (
	_ backends.Rental = rentedServer{}
	_ backends.Keeper = rentedServer{}
)

func (s rentedServer) Terms() backends.Terms { return s.terms }

func (s rentedServer) Keep(_ context.Context, until time.Time) error {
	s.backend.called("keep %s", s.pod)
	return s.kept
}

// An adoptingBackend takes over what another run kept.
type adoptingBackend struct {
	*fakeBackend
	missing bool
}

func (b adoptingBackend) Adopt(ctx context.Context, spec backends.Spec, ref backends.Ref) (backends.Deployment, error) {
	b.called("adopt %s", ref.ID)
	if b.missing {
		return nil, fmt.Errorf("no such pod: %w", backends.ErrNotFound)
	}
	s := &fakeServer{backend: b.fakeBackend, pod: ref.Pod, done: make(chan struct{}), ended: make(chan struct{})}
	s.start()
	b.mu.Lock()
	defer b.mu.Unlock()
	b.servers = append(b.servers, s)
	b.up++
	return rentedServer{s, backends.Terms{Ref: ref, USDPerHour: b.usdPerHour}}, nil
}

func (b *fakeBackend) List(_ context.Context, owner string) ([]backends.Listed, error) {
	b.called("list %s", owner)
	return b.known, nil
}

func (b *fakeBackend) Terminate(_ context.Context, ref backends.Ref) error {
	b.called("terminate %s", ref.ID)
	return b.refuse
}

// A fakeServer is a deployment, its host and its engine.
type fakeServer struct {
	script
	backend *fakeBackend
	pod     string
	roles   []backends.Role

	http   *http.Server
	url    string
	served sync.WaitGroup
	done   chan struct{}
	ended  chan struct{} // closed when nothing is answered any more
	end    sync.Once

	mu      sync.Mutex
	err     error
	stopped bool
	looks   map[string]int
	asked   []asked
}

// asked is one request of a load.
type asked struct {
	id       string
	prompt   string
	from, to time.Time // when it came and was answered
}

func (s *fakeServer) start() {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	s.url = "http://" + l.Addr().String()
	s.looks = map[string]int{}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /health", func(w http.ResponseWriter, _ *http.Request) {
		s.look("health")
		w.WriteHeader(max(s.health, http.StatusOK))
	})
	mux.HandleFunc("GET /v1/models", s.listModels)
	mux.HandleFunc("GET /version", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = fmt.Fprintf(w, `{"version":%q}`, cmp.Or(s.version, "1.2.3"))
	})
	mux.HandleFunc("POST /reset_prefix_cache", func(w http.ResponseWriter, _ *http.Request) {
		s.look("reset")
		w.WriteHeader(max(s.reset, http.StatusOK))
	})
	mux.HandleFunc("POST /v1/chat/completions", s.complete)
	mux.HandleFunc("GET /metrics", func(w http.ResponseWriter, r *http.Request) {
		if s.mute {
			http.NotFound(w, r)
			return
		}
		_, _ = io.WriteString(w, "# TYPE vllm:num_requests_running gauge\nvllm:num_requests_running 1\n"+
			"# TYPE vllm:generation_tokens_total counter\nvllm:generation_tokens_total 8\n")
	})
	s.http = &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.look("all")
		mux.ServeHTTP(w, r)
	})}
	s.served.Go(func() { _ = s.http.Serve(l) })
}

// look counts one kind of question, from 1.
func (s *fakeServer) look(kind string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.looks[kind]++
	return s.looks[kind]
}

func (s *fakeServer) looked(kind string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.looks[kind]
}

func (s *fakeServer) prompts() []asked {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.asked)
}

func (s *fakeServer) listModels(w http.ResponseWriter, _ *http.Request) {
	ids := []string{"m"}
	if s.models != nil {
		ids = s.models(s.look("models"))
	}
	type model struct {
		ID string `json:"id"`
	}
	list := []model{}
	for _, id := range ids {
		list = append(list, model{id})
	}
	_ = json.NewEncoder(w).Encode(map[string]any{"data": list})
}

func (s *fakeServer) complete(w http.ResponseWriter, r *http.Request) {
	s.served.Add(1)
	defer s.served.Done()
	var body struct {
		Messages  []struct{ Content string }
		MaxTokens int `json:"max_tokens"`
		Stream    bool
	}
	if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	if s.answer != nil && !body.Stream && body.MaxTokens > 1 {
		s.look("quality")
		status, text := s.answer(s, body.Messages[len(body.Messages)-1].Content)
		w.WriteHeader(status)
		_ = json.NewEncoder(w).Encode(map[string]any{"choices": []any{map[string]any{"message": map[string]string{"content": text}, "finish_reason": "stop"}}})
		return
	}
	if !body.Stream || r.Header.Get("X-Request-Id") == "" { // no request of the load
		status, model := http.StatusOK, "m"
		if look := s.look("probe"); s.probe != nil {
			status, model = s.probe(look)
		}
		before, usage, after := "", "null", ""
		if body.Stream && status == http.StatusOK {
			w.Header().Set("Content-Type", "text/event-stream")
			before, after = "data: ", "\n\ndata: [DONE]\n\n"
			if !s.uncounted {
				usage = `{"prompt_tokens":8,"completion_tokens":1}`
			}
		}
		w.WriteHeader(status)
		if status != http.StatusOK {
			_, _ = io.WriteString(w, `{"detail":"no"}`)
			return
		}
		fmt.Fprintf(w, `%s{"model":%q,"choices":[{"index":0,"message":{"content":"w"},"finish_reason":"length"}],"usage":%s}%s`, before, model, usage, after)
		return
	}
	s.mu.Lock()
	s.asked = append(s.asked, asked{id: r.Header.Get("X-Request-Id"), prompt: body.Messages[len(body.Messages)-1].Content, from: time.Now()})
	n := len(s.asked)
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.asked[n-1].to = time.Now()
	}()
	if s.request != nil {
		s.request(s, n)
	}
	select {
	case <-s.ended:
		return
	default:
	}
	if s.status != 0 && n > s.after {
		http.Error(w, `{"error":{"message":"no"}}`, s.status)
		return
	}
	tokens := body.MaxTokens
	if s.tokens > 0 {
		tokens = s.tokens
	}
	w.Header().Set("Content-Type", "text/event-stream")
	var b strings.Builder
	for i := range tokens {
		finish := "null"
		if i == tokens-1 {
			finish = `"length"`
		}
		fmt.Fprintf(&b, "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"w \"},\"finish_reason\":%s}]}\n\n", finish)
	}
	if !s.uncounted {
		fmt.Fprintf(&b, "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":8,\"completion_tokens\":%d,\"total_tokens\":%d}}\n\n", tokens, tokens+8)
	}
	b.WriteString("data: [DONE]\n\n")
	_, _ = io.WriteString(w, b.String())
}

// close breaks all connections and ends what hangs.
func (s *fakeServer) close() {
	s.end.Do(func() { close(s.ended) })
	_ = s.http.Close()
}

// hung is closed when the server ends.
func (s *fakeServer) hung() <-chan struct{} { return s.ended }

// die breaks all connections and then reports the end, as a process does.
func (s *fakeServer) die(exit *backends.Exit) {
	s.close()
	s.tell(exit)
}

// tell reports the end and leaves the connections as they are.
func (s *fakeServer) tell(exit *backends.Exit) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err == nil {
		s.err = exit
		close(s.done)
	}
}

func (s *fakeServer) Done() <-chan struct{} {
	if s.watched != nil {
		s.watched(s)
	}
	return s.done
}

func (s *fakeServer) Err() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

func (s *fakeServer) Stop(ctx context.Context) error {
	s.backend.called("stop %s", s.pod)
	defer func() {
		s.close()
		s.served.Wait()
	}()
	if s.stop != nil {
		if err := s.stop(ctx); err != nil {
			return err
		}
	}
	if err := ctx.Err(); err != nil {
		return context.Cause(ctx)
	}
	s.mu.Lock()
	first := !s.stopped
	s.stopped = true
	s.mu.Unlock()
	if first {
		s.backend.mu.Lock()
		s.backend.up--
		s.backend.mu.Unlock()
	}
	return nil
}

func (s *fakeServer) Host(role string, replica int) host.Host {
	for _, r := range append([]backends.Role{{Name: "server", Replicas: 1}}, s.roles...) {
		if r.Name == role && replica >= 0 && replica < r.Replicas {
			return fakeHost{s.url} // one engine stands for all
		}
	}
	panic("no such replica")
}

type fakeHost struct{ url string }

func (h fakeHost) URL() string { return h.url }

func (h fakeHost) Dial(ctx context.Context, network, addr string) (net.Conn, error) {
	var d net.Dialer
	return d.DialContext(ctx, network, addr)
}

func (h fakeHost) Exec(context.Context, ...string) ([]byte, error) {
	return nil, host.ErrNotSupported
}

func (h fakeHost) Logs(context.Context) (io.ReadCloser, error) { return nil, host.ErrNotSupported }

func (h fakeHost) Path() host.Path { return host.Direct }

// always returns every launch behaving alike.
func always(s script) func(int, backends.Spec) script {
	return func(int, backends.Spec) script { return s }
}

// killed returns a server that somebody killed.
func killed() *backends.Exit { return &backends.Exit{Role: "server", Code: -1, Signal: "killed"} }
