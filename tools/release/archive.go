package main

import (
	"archive/tar"
	"compress/gzip"
	"errors"
	"os"
	"path/filepath"
	"time"
)

// archive writes a tar.gz with the program and the texts that belong to it, in a folder
// of the given name.
func archive(to, root, binary, folder string, at time.Time) (err error) {
	f, err := os.Create(to)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	z := gzip.NewWriter(f)
	t := tar.NewWriter(z)
	if err := add(t, folder+"/sweep", binary, 0o755, at); err != nil {
		return err
	}
	for _, name := range []string{"LICENSE", "README.md", "CHANGELOG.md"} {
		if err := add(t, folder+"/"+name, filepath.Join(root, name), 0o644, at); err != nil {
			return err
		}
	}
	return errors.Join(t.Close(), z.Close())
}

// add writes the file at path into t under a name, as root's and of the time at.
func add(t *tar.Writer, name, path string, mode int64, at time.Time) error {
	b, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	return put(t, name, b, mode, at)
}

func put(t *tar.Writer, name string, b []byte, mode int64, at time.Time) error {
	h := &tar.Header{Name: name, Mode: mode, Size: int64(len(b)), ModTime: at, Format: tar.FormatUSTAR}
	if err := t.WriteHeader(h); err != nil {
		return err
	}
	_, err := t.Write(b)
	return err
}
