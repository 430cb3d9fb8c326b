package export

import (
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"

	"sweep.dev/sweep/result"
)

// Gaps that are counted have the figures of the same gaps one by one, to the last bit.
func TestGaps(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	for _, n := range []int{1, 2, 3, 10, 1000, 1001} {
		g, list, sum := gaps{}, make([]float64, n), 0.0
		for i := range list {
			us := r.Int32N(700)
			g[us]++
			list[i] = float64(us) / 1e3
		}
		slices.Sort(list)
		if got := slices.Collect(g.all()); !slices.Equal(got, list) {
			t.Fatalf("%d gaps: got %v", n, got)
		}
		for _, p := range []float64{0, 0.5, 0.9, 0.999, 1} {
			if got, want := quantile(g.all(), n, p), result.Quantile(list, p); got != want {
				t.Errorf("%d gaps: quantile %g is %v, want %v", n, p, got, want)
			}
		}
		for _, v := range list {
			sum += v
		}
		if count, mean, std := moments(g.all()); count != n || mean != sum/float64(n) || math.IsNaN(std) {
			t.Errorf("%d gaps: %d, mean %v, want %v; deviation %v", n, count, mean, sum/float64(n), std)
		}
	}
}

// The memory of an export does not grow with the requests and chunks of a trial: all of them
// would be 20 MB here.
func TestWhole_memory(t *testing.T) {
	m := plain()
	chunks := make([]int32, 100)
	for i := range chunks {
		chunks[i] = int32(10_000 + i)
	}
	for n := range 20_000 {
		r := answer(n, 0)
		r.ChunkUS = chunks
		m.requests = append(m.requests, r)
	}
	run := open(t, m)
	m.requests = nil
	e := &export{run: run, left: map[string]int{}}
	for trial := range e.trials() {
		before, most := live(), int64(0)
		w, err := wholeOf(func(yield func(*result.Request, error) bool) {
			n := 0
			for r, err := range e.requests(trial) {
				if n++; n%10_000 == 0 {
					most = max(most, live())
				}
				if !yield(r, err) {
					return
				}
			}
		})
		if err != nil || w.completed != 20_002 {
			t.Fatalf("%+v, %v", w, err)
		}
		if most > before+8<<20 {
			t.Errorf("%d kB are in use", (most-before)>>10)
		}
	}
}

// live returns how many bytes of the heap are in use.
func live() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC() // what pools hold
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
