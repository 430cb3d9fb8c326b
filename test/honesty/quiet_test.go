//go:build honesty

package honesty

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// disturbed is the share of the machine's CPU time that others may have, the
// hypervisor among them, of a trial whose verdict is held against sweep. It is
// what the verdict itself allows the hypervisor alone: 20 ms of each CPU in a
// second, which is one gap of a slow stream and ten of a fast one.
const disturbed = 0.02

// A watcher knows how much of the machine others used, at any time.
type watcher struct {
	mu      sync.Mutex
	samples []sample
	stop    chan struct{}
	done    chan struct{}
}

// A sample is in ticks of the kernel since the boot.
type sample struct {
	at                      time.Time
	total, busy, own, steal int64
}

// watch looks at the machine and at the processes below pid until the test ends
// or end is called.
func watch(t *testing.T, pid int) *watcher {
	t.Helper()
	w := &watcher{stop: make(chan struct{}), done: make(chan struct{})}
	w.look(pid)
	go func() {
		defer close(w.done)
		tick := time.NewTicker(100 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-w.stop:
				return
			case <-tick.C:
				w.look(pid)
			}
		}
	}()
	return w
}

func (w *watcher) end() {
	close(w.stop)
	<-w.done
}

func (w *watcher) look(pid int) {
	s := sample{at: time.Now()}
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		return
	}
	line, _, _ := bytes.Cut(text, []byte("\n"))
	// user nice system idle iowait irq softirq steal; guests are in user.
	for i, f := range strings.Fields(string(line))[1:9] {
		n, _ := strconv.ParseInt(f, 10, 64)
		s.total += n
		if i != 3 && i != 4 {
			s.busy += n
		}
		if i == 7 {
			s.steal = n
		}
	}
	s.own = used(pid) + used(os.Getpid()) - children(os.Getpid())
	w.mu.Lock()
	defer w.mu.Unlock()
	w.samples = append(w.samples, s)
}

// used returns the CPU time of a process, of its children that have ended and of
// those that run.
func used(pid int) int64 {
	f := stat(pid)
	if f == nil {
		return 0
	}
	sum := f[0] + f[1] + f[2] + f[3]
	if pid == os.Getpid() {
		return sum
	}
	kids, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid))
	tasks, _ := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
	for _, task := range tasks {
		if task.Name() == strconv.Itoa(pid) {
			continue
		}
		more, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%s/children", pid, task.Name()))
		kids = append(append(kids, ' '), more...)
	}
	for kid := range strings.FieldsSeq(string(kids)) {
		if n, err := strconv.Atoi(kid); err == nil {
			sum += used(n)
		}
	}
	return sum
}

func children(pid int) int64 {
	if f := stat(pid); f != nil {
		return f[2] + f[3]
	}
	return 0
}

// stat has utime, stime, cutime and cstime.
func stat(pid int) []int64 {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return nil
	}
	// The name stands in parentheses and may hold anything.
	f := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
	if len(f) < 15 {
		return nil
	}
	var n []int64
	for _, x := range f[11:15] {
		v, _ := strconv.ParseInt(x, 10, 64)
		n = append(n, v)
	}
	return n
}

// others returns the share of the machine's CPU time that neither idled nor was
// ours, between two times.
func (w *watcher) others(begin, end time.Time) float64 {
	share, ok := w.share(begin, end, func(s sample) int64 { return s.busy - s.own })
	if !ok {
		return 1 // not sampled
	}
	return share
}

// stolen returns the share that the hypervisor gave to others.
func (w *watcher) stolen(begin, end time.Time) float64 {
	share, _ := w.share(begin, end, func(s sample) int64 { return s.steal })
	return share
}

func (w *watcher) share(begin, end time.Time, of func(sample) int64) (_ float64, ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	var a, b sample
	for _, s := range w.samples {
		if a.at.IsZero() || !s.at.After(begin) {
			a = s
		}
		if b = s; s.at.After(end) {
			break
		}
	}
	if b.total <= a.total {
		return 0, false
	}
	return max(0, float64(of(b)-of(a))/float64(b.total-a.total)), true
}
