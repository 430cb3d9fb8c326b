package nightly

import (
	"math"
	"time"

	"sweep.dev/sweep/nightly/gate"
)

// A Document is a board as JSON: what the last night of each series comes to.
type Document struct {
	Version int                `json:"version"`
	Run     string             `json:"run_id"`
	Plan    string             `json:"plan"`
	Date    time.Time          `json:"date"`
	Nights  int                `json:"nights"`
	Count   map[gate.State]int `json:"count"`
	Changed []string           `json:"changed"` // of the software, with this night
	Holes   []string           `json:"holes"`   // cells of the run without a valid trial, with why
	Series  []Entry            `json:"series"`
}

// An Entry is one metric of one cell. What is not known is null.
type Entry struct {
	Cell       string     `json:"cell_id"`
	Conditions string     `json:"conditions_digest"`
	Machine    string     `json:"machine"`
	Label      string     `json:"label"`
	Metric     string     `json:"metric"`
	State      gate.State `json:"state"`
	Value      *float64   `json:"value"`
	Infinite   bool       `json:"infinite"`
	Again      *float64   `json:"again"` // of a second measurement of the night
	Center     *float64   `json:"center"`
	Low        *float64   `json:"low"`
	High       *float64   `json:"high"`
	Change     *float64   `json:"change"`       // (value - center) / center
	Least      *float64   `json:"least_change"` // that is told from noise, as a share
	SD         *float64   `json:"sd"`           // between nights, as a share of the center
	Nights     int        `json:"nights"`       // that the band rests on
	Since      *Since     `json:"since"`        // of a suspicion, regression or improvement
	New        string     `json:"new_series,omitempty"`
}

// Since is the night with which something began.
type Since struct {
	Date    time.Time `json:"date"`
	Run     string    `json:"run_id"`
	Changed string    `json:"changed"` // of the software, with that night
}

// Document returns the board as JSON.
func (b *Board) Document(holes []string) Document {
	night := b.Nights[len(b.Nights)-1]
	d := Document{
		Version: 1, Run: night.Run, Plan: night.Plan, Date: night.Date, Nights: len(b.Nights), Count: b.Count(),
		Changed: append([]string{}, b.news()...), Holes: append([]string{}, holes...), Series: []Entry{},
	}
	for _, s := range b.Series {
		v := s.Last()
		e := Entry{
			Cell: s.Cell, Conditions: s.Conditions, Machine: s.Machine, Label: s.Label, Metric: s.Metric.Column, State: v.State,
			Value: known(v.Value), Infinite: math.IsInf(v.Value, 1), Again: known(s.Again[len(b.Nights)-1]), Center: known(v.Center), Low: known(v.Low), High: known(v.High),
			Change: known(v.Change), Least: known(v.Least), SD: known(v.SD), Nights: v.Nights, New: s.New,
		}
		switch v.State {
		case gate.Suspect, gate.Regression, gate.Accepted, gate.Better, gate.Improved:
			e.Since = &Since{b.Nights[v.First].Date, b.Nights[v.First].Run, s.Changed(v.First)}
		}
		d.Series = append(d.Series, e)
	}
	return d
}

func known(v float64) *float64 {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return nil
	}
	return &v
}
