package gate_test

import (
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"

	"sweep.dev/sweep/internal/quantile"
	"sweep.dev/sweep/nightly/gate"
)

// quiet returns nights that scatter by about 1 % around 100.
func quiet(n int) []float64 {
	var values []float64
	for i := range n {
		values = append(values, 100+[]float64{0.5, -1.2, 1.1, -0.4, 0.9, -0.9}[i%6])
	}
	return values
}

// states returns the verdicts of the nights after the first n.
func states(s gate.Series, rule gate.Rule, n int) string {
	var list []string
	for _, v := range gate.Replay([]gate.Series{s}, rule)[0][n:] {
		list = append(list, string(v.State))
	}
	return strings.Join(list, " ")
}

func TestReplay(t *testing.T) {
	t.Parallel()
	inf, none := math.Inf(1), math.NaN()
	for name, c := range map[string]struct {
		after    []float64
		rate     bool // more is better
		rule     gate.Rule
		floor    float64
		accepted []int
		want     string
	}{
		"quiet":                {after: []float64{101, 99}, want: "ok ok"},
		"two nights":           {after: []float64{105, 105}, want: "suspect regression"},
		"by far":               {after: []float64{120}, want: "regression"},
		"one night, and back":  {after: []float64{105, 100, 105, 105}, want: "suspect ok suspect regression"},
		"it stays":             {after: []float64{105, 105, 105, 105, 105, 105, 105}, want: "suspect regression regression regression regression regression regression"},
		"it goes":              {after: []float64{105, 105, 100}, want: "suspect regression ok"},
		"a hole in between":    {after: []float64{105, none, 105}, want: "suspect missing regression"},
		"endless":              {after: []float64{inf}, want: "regression"},
		"less than 3 %":        {after: []float64{102.9, 102.9, 102.9}, want: "ok ok ok"},
		"below the floor":      {after: []float64{107, 107}, floor: 10, want: "ok ok"},
		"better":               {after: []float64{90, 90, 90, 94, 94}, want: "better improved ok suspect regression"},
		"better once":          {after: []float64{90, 100, 90}, want: "better ok better"},
		"a rate falls":         {after: []float64{95, 95}, rate: true, want: "suspect regression"},
		"a rate rises":         {after: []float64{105, 105}, rate: true, want: "better improved"},
		"accepted":             {after: []float64{105, 105, 105, 109, 109}, accepted: []int{21}, want: "suspect accepted ok suspect regression"},
		"accepted when quiet":  {after: []float64{100, 105, 105}, accepted: []int{20}, want: "ok suspect regression"},
		"threshold":            {after: []float64{107, 107, 111, 111}, rule: gate.Rule{Threshold: 0.1}, want: "ok ok suspect regression"},
		"threshold in noise":   {after: []float64{101, 105, 105}, rule: gate.Rule{Threshold: 0.01}, want: "too_noisy suspect regression"},
		"threshold, and worse": {after: []float64{120}, rule: gate.Rule{Threshold: 0.01}, want: "regression"},
	} {
		s := gate.Series{Values: append(quiet(20), c.after...), Less: !c.rate, Floor: c.floor, Accepted: c.accepted}
		if got := states(s, c.rule, 20); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

// A suspect night is no part of the band, and neither is a regression.
func TestReplay_frozen(t *testing.T) {
	t.Parallel()
	values := append(quiet(20), 106, 106, 106, 106, 106)
	nights := gate.Replay([]gate.Series{{Values: values, Less: true}}, gate.Rule{})[0]
	for _, v := range nights[21:] {
		if v.Center != nights[20].Center || v.High != nights[20].High || v.First != 20 {
			t.Errorf("%+v, the night before it %+v", v, nights[20])
		}
	}
}

func TestReplay_learning(t *testing.T) {
	t.Parallel()
	values := append(quiet(10), 200)
	if got, want := states(gate.Series{Values: values, Less: true}, gate.Rule{}, 0), strings.Repeat("learning ", 10)+"regression"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	// A noise file says from the second night on how far nights are apart.
	noise := &gate.Noise{SD: 0.01, DF: 9}
	if got, want := states(gate.Series{Values: []float64{100, 101, 106, 106}, Less: true, Noise: noise}, gate.Rule{}, 0), "learning ok suspect regression"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if got := states(gate.Series{Values: []float64{math.Inf(1), math.Inf(1)}, Less: true, Noise: noise}, gate.Rule{}, 0); got != "learning learning" {
		t.Error(got)
	}
	if got := states(gate.Series{}, gate.Rule{}, 0); got != "" {
		t.Error(got)
	}
}

// One bad night among the first does not blind the gate: it is no part of the band, and the
// gate learns a night longer. What is bad from some night on is not left out.
func TestReplay_badNight(t *testing.T) {
	t.Parallel()
	for at := range 10 {
		values := append(quiet(11), 108, 108)
		values[at] = 140
		want := strings.Repeat("learning ", 11) + "suspect regression"
		if at == 9 { // the newest may be the first of what follows
			want = strings.Repeat("learning ", 10) + "ok suspect regression"
		}
		if got := states(gate.Series{Values: values, Less: true}, gate.Rule{}, 0); got != want {
			t.Errorf("night %d: %s, want %s", at, got, want)
		}
	}
	values := quiet(16)
	for i := 6; i < len(values); i++ {
		values[i] += 40
	}
	if got, want := states(gate.Series{Values: values, Less: true}, gate.Rule{}, 10), "ok ok ok ok ok ok"; got != want {
		t.Errorf("another level: %s, want %s", got, want)
	}
}

// Figures of which nothing was above 0 break nothing.
func TestReplay_zero(t *testing.T) {
	t.Parallel()
	s := gate.Series{Values: make([]float64, 22), Less: true, Floor: 0.005}
	s.Values[20], s.Values[21] = 0.001, 0.2
	if got := states(s, gate.Rule{Threshold: 0.05}, 19); got != "ok ok regression" {
		t.Error(got)
	}
}

// A series of a group borrows from the others, the more the more alike they are.
func TestReplay_pooled(t *testing.T) {
	t.Parallel()
	alone := gate.Series{Values: append(quiet(20), 100), Less: true}
	var alike, apart []gate.Series
	for i := range 12 {
		alike = append(alike, alone)
		s := alone
		s.Values = slices.Clone(s.Values)
		if i >= 6 {
			for k, v := range s.Values {
				s.Values[k] = 100 + 8*(v-100)
			}
		}
		apart = append(apart, s)
	}
	df := func(all []gate.Series) float64 { return lastOf(all).DF }
	if one, many, few := df([]gate.Series{alone}), df(alike), df(apart); one != 19 || many != 59 || few < 19 || few > 30 {
		t.Errorf("degrees of freedom: alone %v, alike %v, unlike %v", one, many, few)
	}
}

// A false alarm takes two nights running beyond the band, and there is one for a plan if any
// of its series has it. So the band is wider in a plan of more series, and its false alarms
// are no more.
func TestLevel(t *testing.T) {
	t.Parallel()
	values := quiet(20)
	for i, v := range values {
		values[i] = 100 + 3*(v-100) // so that the band is wider than the least change
	}
	judged := func(n int, last float64) gate.Verdict {
		all := make([]gate.Series, n)
		for i := range all { // of a group each: none borrows from others
			all[i] = gate.Series{Group: strconv.Itoa(i), Values: append(slices.Clone(values), last), Less: true}
		}
		return lastOf(all)
	}
	// How likely a night is beyond the upper end of the band, by Student's t.
	beyond := func(v gate.Verdict) float64 {
		sds := (v.High - v.Center) / v.Center / v.SD / math.Sqrt(1+1/float64(v.Nights))
		low, high := 1e-9, 0.5
		for range 60 {
			if mid := math.Sqrt(low * high); quantile.Student(1-mid, v.DF) > sds {
				low = mid
			} else {
				high = mid
			}
		}
		return low
	}
	before := 0.0
	for _, n := range []int{1, 10, 48, 4800} {
		v := judged(n, 100)
		p := beyond(v)
		if alarms := float64(n) * p * p; v.State != gate.OK || p < 1e-5 || p > 0.01 || alarms > 1e-4 {
			t.Errorf("%d series: a night is beyond the band with a chance of %.2g, so that a plan has %.2g false alarms a night", n, p, alarms)
		}
		if v.High < before || n >= 48 && v.High == before {
			t.Errorf("%d series: the band ends at %v, and with fewer at %v", n, v.High, before)
		}
		before = v.High
	}
	// A night between the bands of a small plan and of a large one.
	off := (judged(1, 100).High + judged(4800, 100).High) / 2
	if one, many := judged(1, off).State, judged(4800, off).State; one != gate.Suspect || many != gate.OK {
		t.Errorf("a night of %.2f is %s alone, and %s among many", off, one, many)
	}
}

// A night that is worse for the first time is decided by its second measurement: the
// next night begins anew after one that was withdrawn.
func TestReplay_again(t *testing.T) {
	t.Parallel()
	values := []float64{}
	for i := range 20 {
		values = append(values, 100+[]float64{0, 1, -1, 0.5, -0.5}[i%5])
	}
	of := func(last []float64, again ...float64) (states []gate.State) {
		second := make([]float64, len(values), len(values)+len(again))
		for i := range second {
			second[i] = math.NaN()
		}
		s := gate.Series{Group: "m", Less: true, Values: append(slices.Clone(values), last...), Again: append(second, again...)}
		for _, v := range gate.Replay([]gate.Series{s}, gate.Rule{})[0][len(values):] {
			states = append(states, v.State)
		}
		return states
	}
	nan := math.NaN()
	for name, c := range map[string]struct {
		last, again []float64
		want        []gate.State
	}{
		"not again":            {[]float64{105}, nil, []gate.State{gate.Suspect}},
		"confirmed":            {[]float64{105}, []float64{106}, []gate.State{gate.Regression}},
		"worse by little":      {[]float64{103.3}, []float64{103.3}, []gate.State{gate.Suspect}},
		"and the next night":   {[]float64{103.3, 103.3}, []float64{103.3, nan}, []gate.State{gate.Suspect, gate.Regression}},
		"withdrawn":            {[]float64{105}, []float64{100}, []gate.State{gate.Withdrawn}},
		"better than the band": {[]float64{105}, []float64{80}, []gate.State{gate.Withdrawn}},
		"by far":               {[]float64{150}, []float64{100}, []gate.State{gate.Withdrawn}},
		"infinite":             {[]float64{105}, []float64{math.Inf(1)}, []gate.State{gate.Regression}},
		"the next is a first":  {[]float64{105, 105}, []float64{100, nan}, []gate.State{gate.Withdrawn, gate.Suspect}},
		"the second night":     {[]float64{105, 105}, []float64{nan, 100}, []gate.State{gate.Suspect, gate.Regression}},
		"a quiet night":        {[]float64{100}, []float64{150}, []gate.State{gate.OK}},
		"no part of the band":  {[]float64{105, 100}, []float64{100}, []gate.State{gate.Withdrawn, gate.OK}},
	} {
		if got := of(c.last, c.again...); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

// lastOf returns the verdict of the last night of the first series.
func lastOf(all []gate.Series) gate.Verdict {
	nights := gate.Replay(all, gate.Rule{})[0]
	return nights[len(nights)-1]
}
