package conclude

import (
	"reflect"
	"testing"
)

// TestVaried holds which axes a run varies, the order of the axes and of their values, and
// the names of cells: in the words of their labels, and in their order.
func TestVaried(t *testing.T) {
	t.Parallel()
	cell := func(label string, concurrency float64, gpu any, more ...Setting) *Point {
		settings := append([]Setting{
			{Column: "concurrency", Amount: true, Text: "concurrency=" + label, Value: concurrency},
			{Column: "gpu", Server: true, Text: gpu.(string), Value: gpu},
			{Column: "engine", Server: true, Text: "vllm", Value: "vllm"},
		}, more...)
		return &Point{Cell: Cell{Label: label, Settings: settings}}
	}
	points := []*Point{
		cell("16", 16, "l4"),
		cell("4", 4, "h100"),
		cell("4", 4, "a10", Setting{Column: "tp", Server: true, Text: "tp=2", Value: 2.0}),
		cell("8", 8, "a10", Setting{Column: "tp", Server: true, Text: "tp=1", Value: 1.0}),
	}
	axes := Varied(points)
	if got, want := axes.Columns(), []string{"gpu", "tp", "concurrency"}; !reflect.DeepEqual(got, want) {
		t.Fatalf("axes %v, want %v", got, want)
	}
	for i, want := range [][]any{{"l4", "h100", "a10"}, {1.0, 2.0}, {4.0, 8.0, 16.0}} {
		if got := axes[i].Values; !reflect.DeepEqual(got, want) {
			t.Errorf("%s: values %v, want %v", axes[i].Column, got, want)
		}
	}
	first, last := points[0].Cell, points[3].Cell
	if got, want := axes.Text(last), "concurrency=8 a10 tp=1"; got != want {
		t.Errorf("text %q, want %q", got, want)
	}
	if got := Varied(points[:1]).Short(first); got != "16" {
		t.Errorf("the only cell is %q, want its label", got)
	}
	tp := axes.At("tp")
	if rank, text := tp.Rank(first), tp.Of(first); rank != -1 || text != "" {
		t.Errorf("a cell without the axis has rank %d and text %q", rank, text)
	}
	if axes[1:].Compare(first, last) >= 0 || axes[1:].Compare(points[2].Cell, last) <= 0 || axes.Compare(last, last) != 0 {
		t.Error("cells are not in the order of their values, or one without a value is not first")
	}
	s := Set{Points: points[:1], in: Input{Skipped: []Cell{last}}}
	if got, want := s.Servers().Columns(), []string{"gpu"}; !reflect.DeepEqual(got, want) {
		t.Errorf("servers vary %v with those that are not run, want %v", got, want)
	}
	if got := AmountAxis(points); got != "concurrency" {
		t.Errorf("amount of load %q", got)
	}
}
