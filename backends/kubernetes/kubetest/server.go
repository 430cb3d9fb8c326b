// Package kubetest has an API server of Kubernetes that keeps what it is given, ends what
// it would end, and can be nasty. It stands for a cluster where none can be.
package kubetest

import (
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// A Server is an API server with its controllers.
type Server struct {
	Kubeconfig string // the file that leads to it

	mu      sync.Mutex
	objects map[string]Object // by path
	before  func(w http.ResponseWriter, r *http.Request, do func()) bool
	skew    time.Duration
	suspend bool
	stopped bool // the controllers
	denied  []string
	asked   []string
	end     chan struct{}
	ended   chan struct{}

	runs, lost bool
	together   int
	containers map[string]*container // by the paths of their pods
}

// An Object is one of the API's.
type Object map[string]any

// Start starts a server, which ends with the test.
func Start(t *testing.T) *Server {
	t.Helper()
	f := &Server{objects: map[string]Object{}, containers: map[string]*container{}, end: make(chan struct{}), ended: make(chan struct{})}
	s := httptest.NewUnstartedServer(f)
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.StartTLS()
	go f.control()
	t.Cleanup(func() {
		close(f.end)
		<-f.ended
		f.stopAll()
		s.CloseClientConnections()
		s.Close()
	})
	f.Kubeconfig = filepath.Join(t.TempDir(), "config")
	text := fmt.Sprintf(`apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: %q, insecure-skip-tls-verify: true}}]
users: [{name: u, user: {token: token-of-the-tests}}]
contexts: [{name: lab, context: {cluster: c, user: u, namespace: ns}}]
current-context: lab
`, s.URL)
	if err := os.WriteFile(f.Kubeconfig, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return f
}

// Before lets a function see each request first: true is an answer of its own. It may do
// what was asked, whatever it answers. Nil is the end of that.
func (f *Server) Before(by func(w http.ResponseWriter, r *http.Request, do func()) bool) {
	f.with(func() { f.before = by })
}

// Clock sets the cluster's clock: so far before that of this machine.
func (f *Server) Clock(ahead time.Duration) { f.with(func() { f.skew = ahead }) }

// now returns the time by the cluster's clock. The lock is held.
func (f *Server) now() time.Time { return time.Now().Add(f.skew).UTC() }

// Suspend lets new Jobs be suspended, as Kueue does.
func (f *Server) Suspend() { f.with(func() { f.suspend = true }) }

// Controllers stops the controllers, or lets them go on.
func (f *Server) Controllers(run bool) { f.with(func() { f.stopped = !run }) }

// Deny refuses a verb of a resource, as "create pods", from now on.
func (f *Server) Deny(rights ...string) { f.with(func() { f.denied = rights }) }

// Asked returns the methods and paths of the requests so far.
func (f *Server) Asked() (asked []string) {
	f.with(func() { asked = slices.Clone(f.asked) })
	return asked
}

// Paths returns those of all objects.
func (f *Server) Paths() (paths []string) {
	f.with(func() { paths = slices.Sorted(maps.Keys(f.objects)) })
	return paths
}

// Put makes or replaces an object behind everybody's back.
func (f *Server) Put(path string, o Object) { f.with(func() { f.put(path, o) }) }

// Edit changes an object, if it is there.
func (f *Server) Edit(path string, change func(Object)) {
	f.with(func() {
		if o := f.objects[path]; o != nil {
			change(o)
		}
	})
}

// Remove forgets an object.
func (f *Server) Remove(path string) { f.with(func() { delete(f.objects, path) }) }

// Text returns a text in an object, by the keys that lead to it; "" if it is not there.
func (o Object) Text(keys ...string) string {
	s, _ := o.at(keys...).(string)
	return s
}

func (o Object) at(keys ...string) any {
	var v any = map[string]any(o)
	for _, k := range keys {
		m, _ := v.(map[string]any)
		v = m[k]
	}
	return v
}

// Set puts a value where the keys lead.
func (o Object) Set(value any, keys ...string) {
	m := map[string]any(o)
	for _, k := range keys[:len(keys)-1] {
		below, ok := m[k].(map[string]any)
		if !ok {
			below = map[string]any{}
			m[k] = below
		}
		m = below
	}
	m[keys[len(keys)-1]] = value
}

func (f *Server) with(do func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	do()
}

// put adds what the API server adds.
func (f *Server) put(path string, o Object) {
	o.Set(rand.Text(), "metadata", "uid")
	o.Set(f.now().Format(time.RFC3339), "metadata", "creationTimestamp")
	if o.Text("kind") == "Job" && f.suspend {
		o.Set(true, "spec", "suspend")
	}
	f.objects[path] = o
}

// ServeHTTP answers as an API server does.
func (f *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	f.mu.Lock()
	f.asked = append(f.asked, r.Method+" "+r.URL.Path)
	before := f.before
	w.Header().Set("Date", f.now().Format(http.TimeFormat))
	f.mu.Unlock()
	do := func(w http.ResponseWriter) {
		path, log := strings.CutSuffix(r.URL.Path, "/log")
		switch {
		case log:
			f.log(w, r, path)
		case r.URL.Query().Get("watch") != "":
			f.watch(w, r, r.URL.Path)
		default:
			f.with(func() { f.answer(w, r, body) })
		}
	}
	if before != nil && before(w, r, func() { do(httptest.NewRecorder()) }) {
		return
	}
	do(w)
}

var verbs = map[string]string{http.MethodPost: "create", http.MethodPatch: "patch", http.MethodDelete: "delete", http.MethodGet: "get"}

// answer answers one request. The lock is held.
func (f *Server) answer(w http.ResponseWriter, r *http.Request, body []byte) {
	path := r.URL.Path
	parts := strings.Split(strings.Trim(path, "/"), "/")
	below := slices.Index(parts, "namespaces")
	if below < 0 || len(parts) < below+3 {
		f.rest(w, r, body)
		return
	}
	resource, named := parts[below+2], len(parts) > below+3
	verb := verbs[r.Method]
	if verb == "get" && !named {
		verb = "list"
	}
	if verb == "delete" && !named {
		verb = "deletecollection"
	}
	if len(parts) == below+5 { // of a pod: exec, portforward
		resource += "/" + parts[below+4]
	}
	if slices.Contains(f.denied, verb+" "+resource) {
		group := ""
		if parts[0] == "apis" {
			group = parts[1]
		}
		fail(w, http.StatusForbidden, "Forbidden", fmt.Sprintf("%s is forbidden: User \"u\" cannot %s resource %q in API group %q in the namespace %q", resource, verb, resource, group, parts[below+1]))
		return
	}
	switch o := f.objects[path]; {
	case r.Method == http.MethodPost:
		f.create(w, path, body)
	case verb == "list":
		f.list(w, path, r.URL.Query())
	case verb == "deletecollection":
		maps.DeleteFunc(f.objects, func(at string, o Object) bool {
			return within(at, path) && selected(o, r.URL.Query().Get("labelSelector"))
		})
		reply(w, Object{"kind": "Status", "status": "Success"})
	case o == nil:
		fail(w, http.StatusNotFound, "NotFound", fmt.Sprintf("%s %q not found", resource, parts[len(parts)-1]))
	case r.Method == http.MethodPatch:
		f.patch(w, o, body)
	case r.Method == http.MethodDelete:
		f.delete(w, path, o, body)
	default:
		reply(w, o)
	}
}

// rest answers what is in no namespace.
func (f *Server) rest(w http.ResponseWriter, r *http.Request, body []byte) {
	switch {
	case r.URL.Path == "/version":
		reply(w, Object{"gitVersion": "v1.34.4"})
	case strings.HasSuffix(r.URL.Path, "/selfsubjectaccessreviews"):
		var q Object
		_ = json.Unmarshal(body, &q)
		of := func(key string) string { return q.Text("spec", "resourceAttributes", key) }
		what := of("verb") + " " + of("resource")
		if sub := of("subresource"); sub != "" {
			what += "/" + sub
		}
		reply(w, Object{"status": map[string]any{"allowed": !slices.Contains(f.denied, what)}})
	case f.objects[r.URL.Path] != nil:
		reply(w, f.objects[r.URL.Path])
	default:
		fail(w, http.StatusNotFound, "NotFound", "the server could not find the requested resource")
	}
}

func (f *Server) create(w http.ResponseWriter, collection string, body []byte) {
	var o Object
	if err := json.Unmarshal(body, &o); err != nil || o.Text("metadata", "name") == "" {
		fail(w, http.StatusBadRequest, "BadRequest", fmt.Sprint("no object: ", err))
		return
	}
	path := collection + "/" + o.Text("metadata", "name")
	if f.objects[path] != nil {
		fail(w, http.StatusConflict, "AlreadyExists", fmt.Sprintf("%q already exists", o.Text("metadata", "name")))
		return
	}
	f.put(path, o)
	w.WriteHeader(http.StatusCreated)
	reply(w, o)
}

func (f *Server) list(w http.ResponseWriter, collection string, query url.Values) {
	items := []Object{}
	for _, path := range slices.Sorted(maps.Keys(f.objects)) {
		if within(path, collection) && selected(f.objects[path], query.Get("labelSelector")) {
			items = append(items, f.objects[path])
		}
	}
	reply(w, Object{"metadata": map[string]any{}, "items": items})
}

// within reports whether an object is one of a collection.
func within(path, collection string) bool {
	name, ok := strings.CutPrefix(path, collection+"/")
	return ok && !strings.Contains(name, "/")
}

func selected(o Object, selector string) bool {
	for part := range strings.SplitSeq(selector, ",") {
		key, value, _ := strings.Cut(part, "=")
		if part != "" && o.Text("metadata", "labels", key) != value {
			return false
		}
	}
	return true
}

func (f *Server) patch(w http.ResponseWriter, o Object, body []byte) {
	var patch Object
	if err := json.Unmarshal(body, &patch); err != nil {
		fail(w, http.StatusBadRequest, "BadRequest", err.Error())
		return
	}
	if uid := patch.Text("metadata", "uid"); uid != "" && uid != o.Text("metadata", "uid") {
		fail(w, http.StatusUnprocessableEntity, "Invalid", fmt.Sprintf("%q is invalid: metadata.uid: Invalid value: %q: field is immutable", o.Text("metadata", "name"), uid))
		return
	}
	merge(o, patch)
	reply(w, o)
}

func merge(into, patch map[string]any) {
	for key, value := range patch {
		below, isMap := value.(map[string]any)
		have, had := into[key].(map[string]any)
		switch {
		case value == nil:
			delete(into, key)
		case isMap && had:
			merge(have, below)
		default:
			into[key] = value
		}
	}
}

func (f *Server) delete(w http.ResponseWriter, path string, o Object, body []byte) {
	var options Object
	_ = json.Unmarshal(body, &options)
	if uid := options.Text("preconditions", "uid"); uid != "" && uid != o.Text("metadata", "uid") {
		fail(w, http.StatusConflict, "Conflict", "Precondition failed: UID in precondition")
		return
	}
	switch {
	case options.Text("propagationPolicy") == "Foreground", o.Text("kind") == "Pod" && o.Text("status", "phase") == "Running":
		if o.Text("metadata", "deletionTimestamp") == "" {
			o.Set(f.now().Format(time.RFC3339), "metadata", "deletionTimestamp")
		}
	default:
		delete(f.objects, path)
	}
	reply(w, o)
}

func reply(w http.ResponseWriter, o Object) { _ = json.NewEncoder(w).Encode(o) }

func fail(w http.ResponseWriter, code int, reason, message string) {
	w.WriteHeader(code)
	reply(w, Object{"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": reason, "message": message, "code": code})
}

// tick is how often the controllers look.
const tick = 10 * time.Millisecond

// control is what the controller manager does.
func (f *Server) control() {
	defer close(f.ended)
	for {
		select {
		case <-f.end:
			return
		case <-time.After(tick):
		}
		f.with(func() {
			if !f.stopped {
				f.manage()
			}
			f.nodes()
		})
	}
}

func (f *Server) manage() {
	uids := map[string]bool{}
	for path, o := range f.objects {
		if o.Text("kind") != "Job" {
			continue
		}
		start, err := time.Parse(time.RFC3339Nano, o.Text("status", "startTime"))
		suspended, _ := o.at("spec", "suspend").(bool)
		seconds, _ := o.at("spec", "activeDeadlineSeconds").(float64)
		switch {
		case o.Text("metadata", "deletionTimestamp") != "", err == nil && seconds > 0 && f.now().Sub(start) > time.Duration(seconds*float64(time.Second)):
			delete(f.objects, path)
			continue
		case err != nil && !suspended:
			o.Set(f.now().Format(time.RFC3339Nano), "status", "startTime")
		}
		uids[o.Text("metadata", "uid")] = true
	}
	for path, o := range f.objects {
		refs, _ := o.at("metadata", "ownerReferences").([]any)
		if len(refs) == 0 {
			continue
		}
		if ref, _ := refs[0].(map[string]any); !uids[Object(ref).Text("uid")] {
			if o.Text("kind") == "Pod" && o.Text("status", "phase") == "Running" {
				o.Set(f.now().Format(time.RFC3339), "metadata", "deletionTimestamp")
				continue
			}
			delete(f.objects, path)
		}
	}
}
