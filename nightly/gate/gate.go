package gate

import (
	"math"
	"slices"

	"github.com/aclements/go-moremath/stats"

	"sweep.dev/sweep/internal/quantile"
)

// The constants of the rules.
const (
	Window    = 20   // nights that a band rests on, at most
	MinNights = 10   // good nights before there is a band
	MinChange = 0.03 // a smaller one is never a regression
	AtOnce    = 6    // standard deviations of a regression in one night, at least
	twice     = 0.75 // share of them that the mean of two measurements of a night must reach

	levelAt    = 0.001 // the chance of a night on one side of its band, in a plan of
	levelOf    = 48    // so many series
	levelMost  = 0.005
	levelAlone = 1e-7 // the same of a night that is a regression by itself
	levelOdd   = 1e-5 // the same of a good night that is left out after all
)

// A Series is one metric of one cell, night by night.
type Series struct {
	// Group names what series share their noise: the metric.
	Group string
	// Values are by night, the oldest first; all series of a plan have the same nights.
	// NaN is one that was not measured, and infinity one in which a latency had no end.
	Values []float64
	// Again are the values of nights that were measured a second time, by night: NaN, or
	// beyond its end, are those that were not. It decides about a night that is worse than
	// its band and whose night before was not.
	Again []float64
	// Accepted are the nights whose level somebody has said to be the new normal.
	Accepted []int
	// Less says that a lesser value is better.
	Less bool
	// Floor is the least change that counts, in the metric's unit.
	Floor float64
	// Noise is what a noise file says; nil if there is none.
	Noise *Noise
}

// Noise is how far nights are apart: a standard deviation as a share of the value, and
// the degrees of freedom it rests on.
type Noise struct{ SD, DF float64 }

// A Rule is what a user may choose.
type Rule struct {
	// Threshold is the largest change that is no regression, as a share; 0 leaves it to
	// the band.
	Threshold float64
}

// A State is what a night comes to.
type State string

// The states.
const (
	Missing    State = "missing"    // no figure of valid trials
	Learning   State = "learning"   // too few nights for a band
	OK         State = "ok"         // within the band
	Suspect    State = "suspect"    // worse than the band, for the first night
	Regression State = "regression" // worse than the band for two nights or more, or by far
	Withdrawn  State = "withdrawn"  // worse than the band, and not when it was measured again
	Better     State = "better"     // better than the band, for the first night
	Improved   State = "improved"   // better for the second night: a new level
	Accepted   State = "accepted"   // outside the band, and somebody has said that it is normal now
	TooNoisy   State = "too_noisy"  // nothing is seen, and the threshold is within the noise
)

// A Verdict is that of one night of a series. What is not known is NaN.
type Verdict struct {
	State  State
	Value  float64
	Nights int     // good ones that the band rests on
	Center float64 // of the band, which begins and ends at
	Low    float64
	High   float64
	// Change is (Value - Center) / Center.
	Change float64
	// SD is that between nights, as a share of the center, with its degrees of freedom.
	SD, DF float64
	// Least is the least change that the gate can tell from noise, as a share.
	Least float64
	// First is the night with which a suspicion or a regression began.
	First int
}

// Level returns the chance of a quiet night on the worse side of its band, in a plan of so
// many series. A false alarm takes two of them running, so it falls with the root.
func Level(series int) float64 {
	return min(levelMost, levelAt*math.Sqrt(levelOf/float64(max(1, series))))
}

// Replay returns the verdict of every night of each series, as the gate gave it that night.
func Replay(all []Series, rule Rule) [][]Verdict {
	out := make([][]Verdict, len(all))
	tracks := make([]track, len(all))
	nights := 0
	for _, s := range all {
		nights = max(nights, len(s.Values))
	}
	j := judge{rule: rule, level: Level(len(all)), known: map[float64][2]float64{}, odd: map[int]float64{}}
	for t := range nights {
		for i := range tracks {
			j.tidy(&tracks[i])
		}
		priors := pool(all, tracks)
		for i := range all {
			if t < len(all[i].Values) {
				out[i] = append(out[i], j.judge(&tracks[i], &all[i], t, priors[all[i].Group]))
			}
		}
	}
	return out
}

// A judge has what is the same for all series.
type judge struct {
	rule  Rule
	level float64
	known map[float64][2]float64
	odd   map[int]float64
}

// factors returns how many standard deviations a quiet night is off, and one that is a
// regression by itself.
func (j *judge) factors(df float64) (quiet, alone float64) {
	f, ok := j.known[df]
	if !ok {
		f = [2]float64{quantile.Student(1-j.level, df), max(AtOnce, quantile.Student(1-levelAlone, df))}
		j.known[df] = f
	}
	return f[0], f[1]
}

// tidy leaves out of a track the nights of its level that are far from all others, as a bad one
// is while there is no band yet. With it the band would be so wide that nothing is ever worse.
// The newest night is none of them: it may be the first of what follows.
func (j *judge) tidy(k *track) {
	for {
		first := len(k.good)
		center := 0.0
		for first > 0 && k.good[first-1].level == k.level {
			first--
			center += k.good[first].value
		}
		here := k.good[first:]
		n := len(here)
		if n < MinNights {
			return
		}
		center /= float64(n)
		at, most, square := 0, 0.0, 0.0
		for i := range here {
			d := (here[i].value - center) * (here[i].value - center)
			if square += d; i < n-1 && d > most {
				at, most = i, d
			}
		}
		f, ok := j.odd[n]
		if !ok {
			f = quantile.Student(1-levelOdd, float64(n-2))
			j.odd[n] = f
		}
		// The distance from the mean of the others, and their variance.
		off := math.Sqrt(most) * float64(n) / float64(n-1)
		variance := max(0, square-off*off*float64(n-1)/float64(n)) / float64(n-2)
		if off <= MinChange*math.Abs(center) || off <= f*math.Sqrt(variance*(1+1/float64(n-1))) {
			return
		}
		k.good = slices.Delete(k.good, first+at, first+at+1)
	}
}

