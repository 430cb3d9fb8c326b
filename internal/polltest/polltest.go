// Package polltest waits in tests for what other processes, servers and kernels do in
// their own time: it asks again until the thing is so. A fixed wait would be too short
// on a busy machine and too long on any other. It also lets tests that wait run at once.
package polltest

import (
	"context"
	"errors"
	"flag"
	"strconv"
	"testing"
	"time"
)

const (
	// Patience bounds the wait for what must happen, however busy the machine is.
	Patience = time.Minute

	// Pauses between two questions grow from the one to the other: most things come
	// at once, and those that do not shall not be slowed down by being asked.
	shortest = time.Millisecond
	longest  = 50 * time.Millisecond
)

// Until waits until done says true, and ends the test after [Patience]. What names the
// thing that was waited for.
func Until(t testing.TB, what string, done func() bool) {
	t.Helper()
	if !Within(Patience, done) {
		t.Fatalf("not within %v: %s", Patience, what)
	}
}

// Within waits until done says true, for a limit, and returns whether it did. Done is
// asked at least once, and once more at the limit.
func Within(limit time.Duration, done func() bool) bool {
	end := time.Now().Add(limit)
	for pause := shortest; ; pause = min(longest, 2*pause) {
		left := time.Until(end)
		if done() {
			return true
		}
		if left <= 0 {
			return false
		}
		time.Sleep(min(pause, left))
	}
}

// ErrEnough is the cause of the end of a context of [Longer].
var ErrEnough = errors.New("enough")

// Longer calls done with a context that ends after limit and, while done says false, again
// with one that lasts three times as long, up to [Patience]. It returns what done said last.
// It is for what happens before its context ends: how much time that needs is up to the
// machine.
func Longer(ctx context.Context, limit time.Duration, done func(context.Context) bool) bool {
	within, cancel := context.WithTimeoutCause(ctx, limit, ErrEnough)
	ok := done(within)
	cancel()
	if ok || limit > Patience/3 {
		return ok
	}
	return Longer(ctx, 3*limit, done)
}

// Main runs the tests of a package that has nothing else to begin with, n at once; see
// [Parallel].
func Main(m *testing.M, n int) {
	Parallel(n)
	m.Run() // the caller's process ends with what it returned
}

// Parallel lets n parallel tests of this binary run at once instead of one for each
// processor, because they wait more than they compute. It is for TestMain, and changes
// nothing after an earlier call or if the command line has -parallel.
func Parallel(n int) {
	if f := flag.Lookup("test.parallel"); f.Value.String() == f.DefValue {
		_ = flag.Set(f.Name, strconv.Itoa(n)) // a number is always accepted
	}
}
