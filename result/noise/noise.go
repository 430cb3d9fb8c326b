// Package noise is how far the figures of a cell are apart in runs of one plan on fresh
// launches of one server, where nothing has changed (A/A). It is what a difference
// between two runs has to be held against: repeats within a run share the host, the
// pod and the temperature, and know nothing of the differences between those.
//
// All spreads are standard deviations of natural logarithms: 0.01 is 1 %.
package noise

import (
	"math"
	"slices"
	"time"

	"sweep.dev/sweep/internal/quantile"
	"sweep.dev/sweep/result/ratio"
)

// Version is that of the form of a file. A new one may take keys away or change what
// they mean; new keys alone make none.
const Version = 1

// A File is what sweep compare noise writes. schemas/noise.schema.json is its schema.
type File struct {
	Version   int       `json:"version"`
	Plan      string    `json:"plan"`
	Digest    string    `json:"plan_digest"`
	Method    int       `json:"method"`
	CreatedAt time.Time `json:"created_at"`
	Runs      []string  `json:"runs"` // their ids
	Cells     []Cell    `json:"cells"`
}

// A Cell is the noise of one cell.
type Cell struct {
	ID    string `json:"id"`
	Label string `json:"label"`
	// Conditions and Subjects are the conditions_digest and the subject_digests of its
	// rows; one that was not the same in all rows is "".
	Conditions string   `json:"conditions_digest"`
	Subjects   []string `json:"subject_digests"`
	// Spreads are by the columns of the cells table. A figure that was not measured, or
	// was not above 0, has none.
	Spreads map[string]Spread `json:"spreads"`
}

// A Spread is how far one figure of one cell is apart. The components are those of the
// analysis of variance of one random factor, the run (Searle, Casella and McCulloch,
// Variance Components, 3.6), of logarithms.
type Spread struct {
	Runs   int `json:"runs"`   // with a valid trial
	Trials int `json:"trials"` // valid, of all runs
	// PerRun is how many trials a run has, as the analysis of variance weighs runs of
	// unequal numbers.
	PerRun float64 `json:"trials_per_run"`
	// Between is that between runs beyond what differs between the trials of one. With
	// one trial a run it has both.
	Between   float64 `json:"between_sd"`
	BetweenDF float64 `json:"between_df"`
	// Within is that of the trials of a run; nil if no run has two.
	Within   *float64 `json:"within_sd"`
	WithinDF float64  `json:"within_df"`
	// Paired is that of trials of one number against each other, without what the
	// arrivals and lengths of a number do to all runs; nil unless all runs have the same
	// trials, two at least.
	Paired   *float64 `json:"paired_sd"`
	PairedDF float64  `json:"paired_df"`
}

// Of returns the spread of a figure of one cell: a slice of trials for each run. ok is false
// with fewer than two runs that have any.
func Of(runs [][]ratio.Trial) (s Spread, ok bool) {
	runs = slices.DeleteFunc(slices.Clone(runs), func(r []ratio.Trial) bool { return len(r) == 0 })
	if s.Runs = len(runs); s.Runs < 2 {
		return s, false
	}
	var total, squares, within float64
	means := make([]float64, s.Runs)
	same := true
	for i, r := range runs {
		n := float64(len(r))
		for _, t := range r {
			means[i] += math.Log(t.Value) / n
		}
		for k, t := range r {
			d := math.Log(t.Value) - means[i]
			within += d * d
			same = same && len(r) == len(runs[0]) && t.Number == runs[0][k].Number
		}
		s.Trials += len(r)
		squares += n * n
		total += n * means[i]
		s.WithinDF += n - 1
	}
	n := float64(s.Trials)
	total /= n
	var between float64 // mean square
	for i, r := range runs {
		between += float64(len(r)) * (means[i] - total) * (means[i] - total)
	}
	s.BetweenDF = float64(s.Runs - 1)
	between /= s.BetweenDF
	s.PerRun = (n - squares/n) / s.BetweenDF
	noise := 0.0 // mean square of what is not between runs
	if s.WithinDF > 0 {
		noise = within / s.WithinDF
		sd := math.Sqrt(noise)
		s.Within = &sd
	}
	if same && len(runs[0]) > 1 {
		shared := 0.0
		for k := range runs[0] {
			m := 0.0
			for i, r := range runs {
				m += (math.Log(r[k].Value) - means[i]) / float64(s.Runs)
			}
			shared += float64(s.Runs) * m * m
		}
		s.PairedDF = s.BetweenDF * float64(len(runs[0])-1)
		noise = max(0, within-shared) / s.PairedDF
		sd := math.Sqrt(noise)
		s.Paired = &sd
	}
	s.Between = math.Sqrt(max(0, between-noise) / s.PerRun)
	return s, true
}

