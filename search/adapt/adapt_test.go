package adapt

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"sweep.dev/sweep/result"
)

// powers are n levels from 1, each by a factor above the one below.
func powers(n int, factor float64) []float64 {
	levels := make([]float64, n)
	for i := range levels {
		levels[i] = math.Pow(factor, float64(i))
	}
	return levels
}

// A world says what a trial of a load has.
type world func(load float64, trial int) Outcome

// exactly is a world without scatter.
func exactly(curve func(float64) float64) world {
	return func(load float64, _ int) Outcome { return Outcome{Value: curve(load)} }
}

// measure asks for trials until the curve is known. Each decision is the same if the
// outcomes come in another order.
func measure(t *testing.T, s Settings, w world) (outcomes []Outcome, probes []Probe) {
	t.Helper()
	rng := rand.New(rand.NewPCG(1, 2))
	for {
		p, ok := Next(s, outcomes)
		shuffled := slices.Clone(outcomes)
		rng.Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
		if q, again := Next(s, shuffled); q != p || again != ok {
			t.Fatalf("after %d outcomes it asks for %+v, and in another order for %+v", len(outcomes), p, q)
		}
		if !ok {
			return outcomes, probes
		}
		if len(outcomes) >= len(s.Levels)*max(1, s.Trials) {
			t.Fatalf("it asks for %+v after every trial", p)
		}
		if slices.ContainsFunc(outcomes, func(o Outcome) bool { return o.Level == p.Level && o.Trial == p.Trial }) {
			t.Fatalf("it asks for %+v again", p)
		}
		o := w(s.Levels[p.Level], p.Trial)
		o.Level, o.Trial = p.Level, p.Trial
		outcomes, probes = append(outcomes, o), append(probes, p)
	}
}

// asked is the loads of probes, each with why.
func asked(s Settings, probes []Probe) string {
	var parts []string
	for _, p := range probes {
		parts = append(parts, fmt.Sprintf("%.0f:%s", s.Levels[p.Level], p.Why))
	}
	return strings.Join(parts, " ")
}

// held fails if a level without an outcome is further from the line between its
// neighbours than allowed, or than it says. It returns how many there are.
func held(t *testing.T, s Settings, outcomes []Outcome, curve func(float64) float64, allowed float64) (left int) {
	t.Helper()
	for i, load := range s.Levels {
		if slices.ContainsFunc(outcomes, func(o Outcome) bool { return o.Level == i }) {
			continue
		}
		left++
		p, ok := Between(s, outcomes, i)
		if !ok {
			t.Fatalf("load %v is left out and has no neighbours", load)
		}
		low, high := s.Levels[p.Low], s.Levels[p.High]
		share := math.Log(load/low) / math.Log(high/low)
		line := math.Pow(curve(low), 1-share) * math.Pow(curve(high), share)
		off := math.Expm1(math.Abs(math.Log(curve(load) / line)))
		if off > allowed+1e-6 {
			t.Errorf("load %v between %v and %v is off by %.2f %%, allowed %.2f %%", load, low, high, 100*off, 100*allowed)
		}
		if p.Error+1e-6 < off && p.Noise == 0 {
			t.Errorf("load %v is off by %.2f %%, and said to be by %.2f %% at most", load, 100*off, 100*p.Error)
		}
	}
	return left
}

// Curves whose levels and order are known.
func TestNext(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		curve func(float64) float64
		want  string
	}{
		"proportional":     {func(x float64) float64 { return 40 * x }, "1:grid 64:grid 8:grid 2:confirm"},
		"flat":             {func(float64) float64 { return 40 }, "1:grid 64:grid 8:grid 2:confirm"},
		"a knee at 16":     {func(x float64) float64 { return min(x, 16) }, "1:grid 64:grid 8:grid 2:bend 16:bend 32:bend"},
		"falls after 32":   {func(x float64) float64 { return x / (1 + math.Pow(x/32, 6)) }, "1:grid 64:grid 8:grid 2:bend 16:bend 32:bend"},
		"latency explodes": {func(x float64) float64 { return 50 + math.Pow(x/16, 4) }, "1:grid 64:grid 8:grid 2:bend 16:bend 32:bend"},
	} {
		s := Settings{Levels: powers(7, 2), Within: 0.05, Trials: 1}
		outcomes, probes := measure(t, s, exactly(c.curve))
		if got := asked(s, probes); got != c.want {
			t.Errorf("%s: asks for %s, want %s", name, got, c.want)
		}
		held(t, s, outcomes, c.curve, s.Within)
	}
}

