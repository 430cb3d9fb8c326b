package view

import (
	"io/fs"
	"os"
	"path/filepath"

	"sweep.dev/sweep/internal/layout"
)

// Files returns the derived files that the run directory has, and the logs of metrics; the
// summary also while it is being written.
func (v *View) Files() []string {
	var paths []string
	for _, name := range layout.Derived() {
		path := filepath.Join(v.Dir, name)
		if _, err := os.Stat(path); err == nil || name == layout.Summary {
			paths = append(paths, path)
		}
	}
	logs, _ := fs.Glob(os.DirFS(v.Dir), layout.AnyMetricsLog) // the only error is a bad pattern
	for _, name := range logs {
		paths = append(paths, filepath.Join(v.Dir, name))
	}
	return paths
}
