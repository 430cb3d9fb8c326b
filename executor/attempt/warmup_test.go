package attempt

import (
	"slices"
	"testing"
	"time"
)

// The first trial spreads its slots over the time it was given; the trials together
// try all of 0.9 to 1.2 of it, and no two the same.
func TestSpacing(t *testing.T) {
	if got := Spacing(time.Second, 1); got != time.Second {
		t.Errorf("the first trial: %v", got)
	}
	var all []time.Duration
	for trial := range 12 {
		all = append(all, Spacing(time.Second, trial+1))
	}
	slices.Sort(all)
	if all[0] < 900*time.Millisecond || all[0] > 925*time.Millisecond || all[11] > 1200*time.Millisecond || all[11] < 1175*time.Millisecond {
		t.Errorf("12 trials: %v", all)
	}
	for i := range all[1:] {
		if gap := all[i+1] - all[i]; gap < 5*time.Millisecond || gap > 50*time.Millisecond {
			t.Errorf("trials are %v apart: %v", gap, all)
		}
	}
}
