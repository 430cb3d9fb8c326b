//go:build slow

package rundir_test

import (
	"fmt"
	"path/filepath"
	"testing"
)

// A real process is killed before every operation, as TestKillAtEveryOperation has it of
// a recorded one, then a resume.
func TestKillAtEveryOperation_process(t *testing.T) {
	n := countOperations(t)
	for i := 1; i <= n; i++ {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(t.TempDir(), "run")
			killed, acked := runScenario(t, fmt.Sprintf("op:kill@%d", i), dir)
			if !killed {
				t.Errorf("the run has fewer than %d operations", i)
			}
			resumed(t, dir, acked)
		})
	}
}
