package calibrate

import (
	"fmt"
	"math"
	"math/bits"
	"time"

	"sweep.dev/sweep/result"
)

// A Shape is the load that a client is calibrated for.
type Shape struct {
	Streams int     `json:"streams"`
	Rate    float64 `json:"chunks_per_s_per_stream"`
	Client  string  `json:"client"` // which driver is asked for: auto, std or fast
}

// Bounds of a shape: a calibration of any plan is over in seconds and needs little
// memory. A stream that is slower than the least rate
// would bring too few chunks in that time.
const (
	MaxStreams    = 4096
	maxStreamsStd = 1024 // net/http needs 40 to 85 KB for each
	minRate       = 10
	maxRate       = 2000
)

// Bounded returns the shape nearest to s that is calibrated: streams are a power of
// two, so that plans which differ little share a calibration.
func (s Shape) Bounded() Shape {
	most := MaxStreams
	if s.Client == "std" {
		most = maxStreamsStd
	}
	s.Streams = min(most, 1<<bits.Len(uint(max(1, s.Streams)-1)))
	// Two digits, for the same reason.
	s.Rate = min(maxRate, max(minRate, s.Rate))
	digit := math.Pow(10, math.Floor(math.Log10(s.Rate))-1)
	s.Rate = math.Round(s.Rate/digit) * digit
	return s
}

// A Machine is what a calibration is true of.
type Machine struct {
	Host   string `json:"host"`
	CPU    string `json:"cpu"` // model
	CPUs   int    `json:"cpus"`
	Kernel string `json:"kernel"`
	Sweep  string `json:"sweep"` // version
}

// A Result is what a client was found to add to what it measures. It stands in
// JSON with its durations in nanoseconds.
type Result struct {
	Machine
	Shape

	At   time.Time     `json:"at"`
	Took time.Duration `json:"took_ns"`
	// Stall is the longest time that this process did not run meanwhile: what
	// all figures are worse by on a machine that was not quiet.
	Stall time.Duration `json:"stall_ns"`
	// Announced reports whether a run has warned of the disturbance. It is warned of once.
	Announced bool `json:"told,omitempty"`

	// Driver is the client that was measured, std or fast, and Stamp how it
	// takes receive times: result.StampKernel, result.StampUser, or "mixed".
	Driver string `json:"driver"`
	Stamp  string `json:"stamp"`
	// ClientCPUs and ServerCPUs are how many CPUs each had to itself; if there
	// is only one, or they could not be kept apart, ServerCPUs is 0 and the
	// server's work is in all figures.
	ClientCPUs int `json:"client_cpus"`
	ServerCPUs int `json:"server_cpus"`

	Random Pattern `json:"random"` // streams at phases of their own
	Bursts Pattern `json:"bursts"` // all streams in step, as an engine sends them
	// Ceiling is what the client can take in at this many streams.
	Ceiling Ceiling `json:"ceiling"`
	// Timer is how late requests of an open loop of 1,000 a second were sent.
	Timer Spread `json:"timer"`
}

// A Pattern is what was seen of one way for streams to lie in time.
type Pattern struct {
	Chunks int     `json:"chunks"`       // received
	Rate   float64 `json:"chunks_per_s"` // of them, in the steady part
	// Error is the recorded receive time less the send time in the chunk: what
	// the client adds, and the loopback's some microseconds.
	Error Spread `json:"error"`
	// Lag is how long after the kernel's stamp a read returned: what a client
	// without kernel stamps would add to that. Empty if there are none.
	Lag Spread `json:"lag"`
	// CPU is the time of this process for each chunk, in the steady part.
	CPU       time.Duration `json:"cpu_per_chunk_ns"`
	Loop      float64       `json:"loop"`      // busiest event loop's share of the time; 0 if there is none
	Coalesced float64       `json:"coalesced"` // share of the chunks
	Failed    int           `json:"failed"`    // streams
}

// A Spread is what a number of durations are like.
type Spread struct {
	N    int           `json:"n"`
	P50  time.Duration `json:"p50_ns"`
	P99  time.Duration `json:"p99_ns"`
	P999 time.Duration `json:"p999_ns"`
}

// A Ceiling is the most chunks per second that were taken in with at most 1 %
// of them coalesced and CPU to spare.
type Ceiling struct {
	Chunks float64 `json:"chunks_per_s"`
	// By is the limit that was met: "coalesced", "cpu", "disturbed" if chunks
	// were coalesced although the client had CPU to spare, so that the machine or
	// the null server was the limit, or "offered" if none was met: then it is at
	// least so many.
	By string `json:"by"`
}

// The reasons of a ceiling.
const (
	ByCoalesced = "coalesced"
	ByCPU       = "cpu"
	ByDisturbed = "disturbed"
	ByOffered   = "offered"
)

// quiet is a stall that takes part in no percentile up to p99 of a calibration.
const quiet = 10 * time.Millisecond

// Disturbance says why the figures are of a machine that did other things
// meanwhile, or "" if it was quiet. No trial is judged by a disturbed
// calibration, and it is soon made again.
func (r *Result) Disturbance() string {
	switch {
	case r.Stall > quiet:
		return fmt.Sprintf("the client did not run for %s (bound %s)", r.Stall.Round(time.Millisecond), quiet)
	case r.Ceiling.By == ByDisturbed:
		return fmt.Sprintf("chunks shared a read while the client used less than %g of a CPU", busyCPU)
	}
	return ""
}

