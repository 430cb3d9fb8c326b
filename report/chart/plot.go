package chart

import (
	"fmt"
	"math"
	"slices"
)

// An Axis is one direction of a plot.
type Axis struct {
	Name string // what it is, with its unit
	Log  bool
	Near bool // a linear axis begins near the least value, not at 0
	// Words are what a tick says instead of its value; "" is no tick. Nil is the value.
	Words func(value float64) string
}

// A Plot is series of points over two axes.
type Plot struct {
	Title  string
	X, Y   Axis
	Series []Series
	Limits []Limit
	Area   []Point // shaded between Low and High, along X; see Point.Low
}

// A Series is points that belong together.
type Series struct {
	Name   string
	Kind   int  // its colour and shape, below Kinds
	Dash   int  // of its line: 0 solid, 1 dashed, 2 dotted
	Line   bool // its points are joined, in their order
	Small  bool // its points are dots
	Points []Point
}

// A Point is one cell in a plot.
type Point struct {
	X, Y      float64
	Low, High float64 // an interval of Y; both 0 for none
	Faint     bool    // it is shown, and not to be used
	Crossed   bool    // INVALID: crossed out
	Label     string
	Title     string // what a pointer shows
	Cell      string // what a click opens; "" for nothing
}

// A Limit is a line across a plot: an objective.
type Limit struct {
	Name string
	At   float64
	OnX  bool // a bound of X: the line is upright
	// Above: the name of an upright line is above the plot. Of names that would lie over
	// each other the last is written.
	Above bool
}

// The measures of a plot, in pixels. A window of 360 pixels has room for 336 of them, in
// which a text of fontSize is 9 pixels high: plots are no wider for that.
const (
	plotWidth  = 480.0
	plotHeight = 330.0
	plotLeft   = 66.0
	plotRight  = 18.0
	plotTop    = 20.0 // room for a name above the plot
	plotBottom = 44.0
	legendLeft = 12.0
	rowHeight  = 20.0 // of the legend
	fontSize   = 13.0 // as the style sheet has it
)

// SVG draws the plot with its legend below.
func (p Plot) SVG() string {
	p = p.thinned()
	var xs, ys []float64
	for _, s := range p.Series {
		for _, pt := range s.Points {
			xs, ys = append(xs, pt.X), append(ys, pt.Y)
			if pt.High > pt.Low {
				ys = append(ys, pt.Low, pt.High)
			}
		}
	}
	if len(xs) == 0 {
		return ""
	}
	for _, pt := range p.Area {
		xs, ys = append(xs, pt.X), append(ys, pt.Low, pt.High)
	}
	for _, l := range p.Limits {
		if l.OnX {
			xs = append(xs, l.At)
		} else {
			ys = append(ys, l.At)
		}
	}
	right, bottom := plotWidth-plotRight, plotHeight-plotBottom
	across := 5
	if p.X.Words != nil {
		across = 4 // words are longer than numbers
	}
	x := newScale(xs, p.X, plotLeft, right, across)
	y := newScale(ys, p.Y, bottom, plotTop, 6)

	rows := p.legend()
	c := begin(plotWidth, plotHeight+rowHeight*float64(len(rows)), p.Title)
	c.area(p.Area, x, y)
	for _, t := range x.ticks {
		if text := p.X.tick(t); text != "" {
			c.line(x.at(t), plotTop, x.at(t), bottom, "grid")
			c.text(inside(x.at(t), text), bottom+16, "tick", "middle", text)
		}
	}
	for _, t := range y.ticks {
		c.line(plotLeft, y.at(t), right, y.at(t), "grid")
		c.text(plotLeft-7, y.at(t)+4, "tick", "end", tick(t))
	}
	c.line(plotLeft, bottom, right, bottom, "axis")
	c.line(plotLeft, plotTop, plotLeft, bottom, "axis")
	c.text(plotWidth/2, bottom+35, "name", "middle", cut(p.X.Name, fontSize, plotWidth))
	c.upright(14, (plotTop+bottom)/2, "name", cut(p.Y.Name, fontSize, bottom+plotTop))
	free := plotWidth // of names above the plot
	for _, l := range slices.Backward(p.Limits) {
		if !l.Above {
			continue
		}
		c.line(x.at(l.At), plotTop, x.at(l.At), bottom, "limit")
		if at, half := inside(x.at(l.At), l.Name), wide(l.Name, fontSize)/2; at+half <= free {
			c.text(at, plotTop-4, "limitname", "middle", l.Name)
			free = at - half
		}
	}
	for _, l := range p.Limits {
		switch {
		case l.Above:
		case l.OnX:
			c.line(x.at(l.At), plotTop, x.at(l.At), bottom, "limit")
			c.upright(x.at(l.At)-5, (plotTop+bottom)/2, "limitname", l.Name)
		default:
			c.line(plotLeft, y.at(l.At), right, y.at(l.At), "limit")
			at := y.at(l.At) - 5
			if at < fontSize { // above the line it would be cut off
				at = y.at(l.At) + fontSize + 2
			}
			c.text(right-4, at, "limitname", "end", l.Name)
		}
	}
	for _, s := range p.Series {
		if !s.Line {
			continue
		}
		var path [][2]float64
		for _, pt := range s.Points {
			path = append(path, [2]float64{x.at(pt.X), y.at(pt.Y)})
		}
		c.path(path, fmt.Sprintf("line s%d d%d", s.Kind%Kinds, s.Dash))
	}
	for _, s := range p.Series {
		for _, pt := range s.Points {
			c.point(s, pt, x, y)
		}
	}
	c.labels(p, x, y)
	for i, row := range rows {
		c.entries(row, plotHeight+rowHeight*float64(i)+8)
	}
	return c.end()
}

