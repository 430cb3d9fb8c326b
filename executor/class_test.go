package executor

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"sweep.dev/sweep/backends"
	"sweep.dev/sweep/executor/serving"
)

// A trial that failed for what its backend has a class for has that class.
func TestClassOf(t *testing.T) {
	t.Parallel()
	for want, err := range map[string]error{
		"connect": fmt.Errorf("load pods: %w", &backends.Failure{Class: "connect", Err: errors.New("refused")}),
		"timeout": fmt.Errorf("reset: %w", serving.Limit{Name: "timeouts.trial", After: time.Second}),
		"load":    errors.New("no clock"),
	} {
		if got := classOf(err); got != want {
			t.Errorf("%v: %s, want %s", err, got, want)
		}
	}
}
