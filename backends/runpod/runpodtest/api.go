package runpodtest

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// A call is one request that is being answered.
type call struct {
	e   *Emulator
	w   *answer
	r   *http.Request
	id  string // the {id} of its path
	own *pod   // whose key it bears; nil is the account's
	ev  *Event
}

// paths are the paths that are emulated and their methods, in the order in
// which Allow names them.
var paths = []struct {
	path    string
	methods []method
}{
	{"/v2/pods", []method{{"GET", (*Emulator).listPods}, {"POST", (*Emulator).createPod}}},
	{"/v2/pods/{id}", []method{{"GET", (*Emulator).getPod}, {"PATCH", (*Emulator).updatePod}, {"DELETE", (*Emulator).deletePod}}},
	{"/v2/pods/{id}/action", []method{{"POST", (*Emulator).podAction}}},
	{"/v2/pods/{id}/logs", []method{{"GET", (*Emulator).podLogs}}},
	{"/v2/catalog/gpus", []method{{"GET", (*Emulator).listGPUs}}},
	{"/v2/catalog/gpus/{id}", []method{{"GET", (*Emulator).getGPU}}},
	{"/v2/catalog/datacenters", []method{{"GET", (*Emulator).listDataCenters}}},
	{"/v2/billing", []method{{"GET", (*Emulator).billing}}},
	{"/v2/billing/pods", []method{{"GET", (*Emulator).podBilling}}},
}

type method struct {
	name   string
	handle func(*Emulator, *call)
}

// match finds a path's methods and its id.
func match(path string) (methods []method, id string) {
	want := strings.Split(path, "/")
	for _, p := range paths {
		have := strings.Split(p.path, "/")
		if len(have) != len(want) {
			continue
		}
		found, ok := "", true
		for i := range have {
			switch {
			case have[i] == "{id}" && want[i] != "":
				found = want[i]
			case have[i] != want[i]:
				ok = false
			}
		}
		if ok {
			return p.methods, found
		}
	}
	return nil, ""
}

// ServeHTTP implements [http.Handler].
func (e *Emulator) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	ev := &Event{Received: time.Now(), At: e.now(), Method: r.Method, Path: r.URL.Path}
	e.mu.Lock()
	if e.closed {
		e.mu.Unlock()
		panic(http.ErrAbortHandler)
	}
	e.work.Add(1)
	defer e.work.Done()
	if strings.HasPrefix(r.URL.Path, smiPath) {
		e.mu.Unlock()
		e.nvidiaSMI(w, r)
		return
	}
	e.events = append(e.events, ev)
	e.mu.Unlock()
	c := &call{e: e, r: r, ev: ev}
	c.w = &answer{ResponseWriter: w, call: c}
	defer c.tell(0) // where it never was answered
	e.answer(c)
}

func (e *Emulator) answer(c *call) {
	switch {
	case c.r.UserAgent() == "":
		// Not the API's own answer: that of the network before it.
		c.w.Header().Set("Content-Type", "text/plain; charset=UTF-8")
		c.w.WriteHeader(http.StatusForbidden)
		fmt.Fprint(c.w, "error code: 1010")
		return
	case strings.HasPrefix(c.r.URL.Path, "/v1/"):
		c.fail(http.StatusGone, "the REST API v1 is retired, use v2")
		return
	}
	key, bearer := strings.CutPrefix(c.r.Header.Get("Authorization"), "Bearer ")
	if !bearer || key == "" {
		c.fail(http.StatusUnauthorized, "missing bearer token")
		return
	}
	e.mu.Lock()
	c.ev.Who = "account"
	if key != e.opts.Key {
		c.ev.Who = ""
		for _, p := range e.pods {
			if p.key == key && !p.foreign {
				c.own, c.ev.Who = p, "pod "+p.id
			}
		}
	}
	who := c.ev.Who
	limited := who != "" && e.limit(c)
	_, html := e.fire("html-502")
	e.mu.Unlock()
	switch {
	case who == "":
		c.fail(http.StatusUnauthorized, "invalid bearer token")
		return
	case html:
		c.w.Header().Set("Content-Type", "text/html; charset=UTF-8")
		c.w.WriteHeader(http.StatusBadGateway)
		fmt.Fprint(c.w, "<!DOCTYPE html>\n<html><head><title>api.runpod.io | 502: Bad gateway</title></head><body><h1>Bad gateway <span>Error code 502</span></h1></body></html>\n")
		return
	case limited:
		c.fail(http.StatusTooManyRequests, "rate limit exceeded for the minute window")
		return
	}
	methods, id := match(c.r.URL.Path)
	if methods == nil {
		c.notFound()
		return
	}
	c.id = id
	var allow []string
	for _, m := range methods {
		if m.name == c.r.Method {
			m.handle(e, c)
			return
		}
		allow = append(allow, m.name)
	}
	c.w.Header().Set("Allow", strings.Join(allow, ", "))
	c.fail(http.StatusMethodNotAllowed, "The requested method is not allowed for this path.")
}

