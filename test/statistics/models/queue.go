package models

import (
	"container/heap"
	"math"
	"time"

	"sweep.dev/sweep/load/arrivals"
	"sweep.dev/sweep/load/chance"
	"sweep.dev/sweep/result"
)

// A Queue is a line before c equal servers whose service times are exponential
// (M/M/c, or G/M/c with a pace of its own). A request's answer is one token, which comes
// when its service ends, so that its TTFT and its end-to-end latency are the
// response time of the queue.
type Queue struct {
	Servers int
	// Load is the share of the servers' capacity that is asked for.
	Load    float64
	Service time.Duration // mean
	// Pace is when requests arrive; nil is Poisson at Load.
	Pace arrivals.Pace
	// First is how long after the beginning of its service a request has its first
	// token, at its end at the latest; 0 is at its end.
	First time.Duration
	// MaxInFlight holds an arrival back, unsent, while so many requests are in
	// flight; 0 is no bound.
	MaxInFlight int
	// Change scales the service time of a request that arrives at a moment; nil
	// leaves it.
	Change func(at time.Duration) float64
}

// PerSecond returns the rate of arrivals.
func (q Queue) PerSecond() float64 {
	return q.Load * float64(q.Servers) / q.Service.Seconds()
}

// Relaxation returns how long the queue takes to forget by 1/e what it was: that of M/M/1
// with the rate of all servers, 1 / (c mu (1 - sqrt(rho))^2) (Cohen, The Single Server
// Queue, 1982), which M/M/c has too near its capacity. rho is less than 1.
func (q Queue) Relaxation() time.Duration {
	return seconds(q.Service.Seconds() / float64(q.Servers) / math.Pow(1-math.Sqrt(q.Load), 2))
}

// Bursty returns gamma arrivals at the queue's rate, whose gaps have a squared
// coefficient of variation of cv2.
func (q Queue) Bursty(cv2 float64) Queue {
	q.Pace = arrivals.Steady(q.PerSecond(), arrivals.Process{Kind: arrivals.Gamma, Burstiness: 1 / cv2})
	return q
}

// Run returns what a driver would record of an open loop of n requests at most, in the
// order of their arrival. The queue is empty at first.
func (q Queue) Run(seed uint64, n int) []result.Request {
	pace := q.Pace
	if pace == nil {
		pace = arrivals.Steady(q.PerSecond(), arrivals.Process{})
	}
	serve := stream(seed, 3)
	free := make(times, q.Servers) // when each server is
	var flying times               // ends of what was sent
	due := arrivals.Times(pace, chance.New(seed, 2), n, 0)
	out := make([]result.Request, len(due))
	for i := range out {
		at := due[i].Seconds()
		sent := at
		if q.MaxInFlight > 0 {
			for len(flying) > 0 && flying[0] <= sent {
				heap.Pop(&flying)
			}
			if len(flying) >= q.MaxInFlight {
				sent = heap.Pop(&flying).(float64)
			}
		}
		service := serve.ExpFloat64() * q.Service.Seconds()
		if q.Change != nil {
			service *= q.Change(due[i])
		}
		start := max(sent, free[0])
		end := start + service
		free[0] = end
		heap.Fix(&free, 0)
		if q.MaxInFlight > 0 {
			heap.Push(&flying, end)
		}
		out[i] = Answered(i, due[i], max(due[i], seconds(sent)), seconds(end))
		if q.First > 0 {
			out[i].FirstToken = max(out[i].Sent, min(out[i].End, seconds(start)+q.First))
		}
	}
	return out
}

// Answered returns a completed request whose answer came whole.
func Answered(n int, scheduled, sent, end time.Duration) result.Request {
	return result.Request{
		N: n, Scheduled: scheduled, Sent: sent, FirstByte: end, FirstToken: end, FirstOutput: end, LastToken: end, End: end,
		PromptTokens: 1, CompletionTokens: 1, MaxTokens: 1, TokenSource: "usage", FirstTokenChunk: 0,
		ChunkUS: []int32{int32((end - sent) / time.Microsecond)}, Status: result.Completed, FinishReason: "length",
	}
}

// ErlangC returns the chance that a request of an M/M/c queue waits.
func (q Queue) ErlangC() float64 {
	a := q.Load * float64(q.Servers)
	b := 1.0 // Erlang B, by its recursion over the servers
	for c := 1; c <= q.Servers; c++ {
		b = a * b / (float64(c) + a*b)
	}
	return b / (1 - q.Load*(1-b))
}

// Mean returns the mean response time of an M/M/c queue.
func (q Queue) Mean() time.Duration {
	s := q.Service.Seconds()
	return seconds(s + q.ErlangC()*s/(float64(q.Servers)*(1-q.Load)))
}

// MeanFirst returns the mean TTFT of an M/M/c queue with First set.
func (q Queue) MeanFirst() time.Duration {
	s := q.Service.Seconds()
	return q.Mean() - q.Service + seconds(s*(1-math.Exp(-q.First.Seconds()/s)))
}

// Quantile returns the p-quantile of the response time of an M/M/c queue.
func (q Queue) Quantile(p float64) time.Duration {
	mu, wait := 1/q.Service.Seconds(), q.ErlangC()
	theta := mu * float64(q.Servers) * (1 - q.Load) // rate of the exponential wait of those that wait
	over := func(t float64) float64 {
		both := math.Exp(-mu*t) * (1 + mu*t)
		if d := theta - mu; math.Abs(d) > 1e-9*mu {
			both = (theta*math.Exp(-mu*t) - mu*math.Exp(-theta*t)) / d
		}
		return (1-wait)*math.Exp(-mu*t) + wait*both
	}
	low, high := 0.0, 1/mu
	for over(high) > 1-p {
		high *= 2
	}
	for range 100 {
		if m := (low + high) / 2; over(m) > 1-p {
			low = m
		} else {
			high = m
		}
	}
	return seconds(low)
}

type times []float64

func (t times) Len() int           { return len(t) }
func (t times) Less(i, j int) bool { return t[i] < t[j] }
func (t times) Swap(i, j int)      { t[i], t[j] = t[j], t[i] }
func (t *times) Push(x any)        { *t = append(*t, x.(float64)) }
func (t *times) Pop() any {
	old := *t
	x := old[len(old)-1]
	*t = old[:len(old)-1]
	return x
}
