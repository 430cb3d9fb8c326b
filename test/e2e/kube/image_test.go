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
	"regexp"
	"slices"
	"strings"
)

// appImage is the image of the pods, their sandbox included. baseImage has what load pods
// need in the default one, from this machine: a shell and a few tools. envoyImage has Envoy
// and the simulated picker that it asks.
const (
	appImage   = "lab.test/app:1"
	baseImage  = "docker.io/library/busybox:1.37"
	envoyImage = "lab.test/envoy:1"
)

// buildImages builds the tests' program and sweep, and packs both as an archive of an OCI
// image, and the tools of this machine as another.
func buildImages(folder string) error {
	if err := buildBase(folder); err != nil {
		return err
	}
	var programs []file
	for name, pkg := range map[string]string{"app": "test/e2e/kube/app", "sweep": "cmd/sweep"} {
		binary := filepath.Join(folder, name)
		build := exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w", "-o", binary, "sweep.dev/sweep/"+pkg)
		build.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := build.CombinedOutput(); err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
		program, err := os.ReadFile(binary)
		if err != nil {
			return err
		}
		programs = append(programs, file{name, program})
	}
	return packed(filepath.Join(folder, "app.tar"), appImage, []string{"/app"}, programs...)
}

// buildBase packs the tools with the libraries that they need.
func buildBase(folder string) error {
	l := linked{}
	for _, tool := range []string{"sh", "gzip", "sha256sum", "chmod", "mv", "sleep"} {
		from, err := exec.LookPath(tool)
		if err != nil {
			return err
		}
		if err := l.add("bin/"+tool, from); err != nil {
			return err
		}
	}
	return packed(filepath.Join(folder, "base.tar"), baseImage, nil, l.files...)
}

// buildEnvoy packs Envoy, with the libraries that it needs, the picker and sweep.
func buildEnvoy(folder string) error {
	picker := filepath.Join(folder, "picker")
	build := exec.Command("go", "build", "-C", "../../../tools/picker", "-trimpath", "-ldflags", "-s -w", "-o", picker, ".")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	l := linked{}
	if err := l.add("envoy", "../../../.engines/envoy/proxy/envoy"); err != nil {
		return err
	}
	for name, at := range map[string]string{"picker": picker, "sweep": filepath.Join(folder, "sweep")} {
		program, err := os.ReadFile(at)
		if err != nil {
			return err
		}
		l.files = append(l.files, file{name, program})
	}
	return packed(filepath.Join(folder, "envoy.tar"), envoyImage, nil, l.files...)
}

// linked are programs of this machine, and the libraries that they need.
type linked struct{ files []file }

func (l *linked) add(name, from string) error {
	libraries, err := exec.Command("ldd", from).Output()
	if err != nil {
		return fmt.Errorf("ldd %s: %w", from, err)
	}
	as := map[string]string{name: from}
	for _, at := range regexp.MustCompile(`/[^ )]+`).FindAllString(string(libraries), -1) {
		as[strings.TrimPrefix(at, "/")] = at
	}
	for name, from := range as {
		if slices.ContainsFunc(l.files, func(f file) bool { return f.name == name }) {
			continue
		}
		text, err := os.ReadFile(from)
		if err != nil {
			return err
		}
		l.files = append(l.files, file{name, text})
	}
	return nil
}

// packed writes the archive of an OCI image of one layer.
func packed(archive, name string, entrypoint []string, files ...file) error {
	layer := archived(files...)
	digest := func(b []byte) string { sum := sha256.Sum256(b); return hex.EncodeToString(sum[:]) }
	config, _ := json.Marshal(map[string]any{
		"architecture": "amd64", "os": "linux", "config": map[string]any{"Entrypoint": entrypoint, "Env": []string{"PATH=/bin"}},
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
		"annotations": map[string]string{"io.containerd.image.name": name},
		"platform":    map[string]string{"architecture": "amd64", "os": "linux"},
	}}})
	return os.WriteFile(archive, archived(
		file{"oci-layout", []byte(`{"imageLayoutVersion":"1.0.0"}`)}, file{"index.json", index},
		file{"blobs/sha256/" + digest(layer), layer}, file{"blobs/sha256/" + digest(config), config}, file{"blobs/sha256/" + digest(manifest), manifest},
	), 0o600)
}

// A file of an image. One whose name ends in a slash is a folder that everybody may write
// to.
type file struct {
	name string
	text []byte
}

func archived(files ...file) []byte {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, f := range files {
		h := &tar.Header{Name: f.name, Size: int64(len(f.text)), Mode: 0o755}
		if strings.HasSuffix(f.name, "/") {
			h.Typeflag, h.Mode = tar.TypeDir, 0o1777
		}
		_ = w.WriteHeader(h)
		_, _ = w.Write(f.text)
	}
	_ = w.Close()
	return b.Bytes()
}
