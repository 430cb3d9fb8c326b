//go:build e2e_kube

package kube

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// appImage is the one image of the pods, their sandbox included.
const appImage = "lab.test/app:1"

// buildImage builds the tests' program and sweep, and packs both as an archive of an OCI
// image.
func buildImage(folder string) (archive string, err error) {
	var programs []file
	for name, pkg := range map[string]string{"app": "e2e/kube/app", "sweep": "cmd/sweep"} {
		binary := filepath.Join(folder, name)
		build := exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w", "-o", binary, "sweep.dev/sweep/"+pkg)
		build.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := build.CombinedOutput(); err != nil {
			return "", fmt.Errorf("%w: %s", err, out)
		}
		program, err := os.ReadFile(binary)
		if err != nil {
			return "", err
		}
		programs = append(programs, file{name, program})
	}
	layer := archived(programs...)
	digest := func(b []byte) string { sum := sha256.Sum256(b); return hex.EncodeToString(sum[:]) }
	config, _ := json.Marshal(map[string]any{
		"architecture": "amd64", "os": "linux", "config": map[string]any{"Entrypoint": []string{"/app"}},
		"rootfs": map[string]any{"type": "layers", "diff_ids": []string{"sha256:" + digest(layer)}},
	})
	const types = "application/vnd.oci.image."
	manifest, _ := json.Marshal(map[string]any{
		"schemaVersion": 2, "mediaType": types + "manifest.v1+json",
		"config": map[string]any{"mediaType": types + "config.v1+json", "digest": "sha256:" + digest(config), "size": len(config)},
		"layers": []any{map[string]any{"mediaType": types + "layer.v1.tar", "digest": "sha256:" + digest(layer), "size": len(layer)}},
	})
	index, _ := json.Marshal(map[string]any{"schemaVersion": 2, "manifests": []any{map[string]any{
		"mediaType": types + "manifest.v1+json", "digest": "sha256:" + digest(manifest), "size": len(manifest),
		"annotations": map[string]string{"io.containerd.image.name": appImage},
		"platform":    map[string]string{"architecture": "amd64", "os": "linux"},
	}}})
	archive = filepath.Join(folder, "app.tar")
	return archive, os.WriteFile(archive, archived(
		file{"oci-layout", []byte(`{"imageLayoutVersion":"1.0.0"}`)}, file{"index.json", index},
		file{"blobs/sha256/" + digest(layer), layer}, file{"blobs/sha256/" + digest(config), config}, file{"blobs/sha256/" + digest(manifest), manifest},
	), 0o600)
}

type file struct {
	name string
	text []byte
}

func archived(files ...file) []byte {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, f := range files {
		_ = w.WriteHeader(&tar.Header{Name: f.name, Size: int64(len(f.text)), Mode: 0o755})
		_, _ = w.Write(f.text)
	}
	_ = w.Close()
	return b.Bytes()
}
