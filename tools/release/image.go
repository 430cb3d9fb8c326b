package main

import (
	"archive/tar"
	"bytes"
	"encoding/pem"
	"errors"
	"io"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"golang.org/x/crypto/x509roots/fallback/bundle"
)

// user is the one that the image runs as: no root, in no image's passwd.
const user = "65532:65532"

// image writes a container image, from scratch: the program, the root certificates of
// Mozilla's list, an empty /tmp and the folder /runs that a volume goes to. It needs no
// right to write to its root.
func image(to, root, binary, version, arch string, at time.Time) error {
	layer, err := files(root, binary, at)
	if err != nil {
		return err
	}
	l, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(layer)), nil })
	if err != nil {
		return err
	}
	img, err := mutate.Append(empty.Image, mutate.Addendum{Layer: l, History: v1.History{Created: v1.Time{Time: at}, CreatedBy: "tools/release"}})
	if err != nil {
		return err
	}
	img, err = mutate.ConfigFile(img, config(img, version, arch, at))
	if err != nil {
		return err
	}
	// A tag may not have the plus sign of a version.
	ref, err := name.NewTag("sweep:" + strings.ReplaceAll(version, "+", "-") + "-" + arch)
	if err != nil {
		return err
	}
	return tarball.WriteToFile(to, ref, img)
}

func config(img v1.Image, version, arch string, at time.Time) *v1.ConfigFile {
	// A fresh empty.Image always has a configuration.
	c, _ := img.ConfigFile()
	c = c.DeepCopy()
	c.Created = v1.Time{Time: at}
	c.OS, c.Architecture = "linux", arch
	c.Config = v1.Config{
		User:       user,
		WorkingDir: "/runs",
		Entrypoint: []string{"/sweep"},
		Env:        []string{"HOME=/tmp", "PATH=/", "SSL_CERT_FILE=" + certificates},
		Labels: map[string]string{
			"org.opencontainers.image.title":    "sweep",
			"org.opencontainers.image.version":  version,
			"org.opencontainers.image.licenses": "Apache-2.0",
		},
	}
	return c
}

const certificates = "/etc/ssl/certs/ca-certificates.crt"

// files returns the image's one layer, as a tar.
func files(root, binary string, at time.Time) ([]byte, error) {
	var b bytes.Buffer
	t := tar.NewWriter(&b)
	for _, d := range []struct {
		name string
		mode int64
		id   int
	}{{"etc/", 0o755, 0}, {"etc/ssl/", 0o755, 0}, {"etc/ssl/certs/", 0o755, 0}, {"tmp/", 0o1777, 0}, {"runs/", 0o755, 65532}} {
		h := &tar.Header{Typeflag: tar.TypeDir, Name: d.name, Mode: d.mode, Uid: d.id, Gid: d.id, ModTime: at, Format: tar.FormatUSTAR}
		if err := t.WriteHeader(h); err != nil {
			return nil, err
		}
	}
	err := errors.Join(
		put(t, certificates[1:], roots(), 0o644, at),
		add(t, "LICENSE", root+"/LICENSE", 0o644, at),
		add(t, "sweep", binary, 0o755, at),
		t.Close(),
	)
	return b.Bytes(), err
}

// roots is Mozilla's list in PEM. Roots that are trusted only for some certificates are
// left out: a bundle has no way to say for which.
func roots() []byte {
	var b bytes.Buffer
	for r := range bundle.Roots() {
		if r.Constraint == nil {
			_ = pem.Encode(&b, &pem.Block{Type: "CERTIFICATE", Bytes: r.Certificate}) // a bytes.Buffer takes all
		}
	}
	return b.Bytes()
}
