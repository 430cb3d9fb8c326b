package validity

import (
	"cmp"
	"math"
	"slices"
	"time"

	"sweep.dev/sweep/load"
	"sweep.dev/sweep/result"
	"sweep.dev/sweep/result/bounds"
	"sweep.dev/sweep/result/col"
	"sweep.dev/sweep/result/finding"
)

// What several clients of one load may differ by.
const (
	// skewFloor and skewShare bound how much later than another a client may begin: an
	// absolute time, or a share of the trial if that is longer.
	skewFloor = 50 * time.Millisecond
	skewShare = 0.01

	// offsetError bounds how well the offset of a client's clock must be known, and
	// clockDrift by how much it may change, beyond what the measurement of it can be off.
	offsetError = 20 * time.Millisecond
	clockDrift  = 5 * time.Millisecond
	// wallOff is by how much a client's wall clock may differ from this machine's without
	// a remark: NTP keeps them closer.
	wallOff = 100 * time.Millisecond

	// Two clients that are dealt the same load see the same latencies. differFloor and
	// differShare are how far the median of one may be from that of the others, differP
	// how improbable that must be by chance, and fewest how many requests say it.
	differFloor = 20 * time.Millisecond
	differShare = 0.20
	differP     = 1e-6
	fewest      = 20
)

func clientLost(e *Evidence, _ bounds.Bounds) (result.Finding, bool) {
	for _, s := range e.Health.Shards {
		if s.Lost != "" {
			return found(finding.ClientLost, "client %d of %d was lost, and its part of the load with it: %s", s.Shard, len(e.Health.Shards), s.Lost)
		}
	}
	return fine()
}

func clientThrottled(e *Evidence, _ bounds.Bounds) (result.Finding, bool) {
	for _, s := range e.Health.Shards {
		if s.Throttled != nil && *s.Throttled > 0 {
			return found(finding.ClientThrottled, "the kernel held client %d back at its CPU limit in %d periods (nr_throttled of cpu.stat, bound 0): give it whole CPUs, or no limit", s.Shard, *s.Throttled)
		}
	}
	return fine()
}

// skewBound bounds how much later than another a client may begin.
func skewBound(e *Evidence) time.Duration {
	took, _ := e.Row.Number(col.DurationS)
	return max(skewFloor, time.Duration(skewShare*took*float64(time.Second)))
}

func living(all []load.ShardHealth) []load.ShardHealth {
	return slices.DeleteFunc(slices.Clone(all), func(s load.ShardHealth) bool { return s.Lost != "" })
}

// clientsDiffer finds a client whose requests took longer, or shorter, than those of the
// others: it has another path to the server, or was dealt other requests.
func clientsDiffer(e *Evidence, _ bounds.Bounds) (result.Finding, bool) {
	for i, d := range differences(e) {
		if d.share > 1 {
			return found(finding.ClientsDiffer, "the median wait of client %d is %s, and that of the others %s (bound %s or %.0f %%): look at its path to the server, or at prompts that repeat with the number of clients",
				i, short(time.Duration(d.own)), short(time.Duration(d.others)), differFloor, 100*differShare)
		}
	}
	return fine()
}

// A difference is the median wait of a client beside that of the others, in nanoseconds.
// share is that of the bound; 0 if it may be chance.
type difference struct{ own, others, share float64 }

// differences returns those of the clients of one load, by client.
func differences(e *Evidence) []difference {
	n := len(e.Health.Shards)
	all := make([]difference, n)
	if n < 2 {
		return all
	}
	took := make([][]float64, n) // to the first token, or to the end of an answer in one piece
	for i := range e.Requests {
		r := &e.Requests[i]
		if !r.Measured() || r.Status != result.Completed || r.Shard >= n {
			continue
		}
		to := cmp.Or(max(0, r.FirstToken), r.End)
		took[r.Shard] = append(took[r.Shard], float64(to-r.Sent))
	}
	for i, own := range took {
		var others []float64
		for k, other := range took {
			if k != i {
				others = append(others, other...)
			}
		}
		if len(own) < fewest || len(others) < fewest {
			continue
		}
		d := difference{own: result.Median(own), others: result.Median(others)}
		share := math.Abs(d.own-d.others) / max(float64(differFloor), differShare*d.others)
		if share > 1 && mannWhitney(own, others) < differP/float64(n) {
			d.share = share
		}
		all[i] = d
	}
	return all
}

// mannWhitney returns the two-sided p of the rank sum test (Mann and Whitney 1947) by its normal
// approximation, ties corrected: the probability of ranks so uneven if both are of one
// distribution.
func mannWhitney(a, b []float64) float64 {
	type ranked struct {
		v   float64
		own bool
	}
	all := make([]ranked, 0, len(a)+len(b))
	for _, v := range a {
		all = append(all, ranked{v, true})
	}
	for _, v := range b {
		all = append(all, ranked{v, false})
	}
	slices.SortFunc(all, func(x, y ranked) int { return cmp.Compare(x.v, y.v) })
	sum, ties := 0.0, 0.0
	for i := 0; i < len(all); {
		k := i
		for k < len(all) && all[k].v == all[i].v {
			k++
		}
		rank, t := float64(i+k+1)/2, float64(k-i)
		ties += t*t*t - t
		for ; i < k; i++ {
			if all[i].own {
				sum += rank
			}
		}
	}
	n, m := float64(len(a)), float64(len(b))
	u := sum - n*(n+1)/2
	variance := n * m / 12 * ((n + m + 1) - ties/((n+m)*(n+m-1)))
	if variance <= 0 {
		return 1
	}
	z := math.Abs(u-n*m/2) / math.Sqrt(variance)
	return math.Erfc(z / math.Sqrt2)
}

// clientWallClock: a wall clock that is wrong makes no number wrong, as each client's
// offset is measured, but its logs will not fit to others.
func clientWallClock(e *Evidence, _ bounds.Bounds) (result.Finding, bool) {
	for _, s := range living(e.Health.Shards) {
		if s.Wall.Abs() > wallOff+s.OffsetError {
			return found(finding.ClientWallClock, "the wall clock of client %d differs from this machine's by %s (bound %s); its times were corrected by the offset that was measured, to %s", s.Shard, short(s.Wall), wallOff, short(s.OffsetError))
		}
	}
	return fine()
}
