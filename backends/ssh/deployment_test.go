package ssh

import (
	"context"
	"errors"
	"testing"
	"time"

	"sweep.dev/sweep/internal/ending"
)

// Stop and Keep wait for another one at work until their own context ends.
func TestStop_waitsWithContext(t *testing.T) {
	enough := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(enough)
	d := &deployment{Ending: ending.New()}
	err := d.StopWith(t.Context(), func() error {
		for name, err := range map[string]error{"Keep": d.Keep(ctx, time.Now()), "Stop": d.Stop(ctx)} {
			if !errors.Is(err, enough) {
				t.Errorf("%s: %v", name, err)
			}
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}
