package local

import (
	"fmt"
	"io"
	"path/filepath"
	"strconv"

	"sweep.dev/sweep/backends"
	"sweep.dev/sweep/internal/effect"
)

// filesDir holds a folder for each replica of a launch, with what it is
// configured with, beside the logs: who reads a log later can see what the
// server was told, and nothing has to be removed. Names of models and hosts may
// stand there, never a secret: those reach a server by its environment alone.
const filesDir = "files"

// directory returns the folder of one replica, "" if its log is not kept. It is absolute:
// a server may have another working directory. It is made before any server is
// started, because others may use it.
func (m *Machine) directory(spec backends.Spec, role backends.Role, n int) (string, error) {
	if role.LogPath == nil {
		return "", nil
	}
	dir, err := filepath.Abs(filepath.Join(filepath.Dir(role.LogPath(n)), filesDir, role.Name+"-"+strconv.Itoa(n)))
	if err != nil {
		return "", err
	}
	for _, r := range spec.Roles {
		if r.Extra != nil {
			return dir, m.Effects.MkdirAll(effect.LaunchMkdir, dir)
		}
	}
	return dir, nil
}

// write puts the files of one replica into its folder.
func (m *Machine) write(dir string, files map[string][]byte) error {
	if len(files) > 0 && dir == "" {
		return fmt.Errorf("%w: there is no folder for its files", backends.ErrSpec)
	}
	for name, text := range files {
		if name != filepath.Base(name) || name == "." || name == ".." {
			return fmt.Errorf("%w: %q is not the name of a file", backends.ErrSpec, name)
		}
		err := m.Effects.WriteFileAtomic(effect.LaunchCreate, filepath.Join(dir, name), func(w io.Writer) error {
			_, err := w.Write(text)
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}
