package noise

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"sweep.dev/sweep/internal/input"
)

// Bounds of what a file may say of a spread: quantiles are computed from its numbers.
const (
	mostCount = 1_000_000 // of runs, trials and degrees of freedom
	leastSD   = 1e-9      // but for 0
	mostSD    = 100       // a factor of e^100
)

// Parse reads a file that sweep compare noise wrote. It refuses another version, and numbers
// that no spread has. The error names the field and what is allowed.
func Parse(text []byte) (*File, error) {
	var f File
	if err := json.Unmarshal(text, &f); err != nil {
		return nil, fmt.Errorf("not a noise file: %w", input.JSON(err))
	}
	if f.Version != Version {
		return nil, fmt.Errorf("a noise file of version %d, this program reads version %d", f.Version, Version)
	}
	if len(f.Cells) == 0 {
		return nil, errors.New("a noise file without cells")
	}
	for _, c := range f.Cells {
		for _, column := range slices.Sorted(maps.Keys(c.Spreads)) {
			if err := c.Spreads[column].check(); err != nil {
				return nil, fmt.Errorf("a noise file whose cell %s has an impossible spread of %s: %w", c.ID, column, err)
			}
		}
	}
	return &f, nil
}

// A bound is what a field of a spread may be.
type bound struct {
	field       string
	value       float64
	least, most float64
	zero        bool // it may be 0 too
}

func (b bound) check() error {
	if b.zero && b.value == 0 || b.value >= b.least && b.value <= b.most {
		return nil
	}
	allowed := fmt.Sprintf("%g to %.f", b.least, b.most)
	if b.zero {
		allowed = "0 or " + allowed
	}
	return fmt.Errorf("%s is %g, want %s", b.field, b.value, allowed)
}

// check fails if a spread cannot be computed with.
func (s Spread) check() error {
	bounds := []bound{
		{"runs", float64(s.Runs), 2, mostCount, false},
		{"trials", float64(s.Trials), 2, mostCount, false},
		{"trials_per_run", s.PerRun, 1, mostCount, false},
		{"between_sd", s.Between, leastSD, mostSD, true},
		{"between_df", s.BetweenDF, 1, mostCount, false},
	}
	if s.Within != nil {
		bounds = append(bounds, bound{"within_sd", *s.Within, leastSD, mostSD, true}, bound{"within_df", s.WithinDF, 1, mostCount, false})
	}
	if s.Paired != nil {
		bounds = append(bounds, bound{"paired_sd", *s.Paired, leastSD, mostSD, true}, bound{"paired_df", s.PairedDF, 1, mostCount, false})
	}
	for _, b := range bounds {
		if err := b.check(); err != nil {
			return err
		}
	}
	return nil
}
