package search

import (
	"math"
	"slices"

	"sweep.dev/sweep/result"
	"sweep.dev/sweep/result/objective"
)

// maxTimes is how many times as long as a trial of the plan one that confirms is at most.
const maxTimes = 8

// mostRequests is how many requests a level may have to be decided. More of them move the answer
// little: docs/statistics.md has what a search takes.
const mostRequests = 15_000

// confirm certifies the candidate, or the next level below that can be, and then those above
// it that can be. It begins with the highest level that is likely decided by half of what a level
// may have, so that something is certain early. A level that is left open is not taken for one
// that fails.
func (t *tier) confirm(candidate int) *Probe {
	step, steps := 1, 0
	for i := candidate; ; {
		if r := &t.levels[i]; i > t.floor && len(r.find)+len(r.confirm) == 0 && !r.broken() && !r.unmeasurable() {
			return &Probe{Level: i, Why: Find, Times: 1}
		}
		if i == 0 || i <= t.floor || t.likely(i) {
			verdict, next := t.decide(i)
			switch {
			case verdict == "":
				return next
			case verdict == result.SLOPass:
				return t.above(i)
			case i == 0:
				t.lowest(verdict)
				return nil
			}
		}
		if steps++; steps > 2 {
			step *= 2
		}
		i = max(0, t.floor, i-step)
	}
}

// likely reports whether a level is likely certified by half of what a level may have, by the trials
// that found it.
func (t *tier) likely(i int) bool {
	kept, known := t.keptAt(i)
	length, _ := t.begin(i)
	return !known || kept && length <= max(t.Trials, t.most(i)/2)
}

// above certifies the levels above one that is certified, as far as they can be. One that
// missed the objective on the way needs a fresh trial that keeps it before it is confirmed.
func (t *tier) above(certified int) *Probe {
	t.certify(certified)
	for i := certified + 1; i <= t.top; i++ {
		r := &t.levels[i]
		if r.looked || r.broken() {
			break
		}
		if kept, known := t.keptAt(i); known && !kept {
			if finds, _ := of(r.find); objective.PoolAt(finds, t.Confidence).Verdict == result.SLOFail {
				break
			}
			if len(r.confirm) == 0 && !r.unmeasurable() {
				return &Probe{Level: i, Why: Confirm, Times: t.times}
			}
			if len(r.confirm) > 0 && !holds(r.confirm[0].SLOResult) {
				break
			}
		}
		verdict, next := t.decide(i)
		if verdict == "" {
			return next
		}
		if verdict != result.SLOPass {
			break
		}
		t.certify(i)
	}
	if next := t.bounding(); next != nil {
		return next
	}
	t.end()
	return nil
}

// bounding returns the next trial that is likely to show soon that a level above the certified one
// fails: the level next to it by a quarter of what a level may have, and if none has failed that
// which shows it first.
func (t *tier) bounding() (next *Probe) {
	least, failed := math.MaxInt, false
	for i := t.best + 1; i <= t.top && !failed; i++ {
		r := &t.levels[i]
		if len(r.find)+len(r.confirm) == 0 && !r.broken() {
			continue
		}
		pooled := t.whole(i)
		failed = pooled.Verdict == result.SLOFail
		_, have := of(slices.Concat(r.find, r.confirm))
		requests, more := need(pooled)
		if holds(pooled) || more == 0 || r.unmeasurable() || r.full(t) {
			continue
		}
		further := int(math.Ceil(float64(have) * float64(more) / float64(requests)))
		one := &Probe{Level: i, Why: Confirm, Times: t.lengthOf(further)}
		if i == t.best+1 && have+further <= t.most(i)/4 {
			return one
		}
		if further < least && have+further <= t.most(i) {
			least, next = further, one
		}
	}
	if failed {
		return nil
	}
	return next
}

