//go:build linux

package proc

import (
	"os"
	"os/exec"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"sweep.dev/sweep/backends/host"
	"sweep.dev/sweep/collectors"
	"sweep.dev/sweep/collectors/collectortest"
	"sweep.dev/sweep/internal/polltest"
	"sweep.dev/sweep/internal/procfs"
	"sweep.dev/sweep/result"
	"sweep.dev/sweep/result/col"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestContract(t *testing.T) {
	collectortest.Run(t, collectortest.Suite{
		New: func() collectors.Collector {
			c, err := New(Config{Interval: 100 * time.Millisecond})
			if err != nil {
				t.Fatal(err)
			}
			return c
		},
		PIDs: func() []int { return []int{os.Getpid()} },
	})
}

func TestParseStat(t *testing.T) {
	line := "4242 (a) b (c)) S 1 4242 4242 0 -1 4194304 100 0 0 0 250 50 0 0 20 0 9 0 77777 1000000 300 18446744073709551615"
	got, err := parseStat([]byte(line))
	if err != nil {
		t.Fatal(err)
	}
	want := stat{state: 'S', start: 77777, cpu: 3 * time.Second, memory: 300 * uint64(os.Getpagesize())}
	if got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	for _, bad := range []string{"", "1 (x", "1 (x) S 1 2", "1 (x) S 1 1 1 0 -1 1 1 0 0 0 a b 0 0 20 0 9 0 7 1 3"} {
		if s, err := parseStat([]byte(bad)); err == nil {
			t.Errorf("%q: %+v", bad, s)
		}
	}
}

// Processes come and go, and pids are used again.
func TestTree(t *testing.T) {
	table := map[int]stat{1: {start: 10, cpu: 100, memory: 5}}
	read := func(pid int) (stat, bool) { s, ok := table[pid]; return s, ok }
	var tr tree
	steps := []struct {
		why    string
		change func()
		pids   []int
		total  time.Duration
		n      int
		memory uint64
	}{
		{"what was before does not count", func() {}, []int{1}, 0, 1, 5},
		{"work", func() { table[1] = stat{'S', 10, 130, 6} }, []int{1}, 30, 1, 6},
		{"a child counts from its start", func() { table[2] = stat{'S', 20, 7, 4} }, []int{1, 2}, 37, 2, 10},
		{"its end takes nothing away", func() { delete(table, 2) }, []int{1, 2}, 37, 1, 6},
		{"another process of the same pid", func() { table[1] = stat{'S', 30, 5, 1} }, []int{1}, 42, 1, 1},
		{"a pid that is named twice", func() { table[1] = stat{'S', 30, 6, 1} }, []int{1, 1}, 43, 1, 1},
		{"nobody left", func() { delete(table, 1) }, nil, 43, 0, 0},
	}
	for _, s := range steps {
		s.change()
		n, memory := tr.observe(s.pids, read)
		if tr.total != s.total || n != s.n || memory != s.memory {
			t.Errorf("%s: total %d, %d processes, %d bytes, want %d, %d, %d", s.why, tr.total, n, memory, s.total, s.n, s.memory)
		}
	}
}

// Both sides are this process, which works.
func TestSession_work(t *testing.T) {
	c, err := New(Config{Interval: 100 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	sink := new(collectortest.Sink)
	h := &collectortest.Host{Pids: func() []int { return []int{os.Getpid()} }}
	session, err := c.Start(t.Context(), collectortest.Trial(h), sink)
	if err != nil {
		t.Fatal(err)
	}
	x := 0
	for begun := time.Now(); time.Since(begun) < 350*time.Millisecond; {
		x++
	}
	row, err := session.Finish(t.Context())
	cores, busiest := row[col.ServerCPUCores].(float64), row[col.ServerBusiestThreadCPU].(float64)
	if err != nil || len(row) != 2 || cores <= 0 || busiest <= 0 || busiest > 1 {
		t.Errorf("row %v, %v", row, err)
	}
	last := map[result.Source]map[string]float64{result.FromHost: {}, result.FromClient: {}}
	for _, s := range sink.Samples() {
		last[s.Source][s.Name] = s.Value
	}
	for source, v := range last {
		if v["cpu_seconds"] <= 0 || v["memory_rss_bytes"] < 1<<20 || v["processes"] != 1 {
			t.Errorf("%s after %d rounds: %v", source, x, v)
		}
	}
}

// The busiest thread is one of several, of which some come and some go.
func TestThreads(t *testing.T) {
	before := threads{{1, 10}: 100, {2, 20}: 500, {3, 30}: 0}
	for _, c := range []struct {
		why  string
		now  threads
		want time.Duration
	}{
		{"the busiest since then", threads{{1, 10}: 160, {2, 20}: 510}, 60},
		{"a new one counts from its start", threads{{1, 10}: 110, {4, 40}: 70}, 70},
		{"another of the same number", threads{{2, 21}: 80}, 80},
		{"none left", nil, 0},
	} {
		if got := c.now.busiest(before); got != c.want {
			t.Errorf("%s: %v, want %v", c.why, got, c.want)
		}
	}
	if own := readThreads([]int{os.Getpid(), 1 << 30}); len(own) < 2 {
		t.Errorf("%d threads of this process", len(own))
	}
}

// A process that SIGSTOP has stopped is seen as such, and one that sleeps is not.
func TestSession_stopped(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), "sleep", "600")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // killed
	}()
	const glances = 4
	// stopped counts the glances of a session that saw the process stopped.
	stopped := func() (n int) {
		synctest.Test(t, func(t *testing.T) {
			c, err := New(Default)
			if err != nil {
				t.Fatal(err)
			}
			sink := new(collectortest.Sink)
			h := &collectortest.Host{Pids: func() []int { return []int{cmd.Process.Pid} }}
			s, err := c.Start(t.Context(), collectortest.Trial(h), sink)
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(glances*glanceEvery + 1)
			if _, err := s.Finish(t.Context()); err != nil {
				t.Fatal(err)
			}
			for _, s := range sink.Samples() {
				if s.Name == result.ProcessesStopped && s.Source == result.FromHost && s.Value == 1 {
					n++
				}
			}
		})
		return n
	}
	if n := stopped(); n != 0 {
		t.Errorf("%d looks saw a process stopped that sleeps", n)
	}
	if err := cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	polltest.Until(t, "it is stopped", func() bool {
		p, ok := procfs.Stat(cmd.Process.Pid)
		return ok && p.State == 'T'
	})
	if n := stopped(); n < glances {
		t.Errorf("%d of %d glances saw that it is stopped", n, glances)
	}
}

