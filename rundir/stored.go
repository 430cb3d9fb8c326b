package rundir

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"sweep.dev/sweep/internal/layout"
	"sweep.dev/sweep/result"
)

func encodeOutcome(o *result.Outcome, digest string) ([]byte, error) {
	b, err := json.MarshalIndent(result.Stored{SpecDigest: digest, Outcome: *o}, "", "  ")
	if err != nil {
		return nil, err
	}
	return append(b, '\n'), nil
}

func decodeOutcome(b []byte) (*result.Stored, error) {
	s, err := result.Decode(b)
	if err == nil && s.Row == nil {
		err = errors.New("row: it is null, want an object")
	}
	return s, err
}

// Outcome reads the result.json of a committed trial and verifies it against
// the journal's digest. The error is [ErrDamaged] if it is missing or broken. The
// digests of the other files are in it; [Verify] holds them against the files.
func Outcome(dir string, c Commit) (*result.Outcome, error) {
	r, err := OpenResults(dir)
	if err != nil {
		return nil, err
	}
	defer r.Close() // read only
	return r.Outcome(c)
}

// Results reads the outcomes of many trials. Its methods may be called concurrently.
type Results struct{ root *os.Root }

// OpenResults opens a run directory for reading outcomes. Close it.
func OpenResults(dir string) (*Results, error) {
	root, err := os.OpenRoot(dir)
	return &Results{root}, err
}

// Close closes the directory.
func (r *Results) Close() error { return r.root.Close() }

// Outcome is [Outcome].
func (r *Results) Outcome(c Commit) (*result.Outcome, error) {
	a := AttemptKey{c.Key, c.Attempt}
	s, err := readResult(r.root, a, c.SHA256)
	folder := filepath.Join(r.root.Name(), attemptName(a))
	switch {
	case err == nil:
		return &s.Outcome, nil
	case errors.Is(err, fs.ErrNotExist):
		return nil, &fileError{filepath.Join(folder, layout.Result), err}
	case errors.Is(err, fs.ErrPermission):
		return nil, fmt.Errorf("outcome of %s: %w", c.Key, err)
	}
	return nil, &fileError{folder, err}
}

// Verify reads every file of a committed trial and holds its digest against
// what was committed.
func Verify(dir string, c Commit) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close() // read only
	return verify(root, AttemptKey{c.Key, c.Attempt}, c.SHA256)
}

// readResult reads an attempt's result.json, whose digest must be sum, the journal's.
func readResult(root *os.Root, a AttemptKey, sum string) (*result.Stored, error) {
	b, err := readCommitted(root, a, sum)
	if err != nil {
		return nil, err
	}
	s, err := decodeOutcome(b)
	return s, isOf(a, s, err)
}

// readCommitted reads the bytes of an attempt's result.json, whose digest must be sum.
func readCommitted(root *os.Root, a AttemptKey, sum string) ([]byte, error) {
	b, err := root.ReadFile(filepath.Join(attemptName(a), layout.Result))
	if err != nil {
		return nil, err
	}
	if got := hexSum(b); got != sum {
		return nil, fmt.Errorf("%s has the digest %.12s, the journal says %.12s", layout.Result, got, sum)
	}
	return b, nil
}

// isOf fails if a result.json could not be decoded or is of another attempt.
func isOf(a AttemptKey, s *result.Stored, err error) error {
	if err != nil {
		return fmt.Errorf("%s: %w", layout.Result, err)
	}
	if in := (AttemptKey{Key{s.CellID, s.Trial}, s.Attempt}); in != a {
		return fmt.Errorf("%s is of %s", layout.Result, in)
	}
	return nil
}

// verify holds the digest of an attempt's result.json against sum, and those of all files
// that it names against it. It decodes no more: what has the digest is what was committed.
func verify(root *os.Root, a AttemptKey, sum string) error {
	b, err := readCommitted(root, a, sum)
	if err != nil {
		return err
	}
	s, err := result.DecodeFiles(b)
	if err := isOf(a, s, err); err != nil {
		return err
	}
	return verifyFiles(root, a, s.Files)
}

// examine reads an attempt of which the journal has no digest, holds its files against its
// result.json, and returns the digest of that.
func examine(root *os.Root, a AttemptKey) (*result.Stored, string, error) {
	b, err := root.ReadFile(filepath.Join(attemptName(a), layout.Result))
	if err != nil {
		return nil, "", err
	}
	if !json.Valid(b) {
		return nil, "", fmt.Errorf("%s is not valid JSON", layout.Result)
	}
	s, err := decodeOutcome(b)
	if err := isOf(a, s, err); err != nil {
		return nil, "", err
	}
	return s, hexSum(b), verifyFiles(root, a, s.Files)
}

func verifyFiles(root *os.Root, a AttemptKey, files []result.File) error {
	for _, f := range files {
		if err := checkFile(f.Name); err != nil {
			return err
		}
		if err := copyFile(io.Discard, root, filepath.Join(attemptName(a), f.Name), f); err != nil {
			return err
		}
	}
	return nil
}

// copyFile copies a file of an attempt, and holds it against what was committed.
func copyFile(w io.Writer, root *os.Root, name string, want result.File) error {
	f, err := root.Open(name)
	if err != nil {
		return err
	}
	defer f.Close() // read only
	h := sha256.New()
	// Most files are small, and a run has thousands. Bare of its other methods, the file uses the buffer.
	buffer := make([]byte, min(max(want.Bytes, 512), 64<<10))
	n, err := io.CopyBuffer(io.MultiWriter(h, w), struct{ io.Reader }{f}, buffer)
	if err != nil {
		return err
	}
	if n != want.Bytes {
		return fmt.Errorf("%s has %d bytes, %d were committed", want.Name, n, want.Bytes)
	}
	if sum := hex.EncodeToString(h.Sum(nil)); sum != want.SHA256 {
		return fmt.Errorf("%s has the digest %.12s..., %.12s... was committed", want.Name, sum, want.SHA256)
	}
	return nil
}

func hexSum(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}
