package store

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/parquet-go/parquet-go"

	"sweep.dev/sweep/result"
)

// file writes the requests of one attempt and returns the path.
func file(t *testing.T, ids IDs, requests []result.Request) string {
	t.Helper()
	var b bytes.Buffer
	if err := WriteRequests(&b, ids, requests); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "requests.parquet")
	if err := os.WriteFile(path, b.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestConcatRequests_isAllOfThemInOrder(t *testing.T) {
	small, _ := engineSteps(10, 100, true)
	small[1].ChunkUS = make([]int32, 3*valuesAtOnce) // more than are copied at a time
	for i := range small[1].ChunkUS {
		small[1].ChunkUS[i] = int32(i)
	}
	big, _ := engineSteps(3000, 300, false) // more than copyBytes
	var files []string
	var want []Request
	for trial, requests := range [][]result.Request{small, nil, small[:3], big, small, small[:1]} {
		ids := ids
		ids.Trial = trial + 1
		files = append(files, file(t, ids, requests))
		for _, r := range requests {
			want = append(want, Request{ids, r})
		}
	}
	var b bytes.Buffer
	if err := ConcatRequests(t.Context(), &b, files); err != nil {
		t.Fatal(err)
	}
	var got []Request
	for r, err := range ReadRequests(bytes.NewReader(b.Bytes()), int64(b.Len())) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, r)
	}
	if len(got) != len(want) {
		t.Fatalf("%d rows, want %d", len(got), len(want))
	}
	for i := range want {
		if !reflect.DeepEqual(want[i], got[i]) { // a difference takes long to look for
			t.Fatalf("row %d: %s", i, cmp.Diff(want[i], got[i]))
		}
	}
	f, err := parquet.OpenFile(bytes.NewReader(b.Bytes()), int64(b.Len()))
	if err != nil {
		t.Fatal(err)
	}
	if n := len(f.RowGroups()); n != 3 {
		t.Errorf("%d row groups, want the small ones before, the big one, and those after", n)
	}
}

func TestConcat_ofNothingIsAnEmptyTable(t *testing.T) {
	var b bytes.Buffer
	if err := ConcatSamples(t.Context(), &b, nil); err != nil {
		t.Fatal(err)
	}
	for _, err := range ReadSamples(bytes.NewReader(b.Bytes()), int64(b.Len())) {
		t.Errorf("a row, or %v", err)
	}
}

func TestConcat_namesTheFileThatIsWrong(t *testing.T) {
	good := file(t, ids, make([]result.Request, 1))
	missing := filepath.Join(t.TempDir(), "none.parquet")
	err := ConcatRequests(t.Context(), &bytes.Buffer{}, []string{good, missing})
	if !errors.Is(err, os.ErrNotExist) || !strings.Contains(err.Error(), missing) {
		t.Errorf("missing: %v", err)
	}
	if err := ConcatSamples(t.Context(), &bytes.Buffer{}, []string{good}); err == nil || !strings.Contains(err.Error(), "other columns") {
		t.Errorf("another table: %v", err)
	}
	stopped := errors.New("stopped")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(stopped)
	if err := ConcatRequests(ctx, &bytes.Buffer{}, []string{good}); !errors.Is(err, stopped) {
		t.Errorf("cancelled: %v", err)
	}
}
