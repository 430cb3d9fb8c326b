package timeline

import (
	"cmp"
	"iter"
	"maps"
	"math"
	"slices"
	"time"

	"sweep.dev/sweep/result"
)

// plateauShare is the share of its target that a load must have at work to be
// on its plateau. Below 1, so that one slot that is done early does not end the
// plateau of a hundred; of a small target it is all.
const plateauShare = 0.95

// A Span is the course of a trial, in offsets from its anchor: what was sent
// before From is ramp, after To tail. The zero Span is of a trial in which
// nothing was sent.
type Span struct {
	First time.Duration // first send
	From  time.Duration // the plateau
	To    time.Duration
	Last  time.Duration // last byte
	// Steady says whether there was a plateau. Without one From and To are Last,
	// and all of the trial is ramp.
	Steady bool
	// Unsettled says why it is not known that the load had settled on its plateau,
	// or why there is none; "" if all is well, and if nothing was completed.
	Unsettled string
	// Enough is how long to send, by what was seen, to know it, and EnoughRequests
	// how many requests of the plan that makes.
	Enough         time.Duration
	EnoughRequests int
}

// Length returns the length of the plateau, 0 if there was none.
func (s Span) Length() time.Duration { return s.To - s.From }

// Assign sets the Phase of each measured request by the moment it was sent, and
// returns the span. Requests of the warm-up and of the probe stay what they
// are; those that were never sent are tail.
//
// target is the number of slots of a closed loop. Each slot's first request is
// ramp: those that begin with others wait for each other's prompts, and those
// that begin one after the other meet a server that is not full yet. The plateau
// is of the other requests, from the first to the last moment at which the target
// was at work; a slot is at work from its first send to the end of its last
// request, as between two requests it turns, or thinks because the plan says so.
// A load that never reached its target has no plateau.
//
// A target of 0 is that of an open loop, which has no number in flight to
// reach. What is in flight there is settled by how long requests take (Little's
// law), so that it cannot be what it will be before nearly all of those that came
// first are done: the plateau begins the 95th percentile of the end-to-end
// latency after the first send. It ends with the last send, after which nothing
// arrives. If requests take longer than the trial, there is no plateau.
//
// Of either plateau the beginning is left out in which time to first token or
// end-to-end latency had not settled, at most half of it.
func Assign(requests []result.Request, target int) Span {
	var s Span
	var firsts map[int]bool
	if target > 0 {
		firsts = firstOfSlots(requests)
		s = closed(requests, firsts, target)
	} else {
		s = open(requests)
	}
	s.settle(requests, firsts, target)
	for i := range requests {
		r := &requests[i]
		switch {
		case !r.Measured():
		case r.Sent == result.Never:
			r.Phase = result.Tail
		case r.Sent < s.From || !s.Steady || firsts[i]:
			r.Phase = result.Ramp
		case r.Sent > s.To:
			r.Phase = result.Tail
		default:
			r.Phase = result.Plateau
		}
	}
	return s
}

// Ramp returns how long a load is expected to take until it is what it is meant to be,
// from how long the requests of its warm-up took: the median in a closed loop,
// whose slots then begin evenly over one request, and the 95th percentile in an
// open one. It is 0 if none of them was completed.
func Ramp(requests iter.Seq[*result.Request], open bool) time.Duration {
	var took []int64
	for r := range requests {
		if r.Phase == result.Warmup && r.Status == result.Completed {
			took = append(took, int64(Done(r)-r.Sent))
		}
	}
	if len(took) == 0 {
		return 0
	}
	slices.Sort(took)
	p := 0.5
	if open {
		p = settled
	}
	return time.Duration(result.Quantile(took, p))
}

// settled is the percentile of the end-to-end latency after which an open loop is
// at work: at the median its requests in flight are between half and three
// quarters of what they will be.
const settled = 0.95

// bounds returns the first send and the last byte of the trial.
func bounds(requests []result.Request) (first, last time.Duration, ok bool) {
	first = math.MaxInt64
	for i := range requests {
		if r := &requests[i]; sent(r) {
			first, last, ok = min(first, r.Sent), max(last, LastByte(r)), true
		}
	}
	return first, max(first, last), ok
}

// sent reports whether a request counts and was sent.
func sent(r *result.Request) bool { return r.Measured() && r.Sent >= 0 }

// LastByte returns when the last byte of a request came, or result.Never. The end of
// a request that did not complete is when it was given up, which is no byte.
func LastByte(r *result.Request) time.Duration {
	if r.Status == result.Completed {
		return r.End
	}
	return max(r.FirstByte, r.LastToken)
}

// A slot of a closed loop is known by its shard and its number there.
type slot struct{ shard, slot int }

// firstOfSlots returns the places of the requests that were their slots' first.
func firstOfSlots(requests []result.Request) map[int]bool {
	at := map[slot]int{}
	for i := range requests {
		r := &requests[i]
		if !sent(r) {
			continue
		}
		k := slot{r.Shard, r.Slot}
		if was, known := at[k]; !known || r.Sent < requests[was].Sent {
			at[k] = i
		}
	}
	firsts := make(map[int]bool, len(at))
	for _, i := range at {
		firsts[i] = true
	}
	return firsts
}

// closed returns the span of a closed loop.
func closed(requests []result.Request, firsts map[int]bool, target int) Span {
	first, last, ok := bounds(requests)
	if !ok {
		return Span{}
	}
	ended := map[slot]time.Duration{}
	begins := make([]time.Duration, 0, len(firsts))
	for i := range requests {
		r := &requests[i]
		if !sent(r) {
			continue
		}
		if firsts[i] {
			begins = append(begins, r.Sent)
		}
		k := slot{r.Shard, r.Slot}
		ended[k] = max(ended[k], r.Sent, r.End)
	}
	need := max(1, int(math.Ceil(plateauShare*float64(target))))
	none := Span{First: first, From: last, To: last, Last: last}
	if len(begins) < need {
		return none
	}
	slices.Sort(begins)
	ends := slices.SortedFunc(maps.Values(ended), func(a, b time.Duration) int { return cmp.Compare(b, a) })
	full, to := begins[need-1], ends[need-1]
	from := to
	for i := range requests {
		if r := &requests[i]; sent(r) && !firsts[i] && r.Sent >= full {
			from = min(from, r.Sent)
		}
	}
	if to <= from { // they were never at work at once, or each sent one request
		return none
	}
	return Span{First: first, From: from, To: to, Last: max(last, to), Steady: true}
}

// open returns the span of an open loop.
func open(requests []result.Request) Span {
	first, last, ok := bounds(requests)
	if !ok {
		return Span{}
	}
	var took []int64
	end := first
	for i := range requests {
		r := &requests[i]
		if !sent(r) {
			continue
		}
		end = max(end, r.Sent)
		if r.Status == result.Completed {
			took = append(took, int64(Done(r)-r.Scheduled))
		}
	}
	slices.Sort(took)
	none := Span{First: first, From: last, To: last, Last: last}
	if len(took) == 0 {
		return none
	}
	from := first + time.Duration(result.Quantile(took, settled))
	if end <= from {
		return none
	}
	return Span{First: first, From: from, To: end, Last: max(last, end), Steady: true}
}

// Done returns the end of a completed request: its last chunk with a choice, or,
// where it was not streamed, the end of the answer.
func Done(r *result.Request) time.Duration {
	if r.LastToken >= 0 {
		return r.LastToken
	}
	return r.End
}
