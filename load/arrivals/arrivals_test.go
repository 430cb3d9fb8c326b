package arrivals

import (
	"flag"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"sweep.dev/sweep/load/chance"
)

var update = flag.Bool("update", false, "rewrite golden files")

func hold(rate float64) []Stage { return []Stage{{Rate: rate}} }

func expected(stages []Stage, end time.Duration) float64 {
	n, _ := Rates{Stages: stages}.Count(end)
	return n
}

const s = time.Second

func TestCheck(t *testing.T) {
	for _, c := range []struct {
		stages []Stage
		want   string
	}{
		{nil, "no stage sends"},
		{[]Stage{{Rate: 1, For: s}, {Rate: 0, For: s}, {Rate: 5, Over: s}}, ""},
		{[]Stage{{Rate: 1, For: s}, {Rate: 2}}, ""},
		{[]Stage{{Rate: 1}, {Rate: 2, For: s}}, "stage 1 has no end"},
		{[]Stage{{Rate: 1, For: s, Over: s}}, "two stages"},
		{[]Stage{{Rate: 1, For: -s}}, "negative"},
		{[]Stage{{Rate: math.NaN(), For: s}}, "rate NaN"},
		{[]Stage{{Rate: -1, For: s}}, "rate -1"},
		{[]Stage{{Rate: 2e6, For: s}}, "rate 2e+06"},
		{[]Stage{{Rate: 0, For: s}}, "no stage sends"},
	} {
		err := Rates{Stages: c.stages}.Check()
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%v: error %v, want %q", c.stages, err, c.want)
		}
	}
	for _, p := range []Process{{Kind: "burst"}, {Kind: Poisson, Burstiness: 0.5}, {Burstiness: 2}, {Kind: Gamma, Burstiness: -1}, {Kind: Gamma, Burstiness: math.NaN()}} {
		if p.Check() == nil {
			t.Errorf("%+v is let through", p)
		}
	}
	for _, p := range []Process{{}, {Kind: Constant}, {Kind: Poisson, Burstiness: 1}, {Kind: Gamma}, {Kind: Gamma, Burstiness: 0.01}} {
		if err := p.Check(); err != nil {
			t.Errorf("%+v: %v", p, err)
		}
	}
}

// Gaps at a constant rate have the mean and the variation of their kind.
func TestSchedule_gaps(t *testing.T) {
	const n, rate = 50_000, 100.0
	for _, c := range []struct {
		process Process
		cv      float64 // coefficient of variation of the gaps
	}{
		{Process{Constant, 0}, 0}, {Process{Poisson, 0}, 1}, {Process{Gamma, 1}, 1}, {Process{Gamma, 0.25}, 2}, {Process{Gamma, 4}, 0.5},
	} {
		at := Times(Rates{c.process, hold(rate)}, chance.New(1, 2), n, 0)
		if len(at) != n || !slices.IsSorted(at) || at[0] < 0 {
			t.Fatalf("%v: %d offsets, sorted %v", c.process, len(at), slices.IsSorted(at))
		}
		var sum, squares float64
		for i := 1; i < n; i++ {
			g := (at[i] - at[i-1]).Seconds()
			sum += g
			squares += g * g
		}
		mean := sum / (n - 1)
		cv := math.Sqrt(max(0, squares/(n-1)-mean*mean)) / mean
		// The mean of n gaps has the standard error cv/sqrt(n); five of them.
		if math.Abs(mean*rate-1) > 5*max(c.cv, 0.01)/math.Sqrt(n) {
			t.Errorf("%v: mean gap %g, want %g", c.process, mean, 1/rate)
		}
		if math.Abs(cv-c.cv) > 0.05*max(1, c.cv) {
			t.Errorf("%v: gaps vary by %g, want %g", c.process, cv, c.cv)
		}
	}
}

func TestSchedule_end(t *testing.T) {
	at := Times(Rates{Process{Kind: Constant}, hold(10)}, chance.New(1, 2), 1_000_000, 2*s)
	if len(at) != 20 || at[19] != 1900*time.Millisecond {
		t.Errorf("%d offsets, the last at %v", len(at), at[len(at)-1])
	}
	// A rate so low that the time would not fit must not wrap around.
	at = Times(Rates{Process{}, hold(1e-9)}, chance.New(1, 2), 100, 0)
	if !slices.IsSorted(at) || len(at) == 100 {
		t.Errorf("%v", at)
	}
	if at = Times(Rates{Process{}, hold(1)}, chance.New(1, 2), 0, 0); len(at) != 0 {
		t.Errorf("%v of none", at)
	}
}

