package validity

import (
	"cmp"
	"math"
	"slices"
	"time"

	"sweep.dev/sweep/load"
	"sweep.dev/sweep/result"
	"sweep.dev/sweep/result/col"
	"sweep.dev/sweep/result/finding"
)

// Clients says of each of several clients how it took part, and which bound it came nearest
// to. It is nil if one process sent the load.
//
// The bounds are what is worth a look at one client of several. They decide nothing: what
// [Judge] bounds is of all requests together.
func Clients(e Evidence) []result.ClientHealth {
	if len(e.Health.Shards) == 0 {
		return nil
	}
	late := lags(&e)
	waits := differences(&e)
	first, _ := ends(e.Health.Shards)
	all := make([]result.ClientHealth, len(e.Health.Shards))
	for i, s := range e.Health.Shards {
		c := result.ClientHealth{
			Client: s.Shard, Lost: s.Lost, Requests: s.Requests, SHA256: s.SHA256,
			OffsetMS: result.Milliseconds(s.Offset), OffsetErrorMS: result.Milliseconds(s.OffsetError), WallMS: result.Milliseconds(s.Wall),
		}
		if i < len(late) && len(late[i]) > 0 {
			c.P99ScheduleLagMS = new(lagOf(late[i]) / float64(time.Millisecond))
		}
		if s.Lost != "" { // what it knew of itself is lost too
			c.Nearest = finding.ClientLost.String()
			all[i] = c
			continue
		}
		c.LateMS, c.CPU, c.MaxStallMS = new(result.Milliseconds(s.Late)), new(s.CPU), new(result.Milliseconds(s.MaxGap))
		c.DriftMS, c.DriftErrorMS = new(result.Milliseconds(s.Drift)), new(result.Milliseconds(s.DriftError))
		c.ThrottledPeriods = s.Throttled
		if s.Throttled != nil && *s.Throttled > 0 { // the bound is 0
			c.Nearest = finding.ClientThrottled.String()
			all[i] = c
			continue
		}
		shares := []near{
			{finding.ClientSkew, of(s.Late-first, skewBound(&e))},
			{finding.ClientClock, of(s.Drift.Abs(), clockDrift+s.DriftError)},
			{finding.ClientStalled, of(s.MaxGap, mostStall)},
			{finding.ClientsDiffer, waits[i].share},
		}
		if len(all) > 1 {
			shares = append(shares, near{finding.ClientClock, of(s.OffsetError, offsetError)})
		}
		if took, _ := e.Row.Number(col.DurationS); took >= cpuWindow {
			shares = append(shares, near{finding.ClientCPU, of(cpuOf(&e, s), mostCPU)})
		}
		if c.P99ScheduleLagMS != nil {
			shares = append(shares, near{finding.ScheduleLag, of(*c.P99ScheduleLagMS, result.Milliseconds(mostLag))})
		}
		nearest := slices.MaxFunc(shares, func(a, b near) int { return cmp.Compare(a.share, b.share) })
		c.Nearest, c.Share = nearest.code.String(), new(nearest.share)
		all[i] = c
	}
	return all
}

// cpuOf returns the share of the CPUs that is judged of a client. Clients that share a machine use
// its CPUs together, and then all together use more than any does.
func cpuOf(e *Evidence, s load.ShardHealth) float64 {
	most := 0.0
	for _, o := range e.Health.Shards {
		most = max(most, o.CPU)
	}
	if e.Health.CPU > most {
		return e.Health.CPU
	}
	return s.CPU
}

// A near is how near a client came to the bound of a reason: 1 is the bound.
type near struct {
	code  finding.Code
	share float64
}

// of returns the share that a value is of its bound. A plan may have a bound of 0.
func of[V time.Duration | float64](value, bound V) float64 {
	switch {
	case value <= 0:
		return 0
	case bound <= 0:
		return math.MaxFloat64
	}
	return float64(value) / float64(bound)
}

// Limiting returns which of several clients came nearest to a bound, or passed it; ok is false
// if there are fewer than two.
func Limiting(all []result.ClientHealth) (client int, ok bool) {
	if len(all) < 2 {
		return 0, false
	}
	return slices.MaxFunc(all, func(a, b result.ClientHealth) int {
		return cmp.Or(cmp.Compare(severity(a), severity(b)), b.Client-a.Client) // the first of equals
	}).Client, true
}

// severity orders clients by what went wrong with them. A bound that has no share was passed.
func severity(c result.ClientHealth) float64 {
	switch {
	case c.Lost != "":
		return math.Inf(1)
	case c.Share == nil:
		return math.MaxFloat64
	}
	return *c.Share
}

// ends returns when the first and the last of the clients that were not lost began, after the
// agreed moment.
func ends(all []load.ShardHealth) (first, last time.Duration) {
	for i, s := range living(all) {
		if i == 0 {
			first, last = s.Late, s.Late
		}
		first, last = min(first, s.Late), max(last, s.Late)
	}
	return first, last
}

// Skew returns how much later than the first of several clients the last began; ok is false if
// fewer than two came to their ends.
func Skew(h *load.Health) (skew time.Duration, ok bool) {
	if len(living(h.Shards)) < 2 {
		return 0, false
	}
	first, last := ends(h.Shards)
	return last - first, true
}
