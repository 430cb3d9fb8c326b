// Package chart draws the charts of a report as SVG. A chart has classes and no styles of
// its own, so that a page with a strict content security policy shows it in the colours
// of its theme; [Standalone] adds the styles. Every text is made harmless here.
//
// Series differ in colour, in the shape of their points and in the dashes of their lines:
// nothing is said by colour alone.
package chart

import (
	_ "embed"
	"encoding/xml"
	"fmt"
	"math"
	"strings"

	"sweep.dev/sweep/internal/plaintext"
)

// MaxMarks is how many points or fields a chart draws. Points beyond it are thinned out,
// evenly over the order in which they are given, and the chart says so.
const MaxMarks = 2000

// Style is the style sheet of charts, for a page that holds some. It sets no colours
// of text and background but by the variables --ink, --soft, --line and --paper.
//
//go:embed chart.css
var Style string

// Theme sets the variables of Style, for light and for dark.
//
//go:embed theme.css
var Theme string

// A Chart is something that can be drawn.
type Chart interface {
	// SVG is an element svg, well-formed XML. It is "" if there is nothing to draw.
	SVG() string
}

// Standalone returns a chart as a file of its own; "" if there is nothing to draw.
func Standalone(c Chart) string {
	body := c.SVG()
	if body == "" {
		return ""
	}
	at := strings.Index(body, ">") + 1
	return `<?xml version="1.0" encoding="UTF-8"?>` + "\n" + body[:at] + "<style>" + Theme + Style + "</style>" + body[at:] + "\n"
}

// A canvas is an SVG that is being written.
type canvas struct {
	b             strings.Builder
	width, height float64
}

// begin opens the svg and names it for those who cannot see it.
func begin(width, height float64, title string) *canvas {
	c := &canvas{width: width, height: height}
	fmt.Fprintf(&c.b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %s %s" width="%s" height="%s" role="img" class="chart" aria-label="%s">`,
		num(width), num(height), num(width), num(height), escape(title))
	fmt.Fprintf(&c.b, `<rect class="paper" width="%s" height="%s"/>`, num(width), num(height))
	return c
}

func (c *canvas) end() string {
	c.b.WriteString("</svg>")
	return c.b.String()
}

// text writes a text; anchor is start, middle or end.
func (c *canvas) text(x, y float64, class, anchor, s string) {
	fmt.Fprintf(&c.b, `<text x="%s" y="%s" class="%s" text-anchor="%s">%s</text>`, num(x), num(y), class, anchor, escape(s))
}

// upright writes a text from below to above, around its middle.
func (c *canvas) upright(x, y float64, class, s string) {
	fmt.Fprintf(&c.b, `<text transform="translate(%s %s) rotate(-90)" class="%s" text-anchor="middle">%s</text>`, num(x), num(y), class, escape(s))
}

func (c *canvas) line(x1, y1, x2, y2 float64, class string) {
	fmt.Fprintf(&c.b, `<path d="M%s %sL%s %s" class="%s"/>`, num(x1), num(y1), num(x2), num(y2), class)
}

// path writes a broken line through points.
func (c *canvas) path(points [][2]float64, class string) {
	if len(points) < 2 {
		return
	}
	fmt.Fprintf(&c.b, `<path class="%s" d="`, class)
	for i, p := range points {
		command := "L"
		if i == 0 {
			command = "M"
		}
		c.b.WriteString(command + num(p[0]) + " " + num(p[1]))
	}
	c.b.WriteString(`"/>`)
}

// open begins a group with what a pointer that rests on it shows. A group with the id of
// a cell is what a click opens.
func (c *canvas) open(class, cell, title string) {
	fmt.Fprintf(&c.b, `<g class="%s"`, class)
	if cell != "" {
		fmt.Fprintf(&c.b, ` data-cell="%s"`, escape(cell))
	}
	c.b.WriteString(">")
	if title != "" {
		c.b.WriteString("<title>" + escape(title) + "</title>")
	}
}

func (c *canvas) close() { c.b.WriteString("</g>") }

// shapes are the shapes of points, by the number of the series.
var shapes = [...]string{
	"M-4 0A4 4 0 1 0 4 0A4 4 0 1 0 -4 0Z",                // circle
	"M-3.6 -3.6H3.6V3.6H-3.6Z",                           // square
	"M0 -4.8L4.6 3.6H-4.6Z",                              // triangle
	"M0 -5L5 0L0 5L-5 0Z",                                // diamond
	"M0 4.8L4.6 -3.6H-4.6Z",                              // triangle that points down
	"M-5 -1.6H-1.6V-5H1.6V-1.6H5V1.6H1.6V5H-1.6V1.6H-5Z", // cross
	"M-5 -2.2H5V2.2H-5Z",                                 // bar
	"M-2.2 -5H2.2V5H-2.2Z",
}

// Kinds is how many kinds of series can be told from each other.
const Kinds = len(shapes)

// mark writes the shape of a series.
func (c *canvas) mark(x, y float64, kind int, class string) {
	fmt.Fprintf(&c.b, `<path transform="translate(%s %s)" d="%s" class="%s"/>`, num(x), num(y), shapes[kind%Kinds], class)
}

// num returns a coordinate, in tenths.
func num(v float64) string {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		v = 0
	}
	return strings.TrimSuffix(fmt.Sprintf("%.1f", v), ".0")
}

// escape makes a text one line that is no markup and holds what XML allows.
func escape(s string) string {
	var b strings.Builder
	_ = xml.EscapeText(&b, []byte(plaintext.Line(s))) // a builder takes everything
	return b.String()
}

// glyph is how wide a glyph is, of its size, in the widest of the system's fonts.
const glyph = 0.64

// wide returns about how wide a text of a size is.
func wide(s string, size float64) float64 { return glyph * size * float64(len([]rune(s))) }

// cut shortens a text to a width.
func cut(s string, size, width float64) string {
	r := []rune(s)
	most := max(1, int(width/(glyph*size)))
	if len(r) <= most {
		return s
	}
	return string(r[:most-1]) + "…"
}