// limit counts a request and says whether it is one too many. e.mu is held.
func (e *Emulator) limit(c *call) bool {
	h := c.w.Header()
	tell := func(quota, left int, wait time.Duration) {
		t := int(math.Ceil(wait.Seconds()))
		h.Set("RateLimit", fmt.Sprintf(`"minute";r=%d;t=%d, "hour";r=2800;t=1812, "day";r=49500;t=45012`, left, t))
		h.Set("RateLimit-Policy", fmt.Sprintf(`"minute";q=%d;w=60, "hour";q=3000;w=3600, "day";q=50000;w=86400`, quota))
		if left == 0 {
			h.Set("Retry-After", strconv.Itoa(t))
		}
	}
	if _, ok := e.fire("429"); ok {
		tell(max(60, e.opts.PerMinute), 0, e.opts.RetryAfter)
		return true
	}
	if e.opts.PerMinute == 0 {
		return false // an account without limits gets no headers either
	}
	now := time.Now()
	if now.Sub(e.window) >= time.Minute {
		e.window, e.used = now, 0
	}
	e.used++
	wait := time.Minute - now.Sub(e.window)
	tell(e.opts.PerMinute, max(0, e.opts.PerMinute-e.used), wait)
	if e.used <= e.opts.PerMinute {
		h.Del("Retry-After")
		return false
	}
	return true
}

// json answers with a document. Keys are in the order of the alphabet, as the
// live service has them.
func (c *call) json(status int, v any) {
	c.document(status, "application/json", v)
}

func (c *call) document(status int, kind string, v any) {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err) // only what we made
	}
	c.w.Header().Set("Content-Type", kind)
	c.w.WriteHeader(status)
	_, _ = c.w.Write(b) // a client that is gone needs no answer
}

// fail answers with a problem as RFC 9457 has it.
func (c *call) fail(status int, detail string, problems ...string) {
	p := map[string]any{"detail": detail, "status": status, "title": http.StatusText(status)}
	if len(problems) > 0 {
		p["errors"] = problems
	}
	c.document(status, "application/problem+json", p)
}

func (c *call) notFound() { c.fail(http.StatusNotFound, "resource not found") }

func (c *call) forbidden() { c.fail(http.StatusForbidden, "access denied") }

func (c *call) broken() { c.fail(http.StatusInternalServerError, "internal server error") }

func (c *call) invalid(problems ...string) {
	c.fail(http.StatusUnprocessableEntity, "Request validation failed.", problems...)
}

// body reads and checks a body; it has answered if that is wrong.
func (c *call) body(want *rule, into any) bool {
	raw, err := io.ReadAll(http.MaxBytesReader(nil, c.r.Body, maxBody))
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		c.fail(http.StatusRequestEntityTooLarge, fmt.Sprintf("request body exceeds %d bytes", maxBody))
		return false
	case err != nil:
		panic(http.ErrAbortHandler) // the client went
	}
	var v any
	if err := json.Unmarshal(raw, &v); err != nil {
		c.fail(http.StatusBadRequest, "request could not be processed")
		return false
	}
	if problems := want.check("$", v); len(problems) > 0 {
		c.invalid(problems...)
		return false
	}
	if err := json.Unmarshal(raw, into); err != nil {
		c.fail(http.StatusBadRequest, "request could not be processed")
		return false
	}
	return true
}

// about says in the event which pod a request concerns.
func (c *call) about(p *pod) {
	c.e.mu.Lock()
	defer c.e.mu.Unlock()
	c.ev.Pods = append(c.ev.Pods, p.name)
	c.ev.Foreign = c.ev.Foreign || p.foreign
}

// tell completes the event, once.
func (c *call) tell(status int) {
	c.e.mu.Lock()
	if c.ev.told {
		c.e.mu.Unlock()
		return
	}
	c.ev.told, c.ev.Status = true, status
	ev := *c.ev
	c.e.mu.Unlock()
	if c.e.opts.OnEvent != nil {
		c.e.opts.OnEvent(ev)
	}
}

// An answer reports its request once the status is known.
type answer struct {
	http.ResponseWriter
	call *call
}

func (a *answer) WriteHeader(status int) {
	a.call.tell(status)
	a.ResponseWriter.WriteHeader(status)
}

func (a *answer) Unwrap() http.ResponseWriter { return a.ResponseWriter }
