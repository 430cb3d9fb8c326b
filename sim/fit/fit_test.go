package fit

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"sweep.dev/sweep/engine/catalog"
	"sweep.dev/sweep/sim/core"
)

func TestLeast(t *testing.T) {
	t.Parallel()
	// A curve with two constants, and a third that nothing depends on.
	f := func(x []float64) []float64 {
		var r []float64
		for i := range 10 {
			r = append(r, math.Exp(x[0])*float64(i)+math.Exp(x[1])-(3*float64(i)+0.5))
		}
		return r
	}
	x, sum, errs := least(f, []float64{0, 0, 7})
	if math.Abs(math.Exp(x[0])-3) > 1e-3 || math.Abs(math.Exp(x[1])-0.5) > 1e-3 || sum > 1e-6 {
		t.Errorf("%v, %v left", x, sum)
	}
	if !math.IsInf(errs[2], 1) || math.IsInf(errs[0], 1) {
		t.Errorf("standard errors %v: the third is not told by anything", errs)
	}
}

func TestSolve(t *testing.T) {
	t.Parallel()
	x, ok := solve([][]float64{{0, 2}, {3, 1}}, []float64{4, 5})
	if !ok || math.Abs(x[0]-1) > 1e-12 || math.Abs(x[1]-2) > 1e-12 {
		t.Errorf("%v, %v", x, ok)
	}
	if _, ok := solve([][]float64{{1, 2}, {2, 4}}, []float64{1, 2}); ok {
		t.Error("a singular matrix has a solution")
	}
}

// server returns a machine of the tests: Qwen2.5 1.5B on an L4.
func server(t *testing.T) core.Config {
	t.Helper()
	g, _ := catalog.GPUByName("l4")
	m, _ := catalog.ModelByName("Qwen/Qwen2.5-1.5B-Instruct")
	c, err := core.Plan(core.Options{Model: m, GPU: g, MaxModelLen: 8192, MaxSeqs: 64})
	if err != nil {
		t.Fatal(err)
	}
	c.Blocks = 10_000 // more than the requests need; a cache of all of the memory takes long to make
	return *c
}

// cells returns what a server with these constants answers, whose steps differ by chance: the
// closed loops of a grid of concurrencies and lengths with so many requests a slot, and an
// open one. Answers have so many tokens, one at least, and up to a third more.
func cells(t *testing.T, k core.Constants, jitter float64, each, output int) []Cell {
	t.Helper()
	r := rand.New(rand.NewPCG(1, 2))
	var all []Cell
	for _, concurrency := range []int{1, 8, 32} {
		for _, input := range []int{64, 1000, 3000} {
			c := Cell{Label: fmt.Sprintf("c=%d in=%d", concurrency, input), Config: server(t)}
			for n := range each*concurrency + 2 {
				c.Requests = append(c.Requests, Request{
					Slot: n % concurrency, Sent: time.Duration(n) * 3 * time.Millisecond, Wait: time.Millisecond,
					Prompt: input + r.IntN(input/4), Output: max(1, output) + r.IntN(max(1, output/3)), E2E: 1,
				})
			}
			all = append(all, c)
		}
	}
	open := Cell{Label: "open", Config: server(t), Open: true}
	for n := range 60 {
		open.Requests = append(open.Requests, Request{Slot: n, Sent: time.Duration(n) * 150 * time.Millisecond, Prompt: 500, Output: max(1, 5*output/12), E2E: 1})
	}
	all = append(all, open)
	for i := range all {
		c := all[i]
		c.Requests = c.Replay(k)
		for j := range c.Requests { // steps of a real server are never alike
			q := &c.Requests[j]
			q.TTFT = time.Duration(float64(q.TTFT) * math.Exp(jitter*r.NormFloat64()))
			q.TPOT = time.Duration(float64(q.TPOT) * math.Exp(jitter/10*r.NormFloat64())) // the mean of its tokens
		}
		all[i] = c
	}
	return all
}

// A server whose constants are known, and far from those that the simulator has chosen, is
// found within 5 %, and the cells that were left out agree.
func TestFit(t *testing.T) {
	t.Parallel()
	for _, want := range []core.Constants{
		{Memory: 0.6, Compute: 0.3, Step: 5 * time.Millisecond, Start: 4 * time.Millisecond},
	} {
		got, err := Fit(cells(t, want, 0.01, 1, 96))
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%+v, standard errors %v, %.3f is left", got.Constants, got.Errors, got.Rest)
		for name, x := range map[string][2]float64{
			"memory": {got.Constants.Memory, want.Memory}, "compute": {got.Constants.Compute, want.Compute},
			"step": {float64(got.Constants.Step), float64(want.Step)}, "start": {float64(got.Constants.Start), float64(want.Start)},
		} {
			if math.Abs(x[0]/x[1]-1) > 0.05 {
				t.Errorf("%s is %v, want %v", name, x[0], x[1])
			}
		}
		for _, h := range got.HeldOut {
			t.Logf("%s: median %.3f, worst %+.3f of %d", h.Column, h.Median, h.Worst, h.Cells)
			if h.Median > 0.05 {
				t.Errorf("%s is off by %.3f on cells that were left out", h.Column, h.Median)
			}
		}
		if len(got.LeftOut) != 3 || len(got.HeldOut) != 6 {
			t.Errorf("left out %v, with %d figures", got.LeftOut, len(got.HeldOut))
		}
	}
}

// A constant that the cells hardly tell has no error: of answers of one token whose times
// scatter by 30 %, the arithmetic of prompts is known, and the few steps of each are not.
func TestFit_oneToken(t *testing.T) {
	t.Parallel()
	want := core.Constants{Memory: 0.6, Compute: 0.3, Step: 5 * time.Millisecond, Start: 4 * time.Millisecond}
	got, err := Fit(cells(t, want, 0.3, 0, 0))
	if err != nil {
		t.Fatal(err)
	}
	if e := got.Errors["tflops"]; e == nil || math.Abs(math.Log(got.Constants.Compute/want.Compute)) > 4**e {
		t.Errorf("arithmetic is %v, want %v", got.Constants.Compute, want.Compute)
	}
	for _, name := range []string{"step_overhead_us", "bandwidth_gb_s"} {
		if e := got.Errors[name]; e != nil {
			t.Errorf("%s has the error %v", name, *e)
		}
	}
}

func TestFit_few(t *testing.T) {
	t.Parallel()
	_, err := Fit(cells(t, core.Chosen(), 0, 1, 0)[:5])
	if err == nil || !strings.Contains(err.Error(), "5 VALID cells are too few: a fit takes 6") {
		t.Error(err)
	}
}
