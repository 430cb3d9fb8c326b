// Package fetch copies the runs and the history of nights from a volume of a Kubernetes
// cluster to this machine.
//
// A pod of sweep's own image mounts the volume for reading, and two commands run in it:
// one lists the files with their digests, the other sends those that are asked for, one
// after the other. What is here already is not sent again, a file that broke off goes on
// where it stopped, and none counts before its digest is verified. Nothing that the other
// side says leads out of the folder.
package fetch

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"sweep.dev/sweep/internal/layout"
)

// Bounds of a list.
const (
	maxFiles = 500_000
	maxPath  = 1024 // bytes
	maxLine  = 8 << 10
)

// RunsFolder is where the runs are, on both sides.
const RunsFolder = "runs"

// An Entry is a file of the volume.
type Entry struct {
	Path   string `json:"path"` // with slashes, below the volume
	Size   int64  `json:"size"` // bytes
	SHA256 string `json:"sha256"`
	// Run is the digest of the first line of a journal, which no two runs share; "" for
	// every other file.
	Run string `json:"run,omitempty"`
}

// run returns the name of the run directory that a file is in, "" for a history.
func (e Entry) run() string {
	rest, ok := strings.CutPrefix(e.Path, RunsFolder+"/")
	if !ok {
		return ""
	}
	name, _, _ := strings.Cut(rest, "/")
	return name
}

// journal reports whether the file is what makes a folder a run. It is taken last.
func (e Entry) journal() bool { return path.Base(e.Path) == layout.Journal }

// check refuses what no volume of nights has, and every path that leads elsewhere.
func (e Entry) check() error {
	parts := strings.Split(e.Path, "/")
	switch sum, err := hex.DecodeString(e.SHA256); {
	case len(e.Path) > maxPath || !utf8.ValidString(e.Path) || strings.ContainsFunc(e.Path, unicode.IsControl),
		path.Clean(e.Path) != e.Path || !filepath.IsLocal(filepath.FromSlash(e.Path)) || strings.Contains(e.Path, `\`),
		len(parts) == 1 && !isHistory(e.Path),
		len(parts) > 1 && (parts[0] != RunsFolder || len(parts) < 3),
		slices.ContainsFunc(parts, hidden):
		return fmt.Errorf("%q is no file of a run and no history", e.Path)
	case err != nil || len(sum) != sha256.Size || e.Size < 0:
		return fmt.Errorf("%s: no digest or no size", e.Path)
	}
	return nil
}

// isHistory reports whether a file at the top of the volume is a history of nights.
func isHistory(name string) bool { return strings.HasSuffix(name, ".jsonl") && !hidden(name) }

// hidden reports whether a file is of one machine alone, or unfinished.
func hidden(name string) bool {
	return strings.HasPrefix(name, ".") || name == layout.Lock || name == layout.Progress || strings.HasSuffix(name, partial)
}

// digest reads all of r and returns how much it was, and its digest.
func digest(r io.Reader) (size int64, sum string, err error) {
	h := sha256.New()
	size, err = io.Copy(h, r)
	return size, hex.EncodeToString(h.Sum(nil)), err
}

// errChanged is a file that is not what was listed.
var errChanged = errors.New("it changes while it is fetched")
