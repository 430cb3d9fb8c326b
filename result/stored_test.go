package result

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"sweep.dev/sweep/result/finding"
)

// everything returns a Stored of which no member is zero.
func everything(t *testing.T) Stored {
	t.Helper()
	at := time.Date(2026, 3, 4, 5, 6, 7, 8000, time.UTC)
	s := Stored{SpecDigest: "dig", Outcome: Outcome{
		CellID: "c", Trial: 2, Attempt: 3, StartedAt: at, FinishedAt: at.Add(time.Second), StartFailure: true,
		Row:      Row{"requests": int64(3), "error_rate": 0.5, "p50_ttft_ms": nil, "arg_text": `a "} \`, "arg_\n": "é", "started_at": at},
		Invalid:  []Finding{{Code: finding.Drift, Text: `x "{[`}},
		Findings: []Finding{{Code: finding.Drift, Text: `\`}},
		SLOs:     []SLOResult{{Name: "fast", Expr: "a < 1", Values: Row{"requests": int64(3)}, Parts: []SLOPart{{Expr: "a", Limit: 1}}}},
		LogTail:  []string{"]", `\"`},
		Clients:  []ClientHealth{{Client: 1, Lost: "killed", Requests: 7}, {CPU: new(0.5), ThrottledPeriods: new(2), Nearest: "client_cpu", Share: new(0.6)}},
		Files:    []File{{Name: "f", Bytes: 1, SHA256: "00"}},
	}}
	for _, v := range []reflect.Value{reflect.ValueOf(s), reflect.ValueOf(s.Outcome)} {
		for i := range v.NumField() {
			if v.Field(i).IsZero() {
				t.Fatalf("%s is zero: this test does not see whether it is read", v.Type().Field(i).Name)
			}
		}
	}
	return s
}

// Every member is read, with spaces in the text or without, as encoding/json reads it.
func TestDecode(t *testing.T) {
	want := everything(t)
	dense, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	wide, err := json.MarshalIndent(want, " ", "\t")
	if err != nil {
		t.Fatal(err)
	}
	for _, data := range [][]byte{dense, append(wide, "\r\n"...), append([]byte(`{"later":[{"row":{}}],`), dense[1:]...)} {
		got, err := Decode(data)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, *got); diff != "" {
			t.Errorf("%s\n%s", data, diff)
		}
		files, err := DecodeFiles(data)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(Stored{Outcome: Outcome{CellID: "c", Trial: 2, Attempt: 3, Files: want.Files}}, *files); diff != "" {
			t.Errorf("files of %s\n%s", data, diff)
		}
	}
}

// Data that is cut off at any place is an error, and so are bytes behind it.
func TestDecode_cut(t *testing.T) {
	data, err := json.Marshal(everything(t))
	if err != nil {
		t.Fatal(err)
	}
	for n := range data {
		for _, decode := range []func([]byte) (*Stored, error){Decode, DecodeFiles} {
			if got, err := decode(data[:n]); err == nil {
				t.Fatalf("%s was read as %+v", data[:n], got)
			}
		}
	}
	if _, err := Decode(append(data, '}')); err == nil || !strings.Contains(err.Error(), "more behind") {
		t.Errorf("another brace: %v", err)
	}
	var v any
	for i := range data {
		broken := append([]byte(nil), data...)
		for _, c := range []byte("{}[]\",:\\ n0") {
			broken[i] = c
			got, err := Decode(broken) // it must come back
			if err == nil && json.Unmarshal(broken, &v) == nil {
				if text, ok := v.(map[string]any)["spec_digest"].(string); ok && text != got.SpecDigest {
					t.Errorf("%s: the digest is %q", broken, got.SpecDigest)
				}
			}
		}
	}
}
