package load

import (
	"context"
	"os"
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

func TestWatch_cpu(t *testing.T) {
	w := StartWatch()
	for start := time.Now(); time.Since(start) < 200*time.Millisecond; {
	}
	h := w.Stop()
	// One of our CPUs was busy, as far as the machine let it.
	if h.CPU <= 0 || h.CPU > 1.05 {
		t.Errorf("CPU %g of %d", h.CPU, runtime.GOMAXPROCS(0))
	}
	if h.MaxGap < 0 || h.MaxGap > 5*time.Second {
		t.Errorf("gap %v", h.MaxGap)
	}
}

// A machine that was suspended measured nothing meanwhile, and its monotonic
// clock stood still.
func TestWatch_suspended(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var total atomic.Int64
		var unknown atomic.Bool
		w := startWatch(func() (time.Duration, bool) {
			return time.Hour + time.Duration(total.Load()), !unknown.Load()
		})
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
