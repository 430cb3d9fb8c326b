// Package pythontest spares tests a python3 that is a script, as that of pyenv is: such
// a script costs more than most programs that it starts.
package pythontest

import (
	"bytes"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// First puts the folder of the interpreter that python3 runs at the front of PATH, if
// python3 is a script. Call it in TestMain. Without python3 it does nothing.
func First() {
	found, err := exec.LookPath("python3")
	if err != nil || !isScript(found) {
		return
	}
	out, err := exec.Command(found, "-c", "import os, sys; print(os.path.realpath(sys.executable))").Output()
	if err != nil {
		return
	}
	dir := filepath.Dir(strings.TrimSpace(string(out)))
	if path, err := exec.LookPath(filepath.Join(dir, "python3")); err == nil && !isScript(path) {
		_ = os.Setenv("PATH", dir+string(os.PathListSeparator)+os.Getenv("PATH"))
	}
}

func isScript(path string) bool {
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	first := make([]byte, 2)
	_, err = io.ReadFull(f, first)
	return err == nil && bytes.Equal(first, []byte("#!"))
}