// tick returns what a tick of the axis says.
func (a Axis) tick(v float64) string {
	if a.Words != nil {
		return a.Words(v)
	}
	return tick(v)
}

// inside returns the middle of a text that is to be at x, moved so that the plot has all of it.
func inside(x float64, text string) float64 {
	return min(x, plotWidth-wide(text, fontSize)/2)
}

// area shades what is between the lower and the upper ends of points.
func (c *canvas) area(points []Point, x, y scale) {
	var outline [][2]float64
	for _, pt := range points {
		outline = append(outline, [2]float64{x.at(pt.X), y.at(pt.High)})
	}
	for _, pt := range slices.Backward(points) {
		outline = append(outline, [2]float64{x.at(pt.X), y.at(pt.Low)})
	}
	c.path(outline, "area")
}

func (c *canvas) point(s Series, pt Point, x, y scale) {
	px, py := x.at(pt.X), y.at(pt.Y)
	class := fmt.Sprintf("mark s%d", s.Kind%Kinds)
	if pt.Faint {
		class += " faint"
	}
	if pt.High > pt.Low {
		low, high := y.at(pt.Low), y.at(pt.High)
		c.path([][2]float64{{px - 3, high}, {px + 3, high}, {px, high}, {px, low}, {px - 3, low}, {px + 3, low}}, fmt.Sprintf("interval s%d", s.Kind%Kinds))
	}
	c.open("point", pt.Cell, pt.Title)
	if s.Small {
		fmt.Fprintf(&c.b, `<circle cx="%s" cy="%s" r="2.2" class="%s"/>`, num(px), num(py), class)
	} else {
		c.mark(px, py, s.Kind, class)
	}
	if pt.Crossed {
		c.path([][2]float64{{px - 6, py - 6}, {px + 6, py + 6}}, "cross")
		c.path([][2]float64{{px - 6, py + 6}, {px + 6, py - 6}}, "cross")
	}
	c.close()
}

// labels writes the labels of points, but for those that would lie over another.
func (c *canvas) labels(p Plot, x, y scale) {
	type box struct{ x1, y1, x2, y2 float64 }
	var taken []box
	for _, s := range p.Series {
		for _, pt := range s.Points {
			if pt.Label == "" {
				continue
			}
			px, py := x.at(pt.X)+8, y.at(pt.Y)-6
			b := box{px, py - 11, px + wide(pt.Label, fontSize), py + 2}
			free := b.x2 <= plotWidth
			for _, t := range taken {
				free = free && (b.x2 < t.x1 || t.x2 < b.x1 || b.y2 < t.y1 || t.y2 < b.y1)
			}
			if free {
				taken = append(taken, b)
				c.text(px, py, "label", "start", pt.Label)
			}
		}
	}
}

// legend puts the names of series into rows.
func (p Plot) legend() [][]Series {
	var rows [][]Series
	x := math.Inf(1)
	for _, s := range p.Series {
		if s.Name == "" {
			continue
		}
		w := entryWidth(s)
		if x+w > plotWidth {
			rows, x = append(rows, nil), legendLeft
		}
		rows[len(rows)-1] = append(rows[len(rows)-1], s)
		x += w
	}
	return rows
}

func entryWidth(s Series) float64 {
	return min(38+wide(s.Name, fontSize), plotWidth-legendLeft)
}

func (c *canvas) entries(row []Series, y float64) {
	x := legendLeft
	for _, s := range row {
		if s.Line {
			c.path([][2]float64{{x, y}, {x + 22, y}}, fmt.Sprintf("line s%d d%d", s.Kind%Kinds, s.Dash))
		}
		if !s.Small {
			c.mark(x+11, y, s.Kind, fmt.Sprintf("mark s%d", s.Kind%Kinds))
		}
		w := entryWidth(s)
		c.text(x+27, y+4, "name", "start", cut(s.Name, fontSize, w-30))
		x += w
	}
}

// thinned leaves out points evenly if there are more than MaxMarks, and names in the
// title how many are shown.
func (p Plot) thinned() Plot {
	n := 0
	for _, s := range p.Series {
		n += len(s.Points)
	}
	if n <= MaxMarks {
		return p
	}
	step := float64(n) / MaxMarks
	series := make([]Series, 0, len(p.Series))
	at, next, shown := 0, 0.0, 0
	for _, s := range p.Series {
		points := s.Points
		s.Points = nil
		for _, pt := range points {
			if float64(at) >= next {
				s.Points = append(s.Points, pt)
				next += step
				shown++
			}
			at++
		}
		series = append(series, s)
	}
	p.Series = series
	p.Title += fmt.Sprintf(" (%d of %d points)", shown, n)
	return p
}
