package chart

import (
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// TestPlot_words holds what ticks say in words, that a tick without words is not drawn, and
// that of names above the plot none lies over another or outside.
func TestPlot_words(t *testing.T) {
	t.Parallel()
	words := func(v float64) string {
		if v == 0 || v != float64(int(v)) {
			return ""
		}
		return "night " + tick(v)
	}
	p := Plot{
		X: Axis{Name: "night", Near: true, Words: words}, Y: Axis{Name: "ms", Near: true},
		Series: []Series{{Points: []Point{{X: 1, Y: 5}, {X: 60, Y: 6}}}},
		Limits: []Limit{{Name: "2026-01-05", At: 5, OnX: true, Above: true}, {Name: "2026-02-27", At: 58, OnX: true, Above: true}, {Name: "2026-03-01", At: 60, OnX: true, Above: true}},
	}
	svg := p.SVG()
	for _, want := range []string{">night 20</text>", ">night 60</text>", ">2026-01-05</text>", ">2026-03-01</text>"} {
		if !strings.Contains(svg, want) {
			t.Errorf("the plot lacks %s", want)
		}
	}
	if n := strings.Count(svg, `class="limit"`); n != 3 {
		t.Errorf("%d upright lines, want 3", n)
	}
	for _, never := range []string{">0</text>", ">night 0</text>", "></text>", ">2026-02-27</text>"} {
		if strings.Contains(svg, never) {
			t.Errorf("the plot has %s", never)
		}
	}
	if at := inside(plotWidth-1, "2026-03-01"); at+wide("2026-03-01", fontSize)/2 > plotWidth {
		t.Errorf("a name at %v reaches over the edge", at)
	}
	p.Series[0].Points[1].X, p.Limits = 3, nil
	if svg := p.SVG(); strings.Count(svg, ">night ") != 3 || strings.Contains(svg, "night 1.5") {
		t.Error("of three nights there are other ticks than those of nights")
	}
}

// TestPlot_limit holds that the name of an objective at the upper end of its axis is not
// cut off.
func TestPlot_limit(t *testing.T) {
	t.Parallel()
	svg := Plot{Series: []Series{{Points: []Point{{X: 1, Y: 5}}}}, Limits: []Limit{{Name: "p95 < 200", At: 200}, {Name: "p50 < 100", At: 100}}}.SVG()
	names := regexp.MustCompile(`y="([-0-9.]+)" class="limitname"`).FindAllStringSubmatch(svg, -1)
	if len(names) != 2 {
		t.Fatalf("%d names of objectives, want 2", len(names))
	}
	for _, m := range names {
		if y, err := strconv.ParseFloat(m[1], 64); err != nil || y < fontSize {
			t.Errorf("a name at %s, want it %v below the edge", m[1], fontSize)
		}
	}
}