// Of every curve that bends in one direction each level is measured, or interpolated within
// the tolerance.
func TestNext_bends(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(3, 4))
	left, levels := 0, 0
	for range 500 {
		s := Settings{Levels: powers(4+rng.IntN(20), 1.2+rng.Float64()), Within: 0.005 + 0.4*rng.Float64(), Trials: 1}
		bends := 1 + rng.IntN(4)
		at, by := make([]float64, bends), make([]float64, bends)
		for i := range at {
			at[i], by[i] = rng.Float64()*math.Log(s.Levels[len(s.Levels)-1]), rng.ExpFloat64()
		}
		slope, sign := 3*rng.Float64()-1, float64(1-2*rng.IntN(2))
		curve := func(x float64) float64 { // in logarithms a line that turns in one direction
			y := slope * math.Log(x)
			for i := range at {
				y -= sign * by[i] * max(0, math.Log(x)-at[i])
			}
			return 100 * math.Exp(y)
		}
		outcomes, _ := measure(t, s, exactly(curve))
		left += held(t, s, outcomes, curve, s.Within)
		levels += len(s.Levels)
	}
	if share := float64(left) / float64(levels); share < 0.3 {
		t.Errorf("%.0f %% of the levels are left out", 100*share)
	}
}

// Curves of servers: smooth ones that saturate, also those that fall then.
func TestNext_saturates(t *testing.T) {
	t.Parallel()
	for within, least := range map[float64]int{0.02: 2, 0.05: 5, 0.1: 8} {
		for knee := 0.5; knee < 4096; knee *= 2.3 {
			for _, power := range []float64{1, 2, 8} {
				s := Settings{Levels: powers(25, math.Sqrt2), Within: within, Trials: 1}
				curve := func(x float64) float64 { return x / math.Pow(1+math.Pow(x/knee, power), 1/power) }
				outcomes, _ := measure(t, s, exactly(curve))
				if left := held(t, s, outcomes, curve, within); left < least {
					t.Errorf("knee %.1f, power %v, within %v: %d of 25 levels are left out", knee, power, within, left)
				}
			}
		}
	}
}

// One level on the line between the ends says nothing of what is beside it.
func TestNext_collinear(t *testing.T) {
	t.Parallel()
	s := Settings{Levels: powers(9, 2), Within: 0.05, Trials: 1}
	curve := func(x float64) float64 { // on the line at the ends and at the middle alone
		return x * math.Exp(math.Abs(math.Sin(math.Pi*math.Log2(x)/4)))
	}
	outcomes, probes := measure(t, s, exactly(curve))
	if len(probes) < 8 {
		t.Errorf("%s", asked(s, probes))
	}
	held(t, s, outcomes, curve, s.Within)
}

// Scatter of trials is no bend: a line that is measured with it has few levels measured,
// and what is left out is known as well as the scatter lets it.
func TestNext_noise(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		trials int
		inside bool // the trials themselves tell their scatter
	}{{1, true}, {3, false}, {5, true}} {
		const sd = 0.08
		rng := rand.New(rand.NewPCG(5, uint64(c.trials)))
		noisy := func(x float64, _ int) Outcome {
			o := Outcome{Value: x * math.Exp(sd*rng.NormFloat64())}
			if c.inside {
				o.SD = sd
			}
			return o
		}
		curve := func(x float64) float64 { return x }
		measured, runs := 0, 40
		for range runs {
			s := Settings{Levels: powers(16, 1.5), Within: 0.02, Trials: c.trials}
			outcomes, probes := measure(t, s, noisy)
			held(t, s, outcomes, curve, s.Within)
			for _, p := range probes {
				if p.Trial == 1 {
					measured++
				}
			}
		}
		if mean := float64(measured) / float64(runs); mean > 12 {
			t.Errorf("%d trials: %.1f of 16 levels of a line are measured", c.trials, mean)
		}
	}
}

// The scatter that explains an error is said beside it.
func TestBetween_noise(t *testing.T) {
	t.Parallel()
	s := Settings{Levels: powers(7, 2), Within: 0.01, Trials: 1}
	var outcomes []Outcome
	for i, v := range map[int]float64{0: 1, 3: 8.2, 5: 31, 6: 64} {
		outcomes = append(outcomes, Outcome{Level: i, Trial: 1, Value: v, SD: 0.1})
	}
	if p, ok := Next(s, outcomes); ok {
		t.Fatalf("it asks for %+v", p)
	}
	p, ok := Between(s, outcomes, 4)
	if !ok || p.Low != 3 || p.High != 5 || p.Error <= s.Within || p.Noise < p.Error {
		t.Errorf("%+v, %v", p, ok)
	}
	for i := range outcomes {
		outcomes[i].SD = 0
	}
	if p, ok := Next(s, outcomes); !ok || p.Why != Bend {
		t.Errorf("without scatter: %+v, %v", p, ok)
	}
}

// Further trials come when the curve is known: the second of all levels before the third of
// any. They may show a bend.
func TestNext_repeats(t *testing.T) {
	t.Parallel()
	s := Settings{Levels: powers(7, 2), Within: 0.05, Trials: 3}
	_, probes := measure(t, s, exactly(func(x float64) float64 { return x }))
	const want = "1:grid 64:grid 8:grid 1:repeat 8:repeat 64:repeat 2:confirm 2:repeat 1:repeat 2:repeat 8:repeat 64:repeat"
	if got := asked(s, probes); got != want {
		t.Errorf("%s, want %s", got, want)
	}
	_, probes = measure(t, s, func(x float64, trial int) Outcome {
		if trial > 1 && x == 8 {
			return Outcome{Value: 11}
		}
		return Outcome{Value: x, SD: 0.001}
	})
	if got := asked(s, probes); !strings.HasPrefix(got, "1:grid 64:grid 8:grid 2:confirm 1:repeat 2:repeat 8:repeat") {
		t.Error(got)
	}
}

