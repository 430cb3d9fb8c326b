package fit

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"sweep.dev/sweep/result"
	"sweep.dev/sweep/result/col"
	"sweep.dev/sweep/sim/core"
	"sweep.dev/sweep/sim/fitted"
)

// The least cells: four constants want more equations than one cell has, and an error that
// is told wants more than one cell that the fit has not seen.
const (
	LeastCells = 6
	everyThird = 3
)

// The names of the constants in [fitted.Profile.Errors].
var names = []string{"bandwidth_gb_s", "tflops", "step_overhead_us", "start_overhead_us"}

// A Result is what was found.
type Result struct {
	Constants core.Constants // on the GPU of the cells' configurations
	// Errors are the standard errors as shares; nil if the cells do not tell one.
	Errors  map[string]*float64
	Rest    float64  // root of the mean square of the logarithms that are left
	Fitted  []string // labels of the cells
	LeftOut []string
	HeldOut []fitted.HeldOut
	Each    []Compared // of the cells that were left out
}

// Compared is one cell that was left out.
type Compared struct {
	Label               string
	Measured, Simulated Figures
}

// Fit fits the constants to two cells of three, and holds them against the third. The cells
// are those of one kind of server; their configurations are on one GPU.
func Fit(cells []Cell) (*Result, error) {
	if len(cells) < LeastCells {
		return nil, fmt.Errorf("%d VALID cells are too few: a fit takes %d, of different concurrencies and lengths", len(cells), LeastCells)
	}
	var seen, held []Cell
	for i, c := range cells {
		if i%everyThird == everyThird-1 {
			held = append(held, c)
		} else {
			seen = append(seen, c)
		}
	}
	measured := make([]Figures, len(seen))
	for i := range seen {
		measured[i] = Of(seen[i].Requests)
	}
	g := guess(seen, measured)
	weights := map[string]float64{col.P50TPOTMs: 5} // the mean of many tokens scatters less than a first one
	off := func(x []float64) []float64 {
		k := g.constants(x)
		var all []float64
		for i := range seen {
			for _, o := range seen[i].off(k, measured[i]) {
				all = append(all, o.log*cmp.Or(weights[o.column], 1))
			}
		}
		return all
	}
	var x, errs []float64
	sum := math.Inf(1)
	for _, share := range []float64{0.02, 0.15, 0.4, 0.7} {
		if tried, s, _ := least(off, []float64{0, 0, logit(share), 0}); s < sum {
			x, sum = tried, s
		}
	}
	// A figure that all constants leave far off says less than one that they meet.
	rest := map[string][]float64{}
	for i := range seen {
		for _, o := range seen[i].off(g.constants(x), measured[i]) {
			rest[o.column] = append(rest[o.column], o.log)
		}
	}
	for column, logs := range rest {
		weights[column] = 1 / max(leastRest, math.Sqrt(squares(logs)/float64(len(logs))))
	}
	sum = math.Inf(1)
	near := x
	for _, moved := range []float64{0, -1, 1} { // along the valley
		from := slices.Clone(near)
		from[2] += moved
		if tried, s, e := least(off, from); s < sum {
			x, sum, errs = tried, s, e
		}
	}
	r := &Result{Constants: g.constants(x), Errors: map[string]*float64{}}
	n, left := 0, 0.0
	for i := range seen {
		r.Fitted = append(r.Fitted, seen[i].Label)
		for _, o := range seen[i].off(r.Constants, measured[i]) {
			n, left = n+1, left+o.log*o.log
		}
	}
	r.Rest = math.Sqrt(left / float64(max(1, n)))
	// The share of the step is in both, so that its error is too.
	share := 1 / (1 + math.Exp(-x[2]))
	errs = []float64{math.Hypot(errs[0], share*errs[2]), errs[1], math.Hypot(errs[0], (1-share)*errs[2]), errs[3]}
	for i, name := range names {
		if r.Errors[name] = nil; errs[i] < untold {
			r.Errors[name] = &errs[i]
		}
	}
	r.hold(held)
	return r, nil
}

// untold is the standard error from which on the cells do not tell a constant.
const untold = 0.5

// hold holds the constants against cells that the fit has not seen.
func (r *Result) hold(cells []Cell) {
	for i := range cells {
		r.LeftOut = append(r.LeftOut, cells[i].Label)
		r.Each = append(r.Each, Compared{cells[i].Label, Of(cells[i].Requests), Of(cells[i].Replay(r.Constants))})
	}
	for _, f := range figures() {
		var off, abs []float64
		for _, c := range r.Each {
			m, s := c.Measured[f.column], c.Simulated[f.column]
			if m > 0 && s > 0 {
				off = append(off, s/m-1)
				abs = append(abs, math.Abs(s/m-1))
			}
		}
		if len(off) == 0 {
			continue
		}
		slices.Sort(abs)
		worst := slices.MaxFunc(off, func(a, b float64) int { return cmp.Compare(math.Abs(a), math.Abs(b)) })
		r.HeldOut = append(r.HeldOut, fitted.HeldOut{Column: f.column, Cells: len(off), Median: result.Quantile(abs, 0.5), Worst: worst})
	}
}

// leastRest is the least that a figure is taken to be off: 0.2 %.
const leastRest = 0.002

// A guessed is a first guess, of which points of the search are multiples.
type guessed struct {
	memory  float64 // share of the bandwidth, if reading were all of the fastest token
	compute float64 // share of the peak rate, if arithmetic were all of the fastest prompt
	token   time.Duration
	prompt  time.Duration
}

// constants returns those of a point: the logarithms of how much faster than guessed a token
// and a prompt are, the logit of the step's share of the token, and the logarithm of how
// much more than a tenth of the prompt a start takes. So the valley in which a slower
// memory and a shorter step look alike lies along one axis.
func (g guessed) constants(x []float64) core.Constants {
	share := 1 / (1 + math.Exp(-x[2]))
	bounded := func(l float64) float64 { return math.Exp(max(-20, min(20, l))) }
	return core.Constants{
		Memory: g.memory * bounded(x[0]) / (1 - share), Compute: g.compute * bounded(x[1]),
		Step:  time.Duration(float64(g.token) * share / bounded(x[0])),
		Start: time.Duration(float64(g.prompt) * bounded(x[3]) / 10),
	}
}

func logit(share float64) float64 { return math.Log(share / (1 - share)) }

// guess looks at the fastest token and the prompt with the highest rate.
func guess(cells []Cell, measured []Figures) guessed {
	g := guessed{memory: 1e-9, compute: 1e-9}
	token, prompt := math.Inf(1), math.Inf(1)
	for i := range cells {
		c := &cells[i].Config
		if ms, ok := measured[i][col.P50TPOTMs]; ok {
			token = min(token, ms)
			g.memory = max(g.memory, c.DecodeBytes(1)/(ms/1e3)/(c.GPU.Bandwidth*1e9))
		}
		if ms, ok := measured[i][col.P50TTFTMs]; ok && len(cells[i].Requests) > 0 {
			prompt = min(prompt, ms)
			ops := 2 * float64(c.Model.Parameters) * float64(cells[i].Requests[0].Prompt) / float64(max(1, c.GPUs))
			g.compute = max(g.compute, ops/(ms/1e3)/(c.GPU.TFLOPS[c.DType]*1e12))
		}
	}
	if math.IsInf(token, 1) {
		token = prompt
	}
	g.token, g.prompt = time.Duration(token*1e6), time.Duration(prompt*1e6)
	return g
}
