package load

import (
	"runtime"
	"sync"
	"time"

	"sweep.dev/sweep/internal/procfs"
)

// watchPeriod is how often a watch looks whether this process still runs.
const watchPeriod = 50 * time.Millisecond

// A Watch observes this process while a driver runs: the share of the CPUs it
// used and the longest time it was not run at all, because it was starved or
// stopped, or the machine was suspended. Drivers start one and merge what it saw
// into their [Health].
type Watch struct {
	machine
	start time.Time
	used  time.Duration // CPU time at the start
	slept time.Duration // the last answer of asleep; -1 before
	stop  chan struct{}
	once  sync.Once
	wg    sync.WaitGroup
	gap   time.Duration
}

// A machine is the source of a watch's readings.
type machine struct {
	cpus    float64                      // that this process may use
	cpuTime func() time.Duration         // that this process has used
	asleep  func() (time.Duration, bool) // how long the machine was suspended
}

// StartWatch starts to observe; Stop must follow.
func StartWatch() *Watch {
	return startWatch(machine{cpus: cpus("/"), cpuTime: CPUTime, asleep: asleep})
}

// cpus returns how many CPUs this process may use: those that it may run on, or the
// limit of its cgroup. It is not GOMAXPROCS, which drivers raise while they run;
// root is where the file system begins.
func cpus(root string) float64 {
	n := float64(runtime.NumCPU())
	if limit, ok := procfs.CPULimit(root); ok {
		n = min(n, limit)
	}
	return n
}

func startWatch(m machine) *Watch {
	w := &Watch{machine: m, start: time.Now(), used: m.cpuTime(), slept: -1, stop: make(chan struct{})}
	w.sleep()
	w.wg.Go(w.tick)
	return w
}

func (w *Watch) tick() {
	t := time.NewTicker(watchPeriod)
	defer t.Stop()
	last := w.start
	for {
		select {
		case <-w.stop:
			// A process that was stopped until now has not ticked since.
			w.gap = max(w.gap, time.Since(last)-watchPeriod)
			w.sleep()
			return
		case <-t.C:
			// Not the ticker's own time: that is when the tick was due.
			now := time.Now()
			w.gap = max(w.gap, now.Sub(last)-watchPeriod)
			last = now
			w.sleep()
		}
	}
}

// sleep looks whether the machine was suspended, which no clock of Go's tells.
func (w *Watch) sleep() {
	slept, ok := w.asleep()
	if !ok {
		return
	}
	// Two readings are never of quite one moment.
	if d := slept - w.slept; w.slept >= 0 && d > 2*time.Millisecond {
		w.gap = max(w.gap, d)
	}
	w.slept = slept
}

// Stop ends the watch and returns what it saw: CPU and MaxGap are set. Further
// calls are harmless.
func (w *Watch) Stop() Health {
	w.once.Do(func() { close(w.stop) })
	w.wg.Wait()
	h := Health{MaxGap: w.gap}
	if wall := time.Since(w.start); wall > 0 {
		// The kernel counts in steps, which a run of milliseconds can pass.
		h.CPU = min(1, float64(w.cpuTime()-w.used)/float64(wall)/w.cpus)
	}
	return h
}
