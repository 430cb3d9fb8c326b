package tables

import (
	"fmt"
	"html"
	"math"
	"strings"
)

// Measures of a picture, in pixels.
const (
	pictureWidth = 720
	pictureLeft  = 230 // where the axis begins
	pictureRight = 40
	pictureTop   = 44
	pictureRow   = 18
)

// An axis maps values to pixels.
type axis struct {
	low, high float64
	log       bool
	ticks     []float64
}

// axisOf returns an axis for the values of a unit: shares from none to all, ratios by
// powers of two.
func axisOf(u Unit, values []float64) axis {
	if u == Share {
		return axis{0, 1, false, []float64{0, 0.25, 0.5, 0.75, 1}}
	}
	a := axis{0.5, 2, true, nil}
	for _, v := range values {
		for v > 0 && v < a.low {
			a.low /= 2
		}
		for v > a.high {
			a.high *= 2
		}
	}
	for x := a.low; x <= a.high; x *= 2 {
		a.ticks = append(a.ticks, x)
	}
	return a
}

func (a axis) at(v float64) float64 {
	v = min(max(v, a.low), a.high)
	share := (v - a.low) / (a.high - a.low)
	if a.log {
		share = math.Log(v/a.low) / math.Log(a.high/a.low)
	}
	return pictureLeft + share*(pictureWidth-pictureLeft-pictureRight)
}

// picture says what of a table is drawn: a column of it.
func (t Table) picture() int { return min(t.Drawn, len(t.Columns)-1) }

// Alt returns the picture in words.
func (t Table) Alt() string {
	within, of := 0, 0
	for _, c := range t.Cases {
		if f := c.Figures[t.picture()]; f.N > 0 && f.Bound != (Bound{}) {
			of++
			if !f.Broken(2) {
				within++
			}
		}
	}
	text := fmt.Sprintf("%s: %s of each case", t.Name, t.Columns[t.picture()])
	if of > 0 {
		text += fmt.Sprintf("; %d of %d with a bound keep it", within, of)
	}
	return text
}

// SVG draws one column of the table: a row a case, a filled dot with an error bar
// for the rule, a ring for the rule before, and a green band for what is asked.
func (t Table) SVG(before Record) []byte {
	var values []float64
	unit := Ratio
	for _, c := range t.Cases {
		f := c.Figures[t.picture()]
		unit = f.Unit
		values = append(values, f.Value)
		if old, ok := before.find(t.Name, c.Name); ok && t.picture() < len(old.Figures) {
			values = append(values, old.Figures[t.picture()].Value)
		}
	}
	a := axisOf(unit, values)
	height := pictureTop + pictureRow*len(t.Cases) + 10
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	line(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="sans-serif" font-size="11" role="img">`, pictureWidth, height)
	line(`<title>%s</title>`, html.EscapeString(t.Alt()))
	line(`<rect width="100%%" height="100%%" fill="#fff"/>`)
	line(`<text x="8" y="16" font-weight="bold">%s: %s</text>`, html.EscapeString(t.Name), html.EscapeString(t.Columns[t.picture()]))
	line(`<circle cx="480" cy="12" r="4" fill="#06c"/><text x="490" y="16">now</text><circle cx="540" cy="12" r="4" fill="none" stroke="#c60" stroke-width="2"/><text x="550" y="16">before</text><rect x="610" y="7" width="10" height="10" fill="#cec"/><text x="625" y="16">asked</text>`)
	for _, x := range a.ticks {
		line(`<path d="M%.1f %dV%d" stroke="#ddd"/><text x="%.1f" y="%d" text-anchor="middle" fill="#555">%s</text>`, a.at(x), pictureTop-8, height-6, a.at(x), pictureTop-12, unit.text(x))
	}
	for i, c := range t.Cases {
		f := c.Figures[t.picture()]
		y := pictureTop + pictureRow*i + pictureRow/2
		if f.Bound != (Bound{}) {
			from, to := a.at(f.Bound.Low), a.at(a.high)
			if f.Bound.High > 0 {
				to = a.at(f.Bound.High)
			}
			line(`<rect x="%.1f" y="%d" width="%.1f" height="%d" fill="#cec"/>`, from, y-7, max(2, to-from), 14)
		}
		line(`<text x="%d" y="%d" text-anchor="end">%s</text>`, pictureLeft-12, y+4, html.EscapeString(c.Name))
		if old, ok := before.find(t.Name, c.Name); ok && t.picture() < len(old.Figures) && old.Figures[t.picture()].N > 0 {
			line(`<circle cx="%.1f" cy="%d" r="5" fill="none" stroke="#c60" stroke-width="2"/>`, a.at(old.Figures[t.picture()].Value), y)
		}
		if f.N > 0 {
			line(`<path d="M%.1f %dH%.1f" stroke="#06c" stroke-width="2"/><circle cx="%.1f" cy="%d" r="3.5" fill="#06c"/>`, a.at(f.Value-f.Error), y, a.at(f.Value+f.Error), a.at(f.Value), y)
		}
	}
	line(`</svg>`)
	return []byte(b.String())
}
