// Package proc watches the CPU time and the memory of local processes: the
// server's tree, where the server is local, and the measuring client's own.
// Its columns are of the server alone, server_cpu_cores and server_busiest_thread_cpu,
// from the baseline to the last look: the load driver says what share of its CPUs the
// client used.
//
// Per look and side: cpu_seconds since the first look, cpu_cores (the mean
// number of CPUs in use since the last look), memory_rss_bytes (resident,
// summed over processes, so that pages they share count for each) and
// processes. Four times a second it looks whether a process of the server is
// stopped, and gives processes_stopped if so; cpu_steal is the share of the
// server's machine's CPU time that its hypervisor gave to others since the last
// look.
// Everywhere but on Linux it sees nothing.
package proc

import (
	"context"
	"fmt"
	"time"

	"sweep.dev/sweep/backends/host"
	"sweep.dev/sweep/collectors"
	"sweep.dev/sweep/internal/procfs"
	"sweep.dev/sweep/result"
	"sweep.dev/sweep/result/col"
	"sweep.dev/sweep/result/finding"
)

// Config is the collector's part of a plan.
type Config struct {
	// Interval between two looks, 100ms to 1m. The kernel counts in
	// hundredths of a second, so short intervals make cpu_cores coarse.
	Interval time.Duration `yaml:"interval,omitempty" doc:"Time between two samples, 100ms to 1m. The kernel counts CPU time in hundredths of a second." default:"1s" unit:"s" example:"500ms"`
}

// Default is the configuration that a plan's keys are decoded over.
var Default = Config{Interval: time.Second}

// glanceEvery is how often the collector looks for stopped processes.
const glanceEvery = 250 * time.Millisecond

// Factory makes the collector from its part of the plan.
func Factory() collectors.Factory {
	return collectors.Factory{
		Kind:   "proc",
		Doc:    "CPU and memory of the server's and of our own processes",
		Config: Config{},
		New:    collectors.Configured(Default, New),
	}
}

// A Collector watches one server and one client a session.
type Collector struct{ config Config }

var _ collectors.Collector = (*Collector)(nil)

// New checks a configuration.
func New(c Config) (*Collector, error) {
	if c.Interval < 100*time.Millisecond || c.Interval > time.Minute {
		return nil, fmt.Errorf("proc: interval %v: want 100ms to 1m", c.Interval)
	}
	return &Collector{c}, nil
}

// A side is one server's or the client's processes.
type side struct {
	source  result.Source
	role    string // of the server; "" for the client
	replica int
	pids    func() []int
	tree    tree
	lastAt  time.Duration
	firstAt time.Duration
	threads threads // of a server, at the first look
}

// Start takes the first look.
func (c *Collector) Start(ctx context.Context, t collectors.Trial, sink collectors.Sink) (collectors.Session, error) {
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	s := &session{trial: t, sink: sink, done: make(chan struct{})}
	for _, target := range t.Targets {
		if p, ok := target.Host.(host.Processor); ok {
			s.sides = append(s.sides, &side{source: result.FromHost, role: target.Role, replica: target.Replica, pids: p.PIDs})
		}
	}
	if len(t.Clients) > 0 {
		s.sides = append(s.sides, &side{source: result.FromClient, pids: func() []int { return t.Clients }})
	}
	if len(s.sides) == 0 {
		return nothing{}, nil
	}
	if s.look() == 0 {
		sink.Note(result.Finding{Code: finding.ProcessMetricsMissing, Text: "the kernel shows neither the server's nor our own processes"})
	}
	for _, side := range s.sides {
		if side.firstAt = side.lastAt; side.source == result.FromHost {
			side.threads = readThreads(side.pids())
		}
	}
	ctx, s.cancel = context.WithCancel(ctx)
	go s.loop(ctx, c.config.Interval)
	return s, nil
}

// nothing is the session if there is no process to be seen.
type nothing struct{}

func (nothing) Finish(context.Context) (result.Row, error) { return unseen(), nil }

// A session is owned by one goroutine at a time: Start, then loop, then,
// behind done, Finish.
type session struct {
	trial  collectors.Trial
	sink   collectors.Sink
	sides  []*side        // the servers' first
	cpu    procfs.CPUTime // of the machine, at the last look
	cancel context.CancelFunc
	done   chan struct{}
}

func (s *session) loop(ctx context.Context, interval time.Duration) {
	defer close(s.done)
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	glance := time.NewTicker(glanceEvery)
	defer glance.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			s.look()
		case <-glance.C:
			s.glance()
		}
	}
}

// glance looks whether a server is stopped.
func (s *session) glance() {
	for _, side := range s.sides {
		if side.source != result.FromHost {
			continue
		}
		at := s.trial.Anchor.Since()
		if n := side.tree.stopped(readStat); n > 0 {
			s.sample(side, at, result.ProcessesStopped, float64(n), "")
		}
	}
}

// steal samples the share of this machine's CPU time that its hypervisor gave to
// others since the last look. A server that runs elsewhere has another machine.
func (s *session) steal() {
	now, ok := procfs.ReadCPUTime()
	if !ok || s.sides[0].source != result.FromHost {
		return
	}
	share, known := now.StolenSince(s.cpu)
	if known && s.cpu.All > 0 {
		s.sink.Sample(result.Sample{T: s.trial.Anchor.Since(), Source: result.FromHost, Name: result.MachineSteal, Value: share, Unit: "ratio"})
	}
	s.cpu = now
}

// look returns how many processes it saw.
func (s *session) look() (seen int) {
	for _, side := range s.sides {
		at := s.trial.Anchor.Since()
		first, before := side.tree.looks == 0, side.tree.total
		n, memory := side.tree.observe(side.pids(), readStat)
		seen += n
		if n > 0 {
			s.sample(side, at, "processes", float64(n), "")
			s.sample(side, at, "memory_rss_bytes", float64(memory), "bytes")
			s.sample(side, at, result.ProcessCPU, side.tree.total.Seconds(), "s")
			if past := at - side.lastAt; !first && past > 0 {
				s.sample(side, at, "cpu_cores", (side.tree.total-before).Seconds()/past.Seconds(), "cores")
			}
		}
		side.lastAt = at
	}
	s.steal()
	return seen
}

func (s *session) sample(of *side, at time.Duration, name string, v float64, unit string) {
	s.sink.Sample(result.Sample{T: at, Source: of.source, Role: of.role, Replica: of.replica, Name: name, Value: v, Unit: unit})
}

// Finish takes the last look.
func (s *session) Finish(context.Context) (result.Row, error) {
	s.cancel()
	<-s.done
	s.look()
	return s.row(), nil
}

// unseen returns the row if no server is to be seen.
func unseen() result.Row {
	return result.Row{col.ServerCPUCores: nil, col.ServerBusiestThreadCPU: nil}
}

// row has the servers' columns.
func (s *session) row() result.Row {
	cores, busiest, seen := 0.0, 0.0, false
	for _, side := range s.sides {
		past := (side.lastAt - side.firstAt).Seconds()
		if side.source != result.FromHost || past <= 0 || len(side.threads) == 0 {
			continue
		}
		seen = true
		cores += side.tree.total.Seconds() / past
		busiest = max(busiest, readThreads(side.pids()).busiest(side.threads).Seconds()/past)
	}
	if !seen {
		return unseen()
	}
	// The kernel counts in hundredths of a second, so a busy thread may seem to exceed one CPU.
	return result.Row{col.ServerCPUCores: cores, col.ServerBusiestThreadCPU: min(busiest, 1)}
}
