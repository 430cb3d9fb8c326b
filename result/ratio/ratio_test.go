package ratio

import (
	"math"
	"testing"
)

// trials returns some of numbers 1, 2, ... with a launch each.
func trials(values ...float64) []Trial {
	all := make([]Trial, len(values))
	for i, v := range values {
		all[i] = Trial{Number: i + 1, Launch: string(rune('a' + i)), Value: v}
	}
	return all
}

// e returns a value whose logarithm is so much.
func e(log float64) float64 { return math.Exp(log) }

func renumbered(all []Trial) []Trial {
	for i := range all {
		all[i].Number += 100
	}
	return all
}

func single(v, low, high float64) []Trial {
	return []Trial{{Number: 1, Value: v, Low: low, High: high}}
}

func TestOf(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name      string
		a, b      []Trial
		low, high float64 // of the logarithm
		scope     Scope
	}{
		// t(0.975, 2) = 4.3027; differences 0.1, 0.2, 0.3 have the mean 0.2 and the sd 0.1.
		{"pairs", trials(e(1.1), e(2.2), e(3.3)), trials(e(1), e(2), e(3)), 0.2 - 4.3027*0.1/math.Sqrt(3), 0.2 + 4.3027*0.1/math.Sqrt(3), Launches},
		// Two variances of 0.01 and 0.04 of four each: 0.05 / 4 on 4.4118 degrees of freedom.
		{
			"no pairs", trials(e(1-0.1*math.Sqrt(1.5)), e(1+0.1*math.Sqrt(1.5)), e(1), e(1)),
			renumbered(trials(e(0-0.2*math.Sqrt(1.5)), e(0+0.2*math.Sqrt(1.5)), e(0), e(0))),
			1 - 2.6778*math.Sqrt(0.0125), 1 + 2.6778*math.Sqrt(0.0125), Launches,
		},
		{"one trial of each", single(e(1), e(0.97), e(1.02)), single(e(0), e(-0.03), e(0.04)), 1 - 0.05, 1 + math.Hypot(0.02, 0.03), OneTrial},
		{"one end", single(e(1), e(0.97), 0), single(e(0), e(-0.03), e(0.04)), 1 - 0.05, math.Inf(1), OneTrial},
		{"no interval", single(2, 0, 0), single(1, 0.9, 1.1), math.Inf(-1), math.Inf(1), Nothing},
		{"nothing", nil, single(1, 0.9, 1.1), math.Inf(-1), math.Inf(1), Nothing},
		{"equal", trials(2, 3), trials(1, 1.5), math.Log(2), math.Log(2), Launches},
	} {
		got := Of(c.a, c.b, 0.025)
		if got.Scope != c.scope || far(math.Log(got.Low), c.low) || far(math.Log(got.High), c.high) {
			t.Errorf("%s: %.5f to %.5f, %q; want %.5f to %.5f, %q", c.name, math.Log(got.Low), math.Log(got.High), got.Scope, c.low, c.high, c.scope)
		}
		if over, back := got.Over(), Of(c.b, c.a, 0.025); far(over.Low, back.Low) || far(over.High, back.High) {
			t.Errorf("%s: the other way round it is %+v, and not %+v", c.name, back, over)
		}
	}
}

func far(a, b float64) bool { return a != b && !(math.Abs(a-b) < 2e-4) }

func TestScope(t *testing.T) {
	t.Parallel()
	a, b := trials(1, 1.1, 1.2), trials(2, 2.1, 2.3)
	if got := Of(a, b, 0.025).Scope; got != Launches {
		t.Errorf("a launch each: %q", got)
	}
	b[2].Launch = b[0].Launch
	if got := Of(a, b, 0.025).Scope; got != OneLaunch {
		t.Errorf("a launch with two trials: %q", got)
	}
}

// TestSeries holds that two cells of equal trials are what pairs are, and that a third
// one lends them what it knows.
func TestSeries(t *testing.T) {
	t.Parallel()
	a, b, c := trials(1, 1.1, 1.3), trials(2, 2.3, 2.5), trials(3, 3.31, 3.88)
	pair, two := Of(a, b, 0.05), NewSeries([][]Trial{a, b}).Of(0, 1, 0.05)
	if far(pair.Low, two.Low) || far(pair.High, two.High) || pair.Scope != two.Scope {
		t.Errorf("%+v, want %+v", two, pair)
	}
	three := NewSeries([][]Trial{a, b, c}).Of(0, 1, 0.05)
	if !(three.High-three.Low < two.High-two.Low) || far(three.Value, two.Value) {
		t.Errorf("three cells know %+v, two know %+v", three, two)
	}
	one := NewSeries([][]Trial{single(1, 0.99, 1.01), single(2, 1.9, 2.1)}).Of(0, 1, 0.025)
	if one != Of(single(1, 0.99, 1.01), single(2, 1.9, 2.1), 0.025) {
		t.Errorf("of one trial each: %+v", one)
	}
}

func TestTrials(t *testing.T) {
	t.Parallel()
	a, b := trials(e(0.2), e(0.4)), trials(e(0), e(0.1)) // differences 0.2 and 0.3
	// 0.25 > t(0.975, n-1) 0.0707 / sqrt(n): 0.1757 for n = 3.
	if got := Trials(a, b, 0.025); got != 3 {
		t.Errorf("%d trials, want 3", got)
	}
	if got := Trials(trials(1, 2), trials(1.01, 1.99), 0.025); got != 0 {
		t.Errorf("%d trials, want none of 50", got)
	}
	if got := Trials(a[:1], b[:1], 0.025); got != 0 {
		t.Errorf("%d trials of one", got)
	}
}