// Error returns the standard error of the logarithm of a ratio of two runs with so many
// trials each, and its degrees of freedom by Satterthwaite. paired says that the trials
// of both have the same numbers and the same arrivals.
func (s Spread) Error(base, head int, paired bool) (error, df float64) {
	noise, noiseDF := 0.0, 0.0
	switch {
	case paired && s.Paired != nil:
		noise, noiseDF = *s.Paired**s.Paired, s.PairedDF
	case s.Within != nil:
		noise, noiseDF = *s.Within**s.Within, s.WithinDF
	}
	if noiseDF == 0 {
		return math.Sqrt2 * s.Between, s.BetweenDF
	}
	square := s.PerRun*s.Between*s.Between + noise // that between runs, as it was measured
	a := 2 / s.PerRun
	b := 1/float64(base) + 1/float64(head) - a
	v := a*square + b*noise
	if v <= 0 {
		return 0, s.BetweenDF
	}
	return math.Sqrt(v), v * v / (a*a*square*square/s.BetweenDF + b*b*noise*noise/noiseDF)
}

// Ratio returns that of two runs, head over base, whose logarithm is distance: its interval,
// which lies above the truth with the chance tail and below it with the same, covers
// what differs between runs.
func (s Spread) Ratio(distance float64, base, head int, paired bool, tail float64) ratio.Ratio {
	half := s.half(base, head, paired, tail)
	return ratio.Ratio{Value: math.Exp(distance), Low: math.Exp(distance - half), High: math.Exp(distance + half), Scope: ratio.Runs}
}

// Floor returns the least change that a comparison of two such runs can show with certainty:
// 0.05 is 5 %. A threshold below it cannot be checked.
func (s Spread) Floor(base, head int, paired bool, tail float64) float64 {
	return math.Expm1(s.half(base, head, paired, tail))
}

// More returns how many further runs in the file would tell two such runs apart whose
// logarithms are a distance apart, beyond any doubt but for the few runs that the spread
// is known by; 0 if the noise itself may be as large.
func (s Spread) More(distance float64, base, head int, paired bool, tail float64) int {
	error, df := s.Error(base, head, paired)
	if distance = math.Abs(distance); error <= 0 || distance < beyond*error {
		return 0
	}
	for n := 1; n <= mostRuns; n++ {
		if quantile.Student(1-tail, df+float64(n))*error < distance {
			return n
		}
	}
	return 0
}

// beyond is how many standard errors make a difference that is far beyond its noise, and
// mostRuns the largest number of runs that is suggested.
const (
	beyond   = 4
	mostRuns = 50
)

func (s Spread) half(base, head int, paired bool, tail float64) float64 {
	error, df := s.Error(base, head, paired)
	return quantile.Student(1-tail, df) * error
}

// Find returns the spread of a figure of a cell; ok is false if the file has none.
func (f *File) Find(cell, column string) (s Spread, ok bool) {
	if f == nil {
		return s, false
	}
	for _, c := range f.Cells {
		if c.ID == cell {
			s, ok = c.Spreads[column]
			return s, ok
		}
	}
	return s, false
}
