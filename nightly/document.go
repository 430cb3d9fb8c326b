package nightly

import (
	"cmp"
	"math"
	"time"

	"sweep.dev/sweep/nightly/gate"
)

// A Trend is a board as JSON: every night of each series, and the steps in it.
type Trend struct {
	Version int          `json:"version"`
	Nights  []TrendNight `json:"nights"`
	Series  []TrendOf    `json:"series"`
}

// A TrendNight is a run of the history.
type TrendNight struct {
	Date time.Time `json:"date"`
	Run  string    `json:"run_id"`
	Plan string    `json:"plan"`
}

// A TrendOf is one metric of one cell. What is not known is null.
type TrendOf struct {
	Cell       string       `json:"cell_id"`
	Conditions string       `json:"conditions_digest"`
	Machine    string       `json:"machine"`
	Label      string       `json:"label"`
	Metric     string       `json:"metric"`
	Less       bool         `json:"less_is_better"`
	State      gate.State   `json:"state"` // of the last night
	Points     []TrendPoint `json:"points"`
	Steps      []TrendStep  `json:"steps"`
}

// A TrendPoint is a night of a series, by the number of the night in Trend.Nights, with
// the band as it was that night.
type TrendPoint struct {
	Night    int        `json:"night"`
	Value    *float64   `json:"value"`
	Infinite bool       `json:"infinite"`
	State    gate.State `json:"state"`
	Low      *float64   `json:"low"`
	High     *float64   `json:"high"`
	Subject  *string    `json:"subject_digest"`
}

// A TrendStep is a night with which the level changed.
type TrendStep struct {
	Night   int       `json:"night"`
	Date    time.Time `json:"date"`
	Run     string    `json:"run_id"`
	Before  float64   `json:"before"`
	After   float64   `json:"after"`
	Change  float64   `json:"change"`         // (after - before) / before
	Changed string    `json:"changed"`        // of the software, in words; "" for nothing that is recorded
	Subject *string   `json:"subject_digest"` // of that night
	Was     *string   `json:"subject_digest_before"`
}

// Trend returns the board as JSON. Nights of which a series has no figure are left out of it.
func (b *Board) Trend() Trend {
	t := Trend{Version: 1, Nights: []TrendNight{}, Series: []TrendOf{}}
	for _, n := range b.Nights {
		t.Nights = append(t.Nights, TrendNight(n))
	}
	for _, s := range b.Series {
		one := TrendOf{
			Cell: s.Cell, Conditions: s.Conditions, Machine: s.Machine, Label: s.Label, Metric: s.Metric.Column, Less: s.Metric.Less,
			State: s.Last().State, Points: []TrendPoint{}, Steps: []TrendStep{},
		}
		for i, v := range s.Values {
			if math.IsNaN(v) {
				continue
			}
			verdict := s.Verdicts[i]
			one.Points = append(one.Points, TrendPoint{i, known(v), math.IsInf(v, 0), verdict.State, known(verdict.Low), known(verdict.High), s.subject(i)})
		}
		for _, step := range gate.Steps(s.Values) {
			n := b.Nights[step.Night]
			one.Steps = append(one.Steps, TrendStep{
				Night: step.Night, Date: n.Date, Run: n.Run, Before: step.Before, After: step.After, Change: step.After/step.Before - 1,
				Changed: s.Changed(step.Night), Subject: s.subject(step.Night), Was: s.before(step.Night),
			})
		}
		t.Series = append(t.Series, one)
	}
	return t
}

// subject returns the digest of what was measured on a night; nil if it is not known.
func (s Series) subject(night int) *string {
	if s.Subjects[night] == nil || s.Subjects[night].Digest == "" {
		return nil
	}
	return &s.Subjects[night].Digest
}

// before returns the subject of the last night before one that has one.
func (s Series) before(night int) *string {
	for i := night - 1; i >= 0; i-- {
		if d := s.subject(i); d != nil {
			return d
		}
	}
	return nil
}

// stepText says of a step what of the software changed with it.
func (s Series) stepText(night int) string {
	return cmp.Or(s.Changed(night), "nothing of the software that is recorded changed")
}
