package runpodtest

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"sweep.dev/sweep/internal/layout"
)

// DurableIntent makes a hook for Options.Intent that looks on the disk. A name
// is known where a complete line of a journal has it, and, with a folder
// stateDir, a complete line of any file below that too. runDirs are run
// directories, or patterns of [filepath.Glob] for them.
func DurableIntent(stateDir string, runDirs ...string) func(name string) error {
	return func(name string) error {
		var errs []error
		if len(runDirs) > 0 {
			var journals []string
			for _, d := range runDirs {
				found, err := filepath.Glob(filepath.Join(d, layout.Journal))
				if err != nil {
					return err
				}
				journals = append(journals, found...)
			}
			if !anyHas(journals, name) {
				errs = append(errs, fmt.Errorf("pod %s was made without an intent in a journal", name))
			}
		}
		if stateDir != "" {
			var files []string
			err := filepath.WalkDir(stateDir, func(path string, d fs.DirEntry, err error) error {
				if err == nil && d.Type().IsRegular() {
					files = append(files, path)
				}
				return nil // what has just been removed is no error
			})
			if err != nil {
				return err
			}
			if !anyHas(files, name) {
				errs = append(errs, fmt.Errorf("pod %s was made without an intent in the ledger of this machine", name))
			}
		}
		return errors.Join(errs...)
	}
}

func anyHas(files []string, name string) bool {
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			continue
		}
		// A line without its line break is not completely written yet.
		if end := bytes.LastIndexByte(b, '\n'); end >= 0 && bytes.Contains(b[:end], []byte(name)) {
			return true
		}
	}
	return false
}
