package rundir

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"sweep.dev/sweep/result"
)

// stored is result.json: an outcome with what makes it stand on its own.
type stored struct {
	SpecDigest string `json:"spec_digest"`
	result.Outcome
	// These hide the outcome's fields of the same name: plain JSON has one kind
	// of number and none that is infinite.
	Row  storedRow   `json:"row"`
	SLOs []storedSLO `json:"slos,omitempty"`
}

type storedSLO struct {
	result.SLOResult
	Values storedRow `json:"values,omitempty"`
}

// storedRow is a row whose values keep their types: a float always has a point
// or an exponent, an infinite or undefined one is a string, and an instant is
// RFC 3339. What a string means is told by the registry of columns.
type storedRow map[string]any

func encodeOutcome(o *result.Outcome, digest string) ([]byte, error) {
	s := stored{SpecDigest: digest, Outcome: *o, Row: storedRow(o.Row)}
	for _, r := range o.SLOs {
		s.SLOs = append(s.SLOs, storedSLO{r, r.Values})
	}
	b, err := json.MarshalIndent(s, "", "  ")
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
	s.Outcome.Row = result.Row(s.Row)
	for _, r := range s.SLOs {
		r.SLOResult.Values = r.Values
		s.Outcome.SLOs = append(s.Outcome.SLOs, r.SLOResult)
	}
	return &s, nil
}

// MarshalJSON implements [json.Marshaler]. Columns are sorted by name.
func (r storedRow) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	b.WriteByte('{')
	for i, name := range slices.Sorted(maps.Keys(r)) {
		if i > 0 {
			b.WriteByte(',')
		}
		key, err := json.Marshal(name)
		if err != nil {
			return nil, err
		}
		value, err := marshalValue(r[name])
		if err != nil {
			return nil, fmt.Errorf("column %s: %w", name, err)
		}
		b.Write(key)
		b.WriteByte(':')
		b.Write(value)
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}

func marshalValue(v any) ([]byte, error) {
	switch v := v.(type) {
	case nil, bool, string, int64:
		return json.Marshal(v)
	case time.Time:
		return json.Marshal(v.UTC())
	case float64:
		return marshalFloat(v)
	default:
		return nil, fmt.Errorf("a %T is not a value of a row", v)
	}
}

// The names of floats that JSON has no number for.
const (
	infinity    = "Infinity"
	negInfinity = "-Infinity"
	notANumber  = "NaN"
)

func marshalFloat(v float64) ([]byte, error) {
	switch {
	case math.IsNaN(v):
		return json.Marshal(notANumber)
	case math.IsInf(v, 1):
		return json.Marshal(infinity)
	case math.IsInf(v, -1):
		return json.Marshal(negInfinity)
	}
	text := strconv.FormatFloat(v, 'g', -1, 64)
	if !strings.ContainsAny(text, ".e") {
		text += ".0"
	}
	return []byte(text), nil
}

// UnmarshalJSON implements [json.Unmarshaler].
func (r *storedRow) UnmarshalJSON(b []byte) error {
	dec := json.NewDecoder(bytes.NewReader(b))
	dec.UseNumber()
	var raw map[string]any
	if err := dec.Decode(&raw); err != nil {
		return err
	}
	if raw == nil {
		return nil
	}
	columns := result.Columns(result.Extra{})
	*r = make(storedRow, len(raw))
	for name, v := range raw {
		column, _ := result.Lookup(columns, name) // an axis or an SLO of the plan is not in it: its values are plain
		value, err := unmarshalValue(column.Type, v)
		if err != nil {
			return fmt.Errorf("column %s: %w", name, err)
		}
		(*r)[name] = value
	}
	return nil
}

func unmarshalValue(t result.Type, v any) (any, error) {
	switch v := v.(type) {
	case nil, bool:
		return v, nil
	case json.Number:
		if strings.ContainsAny(v.String(), ".eE") {
			return v.Float64()
		}
		return v.Int64()
	case string:
		switch {
		case t == result.Timestamp:
			return time.Parse(time.RFC3339Nano, v)
		case t == result.Float:
			return unmarshalFloat(v)
		}
		return v, nil
	default:
		return nil, fmt.Errorf("a %T is not a value of a row", v)
	}
}

func unmarshalFloat(name string) (any, error) {
	switch name {
	case notANumber:
		return math.NaN(), nil
	case infinity:
		return math.Inf(1), nil
	case negInfinity:
		return math.Inf(-1), nil
	}
	return nil, fmt.Errorf("%q is not a number", name)
}

// Outcome reads the result.json of a committed trial and verifies it against
// the journal's digest. The digests of the other files are in it; [Verify]
// holds them against the files.
func Outcome(dir string, c Commit) (*result.Outcome, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer root.Close() // read only
	s, _, err := readResult(root, AttemptKey{c.Key, c.Attempt}, c.SHA256)
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
	b, err := root.ReadFile(filepath.Join(attemptName(a), ResultFile))
	if err != nil {
		return nil, "", err
	}
	got := hexSum(b)
	if sum != "" && got != sum {
		return nil, "", fmt.Errorf("%s has the digest %.12s, the journal says %.12s", ResultFile, got, sum)
	}
	s, err := decodeOutcome(b)
	if err != nil {
		return nil, "", fmt.Errorf("%s: %w", ResultFile, err)
	}
	if in := (AttemptKey{Key{s.CellID, s.Trial}, s.Attempt}); in != a {
		return nil, "", fmt.Errorf("%s is of %s", ResultFile, in)
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