// A server elsewhere runs on another machine: nothing of this one is said of it.
func TestSession_elsewhere(t *testing.T) {
	c, err := New(Default)
	if err != nil {
		t.Fatal(err)
	}
	sink := new(collectortest.Sink)
	session, err := c.Start(t.Context(), collectortest.Trial(struct{ host.Host }{&collectortest.Host{}}), sink)
	if err != nil {
		t.Fatal(err)
	}
	begun, _ := procfs.ReadCPUTime()
	polltest.Until(t, "the kernel counts on", func() bool {
		now, ok := procfs.ReadCPUTime()
		return ok && now.All > begun.All
	})
	if _, err := session.Finish(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, s := range sink.Samples() {
		if s.Source != result.FromClient {
			t.Errorf("%+v", s)
		}
	}
}

// A server elsewhere has no processes here, and we may not be named.
func TestSession_nothingToSee(t *testing.T) {
	c, err := New(Default)
	if err != nil {
		t.Fatal(err)
	}
	sink := new(collectortest.Sink)
	session, err := c.Start(t.Context(), collectors.Trial{}, sink)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := session.Finish(t.Context()); err != nil || len(sink.Samples()) != 0 {
		t.Errorf("%v, %v", err, sink.Samples())
	}
}

func TestNew_rejects(t *testing.T) {
	for _, c := range []Config{{}, {Interval: time.Millisecond}, {Interval: time.Hour}} {
		if _, err := New(c); err == nil {
			t.Errorf("accepted %+v", c)
		}
	}
}
