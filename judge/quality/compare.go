package quality

import "sweep.dev/sweep/result"

// Alpha is the level of a comparison, and Power the chance with which a loss of the
// size [Comparison.Detectable] is found.
const (
	Alpha = 0.05
	Power = 0.8
)

// A Verdict is what a comparison shows.
type Verdict string

// The verdicts. That two servers answer equally well is never shown: a loss may be less
// than the set can show.
const (
	Worse      Verdict = "worse"
	Better     Verdict = "better"
	CannotTell Verdict = "cannot tell"
)

// A Comparison is of the answers of two servers to the same items.
type Comparison struct {
	Pairs int // items that both have a known score for
	// Right are those that the baseline has right, Losses those that it alone has right,
	// Gains those that only the other one has.
	Right, Losses, Gains int
	// Difference is the score of the other one less that of the baseline, from -1 to 1,
	// with an interval, see [Paired].
	Difference, Low, High float64
	P                     float64 // see [McNemar]
	// Detectable is the smallest loss that the set shows with the chance [Power], see
	// [Detectable]; nil if it shows none.
	Detectable *float64
	Verdict    Verdict

	// Texts are the items that both have answered, and Same those with one text.
	Texts, Same int
	// First is the median position of the first character in which two texts differ,
	// from 0; nil if none differ.
	First *float64
}

// Compare compares the answers of a server with those of a baseline, by the names of
// their items. others is how many comparisons with the baseline there are in all, at
// least 1: they share [Alpha] (Bonferroni).
func Compare(baseline, other []Answer, others int) Comparison {
	base := make(map[string]*Answer, len(baseline))
	for i := range baseline {
		base[baseline[i].Item] = &baseline[i]
	}
	var c Comparison
	var first []float64
	for i := range other {
		o := &other[i]
		b := base[o.Item]
		if b == nil {
			continue
		}
		if b.Right != nil && o.Right != nil {
			c.Pairs++
			if *b.Right {
				c.Right++
			}
			switch {
			case *b.Right && !*o.Right:
				c.Losses++
			case !*b.Right && *o.Right:
				c.Gains++
			}
		}
		if b.Text != nil && o.Text != nil {
			c.Texts++
			if *b.Text == *o.Text {
				c.Same++
			} else {
				first = append(first, float64(FirstDifference(*b.Text, *o.Text)))
			}
		}
	}
	if len(first) > 0 {
		c.First = new(result.Median(first))
	}
	alpha := Alpha / float64(max(1, others))
	c.judge(alpha)
	return c
}

// Scores returns those of the baseline and of the other one, over the pairs; false if there
// are none.
func (c *Comparison) Scores() (baseline, other float64, ok bool) {
	if c.Pairs == 0 {
		return 0, 0, false
	}
	n := float64(c.Pairs)
	return float64(c.Right) / n, float64(c.Right-c.Losses+c.Gains) / n, true
}

// SameRate returns the share of the texts that are the same; false if there are no texts.
func (c *Comparison) SameRate() (rate float64, ok bool) {
	if c.Texts == 0 {
		return 0, false
	}
	return float64(c.Same) / float64(c.Texts), true
}

// judge adds what follows from the counts.
func (c *Comparison) judge(alpha float64) {
	c.Verdict, c.P, c.Low, c.High = CannotTell, 1, -1, 1
	if c.Pairs == 0 {
		return
	}
	c.Difference = float64(c.Gains-c.Losses) / float64(c.Pairs)
	c.Low, c.High = Paired(c.Gains, c.Losses, c.Pairs, 1-alpha)
	c.P = McNemar(c.Losses, c.Gains)
	if c.P <= alpha {
		c.Verdict = Better
		if c.Losses > c.Gains {
			c.Verdict = Worse
		}
	}
	if loss, ok := Detectable(c.Pairs, float64(c.Gains)/float64(c.Pairs), alpha, Power); ok {
		c.Detectable = &loss
	}
}