// A trial that is not VALID decides nothing: it is repeated if the plan has more, and else
// others stand in for its level.
func TestNext_invalid(t *testing.T) {
	t.Parallel()
	s := Settings{Levels: powers(7, 2), Within: 0.05, Trials: 1}
	without := func(bad ...float64) world {
		return func(x float64, trial int) Outcome {
			if trial == 1 && slices.Contains(bad, x) {
				return Outcome{}
			}
			return Outcome{Value: x}
		}
	}
	for _, c := range []struct {
		bad    []float64
		trials int
		want   string
	}{
		{[]float64{64}, 1, "1:grid 64:grid 32:grid 4:grid 8:confirm"},
		{[]float64{1, 64}, 1, "1:grid 2:grid 64:grid 32:grid 8:grid 4:confirm"},
		{[]float64{8}, 1, "1:grid 64:grid 8:grid 4:grid 16:confirm"},
		{[]float64{1}, 2, "1:grid 1:repeat 64:grid 8:grid 8:repeat 64:repeat 2:confirm 2:repeat"},
		{s.Levels, 1, "1:grid 2:grid 4:grid 8:grid 16:grid 32:grid 64:grid"},
	} {
		s.Trials = c.trials
		_, probes := measure(t, s, without(c.bad...))
		if got := asked(s, probes); got != c.want {
			t.Errorf("INVALID at %v: %s, want %s", c.bad, got, c.want)
		}
	}
}

// Levels that were skipped before, by another rule too, stay so.
func TestNext_skipped(t *testing.T) {
	t.Parallel()
	s := Settings{Levels: powers(7, 2), Within: 0.05, Trials: 2}
	var outcomes []Outcome
	for i := 2; i < 7; i++ {
		outcomes = append(outcomes, Outcome{Level: i, Trial: 1, Skipped: true})
	}
	for i := range 2 {
		for trial := 1; trial <= 2; trial++ {
			outcomes = append(outcomes, Outcome{Level: i, Trial: trial, Value: 1})
		}
	}
	if p, ok := Next(s, outcomes); ok {
		t.Errorf("it asks for %+v", p)
	}
}

// Every beginning of a run is one after which another may go on.
func TestNext_resumes(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(7, 8))
	for range 200 {
		s := Settings{Levels: powers(4+rng.IntN(12), 1.7), Within: 0.05, Trials: 1 + rng.IntN(3)}
		values := map[string]Outcome{}
		w := func(x float64, trial int) Outcome {
			key := fmt.Sprint(x, trial)
			if _, ok := values[key]; !ok {
				values[key] = Outcome{Value: min(x, 20) * math.Exp(0.05*rng.NormFloat64())}
				if rng.IntN(6) == 0 {
					values[key] = Outcome{}
				}
			}
			return values[key]
		}
		outcomes, probes := measure(t, s, w)
		for i, p := range probes {
			if got, ok := Next(s, outcomes[:i]); !ok || got != p {
				t.Fatalf("after %d trials it goes on with %+v, and not with %+v", i, got, p)
			}
		}
	}
}

func TestExpected(t *testing.T) {
	t.Parallel()
	if n := Expected(Settings{}); n != 0 {
		t.Errorf("no levels: %d", n)
	}
	last := math.MaxInt
	for _, within := range []float64{0.001, 0.02, 0.1, 0.5} {
		n := Expected(Settings{Levels: powers(30, 1.3), Within: within, Trials: 3})
		if n > last || n < 4 || n > 30 {
			t.Errorf("within %v: %d of 30, and %d within less", within, n, last)
		}
		last = n
	}
	if last > 12 {
		t.Errorf("within a half: %d of 30", last)
	}
}

func TestOf(t *testing.T) {
	t.Parallel()
	const metric = "throughput_tok_s"
	for name, c := range map[string]struct {
		row  result.Row
		want Outcome
	}{
		"VALID":         {result.Row{"status": "ok", "valid": true, metric: 100.0}, Outcome{Value: 100}},
		"with interval": {result.Row{"status": "ok", "valid": true, metric: 100.0, metric + "_low": 100 / math.Exp(0.196), metric + "_high": 100 * math.Exp(0.196)}, Outcome{Value: 100, SD: 0.1}},
		"INVALID":       {result.Row{"status": "invalid", "valid": false, metric: 100.0}, Outcome{}},
		"failed":        {result.Row{"status": "failed"}, Outcome{}},
		"skipped":       {result.Row{"status": "skipped"}, Outcome{Skipped: true}},
		"infinite":      {result.Row{"status": "ok", "valid": true}, Outcome{}},
		"zero":          {result.Row{"status": "ok", "valid": true, metric: 0.0}, Outcome{}},
	} {
		got := Of(&result.Outcome{Row: c.row}, metric)
		if got.Value != c.want.Value || math.Abs(got.SD-c.want.SD) > 1e-9 || got.Skipped != c.want.Skipped {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
}
