package noise

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"sweep.dev/sweep/result/ratio"
)

// made are runs of n trials, whose logarithms scatter by between from run to run, by
// shared from number to number, and by within.
func made(rng *rand.Rand, runs, n int, between, shared, within float64) [][]ratio.Trial {
	numbers := make([]float64, n)
	for k := range numbers {
		numbers[k] = shared * rng.NormFloat64()
	}
	out := make([][]ratio.Trial, runs)
	for i := range out {
		at := between * rng.NormFloat64()
		for k := range n {
			out[i] = append(out[i], ratio.Trial{Number: k + 1, Value: 1000 * math.Exp(at+numbers[k]+within*rng.NormFloat64())})
		}
	}
	return out
}

// TestOf holds that the components are found that the runs were made with.
func TestOf(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(1, 2))
	s, ok := Of(made(rng, 2000, 4, 0.03, 0.05, 0.01))
	if !ok || s.Within == nil || s.Paired == nil {
		t.Fatalf("%+v", s)
	}
	if s.Runs != 2000 || s.Trials != 8000 || s.PerRun != 4 || s.BetweenDF != 1999 || s.WithinDF != 6000 || s.PairedDF != 5997 {
		t.Errorf("counts: %+v", s)
	}
	for name, c := range map[string]struct{ got, want, off float64 }{
		"between": {s.Between, 0.03, 0.002}, "paired": {*s.Paired, 0.01, 0.0005},
	} {
		if math.Abs(c.got-c.want) > c.off {
			t.Errorf("%s is %.4f, want %.4f", name, c.got, c.want)
		}
	}
	if one, ok := Of(made(rng, 2000, 1, 0.03, 0, 0.01)); !ok || one.Within != nil || math.Abs(one.Between-math.Hypot(0.03, 0.01)) > 0.002 {
		t.Errorf("with one trial a run: %+v", one)
	}
	if _, ok := Of([][]ratio.Trial{nil, {{Number: 1, Value: 1}}}); ok {
		t.Error("one run has a spread between runs")
	}
}

// TestSpread_Ratio holds that the interval of two more runs without a difference misses 1
// as often as it says, by a spread of few runs and of many, paired or not.
func TestSpread_Ratio(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(3, 4))
	for _, c := range []struct {
		runs, n int
		between float64
		paired  bool
	}{{4, 3, 0.02, false}, {10, 5, 0.02, true}, {10, 1, 0.01, false}} {
		const tries = 4000
		missed := 0
		for range tries {
			all := made(rng, c.runs+2, c.n, c.between, 0, 0.01)
			s, _ := Of(all[2:])
			distance := 0.0
			for k := range c.n {
				distance += math.Log(all[0][k].Value/all[1][k].Value) / float64(c.n)
			}
			if r := s.Ratio(distance, c.n, c.n, c.paired, 0.025); r.More(1) || r.Less(1) {
				missed++
			}
		}
		if share := float64(missed) / tries; share > 0.065 || share < 0.03 {
			t.Errorf("%+v: the 95 %% interval misses in %.1f %%", c, 100*share)
		}
	}
}

// TestParse holds that a file comes back, and that what is no noise is refused.
func TestParse(t *testing.T) {
	t.Parallel()
	s, _ := Of(made(rand.New(rand.NewPCG(5, 6)), 3, 2, 0.01, 0, 0.01))
	f := File{Version: Version, Runs: []string{"a", "b", "c"}, Cells: []Cell{{ID: "x", Spreads: map[string]Spread{"tok": s}}}}
	text, err := json.Marshal(f)
	if err != nil {
		t.Fatal(err)
	}
	got, err := Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	if back, ok := got.Find("x", "tok"); !ok || back.Between != s.Between || *back.Within != *s.Within {
		t.Errorf("%+v came back as %+v", s, back)
	}
	for name, text := range map[string]string{
		"text": "x", "version": `{"version": 2}`, "empty": `{"version": 1}`,
		"spread": `{"version": 1, "cells": [{"id": "x", "spreads": {"tok": {"runs": 1}}}]}`,
	} {
		if _, err := Parse([]byte(text)); err == nil {
			t.Errorf("%s is read", name)
		}
	}
}