// A ramp from 0 to 10 a second over 20 s expects t^2/4 requests by t; then come
// 30 s at 2 a second, a pause, and a ramp to nothing.
func TestSchedule_stages(t *testing.T) {
	stages := []Stage{{Rate: 10, Over: 20 * s}, {Rate: 2, For: 30 * s}, {Rate: 0, For: 10 * s}, {Rate: 4, Over: 10 * s}, {Rate: 0, Over: 10 * s}}
	at := Times(Rates{Process{Kind: Constant}, stages}, chance.New(1, 2), 1000, 0)
	if len(at) != 100+60+20+20 {
		t.Fatalf("%d requests", len(at))
	}
	for i, want := range map[int]float64{0: 0, 25: 10, 81: 18, 100: 20, 101: 20.5, 159: 49.5, 160: 60, 170: 60 + math.Sqrt(50), 180: 70, 199: 80 - math.Sqrt(5)} {
		if got := at[i].Seconds(); math.Abs(got-want) > 1e-6 {
			t.Errorf("request %d at %g s, want %g", i, got, want)
		}
	}
	if got := (Rates{Stages: stages}).Length(); got != 80*s {
		t.Errorf("%v long", got)
	}
	for end, want := range map[time.Duration]float64{0: 200, 10 * s: 25, 35 * s: 130, 55 * s: 160, 65 * s: 165, 1000 * s: 200} {
		if got := expected(stages, end); math.Abs(got-want) > 1e-9 {
			t.Errorf("%g requests expected before %v, want %g", got, end, want)
		}
	}
	if e := expected(hold(3), 0); !math.IsInf(e, 1) {
		t.Errorf("%g requests expected without an end", e)
	}
}

func anyStages(t *rapid.T) []Stage {
	stages := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) Stage {
		st := Stage{Rate: rapid.Float64Range(0, 500).Draw(t, "rate")}
		d := time.Duration(rapid.IntRange(1, 5000).Draw(t, "ms")) * time.Millisecond
		if rapid.Bool().Draw(t, "ramp") {
			st.Over = d
		} else {
			st.For = d
		}
		return st
	}), 1, 6).Draw(t, "stages")
	stages[0].Rate = max(stages[0].Rate, 1)
	return stages
}

// Whatever the stages, request i is due when the rate's integral is what the
// process of rate 1 says, here i.
func TestSchedule_inverse(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		stages := anyStages(t)
		total := expected(stages, 0)
		at := Times(Rates{Process{Kind: Constant}, stages}, chance.New(1, 2), 100_000, 0)
		if got, want := float64(len(at)), math.Ceil(total); math.Abs(got-want) > 1 {
			t.Fatalf("%g requests, want %g", got, want)
		}
		for i, a := range at {
			if i > 0 && a < at[i-1] || a > (Rates{Stages: stages}).Length() {
				t.Fatalf("request %d at %v after %v", i, a, at[max(0, i-1)])
			}
			// A nanosecond at this rate is half a millionth of a request.
			if got := expected(stages, max(a, 1)); math.Abs(got-float64(i)) > 1e-4 {
				t.Fatalf("%g requests expected by request %d at %v", got, i, a)
			}
		}
	})
}

// A bound takes requests off the end and changes none before it.
func TestSchedule_prefix(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := Process{Kind: rapid.SampledFrom([]Kind{"", Constant, Poisson, Gamma}).Draw(t, "kind")}
		stages := anyStages(t)
		seed := rapid.Uint64().Draw(t, "seed")
		all := Times(Rates{p, stages}, chance.New(seed, 1), 100_000, 0)
		n := rapid.IntRange(0, len(all)+5).Draw(t, "n")
		end := time.Duration(rapid.IntRange(1, 20_000).Draw(t, "end ms")) * time.Millisecond
		got := Times(Rates{p, stages}, chance.New(seed, 1), n, end)
		want := all[:min(n, len(all))]
		if i := slices.IndexFunc(want, func(a time.Duration) bool { return a >= end }); i >= 0 {
			want = want[:i]
		}
		if !slices.Equal(got, want) {
			t.Fatalf("%d requests, want %d", len(got), len(want))
		}
	})
}

