package fleet

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log"
	"maps"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// Headers of llm-d: where the gateway sends a request, and which server the
// sidecar there lets compute its prompt
// (https://github.com/llm-d/llm-d-router/blob/main/docs/architecture.md).
const (
	destinationHeader = "X-Gateway-Destination-Endpoint"
	prefillerHeader   = "X-Prefiller-Host-Port"
)

// proxy passes everything on as it comes.
func proxy(to string, client *http.Client) (*httputil.ReverseProxy, error) {
	target, err := url.Parse(to)
	if err != nil {
		return nil, err
	}
	return &httputil.ReverseProxy{
		Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(target) },
		Transport:     client.Transport,
		FlushInterval: -1,
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, err error) {
			http.Error(w, err.Error(), http.StatusBadGateway)
		},
	}, nil
}

func isCompletion(r *http.Request) bool {
	return r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/completions")
}

// runSidecar is llm-d's routing sidecar in front of one decode server: where a
// request names a prefill server, that one computes the prompt before, and the
// decode server fetches its cache (the nixlv2 connector). Its metrics are on a port of
// their own, if one is given: what is asked of it on its first is the decode server's.
func runSidecar(ctx context.Context, o options, l net.Listener, log *log.Logger) error {
	if len(o.workers) != 1 {
		return errors.New("a sidecar has one decode server: --worker-urls URL")
	}
	client := newClient()
	defer client.CloseIdleConnections()
	behind, err := proxy(o.workers[0], client)
	if err != nil {
		return err
	}
	lines, meters := newDebugLog(log.Writer(), o.verbose), newSidecarMeters()
	relay := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if isCompletion(r) {
			meters.came(r)
		}
		if prefiller := r.Header.Get(prefillerHeader); prefiller != "" && isCompletion(r) {
			meters.countPrefill()
			lines.prefill(prefiller)
			begun := time.Now()
			done := prefillFirst(w, r, client, prefiller)
			meters.stage(prefill, begun)
			if !done {
				meters.failed(prefill)
				return
			}
			lines.decode(o.workers[0])
			defer meters.stage(decode, time.Now())
		}
		r.Header.Del(prefillerHeader)
		behind.ServeHTTP(w, r)
	})
	return meters.serve(ctx, o.host, o.metricsPort, log, func() error { return serve(ctx, l, relay, log) })
}

// prefillFirst has the prompt computed and makes r a request for the rest. Where
// that fails it has answered, with the status of the prefill server.
func prefillFirst(w http.ResponseWriter, r *http.Request, client *http.Client, at string) bool {
	raw, err := io.ReadAll(http.MaxBytesReader(w, r.Body, bodyLimit))
	var body map[string]json.RawMessage
	if err == nil {
		err = json.Unmarshal(raw, &body)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return false
	}
	first := map[string]json.RawMessage{}
	for name, v := range body {
		switch name {
		case "stream_options", "min_tokens", "stop":
		default:
			first[name] = v
		}
	}
	first["stream"], first["max_tokens"] = json.RawMessage("false"), json.RawMessage("1")
	if _, ok := first["max_completion_tokens"]; ok {
		first["max_completion_tokens"] = json.RawMessage("1")
	}
	first["kv_transfer_params"] = json.RawMessage(`{"do_remote_decode":true,"do_remote_prefill":false,"remote_engine_id":null,"remote_block_ids":null,"remote_host":null,"remote_port":null}`)
	status, answer, err := send(r, client, "http://"+at+r.URL.Path, first)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return false
	}
	if status != http.StatusOK {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_, _ = w.Write(answer)
		return false
	}
	var said struct {
		Params json.RawMessage `json:"kv_transfer_params"`
	}
	if err := json.Unmarshal(answer, &said); err == nil && len(said.Params) > 0 {
		body["kv_transfer_params"] = said.Params
	}
	raw, err = json.Marshal(body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return false
	}
	r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(raw)), int64(len(raw))
	r.Header.Set("Content-Length", strconv.Itoa(len(raw)))
	return true
}

func send(r *http.Request, client *http.Client, to string, body any) (status int, answer []byte, err error) {
	raw, err := json.Marshal(body)
	if err != nil {
		return 0, nil, err
	}
	req, err := http.NewRequestWithContext(r.Context(), http.MethodPost, to, bytes.NewReader(raw))
	if err != nil {
		return 0, nil, err
	}
	req.Header = r.Header.Clone()
	req.Header.Del(prefillerHeader)
	req.Header.Set("Content-Type", "application/json")
	resp, err := client.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer resp.Body.Close()
	answer, err = io.ReadAll(resp.Body)
	return resp.StatusCode, answer, err
}

// runGateway runs what stands for Envoy: it asks the endpoint picker where each
// request goes, sends it there, and lets the picker see what comes back. The
// picker is asked over HTTP here, not over Envoy's ext_proc.
func runGateway(ctx context.Context, o options, l net.Listener, log *log.Logger) error {
	if o.epp == "" {
		return errors.New("a gateway asks an endpoint picker: --epp-url URL")
	}
	client := newClient()
	defer client.CloseIdleConnections()
	g := &gateway{life: ctx, epp: o.epp, client: client, log: log}
	return serve(ctx, l, g, log)
}

type gateway struct {
	life   context.Context // of the reports, which outlive their requests
	epp    string
	client *http.Client
	log    *log.Logger
}

