// Package recordtest holds what real engines and tools printed, for tests: a page of
// metrics, a stream of events, a log.
//
//	page := recordtest.Read(t, "recorded__vllm-0.32.0__metrics.txt")
//
// Those that sweep's authors recorded themselves are in testdata here. Their names begin
// with recorded__. The licences of all others do not allow a copy: they are read from
// ../shared/fixtures, beside the checkout. If that folder is absent, the test skips. It
// fails if the environment has SWEEP_TEST_RECORDINGS=required, as in CI.
package recordtest

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const (
	variable = "SWEEP_TEST_RECORDINGS"
	required = "required"

	ownPrefix = "recorded__"
)

//go:embed testdata
var own embed.FS

// Read returns a recording by its name.
func Read(t testing.TB, name string) []byte {
	t.Helper()
	body, err := open(t, name).read(name)
	check(t, err)
	return body
}

// Lookup is [Read] for a test that also holds something without the recording. It
// reports false if the folder is absent.
func Lookup(t testing.TB, name string) ([]byte, bool) {
	t.Helper()
	body, err := open(t, name).read(name)
	if errors.As(err, new(absent)) {
		return nil, false
	}
	check(t, err)
	return body, true
}

// Names returns the sorted names that match a pattern of [path.Match], at least one. A
// pattern that begins with recorded__ is for the recordings in the tree, and any other for
// those that are in the folder alone.
func Names(t testing.TB, pattern string) []string {
	t.Helper()
	names, err := open(t, pattern).names(pattern)
	check(t, err)
	return names
}

// check ends the test for an error: it skips if nothing but the folder is missing.
func check(t testing.TB, err error) {
	t.Helper()
	switch {
	case errors.As(err, new(absent)):
		t.Skip(err)
	case err != nil:
		t.Fatal(err)
	}
}

// A place is a folder with recordings.
type place struct {
	fs.FS
	folder   string // "" for the one in the tree
	required bool
}

// absent is the error of a folder that need not be there.
type absent struct{ error }

// open returns the place of a name or of a pattern.
func open(t testing.TB, name string) place {
	t.Helper()
	if strings.HasPrefix(name, ownPrefix) {
		tree, err := fs.Sub(own, "testdata")
		if err != nil {
			t.Fatal(err)
		}
		return place{FS: tree}
	}
	root, err := checkout()
	if err != nil {
		t.Fatal(err)
	}
	return outside(filepath.Join(root, "..", "shared", "fixtures"), os.Getenv(variable))
}

func outside(folder, setting string) place {
	return place{FS: os.DirFS(folder), folder: folder, required: setting == required}
}

// checkout returns the folder of go.mod. A test runs in its package's folder.
func checkout() (string, error) {
	at, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(at, "go.mod")); err == nil {
			return at, nil
		}
		up := filepath.Dir(at)
		if up == at {
			return "", errors.New("the test runs outside the checkout: no go.mod above it")
		}
		at = up
	}
}

func (p place) read(name string) ([]byte, error) {
	if err := p.there(name); err != nil {
		return nil, err
	}
	return fs.ReadFile(p, name)
}

func (p place) names(pattern string) ([]string, error) {
	if err := p.there(pattern); err != nil {
		return nil, err
	}
	names, err := fs.Glob(p, pattern)
	names = slices.DeleteFunc(names, func(name string) bool {
		info, err := fs.Stat(p, name)
		return err == nil && info.IsDir() || p.folder != "" && strings.HasPrefix(name, ownPrefix)
	})
	if err == nil && len(names) == 0 {
		err = fmt.Errorf("no recording matches %s in %s", pattern, p.folder)
	}
	return names, err
}

// there returns an error that names the recording if the folder is absent.
func (p place) there(name string) error {
	_, err := fs.Stat(p, ".")
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	err = fmt.Errorf("the recording %s is not here: it is expected in %s, which is absent", name, p.folder)
	if p.required {
		return fmt.Errorf("%w, and %s=%s", err, variable, required)
	}
	return absent{err}
}
