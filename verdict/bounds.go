package verdict

import "time"

// The bounds where a plan has none of its own.
const (
	// DefaultErrorRate: beyond it the completed requests are the survivors, and
	// their latencies those of another, lighter load.
	DefaultErrorRate = 0.05
	// DefaultScheduleLag is of the p99 of sent - scheduled. A latency that is
	// worth a figure is tens of milliseconds; ten late ones are in it.
	DefaultScheduleLag = 10 * time.Millisecond
	// DefaultClientCPU: a client that uses all of its CPUs queues its own work,
	// and measures the queue. At 85 % queues begin to show in the p99.
	DefaultClientCPU = 0.85
	// DefaultLoop is of one event loop. A single loop is one server of a queue:
	// at 70 % its mean wait is 2.3 times its own work (M/M/1), beyond that it
	// grows without bound.
	DefaultLoop = 0.70
	// DefaultStall: a process that stood still for a second has missed a second
	// of the schedule.
	DefaultStall = time.Second
	// DefaultCoalesced is of the chunks with a token. Those that share a read
	// share a time, so a gap of zero takes the place of a true one: at 1 % they
	// reach the p99.
	DefaultCoalesced = 0.01
	// DefaultSteal is of the machine's CPU time, by its hypervisor: time in which
	// neither client nor server ran although they wanted to. 2 % reach the p99.
	DefaultSteal = 0.02
	// DefaultDrift is of the change over the plateau: twice of what repeats of a
	// steady cell commonly differ by.
	DefaultDrift = 0.20
	// DefaultOutputOff is of the completed requests, where the output length is
	// exact: beyond 1 % throughput and E2E are of another load.
	DefaultOutputOff = 0.01
	// DefaultCacheHitExcess is of the prompt tokens that a prefix cache knew
	// beyond what the plan shares: so much of the prefill was not measured.
	DefaultCacheHitExcess = 0.05
	// DefaultThrottled is of the time in which heat or a hardware limit held a
	// GPU's clocks down.
	DefaultThrottled = 0.10
)

// Bounds are what a valid measurement keeps.
type Bounds struct {
	ErrorRate   float64
	ScheduleLag time.Duration
	ClientCPU   float64
	Loop        float64
	Stall       time.Duration
	// ClientLag is of the p99 of the client's lag; 0 is the default, which
	// depends on the gaps and on who took the stamps.
	ClientLag      time.Duration
	Coalesced      float64
	Steal          float64
	Drift          float64
	OutputOff      float64
	CacheHitExcess float64
	Throttled      float64
	Foreign        *int // processes of others on the GPUs; nil is no bound
}

// Defaults are the bounds where a plan has none of its own.
func Defaults() Bounds {
	return Bounds{
		ErrorRate: DefaultErrorRate, ScheduleLag: DefaultScheduleLag, ClientCPU: DefaultClientCPU,
		Loop: DefaultLoop, Stall: DefaultStall, Coalesced: DefaultCoalesced, Steal: DefaultSteal,
		Drift: DefaultDrift, OutputOff: DefaultOutputOff, CacheHitExcess: DefaultCacheHitExcess,
		Throttled: DefaultThrottled,
	}
}