// decide looks at a level, and looks again when it has as many more requests as may decide it.
// The verdict is "" if it needs another trial, and if it can have none.
func (t *tier) decide(i int) (verdict string, next *Probe) {
	r := &t.levels[i]
	switch {
	case i <= t.floor:
		return result.SLOPass, nil
	case r.broken():
		t.looks++
		return result.SLOFail, nil
	}
	r.looked = true
	most := t.most(i)
	length, times := t.begin(i)
	if length > most {
		return result.SLOUndecided, nil
	}
	for want := length; ; {
		trials, have := r.upto(want)
		if r.hopeless(len(trials), t.Confidence) {
			r.misses = true
			return result.SLOFail, nil
		}
		if have < want {
			if r.unmeasurable() {
				t.answer.Reason = NotMeasured
				return "", nil
			}
			if r.full(t) {
				return result.SLOUndecided, nil
			}
			return "", &Probe{Level: i, Why: Confirm, Times: times}
		}
		t.times = times
		results, _ := of(trials)
		t.looks++
		if verdict = objective.PoolAt(results, t.confidence(t.looks)).Verdict; verdict != result.SLOUndecided {
			r.misses = verdict == result.SLOFail
			return verdict, nil
		}
		requests, more := need(objective.PoolAt(results, t.confidence(t.looks+1)))
		each := float64(requests) / float64(have)
		further := int(math.Ceil(float64(more) / each))
		if more == 0 || have+further > 2*most || have+further > most && further > have/4 {
			return result.SLOUndecided, nil
		}
		for _, one := range trials {
			times = max(times, one.longer())
		}
		want = have + max(further, min(have/2, most-have), 1)
		times = max(times, t.lengthOf(want-have))
	}
}

// begin returns how long the trials before the first look at a level are together, and how long each
// is, by the trial that found it.
func (t *tier) begin(i int) (length, times int) {
	r := &t.levels[i]
	if len(r.find) == 0 {
		return t.Trials * t.times, t.times
	}
	results, have := of(r.find)
	requests, more := need(objective.PoolAt(results, t.confidence(t.looks+1)))
	length = have
	if requests > 0 {
		length = int(math.Ceil(float64(have) * float64(requests+more) / float64(requests)))
	}
	times = max(r.find[len(r.find)-1].longer(), t.lengthOf(min(length, t.most(i))))
	return max(length, t.Trials*times), times
}

// lengthOf returns how long each trial is, of as many as the first look has that are so long together.
func (t *tier) lengthOf(length int) int {
	times := 1
	for times < maxTimes && 2*times*t.Trials <= length {
		times *= 2
	}
	return times
}

// most returns how long all trials of a level may be together: a quarter of what the search may have
// of trials, of time and of money, and in any case no more than mostRequests, so that the answer
// depends little on how long each is.
func (t *tier) most(i int) int {
	most := float64(t.MaxProbes / 4 * maxTimes)
	for _, o := range t.levels[i].all {
		if o.Requests == 0 {
			continue
		}
		times := float64(max(1, o.Times))
		most = min(most, math.Ceil(mostRequests*times/float64(o.Requests)))
		if t.Seconds > 0 && o.Seconds > 0 {
			most = min(most, t.Seconds/4*times/o.Seconds)
		}
		if spent := o.Seconds / 3600 * o.USDPerHour; t.USD > 0 && spent > 0 {
			most = min(most, t.USD/4*times/spent)
		}
		break
	}
	return max(t.Trials, int(most))
}

// confidence returns that of a look, of which each device has an equal part.
func (t *tier) confidence(look int) float64 {
	return 1 - (1-t.Confidence)/float64(max(1, t.Devices)*look*(look+1))
}

// full reports whether a level has as many trials as it may have.
func (r *level) full(t *tier) bool {
	return len(r.all) >= min(t.MaxTrials*max(1, t.Devices), max(t.Trials, t.MaxProbes/4)+maxInvalid)
}

// upto returns the first confirming trials that are so long together, and how long they are.
func (r *level) upto(want int) (trials []trial, have int) {
	for i, one := range r.confirm {
		if have += one.times; have >= want {
			return r.confirm[:i+1], have
		}
	}
	return r.confirm, have
}

// hopeless reports whether the first confirming trials, or fewer of them, leave no doubt that the
// objective is missed. It can certify nothing, so it is no look and costs no confidence.
func (r *level) hopeless(trials int, confidence float64) bool {
	results, _ := of(r.confirm[:trials])
	for n, last := range results { // one that keeps it adds no doubt
		if !holds(last) && objective.PoolAt(results[:n+1], confidence).Verdict == result.SLOFail {
			return true
		}
	}
	return false
}

// need returns how many requests decided an objective, and how many more would; 0 if nobody knows.
func need(r result.SLOResult) (requests, more int) {
	for _, p := range r.Parts {
		requests = max(requests, p.Requests)
		if p.Verdict == result.SLOUndecided {
			if p.MoreRequests == 0 {
				return requests, 0
			}
			more = max(more, p.MoreRequests)
		}
	}
	return requests, more
}
