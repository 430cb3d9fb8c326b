package report

import (
	"encoding/json"
	"errors"
	"fmt"

	"sweep.dev/sweep/internal/layout"
	"sweep.dev/sweep/report/conclude"
	"sweep.dev/sweep/rundir"
)

// mostRepeats bounds the trials that a plan gives to each of its cells.
const mostRepeats = 100_000

// ReadResolved reads the plan of a run with its defaults and cells. The error is
// [rundir.ErrDamaged] if it is missing or broken.
func ReadResolved(dir string) (r Resolved, err error) {
	err = rundir.ReadFile(dir, layout.Resolved, func(b []byte) (err error) {
		r, err = ParseResolved(b)
		return err
	})
	return r, err
}

// ParseResolved reads the content of [layout.Resolved]. It fails for values that no plan has:
// an axis whose value is a list or an object, and searches without a cell for each level.
func ParseResolved(b []byte) (Resolved, error) {
	var r *Resolved
	if err := json.Unmarshal(b, &r); err != nil {
		return Resolved{}, err
	}
	if r == nil {
		return Resolved{}, errors.New("it is null, want an object")
	}
	if r.Repeats < 0 || r.Repeats > mostRepeats {
		return Resolved{}, fmt.Errorf("repeats is %d, want 0 to %d", r.Repeats, mostRepeats)
	}
	for _, cells := range [][]conclude.Cell{r.Cells, r.Skipped} {
		for _, c := range cells {
			if err := scalars(c); err != nil {
				return Resolved{}, err
			}
		}
	}
	for i, s := range r.Searches {
		if len(s.Levels) == 0 || len(s.Cells) != len(s.Levels) {
			return Resolved{}, fmt.Errorf("search %d has %d levels and %d cells, want a cell for each level", i+1, len(s.Levels), len(s.Cells))
		}
	}
	return *r, nil
}

// scalars fails if an axis of a cell has a value that cannot be compared.
func scalars(c conclude.Cell) error {
	for _, s := range c.Settings {
		what := "a list"
		switch s.Value.(type) {
		case []any:
		case map[string]any:
			what = "an object"
		default:
			continue
		}
		return fmt.Errorf("the value of %s in cell %s is %s, want a text, a number, true or false", s.Column, c.ID, what)
	}
	return nil
}
