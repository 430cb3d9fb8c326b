package humanize

import (
	"testing"
	"time"
)

func TestPlural(t *testing.T) {
	t.Parallel()
	for n, want := range map[int]string{0: "0 pods", 1: "1 pod", 2: "2 pods"} {
		if got := Plural(n, "pod"); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestDuration(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration]string{
		-time.Hour: "0 s", 90 * time.Second: "90 s", 2 * time.Minute: "2 min", 119 * time.Minute: "119 min",
		2 * time.Hour: "2.0 h", 47 * time.Hour: "47.0 h", 48 * time.Hour: "2 days",
	} {
		if got := Duration(d); got != want {
			t.Errorf("%s: got %q, want %q", d, got, want)
		}
	}
}

func TestDollars(t *testing.T) {
	t.Parallel()
	for usd, want := range map[float64]string{0: "$0.00", 0.001: "<$0.01", 0.01: "$0.01", 2.345: "$2.35"} {
		if got := Dollars(usd); got != want {
			t.Errorf("%g: got %q, want %q", usd, got, want)
		}
	}
}
