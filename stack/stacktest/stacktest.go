// Package stacktest has an API server of Kubernetes that knows what a manifest says.
package stacktest

import (
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
)

// A fake is an API server that has the objects of a file, and refuses some lists.
type fake struct {
	objects map[string][]any // by the path of their collection
	denied  map[string]bool  // resources that may not be read
}

// collections are the paths of kinds, below a namespace.
var collections = map[string]string{
	"Pod": "/api/v1/namespaces/%s/pods", "Service": "/api/v1/namespaces/%s/services",
	"Ingress":       "/apis/networking.k8s.io/v1/namespaces/%s/ingresses",
	"InferencePool": "/apis/%s/namespaces/%s/inferencepools", "HTTPRoute": "/apis/%s/namespaces/%s/httproutes", "Gateway": "/apis/%s/namespaces/%s/gateways",
}

// Serve starts a server that has the objects of a file of manifests and refuses to list
// the denied resources. It returns the kubeconfig that leads to it.
func Serve(t *testing.T, file string, denied ...string) (kubeconfig string) {
	t.Helper()
	f := &fake{objects: map[string][]any{}, denied: map[string]bool{}}
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
	s := httptest.NewUnstartedServer(f)
	s.Config.ErrorLog = log.New(io.Discard, "", 0) // a client may hang up at any time
	s.StartTLS()
	t.Cleanup(s.Close)
	config := filepath.Join(t.TempDir(), "config")
	if err := os.WriteFile(config, []byte(fmt.Sprintf(`apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: %q, insecure-skip-tls-verify: true}}]
users: [{name: u, user: {token: t}}]
contexts: [{name: prod, context: {cluster: c, user: u}}]
current-context: prod
`, s.URL)), 0o600); err != nil {
		t.Fatal(err)
	}
	return config
}

func (f *fake) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	fields := strings.Split(r.URL.Path, "/")
	resource := fields[len(fields)-1]
	switch {
	case r.URL.Path == "/version":
		fmt.Fprint(w, `{"major":"1","minor":"34","gitVersion":"v1.34.4","platform":"linux/amd64"}`)
	case r.Method == http.MethodPost && resource == "selfsubjectaccessreviews":
		var q struct {
			Spec struct{ ResourceAttributes struct{ Resource string } }
		}
		_ = json.NewDecoder(r.Body).Decode(&q)
		w.WriteHeader(http.StatusCreated)
		fmt.Fprintf(w, `{"status":{"allowed":%v}}`, !f.denied[q.Spec.ResourceAttributes.Resource])
	case r.Method != http.MethodGet:
		w.WriteHeader(http.StatusMethodNotAllowed) // nothing may be changed
	case f.denied[resource]:
		w.WriteHeader(http.StatusForbidden)
		fmt.Fprintf(w, `{"kind":"Status","reason":"Forbidden","message":"%s is forbidden: User \"u\" cannot list resource \"%[1]s\" in API group \"\" in the namespace \"%s\""}`, resource, fields[len(fields)-2])
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
