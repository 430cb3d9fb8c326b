package result

import "time"

// An Anchor ties a trial's monotonic clock to the wall clock.
type Anchor struct {
	// Start carries both clocks' readings of one moment; offsets are
	// Start-relative and taken with time.Time.Sub, which is monotonic.
	Start time.Time
}

// NewAnchor reads both clocks now.
func NewAnchor() Anchor { return Anchor{Start: time.Now()} }

// Since returns the offset of now.
func (a Anchor) Since() time.Duration { return time.Since(a.Start) }

// Source says who measured a sample.
type Source string

// The sources of samples.
const (
	FromServer Source = "server" // the engine's own metrics
	FromGPU    Source = "gpu"
	FromHost   Source = "host"   // processes of the server, seen by the OS
	FromClient Source = "client" // this process, seen by the OS
)

// Names of samples from [FromHost] that the verdict on a trial rests on.
const (
	ProcessCPU       = "cpu_seconds"       // of a server's processes since the first look
	ProcessesStopped = "processes_stopped" // of a server's processes, those in state T
	MachineSteal     = "cpu_steal"         // of the machine's CPU time since the last look, 0 to 1
)

// A Sample is one value of one series at one instant, on the trial's clock.
type Sample struct {
	T       time.Duration // offset from the trial's anchor
	Source  Source
	Role    string
	Replica int
	Name    string // as the source names it
	Labels  string // canonical: k="v" pairs sorted by key, joined by commas; "" for none
	Value   float64
	Unit    string // "" if the source states none
}