// A pick is what the endpoint picker says to one request.
type pick struct {
	ID          uint64 `json:"id"`
	Destination string `json:"destination"`         // host:port
	Prefiller   string `json:"prefiller,omitempty"` // host:port
}

// A report is what the picker sees of a response.
type report struct {
	ID        uint64    `json:"id"`
	Status    int       `json:"status"`
	Streaming bool      `json:"streaming"`
	Seconds   float64   `json:"seconds"`
	First     float64   `json:"first"` // seconds until the first token; 0 if none came
	Gaps      []float64 `json:"gaps"`  // seconds between tokens
	Bytes     int       `json:"bytes"`
	Usage     usage     `json:"usage"`
}

func (g *gateway) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	start := time.Now()
	raw, err := io.ReadAll(http.MaxBytesReader(w, r.Body, bodyLimit))
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	to, refused := g.ask(r, raw)
	if refused != nil {
		http.Error(w, refused.Message, refused.Code)
		return
	}
	out, err := http.NewRequestWithContext(r.Context(), r.Method, "http://"+to.Destination+r.URL.RequestURI(), bytes.NewReader(raw))
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	out.Header = r.Header.Clone()
	out.Header.Set(destinationHeader, to.Destination)
	if to.Prefiller != "" {
		out.Header.Set(prefillerHeader, to.Prefiller)
	}
	report := report{ID: to.ID, Status: http.StatusBadGateway}
	if to.ID != 0 {
		defer func() {
			report.Seconds = time.Since(start).Seconds()
			g.postReport(report)
		}()
	}
	resp, err := g.client.Do(out)
	if err != nil {
		http.Error(w, "upstream connect error or disconnect/reset before headers", http.StatusServiceUnavailable)
		return
	}
	defer resp.Body.Close()
	maps.Copy(w.Header(), resp.Header)
	w.WriteHeader(resp.StatusCode)
	report.Status = resp.StatusCode
	report.Streaming = strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream")
	report.relay(w, resp.Body, start)
}

// relay copies a response as it comes, line by line where it is a stream, and
// notes what the picker wants to know of it.
func (p *report) relay(w http.ResponseWriter, from io.Reader, start time.Time) {
	out := http.NewResponseController(w)
	_ = out.Flush()
	if !p.Streaming {
		body, _ := io.ReadAll(from) // cut off for the client as for us
		_, _ = w.Write(body)
		var e event
		if json.Unmarshal(body, &e) == nil && e.Usage != nil {
			p.Usage = *e.Usage
			p.First = time.Since(start).Seconds()
		}
		p.Bytes = len(body)
		return
	}
	in := bufio.NewReaderSize(from, 64<<10)
	var last time.Time
	for {
		line, err := in.ReadSlice('\n')
		p.Bytes += len(line)
		if _, failed := w.Write(line); failed != nil {
			return
		}
		if err == nil && bytes.Contains(line, []byte(`"usage":{`)) {
			var e event
			if json.Unmarshal(bytes.TrimSpace(bytes.TrimPrefix(line, []byte("data:"))), &e) == nil && e.Usage != nil {
				p.Usage = *e.Usage
			}
		}
		// The picker counts events, not tokens.
		if bytes.HasPrefix(line, []byte("data: {")) && !bytes.Contains(line, []byte(`"choices":[]`)) {
			switch now := time.Now(); {
			case p.First == 0:
				p.First, last = now.Sub(start).Seconds(), now
			default:
				p.Gaps = append(p.Gaps, now.Sub(last).Seconds())
				last = now
			}
		}
		if in.Buffered() == 0 || err != nil {
			_ = out.Flush()
		}
		if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
			return
		}
	}
}

// ask has the picker choose.
func (g *gateway) ask(r *http.Request, body []byte) (p pick, refused *refusal) {
	req, err := http.NewRequestWithContext(r.Context(), http.MethodPost, g.epp+"/sim/pick", bytes.NewReader(body))
	if err != nil {
		return p, refuse(500, "%v", err)
	}
	req.Header.Set("X-Original-Path", r.URL.Path)
	req.Header.Set("X-Request-Id", r.Header.Get("X-Request-Id"))
	resp, err := g.client.Do(req)
	if err != nil {
		return p, refuse(500, "the endpoint picker does not answer") // FailClose
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	switch {
	case err != nil:
		return p, refuse(500, "%v", err)
	case resp.StatusCode != http.StatusOK:
		return p, refuse(resp.StatusCode, "%s", strings.TrimSpace(string(answer)))
	}
	if err := json.Unmarshal(answer, &p); err != nil {
		return p, refuse(500, "%v", err)
	}
	return p, nil
}

// postReport reports the end of a request. It is small and local, and what the client
// got is complete before.
func (g *gateway) postReport(report report) {
	ctx, cancel := context.WithTimeout(g.life, time.Second)
	defer cancel()
	raw, err := json.Marshal(report)
	if err != nil {
		return // a report always marshals
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, g.epp+"/sim/report", bytes.NewReader(raw))
	if err != nil {
		return
	}
	resp, err := g.client.Do(req)
	if err != nil {
		g.log.Printf("report to the endpoint picker: %v", err)
		return
	}
	_, _ = io.Copy(io.Discard, resp.Body)
	resp.Body.Close()
}
