package store

import (
	"bytes"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"sweep.dev/sweep/result"
	"sweep.dev/sweep/result/store/storetest"
)

func TestTable_comesBack(t *testing.T) {
	cols := result.Columns(result.Extra{
		Axes: []result.Column{{Name: "arg_dtype", Type: result.String, Nullable: true}, {Name: "arg_max_num_seqs", Type: result.Int, Nullable: true}},
		SLOs: []string{"smooth"},
	})
	rapid.Check(t, func(t *rapid.T) {
		var want []result.Row
		for n := rapid.SampledFrom([]int{0, 1, 3}).Draw(t, "n"); n > 0; n-- {
			row := result.Row{}
			for _, c := range cols {
				row[c.Name] = valueOf(t, c)
			}
			want = append(want, row)
		}
		var b bytes.Buffer
		if err := WriteTable(&b, cols, slices.Values(want)); err != nil {
			t.Fatal(err)
		}
		gotCols, got, err := storetest.ReadTable(bytes.NewReader(b.Bytes()), int64(b.Len()))
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(want, got) {
			t.Fatal(cmp.Diff(want, got))
		}
		for i, c := range cols {
			c.Given = false
			if gotCols[i] != c {
				t.Fatalf("column %d is %v, want %v", i, gotCols[i], c)
			}
		}
	})
}

// valueOf draws a value of a column.
func valueOf(t *rapid.T, c result.Column) any {
	if c.Nullable && rapid.Bool().Draw(t, "null") {
		return nil
	}
	switch c.Type {
	case result.String:
		return rapid.String().Draw(t, c.Name)
	case result.Int:
		return rapid.Int64().Draw(t, c.Name)
	case result.Float:
		return rapid.Float64Range(-math.MaxFloat64, math.MaxFloat64).Draw(t, c.Name)
	case result.Bool:
		return rapid.Bool().Draw(t, c.Name)
	}
	return time.UnixMicro(rapid.Int64Range(0, 1<<52).Draw(t, c.Name)).UTC()
}

func TestWriteTable_refusesWhatDoesNotFit(t *testing.T) {
	cols := []result.Column{{Name: "a", Type: result.Int}, {Name: "b", Type: result.Float, Nullable: true}}
	err := WriteTable(&bytes.Buffer{}, cols, slices.Values([]result.Row{{"a": int64(1)}, {"b": "x"}}))
	for _, want := range []string{"row 2", "a may not be null", "b is x (string)"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the error does not say %q: %v", want, err)
		}
	}
}
