package load

import (
	"runtime"
	"sync"
	"time"
)

// watchPeriod is how often a watch looks whether this process still runs.
const watchPeriod = 50 * time.Millisecond

// A Watch observes this process while a driver runs: the share of the CPUs it
// used and the longest time it was not run at all, because it was starved or
// stopped, or the machine was suspended. Drivers start one and merge what it saw
// into their [Health].
type Watch struct {
	start  time.Time
	cpu    time.Duration
	asleep func() (time.Duration, bool)
	slept  time.Duration // what asleep said last; -1 before
	stop   chan struct{}
	once   sync.Once
	wg     sync.WaitGroup
	gap    time.Duration
}

// StartWatch starts to observe; Stop must follow.
func StartWatch() *Watch { return startWatch(asleep) }

func startWatch(asleep func() (time.Duration, bool)) *Watch {
	w := &Watch{start: time.Now(), cpu: cpuTime(), asleep: asleep, slept: -1, stop: make(chan struct{})}
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
		h.CPU = min(1, float64(cpuTime()-w.cpu)/float64(wall)/float64(runtime.GOMAXPROCS(0)))
	}
	return h
}
