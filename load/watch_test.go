package load

import (
	"context"
	"os"
	"runtime"
	"testing"
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

func TestWaitUntil(t *testing.T) {
	for _, d := range []time.Duration{-time.Second, 0, 100 * time.Microsecond, time.Millisecond, 20 * time.Millisecond} {
		at := time.Now().Add(d)
		if err := WaitUntil(t.Context(), at); err != nil {
			t.Fatal(err)
		}
		if late := time.Since(at); late < 0 {
			t.Errorf("%v: %v early", d, -late)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	timer := time.AfterFunc(20*time.Millisecond, cancel)
	defer timer.Stop()
	if err := WaitUntil(ctx, time.Now().Add(time.Hour)); err == nil {
		t.Error("no error of a context that is done")
	}
}

// BenchmarkWaitUntil reports how late the timer of the open loop is.
func BenchmarkWaitUntil(b *testing.B) {
	var worst, sum time.Duration
	for b.Loop() {
		at := time.Now().Add(2 * time.Millisecond)
		_ = WaitUntil(b.Context(), at)
		late := time.Since(at)
		sum += late
		worst = max(worst, late)
	}
	b.ReportMetric(float64(sum.Microseconds())/float64(b.N), "us-late/op")
	b.ReportMetric(float64(worst.Microseconds()), "us-late-worst")
}
