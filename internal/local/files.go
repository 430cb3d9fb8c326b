package local

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"

	"sweep.dev/sweep/backends"
)

// filesDir is the folder of what the roles of one launch are configured with and
// share, beside their logs: who reads a log later can see what the server was
// told, and nothing has to be removed. It may hold names of models and hosts,
// never a secret: those reach a server by its environment alone.
const filesDir = "files"

// directory makes the folder of a launch, "" where it has none because nobody
// keeps its logs. It is absolute: a server may have another working directory.
func directory(spec backends.Spec) (string, error) {
	log := spec.Roles[0].LogPath
	if log == nil {
		return "", nil
	}
	dir, err := filepath.Abs(filepath.Join(filepath.Dir(log(0)), filesDir))
	if err != nil {
		return "", err
	}
	for _, role := range spec.Roles {
		if role.Extra != nil {
			return dir, os.MkdirAll(dir, 0o700)
		}
	}
	return dir, nil
}

// write puts the files of one replica into dir, which all replicas share: two of
// one name must say the same.
func (d *deployment) write(dir string, files map[string][]byte) error {
	if len(files) > 0 && dir == "" {
		return fmt.Errorf("%w: there is no folder for its files", backends.ErrSpec)
	}
	for name, text := range files {
		if name != filepath.Base(name) || name == "." || name == ".." {
			return fmt.Errorf("%w: %q is not the name of a file", backends.ErrSpec, name)
		}
		path := filepath.Join(dir, name)
		if have, ok := d.files[path]; ok && !bytes.Equal(have, text) {
			return fmt.Errorf("%w: two servers want a file %s of their own", backends.ErrSpec, name)
		}
		if err := os.WriteFile(path, text, 0o600); err != nil {
			return err
		}
		if d.files == nil {
			d.files = make(map[string][]byte)
		}
		d.files[path] = text
	}
	return nil
}
