package chart

import (
	"fmt"
	"math"
)

// Bars are a number for each of several things.
type Bars struct {
	Title string
	Unit  string
	Bars  []Bar
}

// A Bar is one thing.
type Bar struct {
	Name  string
	Value float64
	Text  string // the value in words
	Title string // what a pointer shows
	Cell  string // what a click opens
}

// maxBars is how many bars one chart has; a table has the rest.
const maxBars = 40

// drawn returns the rows of a chart that it has room for. The title says how many are left
// out.
func drawn[T any](rows []T, title string) ([]T, string) {
	if len(rows) <= maxBars {
		return rows, title
	}
	return rows[:maxBars], title + fmt.Sprintf(" (the first %d of %d)", maxBars, len(rows))
}

// The measures of bars, in pixels.
const (
	barRow   = 24.0
	barNames = 190.0 // longer names stand above their bars
	barName  = 18.0  // the height of such a name
)

// SVG draws one bar below the other.
func (b Bars) SVG() string {
	bars := b.Bars
	if len(bars) == 0 {
		return ""
	}
	bars, b.Title = drawn(bars, b.Title)
	most, left, right := 0.0, 0.0, 0.0
	for _, bar := range bars {
		if !math.IsInf(bar.Value, 0) {
			most = max(most, bar.Value)
		}
		left, right = max(left, wide(bar.Name, fontSize)), max(right, wide(bar.Text, fontSize))
	}
	row, above := barRow, left > barNames
	left += 10
	if above {
		left, row = 0, barRow+barName
	}
	c := begin(plotWidth, row*float64(len(bars))+22, b.Title)
	for i, bar := range bars {
		y := row * float64(i)
		if above {
			y += barName
			c.text(0, y-2, "name", "start", cut(bar.Name, fontSize, plotWidth))
		} else {
			c.text(left-8, y+17, "name", "end", bar.Name)
		}
		c.open("bar s0", bar.Cell, bar.Title)
		w := 0.0
		if most > 0 {
			w = (plotWidth - left - right - 14) * min(1, bar.Value/most)
		}
		fmt.Fprintf(&c.b, `<rect x="%s" y="%s" width="%s" height="16" rx="2"/>`, num(left), num(y+5), num(max(1, w)))
		c.text(left+w+6, y+17, "name", "start", bar.Text)
		c.close()
	}
	c.text(left, row*float64(len(bars))+15, "soft", "start", b.Unit)
	return c.end()
}
