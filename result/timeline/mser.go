package timeline

import "math"

const (
	// batched is how many values a batch has: the 5 of MSER-5.
	batched = 5
	// minBatches is how many batches it takes to look: a part of fewer is too often
	// steadier than the whole by chance.
	minBatches = 15
	// gain is how much a truncation must lessen the statistic to be believed. The
	// least of many is always somewhat less than the first, and cuts that only
	// follow noise take the early bursts away and leave a p95 too low.
	gain = 0.8
	// later is how much less the statistic must be somewhere in the second half to
	// say that the series had not settled in the first; rest is how many batches are
	// left there at least, and one request of each slot of a closed loop: a part of
	// their round is steadier than the whole.
	later = 0.7
	rest  = 10
)

// enough is how many values tell whether a series has settled.
const enough = batched * minBatches

// truncation returns how many of the first values of a series, of which there are
// enough, are to be left out because it had not settled yet: those without which
// the squared standard error of the mean of the others is least, over batches of
// five (MSER-5: White, An effective truncation heuristic for bias reduction in
// simulation output, Simulation 69, 1997). At most half are left out; moving says
// that more would have to be, or that the others move too: then no value is left out.
func truncation(values []float64, slots int) (cut int, moving bool) {
	means := make([]float64, len(values)/batched)
	for i := range means {
		for _, v := range values[i*batched : (i+1)*batched] {
			means[i] += v / batched
		}
	}
	n, half := len(means), len(means)/2
	errors := make([]float64, n) // of the mean without so many batches, squared
	sum, squares := 0.0, 0.0
	for i := n - 1; i >= 0; i-- {
		d := means[i] - means[n-1] // differences keep the sums of squares small
		sum, squares = sum+d, squares+d*d
		left := float64(n - i)
		errors[i] = (squares - sum*sum/left) / (left * left)
	}
	at := 0
	for i, e := range errors[:half+1] {
		if e < errors[at] {
			at = i
		}
	}
	for _, e := range errors[half+1 : max(half+1, n-max(rest, (slots+batched-1)/batched))] {
		if e < later*errors[at] {
			return 0, true
		}
	}
	if errors[at] > gain*errors[0] {
		return 0, false
	}
	if at == half || trending(values[at*batched:]) {
		return 0, true
	}
	cut = at * batched
	if slots > 0 {
		if whole := (cut + slots - 1) / slots * slots; whole <= len(values)/2 {
			cut = whole
		}
	}
	return cut, false
}

// partMeans returns the means of the parts of a series, of so many of equal length.
func partMeans(values []float64, parts int) []float64 {
	means := make([]float64, parts)
	for i := range means {
		part := values[i*len(values)/parts : (i+1)*len(values)/parts]
		for _, v := range part {
			means[i] += v / float64(len(part))
		}
	}
	return means
}

// trending reports whether values rise or fall, by the means of their parts.
func trending(values []float64) bool {
	const parts = 20
	at := make([]float64, parts)
	for i := range at {
		at[i] = float64(i)
	}
	return Trend(at, partMeans(values, parts)).P < 0.01
}

// A series wanders too slowly for its length if neighbouring parts of it are alike: what
// it does then takes a good share of that length, and its figures are those of one mood
// of the server. A queue near its capacity, which was empty at first, shows much less than
// it would in the long run. alikeAt is the correlation above which they are alike. So
// many parts find it in 9 of 10 trials of an M/M/8 of 300 s at 95 % of its capacity, and
// half as many in 6; neither calls a server that is steady so in more than 1 of 100.
const (
	wanders = 40
	alikeAt = 0.5
)

// wandering returns how many times as long a series would have to be at least, if it
// wanders too slowly, for neighbouring parts of it to have a correlation of 0.3 as
// they would if that fell by the same share from part to part; 0 if it does not.
func wandering(values []float64) (times, r float64) {
	r, ok := Neighbours(partMeans(values, wanders))
	if !ok || r <= alikeAt {
		return 0, r
	}
	return math.Log(0.3) / math.Log(min(r, 0.9)), r
}
