package main

import (
	"context"
	"os"
	"os/signal"
	"sync"
	"syscall"
)

// signalled is the cause with which a signal ends a run.
type signalled struct{ sig syscall.Signal }

func (s signalled) Error() string { return "interrupted by " + signalNames[s.sig] }

var signalNames = map[syscall.Signal]string{
	syscall.SIGINT: "SIGINT", syscall.SIGTERM: "SIGTERM", syscall.SIGHUP: "SIGHUP",
}

// signals returns two contexts: the first signal ends run, which stops the
// measuring and starts the teardown; the second ends teardown too. stop ends
// both and waits; it may be called twice. say tells people.
//
// SIGHUP counts unless it was ignored when we started (nohup).
func signals(parent context.Context, say func(format string, args ...any)) (run, teardown context.Context, stop func()) {
	ch := make(chan os.Signal, 4)
	sigs := []os.Signal{syscall.SIGINT, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) {
		sigs = append(sigs, syscall.SIGHUP)
	}
	signal.Notify(ch, sigs...)
	run, endRun := context.WithCancelCause(parent)
	teardown, endTeardown := context.WithCancelCause(context.WithoutCancel(parent))
	quit, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for n := 1; ; n++ {
			select {
			case <-quit:
				return
			case s := <-ch:
				cause := signalled{s.(syscall.Signal)}
				switch n {
				case 1:
					endRun(cause) // first: who reads what is said may be slow
					say("sweep: %v: stopping what runs; once more to stop at once", cause)
				case 2:
					endTeardown(cause)
					say("sweep: %v: stopping at once", cause)
				}
			}
		}
	}()
	return run, teardown, sync.OnceFunc(func() {
		signal.Stop(ch)
		close(quit)
		<-done
		endRun(nil)
		endTeardown(nil)
	})
}
