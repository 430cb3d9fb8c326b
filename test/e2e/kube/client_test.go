//go:build e2e_kube

package kube

import (
	"bytes"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/goccy/go-yaml"

	"sweep.dev/sweep/internal/polltest"
)

// admin speaks to the API server as its administrator, with nothing of sweep's client.
var admin = &http.Client{Timeout: 20 * time.Second, Transport: &http.Transport{
	TLSClientConfig: &tls.Config{InsecureSkipVerify: true},
}}

// send makes a call and fails unless it succeeds.
func (n *node) send(method, path, kind string, body []byte) error {
	_, err := n.call(method, path, kind, body)
	return err
}

func (n *node) call(method, path, kind string, body []byte) ([]byte, error) {
	req, err := http.NewRequest(method, n.server()+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Authorization", "Bearer "+adminToken)
	if kind != "" {
		req.Header.Set("Content-Type", kind)
	}
	resp, err := admin.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode >= 300 {
		err = fmt.Errorf("%s %s: %s: %s", method, path, resp.Status, answer)
	}
	return answer, err
}

// get reads an object, whose body is not wanted if out is nil.
func (n *node) get(path string, out any) error {
	answer, err := n.call(http.MethodGet, path, "", nil)
	if err != nil || out == nil {
		return err
	}
	return json.Unmarshal(answer, out)
}

// kubeconfig writes the configuration of a user, which others may be reading.
func (n *node) kubeconfig(user, token string) error {
	file, err := os.CreateTemp(n.dir, user)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(file, `apiVersion: v1
kind: Config
clusters: [{name: lab, cluster: {server: %q, insecure-skip-tls-verify: true}}]
users: [{name: %[2]s, user: {token: %[3]s}}]
contexts: [{name: lab, context: {cluster: lab, user: %[2]s}}]
current-context: lab
`, n.server(), user, token)
	return errors.Join(err, file.Close(), os.Rename(file.Name(), n.file(user+".kubeconfig")))
}

// paths are the collections of the kinds in the tests' manifests; %s is the namespace.
var paths = map[string]string{
	"Namespace": "/api/v1/namespaces", "Pod": "/api/v1/namespaces/%s/pods", "Service": "/api/v1/namespaces/%s/services",
	"Deployment": "/apis/apps/v1/namespaces/%s/deployments", "Ingress": "/apis/networking.k8s.io/v1/namespaces/%s/ingresses",
	"CustomResourceDefinition": "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
	"InferencePool":            "/apis/inference.networking.k8s.io/v1/namespaces/%s/inferencepools",
	"HTTPRoute":                "/apis/gateway.networking.k8s.io/v1/namespaces/%s/httproutes",
	"Gateway":                  "/apis/gateway.networking.k8s.io/v1/namespaces/%s/gateways",
	"Role":                     "/apis/rbac.authorization.k8s.io/v1/namespaces/%s/roles",
	"RoleBinding":              "/apis/rbac.authorization.k8s.io/v1/namespaces/%s/rolebindings",
	"PersistentVolume":         "/api/v1/persistentvolumes", "PersistentVolumeClaim": "/api/v1/namespaces/%s/persistentvolumeclaims",
	"ClusterRole":        "/apis/rbac.authorization.k8s.io/v1/clusterroles",
	"ClusterRoleBinding": "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
	"ServiceAccount":     "/api/v1/namespaces/%s/serviceaccounts", "ConfigMap": "/api/v1/namespaces/%s/configmaps",
	"ResourceQuota": "/api/v1/namespaces/%s/resourcequotas", "PriorityClass": "/apis/scheduling.k8s.io/v1/priorityclasses",
}

// apply creates the objects of a manifest in a namespace, or in none.
func (n *node) apply(t *testing.T, namespace, manifest string) {
	t.Helper()
	for text := range strings.SplitSeq(manifest, "\n---") {
		var object map[string]any
		if err := yaml.Unmarshal([]byte(text), &object); err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		if object == nil {
			continue
		}
		kind, _ := object["kind"].(string)
		path := paths[kind]
		if path == "" {
			t.Fatalf("no path for the kind %q", kind)
		}
		if strings.Contains(path, "%s") {
			path = fmt.Sprintf(path, namespace)
		}
		body, err := json.Marshal(object)
		if err != nil {
			t.Fatal(err)
		}
		polltest.Within(20*time.Second, func() bool {
			err = n.send(http.MethodPost, path+"?fieldValidation=Strict", "application/json", body)
			return err == nil || !later(err)
		})
		if err != nil && !exists(err) {
			t.Fatal(err)
		}
	}
}

func exists(err error) bool { return strings.Contains(err.Error(), "AlreadyExists") }

// later reports whether a create that was refused is taken a moment later: of a kind of a CRD
// that was just created, or in a namespace whose account is not there yet. An account that
// is there already names itself as well.
func later(err error) bool {
	return !exists(err) && (strings.Contains(err.Error(), "404 page not found") || strings.Contains(err.Error(), "serviceaccount"))
}

func TestLater(t *testing.T) {
	for text, want := range map[string]bool{
		"404 Not Found: 404 page not found": true,
		`403 Forbidden: pods "a" is forbidden: error looking up service account pd/default: serviceaccount "default" not found`:                       true,
		`409 Conflict: {"kind":"Status","reason":"AlreadyExists","message":"serviceaccounts \"pd-epp\" already exists"}`:                              false,
		`422 Unprocessable Entity: {"kind":"Status","reason":"Invalid","message":"Pod \"a\" is invalid: spec.containers: Required value","code":422}`: false,
	} {
		if got := later(errors.New(text)); got != want {
			t.Errorf("%s: tried again %v", text, got)
		}
	}
}

// crds applies the CRDs of the Gateway API and the one of testdata.
func (n *node) crds(t *testing.T) {
	t.Helper()
	files, err := filepath.Glob("../../../.engines/kube/crds/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no CRDs: %v", err)
	}
	for _, f := range append(files, "testdata/inferencepools.yaml") {
		n.apply(t, "", read(t, f))
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// namespace makes a namespace that is deleted at the end of the test. The deletion ends
// its pods, and is not waited for.
func (n *node) namespace(t *testing.T, name string) {
	t.Helper()
	n.apply(t, "", "{apiVersion: v1, kind: Namespace, metadata: {name: "+name+"}}")
	t.Cleanup(func() {
		if err := n.send(http.MethodDelete, "/api/v1/namespaces/"+name, "", nil); err != nil {
			t.Error(err)
		}
	})
}
