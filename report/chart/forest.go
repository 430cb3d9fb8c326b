package chart

import (
	"cmp"
	"fmt"
	"math"
	"slices"
)

// A Forest is ratios with their intervals, one below the other, around 1: what a ratio of 1
// stands for has not changed.
type Forest struct {
	Title string
	Axis  string  // what the ratio is of, and which way is better
	Alike float64 // ratios of up to 1 + Alike, and down to its inverse, are the same
	Rows  []ForestRow
}

// A ForestRow is one ratio.
type ForestRow struct {
	Name      string
	Ratio     float64
	Low, High float64 // its interval; either is 0 if that end is not known
	Text      string  // the ratio and its verdict in words
	Better    bool    // it is certain, and to the better
	Worse     bool    // it is certain, and to the worse
	Title     string  // what a pointer shows
	Cell      string  // what a click opens
}

// The measures of a forest, in pixels.
const (
	forestWidth = 460.0
	forestRow   = 22.0
	forestTicks = 4
	// forestFar is how far from 1 the axis reaches at most: a ratio beyond stands at its
	// end, and an interval that has no end there goes on to it.
	forestFar = 10.0
)

// SVG draws the ratios.
func (f Forest) SVG() string {
	rows := f.Rows
	if len(rows) == 0 {
		return ""
	}
	rows, f.Title = drawn(rows, f.Title)
	left, right := 0.0, 0.0
	for _, r := range rows {
		left, right = max(left, wide(r.Name, fontSize)), max(right, wide(r.Text, fontSize))
	}
	left, right = min(left, 170)+12, min(right, 134)+12
	x := f.scale(rows, left, forestWidth-right)
	bottom := forestRow * float64(len(rows))
	c := begin(forestWidth, bottom+44, f.Title)
	a, b := x.at(1/(1+f.Alike)), x.at(1+f.Alike)
	fmt.Fprintf(&c.b, `<rect class="area" x="%s" y="0" width="%s" height="%s"/>`, num(a), num(b-a), num(bottom))
	for _, t := range x.ticks {
		c.line(x.at(t), 0, x.at(t), bottom, "grid")
	}
	for _, t := range x.named() {
		c.text(x.at(t), bottom+16, "tick", "middle", tick(t))
	}
	c.line(left, bottom, forestWidth-right, bottom, "axis")
	c.line(x.at(1), 0, x.at(1), bottom, "one")
	c.text(0, bottom+37, "soft", "start", cut(f.Axis, fontSize, forestWidth))
	for i, r := range rows {
		c.ratio(r, x, left, forestRow*float64(i)+forestRow/2)
		c.text(left-12, forestRow*float64(i)+15, "name", "end", cutFront(r.Name, fontSize, left-12))
		c.text(forestWidth-right+12, forestRow*float64(i)+15, "name", "start", cut(r.Text, fontSize, right))
	}
	return c.end()
}

// ratio writes one ratio: a square to the better, a triangle to the worse, else a hollow
// circle.
func (c *canvas) ratio(r ForestRow, x scale, left, y float64) {
	kind, class := 0, "mark s6 faint"
	switch {
	case r.Better:
		kind, class = 1, "mark s0"
	case r.Worse:
		kind, class = 4, "mark s1"
	}
	c.open("point", r.Cell, r.Title)
	if r.Low > 0 || r.High > 0 {
		low, high := x.from, x.to
		if r.Low > 0 {
			low = x.at(r.Low)
		}
		if r.High > 0 {
			high = x.at(r.High)
		}
		low, high = x.within(low), x.within(high)
		colour := class[len("mark "):][:2]
		c.path([][2]float64{{low, y - 3}, {low, y + 3}, {low, y}, {high, y}, {high, y - 3}, {high, y + 3}}, "interval "+colour)
	}
	c.mark(x.within(x.at(r.Ratio)), y, kind, class)
	c.close()
}

// scale covers the ratios, their intervals and 1.
func (f Forest) scale(rows []ForestRow, from, to float64) scale {
	s := scale{low: 1 / (1 + 2*f.Alike), high: 1 + 2*f.Alike, from: from, to: to}
	for _, r := range rows {
		for _, v := range []float64{r.Ratio, r.Low, r.High} {
			if v > 0 && !math.IsInf(v, 0) {
				v = min(max(v, 1/forestFar), forestFar)
				s.low, s.high = min(s.low, v), max(s.high, v)
			}
		}
	}
	if s.log = s.high > 3*s.low; s.log {
		s.logTicks(forestTicks)
	} else {
		s.linearTicks(forestTicks)
	}
	return s
}

// named returns the ticks whose names have room beside each other, from 1 outwards.
func (s scale) named() (ticks []float64) {
	all := slices.Clone(s.ticks)
	slices.SortStableFunc(all, func(a, b float64) int { return cmp.Compare(math.Abs(s.at(a)-s.at(1)), math.Abs(s.at(b)-s.at(1))) })
	for _, t := range all {
		meets := func(o float64) bool {
			return math.Abs(s.at(t)-s.at(o)) < (wide(tick(t), fontSize)+wide(tick(o), fontSize))/2+4
		}
		if !slices.ContainsFunc(ticks, meets) {
			ticks = append(ticks, t)
		}
	}
	return ticks
}

// within returns a coordinate, or the end of the scale that it lies beyond.
func (s scale) within(at float64) float64 { return min(max(at, s.from), s.to) }

// cutFront shortens a name to a width by its beginning: what cells differ in most, the
// load, is at their end.
func cutFront(s string, size, width float64) string {
	r := []rune(s)
	most := max(1, int(width/(glyph*size)+1e-9))
	if len(r) <= most {
		return s
	}
	return "…" + string(r[len(r)-most+1:])
}
