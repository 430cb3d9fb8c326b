package polltest

import (
	"context"
	"errors"
	"flag"
	"testing"
	"testing/synctest"
	"time"
)

func TestWithin(t *testing.T) {
	for name, c := range map[string]struct {
		limit, after time.Duration
		want         bool
	}{
		"it is so already":     {0, 0, true},
		"it comes":             {time.Minute, 3 * time.Second, true},
		"it comes at the last": {time.Minute, time.Minute, true},
		"it comes too late":    {time.Minute, time.Minute + 1, false},
	} {
		synctest.Test(t, func(t *testing.T) {
			begun := time.Now()
			got := Within(c.limit, func() bool { return time.Since(begun) >= c.after })
			took := time.Since(begun)
			if got != c.want || took > c.limit || got && took > c.after+longest {
				t.Errorf("%s: %v after %v", name, got, took)
			}
		})
	}
}

func TestLonger(t *testing.T) {
	for name, c := range map[string]struct {
		needs time.Duration
		calls int
		want  bool
	}{
		"at once":    {0, 1, true},
		"a while":    {20 * time.Second, 4, true},
		"not at all": {time.Hour, 4, false},
	} {
		synctest.Test(t, func(t *testing.T) {
			calls := 0
			got := Longer(t.Context(), time.Second, func(ctx context.Context) bool {
				calls++
				select {
				case <-time.After(c.needs):
					return true
				case <-ctx.Done():
					return !errors.Is(context.Cause(ctx), ErrEnough)
				}
			})
			if got != c.want || calls != c.calls {
				t.Errorf("%s: %v after %d calls", name, got, calls)
			}
		})
	}
}

func TestParallel(t *testing.T) {
	f := flag.Lookup("test.parallel")
	before := f.Value.String()
	defer func() {
		if err := flag.Set(f.Name, before); err != nil {
			t.Error(err)
		}
	}()
	for _, c := range []struct{ set, want string }{{f.DefValue, "77"}, {"78", "78"}} {
		if err := flag.Set(f.Name, c.set); err != nil {
			t.Fatal(err)
		}
		Parallel(77)
		if got := f.Value.String(); got != c.want {
			t.Errorf("%s: %s parallel tests, want %s", c.set, got, c.want)
		}
	}
}
