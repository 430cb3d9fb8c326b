package dockertest

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path"
	"strings"
	"testing"
)

// A RegistryServer is a registry on loopback that has one image, of one layer.
type RegistryServer struct {
	host     string
	manifest []byte
	blobs    map[string][]byte
}

const (
	manifestType = "application/vnd.docker.distribution.manifest.v2+json"
	repository   = "team/engine"
)

// Registry serves an image of one layer until the test ends. The daemon takes
// a registry on loopback without TLS.
func Registry(t testing.TB, layer []byte) *RegistryServer {
	t.Helper()
	var zipped bytes.Buffer
	w := gzip.NewWriter(&zipped)
	if _, err := w.Write(layer); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	config, err := json.Marshal(map[string]any{
		"architecture": "amd64", "os": "linux", "config": map[string]any{"Entrypoint": []string{"/etc/engine"}},
		"rootfs": map[string]any{"type": "layers", "diff_ids": []string{digest(layer)}},
	})
	if err != nil {
		t.Fatal(err)
	}
	r := &RegistryServer{blobs: map[string][]byte{digest(config): config, digest(zipped.Bytes()): zipped.Bytes()}}
	blob := func(kind string, b []byte) map[string]any {
		return map[string]any{"mediaType": kind, "size": len(b), "digest": digest(b)}
	}
	r.manifest, err = json.Marshal(map[string]any{
		"schemaVersion": 2, "mediaType": manifestType,
		"config": blob("application/vnd.docker.container.image.v1+json", config),
		"layers": []any{blob("application/vnd.docker.image.rootfs.diff.tar.gzip", zipped.Bytes())},
	})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(r)
	t.Cleanup(server.Close)
	r.host = strings.TrimPrefix(server.URL, "http://")
	return r
}

// Digest returns that of the image's manifest.
func (r *RegistryServer) Digest() string { return digest(r.manifest) }

// Reference names the image by its digest.
func (r *RegistryServer) Reference() string {
	return fmt.Sprintf("%s/%s@%s", r.host, repository, r.Digest())
}

func (r *RegistryServer) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	what := path.Base(req.URL.Path)
	switch kind := path.Base(path.Dir(req.URL.Path)); {
	case req.URL.Path == "/v2/":
	case kind == "manifests" && what == r.Digest():
		w.Header().Set("Content-Type", manifestType)
		w.Header().Set("Docker-Content-Digest", what)
		w.Header().Set("Content-Length", fmt.Sprint(len(r.manifest)))
		_, _ = w.Write(r.manifest)
	case kind == "blobs" && r.blobs[what] != nil:
		w.Header().Set("Content-Type", "application/octet-stream")
		_, _ = w.Write(r.blobs[what])
	default:
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusNotFound)
		_, _ = w.Write([]byte(`{"errors":[{"code":"MANIFEST_UNKNOWN","message":"manifest unknown"}]}`))
	}
}

func digest(b []byte) string {
	sum := sha256.Sum256(b)
	return "sha256:" + hex.EncodeToString(sum[:])
}
