//go:build slow

package fit

import (
	"math"
	"testing"
	"time"

	"sweep.dev/sweep/sim/core"
)

// A constant that the cells hardly tell has an error that says so: on this server a step
// of 0.2 ms is lost beside 16 ms of reading.
func TestFit_untold(t *testing.T) {
	t.Parallel()
	want := core.Constants{Memory: 0.6, Compute: 0.3, Step: 200 * time.Microsecond, Start: 4 * time.Millisecond}
	got, err := Fit(cells(t, want, 0.01, 2, 96))
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%+v", got.Constants)
	if e := got.Errors["step_overhead_us"]; e != nil && math.Abs(math.Log(float64(got.Constants.Step)/float64(want.Step))) > 4**e {
		t.Errorf("a step is %v with an error of %.2f, want %v", got.Constants.Step, *e, want.Step)
	}
	if e := got.Errors["bandwidth_gb_s"]; e == nil || math.Abs(got.Constants.Memory/want.Memory-1) > 4**e {
		t.Errorf("memory is %v, want %v", got.Constants.Memory, want.Memory)
	}
}
