// Package stacktest has an API server of Kubernetes that knows what a manifest says.
package stacktest

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/goccy/go-yaml"
)

// A Server is an API server that has the objects of a file, and refuses some lists.
type Server struct {
	Kubeconfig string // the file that leads to it

	mu      sync.Mutex
	objects map[string][]any        // by the path of their collection
	denied  map[string]bool         // resources that may not be read
	pages   map[string]http.Handler // of pods, by POD:PORT
	logs    map[string]string       // of containers, by POD/CONTAINER
	broken  http.HandlerFunc        // answers everything, if it is not nil
	asked   []string                // methods and paths, in order
}

// Serve is [Start] for one who needs the kubeconfig alone.
func Serve(t *testing.T, file string, denied ...string) (kubeconfig string) {
	t.Helper()
	return Start(t, file, denied...).Kubeconfig
}

// Edit changes the objects of a kind in a namespace.
func (f *Server) Edit(kind, namespace string, change func(objects []any) []any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	path := fmt.Sprintf(collections[kind], namespace)
	f.objects[path] = change(f.objects[path])
}

// Page lets the proxy of the API server lead to a port of a pod.
func (f *Server) Page(pod string, port int, page http.Handler) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.pages[fmt.Sprintf("%s:%d", pod, port)] = page
}

// Log gives a container a log, of which each line begins with a time. It goes on until the
// client hangs up.
func (f *Server) Log(pod, container, text string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.logs[pod+"/"+container] = text
}

// log answers with the log of a container.
func (f *Server) log(w http.ResponseWriter, r *http.Request, pod string) {
	f.mu.Lock()
	text, refused := f.logs[pod+"/"+r.URL.Query().Get("container")], f.denied["log"]
	f.mu.Unlock()
	if refused {
		w.WriteHeader(http.StatusForbidden)
		fmt.Fprintf(w, `{"kind":"Status","reason":"Forbidden","message":"pods \"%s\" is forbidden: User \"u\" cannot get resource \"pods/log\" in API group \"\" in the namespace \"ns\""}`, pod)
		return
	}
	fmt.Fprint(w, text)
	_ = http.NewResponseController(w).Flush()
	if r.URL.Query().Get("follow") == "true" {
		<-r.Context().Done()
	}
}

// Break lets a handler answer everything; nil is the end of that.
func (f *Server) Break(by http.HandlerFunc) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.broken = by
}

// Asked returns the methods and paths of the questions so far.
func (f *Server) Asked() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.asked)
}

// collections are the paths of kinds, below a namespace.
var collections = map[string]string{
	"Node": "/api/v1/nodes%.0s", "Pod": "/api/v1/namespaces/%s/pods", "Service": "/api/v1/namespaces/%s/services",
	"Ingress":       "/apis/networking.k8s.io/v1/namespaces/%s/ingresses",
	"InferencePool": "/apis/%s/namespaces/%s/inferencepools", "HTTPRoute": "/apis/%s/namespaces/%s/httproutes", "Gateway": "/apis/%s/namespaces/%s/gateways",
}

