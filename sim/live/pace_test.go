package live

import (
	"context"
	"runtime"
	"testing"
	"time"
)

func TestPacer_waits(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var p pacer
	for _, d := range []time.Duration{-time.Second, 0, 20 * time.Microsecond, 500 * time.Microsecond, 5 * time.Millisecond} {
		at := time.Now().Add(d)
		late := p.until(t.Context(), at)
		if since := time.Since(at); since < 0 || late < 0 || late > since {
			t.Errorf("%v: it says %v late and returns %v after its time", d, late, since)
		}
	}
}

func TestPacer_ends(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(10*time.Millisecond, cancel)
	var p pacer
	begin := time.Now()
	p.until(ctx, begin.Add(time.Hour))
	if d := time.Since(begin); d > time.Minute {
		t.Errorf("returned after %v", d)
	}
}
