package rundir

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"sweep.dev/sweep/internal/layout"
	"sweep.dev/sweep/result"
)

// stored is result.json: an outcome with what makes it stand on its own.
type stored struct {
	SpecDigest string `json:"spec_digest"`
	result.Outcome
}

func encodeOutcome(o *result.Outcome, digest string) ([]byte, error) {
	b, err := json.MarshalIndent(stored{digest, *o}, "", "  ")
	if err != nil {
		return nil, err
	}
	return append(b, '\n'), nil
}

func decodeOutcome(b []byte) (*stored, error) {
	var s stored
	if err := json.Unmarshal(b, &s); err != nil {
		return nil, err
	}
	s.Modern()
	return &s, nil
}

// Outcome reads the result.json of a committed trial and verifies it against
// the journal's digest. The digests of the other files are in it; [Verify]
// holds them against the files.
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
	s, _, err := readResult(r.root, AttemptKey{c.Key, c.Attempt}, c.SHA256)
	if err != nil {
		return nil, fmt.Errorf("outcome of %s: %w", c.Key, err)
	}
	return &s.Outcome, nil
}

// Verify reads every file of a committed trial and holds its digest against
// what was committed.
func Verify(dir string, c Commit) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close() // read only
	_, _, err = verify(root, AttemptKey{c.Key, c.Attempt}, c.SHA256)
	return err
}

// readResult reads an attempt's result.json, whose digest must be sum unless
// that is "", and returns the digest too.
func readResult(root *os.Root, a AttemptKey, sum string) (*stored, string, error) {
	b, err := root.ReadFile(filepath.Join(attemptName(a), layout.Result))
	if err != nil {
		return nil, "", err
	}
	got := hexSum(b)
	if sum != "" && got != sum {
		return nil, "", fmt.Errorf("%s has the digest %.12s, the journal says %.12s", layout.Result, got, sum)
	}
	s, err := decodeOutcome(b)
	if err != nil {
		return nil, "", fmt.Errorf("%s: %w", layout.Result, err)
	}
	if in := (AttemptKey{Key{s.CellID, s.Trial}, s.Attempt}); in != a {
		return nil, "", fmt.Errorf("%s is of %s", layout.Result, in)
	}
	return s, got, nil
}

// verify is readResult, and the digests of all files that result.json names.
func verify(root *os.Root, a AttemptKey, sum string) (*stored, string, error) {
	s, got, err := readResult(root, a, sum)
	if err != nil {
		return nil, "", err
	}
	for _, f := range s.Files {
		if err := checkFile(f.Name); err != nil {
			return nil, "", err
		}
		if err := copyFile(io.Discard, root, filepath.Join(attemptName(a), f.Name), f); err != nil {
			return nil, "", err
		}
	}
	return s, got, nil
}

// copyFile copies a file of an attempt, and holds it against what was committed.
func copyFile(w io.Writer, root *os.Root, name string, want result.File) error {
	f, err := root.Open(name)
	if err != nil {
		return err
	}
	defer f.Close() // read only
	h := sha256.New()
	n, err := io.Copy(io.MultiWriter(h, w), f)
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
