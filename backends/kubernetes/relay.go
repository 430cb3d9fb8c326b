package kubernetes

import (
	"context"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/url"
	"sync"

	"sweep.dev/sweep/backends/foreign"
	"sweep.dev/sweep/internal/kubeapi"
	"sweep.dev/sweep/internal/secret"
)

// A relay reads pages of pods for those who cannot: through the API server where a pod is
// not reached from here, and with the token that the endpoint picker wants. Its
// connections are pipes within this process. It passes on GET alone.
type relay struct {
	api       *kubeapi.Client
	namespace string
	client    *http.Client // to pods
	server    *http.Server
	conns     pipes
	ended     chan struct{}

	mu   sync.Mutex
	pods map[string]relayed // by host:port
}

// A relayed is how pages of one pod are read.
type relayed struct {
	pod     string
	port    int
	proxied bool          // through the API server
	token   secret.String // sent to the pod; never with proxied, which drops it
}

func newRelay(api *kubeapi.Client, namespace string, dial dialer) *relay {
	r := &relay{
		api: api, namespace: namespace, pods: map[string]relayed{}, ended: make(chan struct{}),
		conns:  pipes{next: make(chan net.Conn), closed: make(chan struct{}), once: new(sync.Once)},
		client: &http.Client{Transport: &http.Transport{DialContext: dial}, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }},
	}
	r.server = &http.Server{Handler: r, ErrorLog: log.New(io.Discard, "", 0)}
	go func() {
		defer close(r.ended)
		_ = r.server.Serve(r.conns) // ends by close
	}()
	return r
}

type dialer func(ctx context.Context, network, addr string) (net.Conn, error)

func (r *relay) close() {
	_ = r.server.Close()
	<-r.ended
	r.client.CloseIdleConnections()
}

func (r *relay) add(addr string, to relayed) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.pods[addr] = to
}

func (r *relay) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	ours, theirs := net.Pipe()
	select {
	case r.conns.next <- theirs:
		return ours, nil
	case <-r.conns.closed:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// kept are the headers of an answer that readers of metrics look at.
var kept = []string{"Content-Type", "Content-Length", "Process-Start-Time-Unix"}

func (r *relay) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	r.mu.Lock()
	to, known := r.pods[req.Host]
	r.mu.Unlock()
	if !known || req.Method != http.MethodGet {
		http.Error(w, "not relayed", http.StatusMethodNotAllowed)
		return
	}
	resp, err := r.fetch(req, to)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	defer resp.Body.Close()
	for _, name := range kept {
		if v := resp.Header.Get(name); v != "" {
			w.Header().Set(name, v)
		}
	}
	w.WriteHeader(resp.StatusCode)
	if _, err := io.Copy(w, resp.Body); err != nil {
		panic(http.ErrAbortHandler) // so that a part is not taken for the whole
	}
}

func (r *relay) fetch(req *http.Request, to relayed) (*http.Response, error) {
	if to.proxied {
		return r.api.Raw(req.Context(), fmt.Sprintf("/api/v1/namespaces/%s/pods/%s:%d/proxy%s", url.PathEscape(r.namespace), url.PathEscape(to.pod), to.port, req.URL.RequestURI()))
	}
	out, err := http.NewRequestWithContext(req.Context(), http.MethodGet, "http://"+req.Host+req.URL.RequestURI(), http.NoBody)
	if err != nil {
		return nil, err
	}
	out.Header.Set("Accept", req.Header.Get("Accept"))
	if !to.token.IsZero() {
		foreign.Headers{"Authorization": foreign.Bearer(to.token)}.Set(out.Header)
	}
	return r.client.Do(out)
}

// pipes are a listener whose connections begin in this process.
type pipes struct {
	next   chan net.Conn
	closed chan struct{}
	once   *sync.Once
}

func (p pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.next:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p pipes) Close() error   { p.once.Do(func() { close(p.closed) }); return nil }
func (p pipes) Addr() net.Addr { return pipeAddr{} }

type pipeAddr struct{}

func (pipeAddr) Network() string { return "pipe" }
func (pipeAddr) String() string  { return "pipe" }