// Limit returns the ceiling in chunks per second, 0 if the client's own was not met.
func (r *Result) Limit() float64 {
	if r.Ceiling.By == ByOffered {
		return 0
	}
	return r.Ceiling.Chunks
}

// SafeShare is the share of the ceiling up to which the added error stays what
// it is: up to 70 % of a core it does not change, above that queues grow.
const SafeShare = 0.7

// Safe returns how many chunks a second the client is known to carry. A disturbance only makes
// it less.
func (r *Result) Safe() float64 { return SafeShare * r.Ceiling.Chunks }

// Stands says what a disturbed calibration has found all the same, and for which loads: other
// work makes its figures worse and never better. It is "" for one that was not disturbed.
func (r *Result) Stands() string {
	why := r.Disturbance()
	if why == "" {
		return ""
	}
	return fmt.Sprintf("The machine did other things meanwhile: %s. These figures are bounds that it keeps while it is as busy. Loads of up to %s chunks/s at %d streams are safe; its receive times are off by %s at most (p99), so a TTFT of over %s is right to 5 %%; an open loop of 1,000/s sends %s late at most (p99).",
		why, thousands(r.Safe()), r.Streams, micros(r.Error()), micros(20*r.Error()), micros(r.Timer.P99))
}

// Error returns the p99 of the error that the client adds, of the worse pattern.
func (r *Result) Error() time.Duration { return max(r.Random.Error.P99, r.Bursts.Error.P99) }

// Warning returns a warning before a load of so many chunks a second; "" if the
// calibration found that the client carries it.
func (r *Result) Warning(chunks float64) string {
	if why := r.Disturbance(); why != "" {
		if chunks <= r.Safe() {
			return "" // as it could, disturbed as it was
		}
		return fmt.Sprintf("the plan may ask this client for %s chunks/s, and a calibration on a busy machine (%s) only knows that %s are safe at %d streams: on a quiet one sweep doctor calibrate --fresh would tell",
			thousands(chunks), why, thousands(r.Safe()), r.Streams)
	}
	if limit := r.Limit(); limit <= 0 || chunks <= SafeShare*limit {
		return ""
	}
	return fmt.Sprintf("the plan may ask this client for %s chunks/s, and it takes in %s at %d streams, of which %.0f %% are safe: cells that reach it are INVALID (client_ceiling); give the client more cores, or ask for less",
		thousands(chunks), thousands(r.Ceiling.Chunks), r.Streams, 100*SafeShare)
}

// Lines says in two lines what was found.
func (r *Result) Lines() []string {
	worse := r.Random
	if r.Bursts.Error.P99 > worse.Error.P99 {
		worse = r.Bursts
	}
	stamps := "times are stamped by the kernel"
	switch r.Stamp {
	case result.StampUser:
		stamps = "times are taken after each read: there are no kernel stamps here"
	case result.StampKernel:
	default:
		stamps = "some times are stamped by the kernel, others taken after the read"
	}
	first := fmt.Sprintf("Client (%s, %s): at %d streams of %s chunks/s it adds %s to a time (p50), p99 %s, p99.9 %s",
		r.Driver, stamps, r.Streams, thousands(r.Rate), micros(worse.Error.P50), micros(worse.Error.P99), micros(worse.Error.P999))
	if worse.Lag.N > 0 {
		first += fmt.Sprintf("; without kernel stamps p99 %s more", micros(worse.Lag.P99))
	}
	least := ""
	if r.Ceiling.By == ByOffered {
		least = "at least "
	}
	second := fmt.Sprintf("Calibrated %s on %s: %s CPU a chunk, ceiling %s%s chunks/s, open-loop timer p50 %s, p99 %s late",
		r.At.UTC().Format("2006-01-02 15:04"), r.Host, micros(worse.CPU), least, thousands(r.Ceiling.Chunks), micros(r.Timer.P50), micros(r.Timer.P99))
	if r.ServerCPUs == 0 {
		second += "; the null server shared its CPUs, so they are worse than they need be"
	}
	if why := r.Disturbance(); why != "" {
		second += "; disturbed: " + why + ", so they are bounds, and no trial is judged by it"
	}
	return []string{first, second}
}

func micros(d time.Duration) string {
	us := float64(d) / float64(time.Microsecond)
	switch {
	case us >= 10_000:
		return fmt.Sprintf("%.0f ms", us/1000)
	case us >= 1000:
		return fmt.Sprintf("%.1f ms", us/1000)
	case us >= 10:
		return fmt.Sprintf("%.0f us", us)
	}
	return fmt.Sprintf("%.1f us", us)
}

// thousands writes a count with three digits and commas.
func thousands(v float64) string {
	if v < 1000 {
		return fmt.Sprintf("%.3g", v)
	}
	digit := math.Pow(10, math.Floor(math.Log10(v))-2)
	n := int64(math.Round(v/digit) * digit)
	text := ""
	for ; n >= 1000; n /= 1000 {
		text = fmt.Sprintf(",%03d", n%1000) + text
	}
	return fmt.Sprint(n) + text
}
