package load

import (
	"context"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if os.Getenv(watchedEnv) != "" {
		watched()
		return
	}
	goleak.VerifyTestMain(m)
}

// The share of the CPU time is of the CPUs that this process may use, however
// many processors a driver gives the runtime.
func TestWatch_cpu(t *testing.T) {
	before := runtime.GOMAXPROCS(runtime.NumCPU() + 3)
	defer runtime.GOMAXPROCS(before)
	if w := StartWatch(); w.cpus > float64(runtime.NumCPU()) {
		t.Errorf("may use %v CPUs of %d", w.cpus, runtime.NumCPU())
		w.Stop()
	} else if h := w.Stop(); h.CPU < 0 || h.CPU > 1 {
		t.Errorf("CPU %v", h.CPU)
	}
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		w := startWatch(machine{
			cpus: 2, asleep: func() (time.Duration, bool) { return 0, false },
			cpuTime: func() time.Duration { return time.Hour + time.Since(start)*9/5 },
		})
		time.Sleep(10 * time.Second)
		if h := w.Stop(); h.CPU != 0.9 || h.MaxGap != 0 {
			t.Errorf("1.8 of 2 CPUs were used: %+v", h)
		}
	})
}

// A limit of the cgroup that is below the number of CPUs is what may be used.
func TestCPUs(t *testing.T) {
	root := t.TempDir()
	for path, text := range map[string]string{"proc/self/cgroup": "0::/", "sys/fs/cgroup/cpu.max": "50000 100000"} {
		path = filepath.Join(root, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if got := cpus(root); got != 0.5 {
		t.Errorf("%v CPUs of a limit of half of one", got)
	}
	if got := cpus(t.TempDir()); got != float64(runtime.NumCPU()) {
		t.Errorf("%v CPUs without a limit, of %d", got, runtime.NumCPU())
	}
}

// A machine that was suspended measured nothing meanwhile, and its monotonic
// clock stood still.
func TestWatch_suspended(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var total atomic.Int64
		var unknown atomic.Bool
		w := startWatch(machine{cpus: 1, cpuTime: CPUTime, asleep: func() (time.Duration, bool) {
			return time.Hour + time.Duration(total.Load()), !unknown.Load()
		}})
		time.Sleep(3 * watchPeriod)
		synctest.Wait()
		total.Store(int64(3 * time.Second))
		time.Sleep(3 * watchPeriod)
		synctest.Wait()
		total.Store(int64(9 * time.Second))
		unknown.Store(true)
		if gap := w.Stop().MaxGap; gap != 3*time.Second {
			t.Errorf("suspended for 3s, and the watch saw %v", gap)
		}
	})
	// This machine runs.
	d, ok := asleep()
	if again, _ := asleep(); ok && (again-d).Abs() > 10*time.Millisecond {
		t.Errorf("asleep for %v, and then for %v", d, again)
	}
}

func TestTimer(t *testing.T) {
	for name, timer := range map[string]*Timer{"best": NewTimer(), "runtime": {runtimeTimer{}}} {
		t.Run(name, func(t *testing.T) {
			defer timer.Close()
			for _, d := range []time.Duration{-time.Second, 0, 100 * time.Microsecond, time.Millisecond, 20 * time.Millisecond} {
				at := time.Now().Add(d)
				if err := timer.WaitUntil(t.Context(), at); err != nil {
					t.Fatal(err)
				}
				if late := time.Since(at); late < 0 {
					t.Errorf("%v: %v early", d, -late)
				}
			}
			ctx, cancel := context.WithCancel(t.Context())
			stop := time.AfterFunc(20*time.Millisecond, cancel)
			defer stop.Stop()
			if err := timer.WaitUntil(ctx, time.Now().Add(time.Hour)); err == nil {
				t.Error("no error of a context that is done")
			}
			if err := timer.WaitUntil(ctx, time.Now().Add(time.Hour)); err == nil {
				t.Error("no error of a context that was done before")
			}
			// A sleep that was cut short does not cut the next.
			at := time.Now().Add(10 * time.Millisecond)
			if err := timer.WaitUntil(t.Context(), at); err != nil || time.Now().Before(at) {
				t.Errorf("%v, early %v", err, time.Until(at))
			}
		})
	}
}

// BenchmarkTimer reports how late the timers are for gaps of 2 ms.
func BenchmarkTimer(b *testing.B) {
	for name, timer := range map[string]*Timer{"best": NewTimer(), "runtime": {runtimeTimer{}}} {
		b.Run(name, func(b *testing.B) {
			var late []time.Duration
			for b.Loop() {
				at := time.Now().Add(2 * time.Millisecond)
				_ = timer.WaitUntil(b.Context(), at)
				late = append(late, time.Since(at))
			}
			slices.Sort(late)
			b.ReportMetric(float64(late[len(late)/2].Nanoseconds())/1e3, "p50-late-us")
			b.ReportMetric(float64(late[len(late)*99/100].Nanoseconds())/1e3, "p99-late-us")
		})
		timer.Close()
	}
}
