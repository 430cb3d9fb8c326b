package chart

import "fmt"

// Shares are counts of two kinds for each of several things, as bars of equal length: what
// was kept is filled, and what was missed is hollow.
type Shares struct {
	Title string
	Unit  string // what is counted, and which of both is filled
	Rows  []Share
}

// A Share is one thing.
type Share struct {
	Name        string
	Part, Whole int    // Whole of 0 has no bar
	Faint       bool   // it decides nothing
	Text        string // the counts in words
	Title       string // what a pointer shows
	Cell        string // what a click opens
}

// shareBar is how long a bar is at least, in pixels.
const shareBar = 60.0

// SVG draws one bar below the other.
func (s Shares) SVG() string {
	rows := s.Rows
	if len(rows) == 0 {
		return ""
	}
	rows, s.Title = drawn(rows, s.Title)
	left, right := 0.0, 0.0
	for _, r := range rows {
		left, right = max(left, wide(r.Name, fontSize)), max(right, wide(r.Text, fontSize))
	}
	left = min(left, barNames) + 10
	right = min(right, plotWidth-left-shareBar-14)
	length := plotWidth - left - right - 14
	c := begin(plotWidth, barRow*float64(len(rows))+22, s.Title)
	for i, r := range rows {
		y := barRow * float64(i)
		c.text(left-8, y+17, "name", "end", cut(r.Name, fontSize, left-8))
		class, kind := "share s0", ""
		if r.Faint {
			kind = " thin"
		}
		c.open(class+kind, r.Cell, r.Title)
		if r.Whole > 0 {
			part := length * float64(r.Part) / float64(r.Whole)
			fmt.Fprintf(&c.b, `<rect class="whole" x="%s" y="%s" width="%s" height="14"/>`, num(left), num(y+6), num(length))
			if r.Part > 0 {
				fmt.Fprintf(&c.b, `<rect class="part" x="%s" y="%s" width="%s" height="14"/>`, num(left), num(y+6), num(part))
			}
		}
		c.text(left+length+6, y+17, "name", "start", cut(r.Text, fontSize, right+8))
		c.close()
	}
	c.text(left, barRow*float64(len(rows))+15, "soft", "start", cut(s.Unit, fontSize, plotWidth-left))
	return c.end()
}