// Start starts a server that has the objects of a file of manifests and refuses to read
// the denied resources.
func Start(t *testing.T, file string, denied ...string) *Server {
	t.Helper()
	f := &Server{objects: map[string][]any{}, denied: map[string]bool{}, pages: map[string]http.Handler{}, logs: map[string]string{}}
	for _, d := range denied {
		f.denied[d] = true
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for document := range strings.SplitSeq(string(text), "\n---") {
		var object struct {
			APIVersion string `yaml:"apiVersion"`
			Kind       string
			Metadata   struct{ Namespace string }
		}
		var whole map[string]any
		if err := yaml.Unmarshal([]byte(document), &object); err != nil {
			t.Fatal(err)
		}
		if err := yaml.Unmarshal([]byte(document), &whole); err != nil {
			t.Fatal(err)
		}
		path := collections[object.Kind]
		switch {
		case path == "":
			t.Fatalf("%s: the kind %q", file, object.Kind)
		case strings.HasPrefix(path, "/apis/%s"):
			path = fmt.Sprintf(path, object.APIVersion, object.Metadata.Namespace)
		default:
			path = fmt.Sprintf(path, object.Metadata.Namespace)
		}
		f.objects[path] = append(f.objects[path], whole)
	}
	f.Kubeconfig = Listen(t, f)
	return f
}

// Listen starts an API server of a handler, for the time of the test, and returns the
// kubeconfig that leads to it by the context prod.
func Listen(t *testing.T, h http.Handler) (kubeconfig string) {
	t.Helper()
	s := httptest.NewUnstartedServer(h)
	s.Config.ErrorLog = log.New(io.Discard, "", 0) // a client may hang up at any time
	s.StartTLS()
	t.Cleanup(s.Close)
	kubeconfig = filepath.Join(t.TempDir(), "config")
	if err := os.WriteFile(kubeconfig, []byte(fmt.Sprintf(`apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: %q, insecure-skip-tls-verify: true}}]
users: [{name: u, user: {token: t}}]
contexts: [{name: prod, context: {cluster: c, user: u}}]
current-context: prod
`, s.URL)), 0o600); err != nil {
		t.Fatal(err)
	}
	return kubeconfig
}

func (f *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	f.asked = append(f.asked, r.Method+" "+r.URL.Path)
	broken := f.broken
	f.mu.Unlock()
	if broken != nil {
		broken(w, r)
		return
	}
	if pod, path, ok := strings.Cut(r.URL.Path, "/proxy/"); ok && r.Method == http.MethodGet {
		f.mu.Lock()
		page, refused := f.pages[pod[strings.LastIndex(pod, "/")+1:]], f.denied["proxy"]
		f.mu.Unlock()
		switch {
		case refused:
			w.WriteHeader(http.StatusForbidden)
		case page == nil:
			http.Error(w, "no endpoint", http.StatusServiceUnavailable)
		default:
			r.Header.Del("Authorization") // as the API server does
			r.URL.Path = "/" + path
			page.ServeHTTP(w, r)
		}
		return
	}
	if pod, ok := strings.CutSuffix(r.URL.Path, "/log"); ok {
		f.log(w, r, pod[strings.LastIndex(pod, "/")+1:])
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	fields := strings.Split(r.URL.Path, "/")
	resource := fields[len(fields)-1]
	switch {
	case r.URL.Path == "/version":
		fmt.Fprint(w, `{"major":"1","minor":"34","gitVersion":"v1.34.4","platform":"linux/amd64"}`)
	case r.Method == http.MethodPost && resource == "selfsubjectaccessreviews":
		var q struct {
			Spec struct {
				ResourceAttributes struct{ Resource, Subresource string }
			}
		}
		_ = json.NewDecoder(r.Body).Decode(&q)
		w.WriteHeader(http.StatusCreated)
		fmt.Fprintf(w, `{"status":{"allowed":%v}}`, !f.denied[cmp.Or(q.Spec.ResourceAttributes.Subresource, q.Spec.ResourceAttributes.Resource)])
	case r.Method != http.MethodGet:
		w.WriteHeader(http.StatusMethodNotAllowed) // nothing may be changed
	case f.denied[resource]:
		w.WriteHeader(http.StatusForbidden)
		fmt.Fprintf(w, `{"kind":"Status","reason":"Forbidden","message":"%s is forbidden: User \"u\" cannot list resource \"%[1]s\" in API group \"\" in the namespace \"%s\""}`, resource, fields[len(fields)-2])
	case len(fields) == 5 && fields[3] == "nodes":
		for _, node := range f.objects["/api/v1/nodes"] {
			if m, ok := node.(map[string]any)["metadata"].(map[string]any); ok && m["name"] == resource && !f.denied["nodes"] {
				_ = json.NewEncoder(w).Encode(node)
				return
			}
		}
		w.WriteHeader(http.StatusForbidden)
		fmt.Fprintf(w, `{"kind":"Status","reason":"Forbidden","message":"nodes \"%s\" is forbidden: User \"u\" cannot get resource \"nodes\" in API group \"\" at the cluster scope"}`, resource)
	default:
		items, there := f.objects[r.URL.Path]
		if !there && !strings.HasPrefix(r.URL.Path, "/api/v1/") {
			w.WriteHeader(http.StatusNotFound) // no such CRD
			fmt.Fprint(w, "404 page not found")
			return
		}
		if items == nil {
			items = []any{}
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"metadata": map[string]any{"resourceVersion": "1"}, "items": items})
	}
}