// A track is what the nights of a series have left until now.
type track struct {
	good  []night   // the last of the good nights
	level int       // the present one
	open  State     // Suspect, Regression, Better; or ""
	first int       // the night with which it began
	apart []float64 // its nights, which are no part of the band
}

// A night is a good one: its value and the level that it is of.
type night struct {
	value float64
	level int
}

// take makes a night a good one of the present level.
func (k *track) take(value float64) {
	if math.IsInf(value, 0) {
		return
	}
	k.good = append(k.good, night{value, k.level})
	if over := len(k.good) - Window; over > 0 {
		k.good = slices.Clone(k.good[over:])
	}
}

// begin starts a new level: the nights before say how far nights are apart, and no
// longer where they are.
func (k *track) begin(values []float64) {
	k.level++
	for _, v := range values {
		k.take(v)
	}
	k.open, k.apart = "", nil
}

// here returns the good nights of the present level.
func (k *track) here() (values []float64) {
	for _, n := range k.good {
		if n.level == k.level {
			values = append(values, n.value)
		}
	}
	return values
}

// spread returns the variance of the good nights around their levels, as a share of those.
func (k *track) spread() (variance, df float64) {
	for from := 0; from < len(k.good); {
		to := from
		sum := 0.0
		for ; to < len(k.good) && k.good[to].level == k.good[from].level; to++ {
			sum += k.good[to].value
		}
		m := sum / float64(to-from)
		if m != 0 {
			for _, n := range k.good[from:to] {
				d := (n.value - m) / m
				variance += d * d
			}
			df += float64(to - from - 1)
		}
		from = to
	}
	if df == 0 {
		return 0, 0
	}
	return variance / df, df
}

// judge returns the verdict of night t, which becomes a part of the track.
func (j *judge) judge(k *track, s *Series, t int, p prior) Verdict {
	unknown := math.NaN()
	v := Verdict{State: Missing, Value: s.Values[t], Nights: len(k.good), Center: unknown, Low: unknown, High: unknown, Change: unknown, SD: unknown, Least: unknown, First: t}
	if math.IsNaN(v.Value) {
		return v
	}
	here := k.here()
	if len(here) == 0 || len(k.good) < MinNights && s.Noise == nil {
		v.State = Learning
		k.take(v.Value)
		return v
	}
	variance, df := k.spread()
	if s.Noise != nil {
		p = prior{s.Noise.SD * s.Noise.SD, s.Noise.DF}
	}
	variance, df = p.shrink(variance, df)
	v.Center, v.DF = stats.Mean(here), df
	size := math.Abs(v.Center)
	v.SD = math.Sqrt(variance)
	off := size * v.SD * math.Sqrt(1+1/float64(len(here))) // of one more night, in one standard deviation
	quiet, alone := j.factors(df)
	least := max(quiet*off, MinChange*size, s.Floor)
	reach := max(least, j.rule.Threshold*size)
	v.Low, v.High, v.Least, v.Change = v.Center-reach, v.Center+reach, least/size, (v.Value-v.Center)/size

	worse := s.worse(v.Value, v.Center)
	switch {
	case worse > reach:
		v.State = Suspect
		if k.open == Regression || k.open == Suspect || worse > max(reach, alone*off) {
			v.State = Regression
		}
		switch again := s.again(t); {
		case k.open == Regression || k.open == Suspect:
			v.First = k.first
		case math.IsNaN(again):
		case s.worse(again, v.Center) > reach:
			if s.worse((v.Value+again)/2, v.Center) > max(reach, twice*alone*off) {
				v.State = Regression
			}
		default:
			v.State = Withdrawn
		}
	case worse < -reach:
		v.State = Better
		if k.open == Better {
			v.State, v.First = Improved, k.first
		}
	default:
		v.State = OK
		if j.rule.Threshold > 0 && size > 0 && j.rule.Threshold*size < least {
			v.State = TooNoisy
		}
	}
	k.enter(v)
	if k.open != "" && slices.Contains(s.Accepted, t) {
		v.State = Accepted
		k.begin(k.apart)
	}
	return v
}

// worse returns by how much a value is worse than another.
func (s *Series) worse(value, than float64) float64 {
	if s.Less {
		return value - than
	}
	return than - value
}

// again returns what a night came to when it was measured a second time; NaN if it was not.
func (s *Series) again(t int) float64 {
	if t >= len(s.Again) {
		return math.NaN()
	}
	return s.Again[t]
}

// enter makes a judged night a good one, or keeps what it began.
func (k *track) enter(v Verdict) {
	switch v.State {
	case Suspect, Regression, Better:
		if v.First != k.first || k.open == "" {
			k.apart = nil
		}
		k.open, k.first, k.apart = v.State, v.First, append(k.apart, v.Value)
	case Withdrawn: // of which it is not known what it is a part of
		k.open, k.apart = "", nil
	case Improved:
		k.begin(append(k.apart, v.Value))
	default:
		k.open, k.apart = "", nil
		k.take(v.Value)
	}
}