// ks returns the largest distance between a sample and the law that it should have.
func ks(sample []float64, cdf func(float64) float64) float64 {
	slices.Sort(sample)
	d, n := 0.0, float64(len(sample))
	for i, x := range sample {
		p := cdf(x)
		d = max(d, p-float64(i)/n, float64(i+1)/n-p)
	}
	return d
}

// Over ramps the arrivals follow their law, by the test of Kolmogorov and
// Smirnov: for a true sample of n its distance is above 1.95/sqrt(n) once in a
// thousand times, and the seed is fixed. The same test must tell a ramp from an
// even rate.
func TestSchedule_law(t *testing.T) {
	stages := []Stage{{Rate: 100, Over: 60 * s}, {Rate: 100, For: 20 * s}, {Rate: 10, Over: 60 * s}}
	total := expected(stages, 0)
	// The integral of the rate, up to request i; by hand, as Expected is what the
	// schedule itself builds on.
	integral := func(t float64) float64 {
		switch {
		case t < 60:
			return 100.0 / 60 * t * t / 2
		case t < 80:
			return 3000 + 100*(t-60)
		default:
			return 5000 + 100*(t-80) - 90.0/60*(t-80)*(t-80)/2
		}
	}
	if math.Abs(integral(140)-total) > 1e-9 {
		t.Fatalf("%g requests expected, want %g", total, integral(140))
	}
	erlang4 := func(x float64) float64 { x *= 4; return 1 - math.Exp(-x)*(1+x+x*x/2+x*x*x/6) }
	for _, c := range []struct {
		process Process
		gap     func(float64) float64
	}{
		{Process{Kind: Poisson}, func(x float64) float64 { return 1 - math.Exp(-x) }},
		{Process{Gamma, 0.5}, func(x float64) float64 { return math.Erf(math.Sqrt(x / 2)) }},
		{Process{Gamma, 4}, erlang4},
	} {
		at := Times(Rates{c.process, stages}, chance.New(3, 4), 1_000_000, 0)
		limit := 1.95 / math.Sqrt(float64(len(at)))
		var when, gaps []float64
		last := 0.0
		for _, a := range at {
			v := integral(a.Seconds())
			when = append(when, v/total)
			gaps = append(gaps, v-last)
			last = v
		}
		if c.process.Kind == Poisson {
			// Given their number, the arrivals of a Poisson process are independent
			// draws from the rate's own law.
			if d := ks(when, func(x float64) float64 { return x }); d > limit {
				t.Errorf("%v: the arrivals are %.4f from the rate's law, more than %.4f", c.process, d, limit)
			}
			for i, a := range at {
				when[i] = a.Seconds() / 140
			}
			if d := ks(when, func(x float64) float64 { return x }); d < 5*limit {
				t.Errorf("the test does not tell these ramps from an even rate: %.4f", d)
			}
		}
		if d := ks(gaps, c.gap); d > limit {
			t.Errorf("%v: the gaps are %.4f from their law, more than %.4f", c.process, d, limit)
		}
		var sum, squares float64
		for _, g := range gaps {
			sum, squares = sum+g, squares+g*g
		}
		n := float64(len(gaps))
		cv, want := math.Sqrt(squares/n-sum*sum/n/n)/(sum/n), 1.0
		if c.process.Burstiness > 0 {
			want = 1 / math.Sqrt(c.process.Burstiness)
		}
		if math.Abs(cv/want-1) > 0.05 {
			t.Errorf("%v: gaps vary by %g, want %g", c.process, cv, want)
		}
	}
}

// The schedule of a plan must not change with a release of Go or of sweep: it is
// held in a file.
func TestSchedule_golden(t *testing.T) {
	stages := []Stage{{Rate: 4, Over: 2 * s}, {Rate: 6, For: s}, {Rate: 0, For: s}, {Rate: 8, Over: s}}
	var b strings.Builder
	for _, p := range []Process{{Kind: Constant}, {Kind: Poisson}, {Gamma, 0.5}} {
		for i, at := range Times(Rates{p, stages}, chance.New(7, 8), 20, 0) {
			// Whole microseconds: the last bits of a logarithm differ between
			// processors.
			fmt.Fprintf(&b, "%s %d at %dus\n", p.Kind, i, at.Microseconds())
		}
	}
	path := filepath.Join("testdata", "stages.golden")
	if *update {
		if err := os.WriteFile(path, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := gocmp.Diff(string(want), b.String()); diff != "" {
		t.Errorf("%s (-want +got):\n%s", path, diff)
	}
}
