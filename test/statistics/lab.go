package statistics

import (
	"runtime"
	"sync"

	"sweep.dev/sweep/test/statistics/tables"
)

// A Lab runs loads. What a case needs of truth is found once and kept.
type Lab struct {
	// Reduced is the form for tests: a fortieth of the runs, and of the cases
	// those that are quick.
	Reduced bool
	// Quick is less than that, for go test without the tag slow: the first cases of each
	// table, of the fewest runs, and a rougher truth.
	Quick bool

	mu     sync.Mutex
	truths map[batching]func() steady
}

// NewLab makes a lab that knows no truth yet.
func NewLab(reduced bool) *Lab { return &Lab{Reduced: reduced, truths: map[batching]func() steady{}} }

// must is of cases, which are constants of this package: one that cannot be is a
// mistake in its code.
func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// runs returns how many runs a case has that has n in the full form.
func (l *Lab) runs(n int) int {
	if l.Quick {
		return 20
	}
	if l.Reduced {
		return max(20, n/40)
	}
	return n
}

// enough reports whether a table has all of its cases in the quick form.
func (l *Lab) enough(t *tables.Table) bool { return l.Quick && len(t.Cases) >= 2 }

// each returns what f makes of the seeds from 1 to n, on all processors.
func each[T any](n int, f func(seed uint64) T) []T {
	out := make([]T, n)
	next := make(chan int)
	var workers sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		workers.Go(func() {
			for i := range next {
				out[i] = f(uint64(i + 1))
			}
		})
	}
	for i := range n {
		next <- i
	}
	close(next)
	workers.Wait()
	return out
}

// pick returns one value of each result, of those that have it.
func pick[T any](results []T, value func(T) (float64, bool)) []float64 {
	var out []float64
	for _, r := range results {
		if v, ok := value(r); ok {
			out = append(out, v)
		}
	}
	return out
}

// which says of each result whether it is so.
func which[T any](results []T, is func(T) bool) []bool {
	out := make([]bool, len(results))
	for i, r := range results {
		out[i] = is(r)
	}
	return out
}
