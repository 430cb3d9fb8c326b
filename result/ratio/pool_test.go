package ratio

import (
	"math"
	"math/rand/v2"
	"testing"
)

// TestPool: among cells whose scatter differs as inverse chi-square has it (with prior
// degrees of freedom), or by a factor of six from a few to the others, differences that
// are none are certain as often as the tail says, and real ones are found where three
// trials alone find none.
func TestPool(t *testing.T) {
	t.Parallel()
	const cells, grids, trials = 24, 400, 3
	for _, c := range []struct {
		name string
		sd   func(r *rand.Rand, cell int) float64
		most float64 // times the tail; more where the scatter has no prior of the method's
	}{
		{"one scatter", func(*rand.Rand, int) float64 { return 0.01 }, 1},
		{"prior of 4", func(r *rand.Rand, _ int) float64 {
			chi := 0.0
			for range 4 {
				z := r.NormFloat64()
				chi += z * z
			}
			return 0.01 * math.Sqrt(4/chi)
		}, 1.4},
		{"six times as large", func(_ *rand.Rand, cell int) float64 { return []float64{0.005, 0.005, 0.005, 0.03}[cell%4] }, 1.75},
	} {
		const tail = 0.005
		r := rand.New(rand.NewPCG(1, 2))
		wrong, found, alone := 0, 0, 0
		for range grids {
			var all []*Difference
			for cell := range cells {
				s, shift := c.sd(r, cell), 0.0
				if cell == 0 {
					shift = 12 * s
				}
				side := func(shift float64) (side []Trial) {
					for n := range trials {
						side = append(side, Trial{Number: n, Value: math.Exp(shift + s*r.NormFloat64())})
					}
					return side
				}
				d, ok := Between(side(shift), side(0))
				if !ok {
					t.Fatal("three trials have a scatter")
				}
				all = append(all, &d)
			}
			if all[0].At(tail / 10).More(1) {
				alone++
			}
			Pool(all)
			if all[0].At(tail / 10).More(1) {
				found++
			}
			for _, d := range all[1:] {
				if at := d.At(tail); at.More(1) || at.Less(1) {
					wrong++
				}
			}
		}
		rate := float64(wrong) / grids / (cells - 1)
		t.Logf("%s: %.2f %% of equal cells are apart at %.1f %%; a shift of 12 sd is found in %d of %d, by its cell alone in %d", c.name, 100*rate, 200*tail, found, grids, alone)
		if rate > 2*tail*c.most || found < grids*8/10 || found < 2*alone {
			t.Errorf("%s: %.2f %% false, %d of %d found, %d alone", c.name, 100*rate, found, grids, alone)
		}
	}
}

// TestPool_few: fewer than four cells that scatter stay as they are, and so do those
// whose trials are all equal among such.
func TestPool_few(t *testing.T) {
	t.Parallel()
	all := []*Difference{{variance: 1, trials: [2]int{1}, df: 2}, {variance: 4, trials: [2]int{1}, df: 2}, {variance: 2, trials: [2]int{1}, df: 2}, {trials: [2]int{1}, df: 2}}
	want := []Difference{*all[0], *all[1], *all[2], *all[3]}
	Pool(all)
	for i := range all {
		if *all[i] != want[i] {
			t.Errorf("%d: %+v, want %+v", i, *all[i], want[i])
		}
	}
}

// TestMore holds that as many further trials as are said tell two cells apart in at least
// 7 of 10 cases, and that nothing is said of what may be noise.
func TestMore(t *testing.T) {
	t.Parallel()
	const tail, grids = 0.001, 500
	random := rand.New(rand.NewPCG(20261129, 1))
	for name, first := range map[string]int{"pairs": 0, "no pairs": 1000} { // number of the first trial of b
		said, told := 0, 0
		for range grids {
			far := math.Exp(5*random.Float64() - 1) // 0.4 to 50 standard deviations
			var a, b []Trial
			for i := range 2 + mostTrials {
				a = append(a, Trial{Number: i, Value: e(0.1 * (far + random.NormFloat64()))})
				b = append(b, Trial{Number: first + i, Value: e(0.1 * random.NormFloat64())})
			}
			tells := func(n int) bool { r := Of(a[:n], b[:n], tail); return r.More(1) || r.Less(1) }
			if n := More(a[:2], b[:2], tail); n > 0 && !tells(2) {
				said++
				if tells(2 + n) {
					told++
				}
			}
		}
		t.Logf("%s: said of %d, right in %d", name, said, told)
		if said < grids/4 || told < 7*said/10 {
			t.Errorf("%s: said of %d, right in %d", name, said, told)
		}
	}
	if n := More(single(5, 3, 8), single(1, 0.7, 1.4), 1e-6); n == 0 {
		t.Error("of one trial of each that are far apart: none")
	}
	if n := More(single(1.2, 1, 1.5), single(1, 0.7, 1.4), tail) + More(single(5, 0, 0), single(1, 0, 0), tail) + More(nil, single(1, 0.9, 1.1), tail); n != 0 {
		t.Errorf("of noise, of no interval and of nothing: %d", n)
	}
}
