package runpodtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// loopback makes a transport for one request to a pod of this machine.
func loopback() *http.Transport {
	return &http.Transport{DisableKeepAlives: true, DialContext: (&net.Dialer{Timeout: 2 * time.Second}).DialContext}
}

var proxyHost = regexp.MustCompile(`^([a-z0-9]+)-(\d+)$`)

// proxy stands before the http ports of all pods: 404 for a port that is not
// declared, 502 while nothing listens, 524 if nothing comes for too long.
func (e *Emulator) proxy(w http.ResponseWriter, r *http.Request) {
	name, _, _ := strings.Cut(r.Host, ".")
	path := r.URL.Path
	if !proxyHost.MatchString(name) {
		name, path, _ = strings.Cut(strings.TrimPrefix(path, "/"), "/")
		path = "/" + path
	}
	m := proxyHost.FindStringSubmatch(name)
	e.mu.Lock()
	if e.closed {
		e.mu.Unlock()
		panic(http.ErrAbortHandler)
	}
	e.work.Add(1)
	defer e.work.Done()
	target, declared := 0, false
	if m != nil {
		private, _ := strconv.Atoi(m[2]) // digits
		if p := e.find(m[1]); p != nil && slices.Contains(privatePorts(p.ports, "http"), private) {
			declared = true
			if p.up && !p.wrong.noNetwork {
				target = p.hostPorts[private]
			}
		}
	}
	e.mu.Unlock()
	switch {
	case !declared:
		page(w, http.StatusNotFound, "404")
		return
	case !sleep(r.Context(), e.opts.ProxyLatency):
		return
	case target == 0:
		page(w, http.StatusBadGateway, "502: Bad gateway")
		return
	}
	ctx, cancel := context.WithCancelCause(r.Context())
	defer cancel(nil)
	defer context.AfterFunc(e.ctx, func() { cancel(e.ctx.Err()) })()
	idle := time.AfterFunc(e.opts.ProxyIdle, func() { cancel(errIdle) })
	defer idle.Stop()
	p := httputil.ReverseProxy{
		Transport:     loopback(),
		FlushInterval: -1,
		ErrorLog:      log.New(io.Discard, "", 0), // a body that is cut short is meant to be
		Rewrite: func(pr *httputil.ProxyRequest) {
			pr.SetURL(&url.URL{Scheme: "http", Host: fmt.Sprintf("127.0.0.1:%d", target)})
			pr.Out.URL.Path, pr.Out.URL.RawPath = path, ""
		},
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, _ error) {
			if errors.Is(context.Cause(ctx), errIdle) {
				page(w, 524, "524: A timeout occurred")
				return
			}
			page(w, http.StatusBadGateway, "502: Bad gateway")
		},
		ModifyResponse: func(resp *http.Response) error { return e.spoil(resp, idle) },
	}
	p.ServeHTTP(w, r.WithContext(ctx))
}

var errIdle = errors.New("idle for too long")

// page answers as the network before RunPod does.
func page(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "text/html; charset=UTF-8")
	w.WriteHeader(status)
	fmt.Fprintf(w, "<!DOCTYPE html>\n<html><head><title>%s</title></head><body><h1>%s</h1></body></html>\n", text, text)
}

// spoil does to a response what the proxy does.
func (e *Emulator) spoil(resp *http.Response, idle *time.Timer) error {
	e.mu.Lock()
	_, buffers := e.fire("proxy-buffers")
	_, drops := e.fire("proxy-drops")
	e.mu.Unlock()
	body := &watched{ReadCloser: resp.Body, alive: func() { idle.Reset(e.opts.ProxyIdle) }, drops: drops}
	resp.Body = body
	if !buffers {
		return nil
	}
	defer body.Close()
	all, err := io.ReadAll(body)
	resp.Body = io.NopCloser(bytes.NewReader(all))
	return err
}

// A watched body says when it is alive, and may end in its middle.
type watched struct {
	io.ReadCloser
	alive func()
	drops bool
	read  int
}

func (w *watched) Read(b []byte) (int, error) {
	if w.drops && w.read > 0 {
		return 0, io.ErrUnexpectedEOF
	}
	n, err := w.ReadCloser.Read(b)
	w.read += n
	w.alive()
	return n, err
}
