package stopping

import "math"

// Trials says when the mean of a figure over the trials of a cell is known well
// enough.
type Trials struct {
	Within     float64 // half width of the interval, as a share of the mean
	Confidence float64
	Min        int // trials at least
}

// Known returns after how many of the values, of one trial each in their order, the mean is
// known, with its half width; 0 while it is not.
//
// The interval is Student's t of the trials' spread. It is looked at after each
// trial, and each look is one more chance to stop at a lucky moment: so it must hold
// after two trials in a row, as that of a load's own mean. Package statistics has
// what that comes to. Equal values have no spread to conclude from.
func (t Trials) Known(values []float64) (n int, mean, half float64) {
	held := 0
	for n = max(2, t.Min-confirms+1); n <= len(values); n++ {
		mean, half = interval(values[:n], t.Confidence)
		if !(half > 0 && half <= t.Within*math.Abs(mean)) {
			held = 0
			continue
		}
		if held++; held >= confirms {
			return n, mean, half
		}
	}
	return 0, 0, 0
}
