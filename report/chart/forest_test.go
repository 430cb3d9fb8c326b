package chart

import (
	"encoding/xml"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// TestForest holds that a forest is well-formed, that 1 and every mark are within it, however
// far a ratio is, and that an interval without an end goes on to the edge.
func TestForest(t *testing.T) {
	t.Parallel()
	for name, rows := range map[string][]ForestRow{
		"one":      {{Name: "a", Ratio: 1.1, Low: 1.05, High: 1.15, Text: "1.100 faster", Better: true}},
		"far":      {{Name: "a", Ratio: 1e6, Low: 1e5, High: 1e7}, {Name: "b", Ratio: 1e-6, Worse: true}, {Name: "c", Ratio: 1, Low: 0.5}},
		"nothing":  {{Ratio: 0}, {Ratio: math.Inf(1)}, {Ratio: math.NaN()}},
		"the same": {{Ratio: 1, Low: 1, High: 1}},
		"long":     {{Name: strings.Repeat("name <&> ", 40), Ratio: 0.98, Text: strings.Repeat("text", 90)}},
	} {
		svg := Forest{Title: "t", Axis: "a / b", Alike: 0.02, Rows: rows}.SVG()
		if err := xml.Unmarshal([]byte(svg), new(struct{})); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		for _, m := range regexp.MustCompile(`translate\(([-0-9.]+) `).FindAllStringSubmatch(svg, -1) {
			if x, err := strconv.ParseFloat(m[1], 64); err != nil || x < 0 || x > forestWidth {
				t.Errorf("%s: a mark at %s", name, m[1])
			}
		}
		if n := strings.Count(svg, `class="mark`); n != len(rows) {
			t.Errorf("%s: %d marks of %d ratios", name, n, len(rows))
		}
	}
	short := Forest{Rows: []ForestRow{{Name: "vllm concurrency=16", Ratio: 1}, {Name: strings.Repeat("x", 60) + " concurrency=8", Ratio: 1}}}.SVG()
	if !strings.Contains(short, ">vllm concurrency=16<") || !strings.Contains(short, "x concurrency=8<") || !strings.Contains(short, ">…x") {
		t.Errorf("names have not their ends: %s", short)
	}
	if (Forest{}).SVG() != "" {
		t.Error("no ratios are drawn")
	}
	if svg := (Forest{Rows: make([]ForestRow, maxBars+1), Title: "t"}).SVG(); strings.Count(svg, `class="mark`) != maxBars || !strings.Contains(svg, "the first 40 of 41") {
		t.Error("more rows than a chart has are not told")
	}
}

// TestForest_ticks holds that the names of ticks of a wide axis do not lie over each other.
func TestForest_ticks(t *testing.T) {
	s := Forest{Alike: 0.02}.scale([]ForestRow{{Ratio: 0.42, Low: 0.04, High: 9}}, 180, 320)
	named := s.named()
	if len(named) < 3 || len(named) == len(s.ticks) || named[0] != 1 {
		t.Errorf("named are %v of %v", named, s.ticks)
	}
	slices.Sort(named)
	for i, v := range named[1:] {
		if gap := s.at(v) - s.at(named[i]); gap < (wide(tick(v), fontSize)+wide(tick(named[i]), fontSize))/2 {
			t.Errorf("%s and %s are %v pixels apart", tick(named[i]), tick(v), gap)
		}
	}
}