// TestParse_numbers holds that numbers that quantiles cannot be computed from are refused with
// their field and what is allowed, and that each bound itself can be computed with.
func TestParse_numbers(t *testing.T) {
	t.Parallel()
	const whole = `{"version": 1, "cells": [{"id": "x", "spreads": {"tok": {"runs": 3, "trials": 6, "trials_per_run": 2, "between_sd": 0.01, "between_df": 2, "within_sd": 0.01, "within_df": 3, "paired_sd": 0.01, "paired_df": 2}}}]}`
	for _, c := range []struct{ old, now, want string }{
		{`"between_df": 2`, `"between_df": 1e300`, "between_df is 1e+300, want 1 to 1000000"},
		{`"between_df": 2`, `"between_df": 1e9`, "between_df is 1e+09, want 1 to 1000000"},
		{`"between_df": 2`, `"between_df": 0`, "between_df is 0, want 1 to 1000000"},
		{`"between_df": 2`, `"between_df": -2`, "between_df is -2, want 1 to 1000000"},
		{`"between_df": 2`, `"between_df": "NaN"`, `"cells.spreads.between_df" is a string where a number is due`},
		{`"within_df": 3`, `"within_df": 1e300`, "within_df is 1e+300, want 1 to 1000000"},
		{`"paired_df": 2`, `"paired_df": 1e300`, "paired_df is 1e+300, want 1 to 1000000"},
		{`"between_sd": 0.01`, `"between_sd": 1e308`, "between_sd is 1e+308, want 0 or 1e-09 to 100"},
		{`"between_sd": 0.01`, `"between_sd": 1e999`, `"cells.spreads.between_sd" is a number`},
		{`"within_sd": 0.01`, `"within_sd": -1`, "within_sd is -1, want 0 or 1e-09 to 100"},
		{`"paired_sd": 0.01`, `"paired_sd": 1e-200`, "paired_sd is 1e-200, want 0 or 1e-09 to 100"},
		{`"trials_per_run": 2`, `"trials_per_run": 1e-300`, "trials_per_run is 1e-300, want 1 to 1000000"},
		{`"runs": 3`, `"runs": 1`, "runs is 1, want 2 to 1000000"},
		{`"between_df": 2`, `"between_df": 1e6`, ""},
		{`"between_sd": 0.01`, `"between_sd": 1e-9`, ""},
		{`"between_sd": 0.01`, `"between_sd": 100`, ""},
		{`"between_sd": 0.01`, `"between_sd": 0`, ""},
	} {
		f, err := Parse([]byte(strings.Replace(whole, c.old, c.now, 1)))
		if c.want == "" {
			if err != nil {
				t.Errorf("%s: %v", c.now, err)
				continue
			}
			s, _ := f.Find("x", "tok")
			if r := s.Ratio(0.1, 2, 2, true, 0.025); math.IsNaN(r.Low) || math.IsNaN(r.High) {
				t.Errorf("%s: %+v", c.now, r)
			}
			continue
		}
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %s", c.now, err, c.want)
		}
	}
}

// TestSpread_More holds that a distance far beyond the noise, which too few runs tell, is told
// by as many more as are named, and that nothing is named where the noise may be as large.
func TestSpread_More(t *testing.T) {
	t.Parallel()
	const tail = 0.025
	s := Spread{Runs: 2, Trials: 6, PerRun: 3, Between: 0.02, BetweenDF: 1}
	far := math.Log(1.3)
	n := s.More(far, 3, 3, false, tail)
	if n == 0 || s.Ratio(far, 3, 3, false, tail).More(1) {
		t.Fatalf("%d more runs, %+v", n, s.Ratio(far, 3, 3, false, tail))
	}
	s.Runs, s.BetweenDF = s.Runs+n, s.BetweenDF+float64(n)
	if !s.Ratio(far, 3, 3, false, tail).More(1) {
		t.Errorf("%d more runs do not tell", n)
	}
	if n := s.More(math.Log(1.05), 3, 3, false, tail); n != 0 {
		t.Errorf("within the noise: %d", n)
	}
}
