package chart

import (
	"fmt"
)

// A Heat is a grid of cells, each with a colour by its number.
type Heat struct {
	Title   string
	Down    string // the axis that goes down
	Across  string // the axis that goes across; "" for a single column
	Columns []string
	Rows    []HeatRow
}

// A HeatRow is one value of the axis that goes down.
type HeatRow struct {
	Name  string
	Cells []HeatCell // one for each column
}

// A HeatCell is one cell of the plan.
type HeatCell struct {
	None    bool     // the plan has no such cell
	Text    string   // its number
	Below   []string // further lines
	Mark    string   // of its verdict
	Level   int      // 0 to Levels-1, by its number; -1 for no colour
	Strong  bool     // framed
	Crossed bool     // INVALID: the number is crossed out
	Title   string   // what a pointer shows
	Cell    string   // what a click opens
}

// Levels is how many shades a heat map has.
const Levels = 6

// The measures of a heat map, in pixels.
const (
	heatHeight = 40.0 // of a field with two lines at most
	heatLine   = 13.0 // for each line more
	heatMin    = 82.0
	heatHead   = 24.0 // with the name of the axis that goes across 16 more
	heatFoot   = 4.0
)

// SVG draws the grid. Of a grid with more than MaxMarks cells the first rows are drawn.
func (h Heat) SVG() string {
	if len(h.Rows) == 0 || len(h.Columns) == 0 {
		return ""
	}
	rows := h.Rows
	if most := max(1, MaxMarks/len(h.Columns)); len(rows) > most {
		rows = rows[:most]
		h.Title += fmt.Sprintf(" (the first %d of %d rows)", most, len(h.Rows))
	}
	left, width, height := wide(h.Down, fontSize), heatMin, heatHeight
	for _, r := range rows {
		left = max(left, wide(r.Name, fontSize))
		for _, c := range r.Cells {
			width = max(width, wide(c.Mark+" "+c.Text, 13)+16)
			for _, line := range c.Below {
				width = max(width, wide(line, 10)+12)
			}
			height = max(height, heatHeight+heatLine*float64(len(c.Below)-1))
		}
	}
	for _, name := range h.Columns {
		width = max(width, min(160, wide(name, fontSize)+10))
	}
	left, width = min(left, 180)+14, min(width, 190)
	top := heatHead
	if h.Across != "" {
		top += 16
	}

	c := begin(left+width*float64(len(h.Columns))+2, top+height*float64(len(rows))+heatFoot, h.Title)
	c.text(left-8, top-8, "soft", "end", cut(h.Down, fontSize, left-10))
	if h.Across != "" {
		c.text(left+4, 13, "soft", "start", h.Across)
	}
	for i, name := range h.Columns {
		c.text(left+width*(float64(i)+0.5), top-8, "name", "middle", cut(name, fontSize, width-4))
	}
	for j, r := range rows {
		y := top + height*float64(j)
		c.text(left-8, y+height/2+4, "name", "end", cut(r.Name, fontSize, left-10))
		for i, cell := range r.Cells {
			c.field(cell, left+width*float64(i), y, width, height)
		}
	}
	return c.end()
}

func (c *canvas) field(h HeatCell, x, y, width, height float64) {
	if h.None {
		return
	}
	class := "field"
	if h.Level >= 0 {
		class += fmt.Sprintf(" q%d", min(h.Level, Levels-1))
	}
	if h.Strong {
		class += " strong"
	}
	c.open(class, h.Cell, h.Title)
	fmt.Fprintf(&c.b, `<rect x="%s" y="%s" width="%s" height="%s" rx="3"/>`, num(x+1.5), num(y+1.5), num(width-3), num(height-3))
	middle := y + height/2 + 4
	if n := len(h.Below); n > 0 {
		middle -= 6 + heatLine/2*float64(n-1)
		for i, line := range h.Below {
			c.text(x+width/2, middle+heatLine*float64(i+1), "below", "middle", cut(line, 10, width-6))
		}
	}
	text := cut(h.Text, 13, width-20)
	if h.Mark != "" {
		text = h.Mark + " " + text
	}
	c.text(x+width/2, middle, "number", "middle", text)
	if h.Crossed {
		c.line(x+4, y+height-4, x+width-4, y+4, "cross")
		c.line(x+4, y+4, x+width-4, y+height-4, "cross")
	}
	c.close()
}
