package result

import (
	"math"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestPacked_comesBack(t *testing.T) {
	t.Parallel()
	var p Packed
	want := []Row{
		{"a": "x", "b": int64(-3), "c": 1.5, "d": true, "e": false, "f": time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC), "g": "x"},
		{},
		{"b": int64(math.MinInt64), "c": math.Inf(1), "f": time.Time{}, "g": "\x00"},
	}
	for _, row := range want {
		p.Add(row)
	}
	if diff := cmp.Diff(want, slices.Collect(p.All())); diff != "" {
		t.Error(diff)
	}
	p = Packed{}
	p.Add(Row{"a": nil})
	if got := slices.Collect(p.All()); len(got) != 1 || len(got[0]) != 0 {
		t.Errorf("a row of nulls is %v", got)
	}
}
