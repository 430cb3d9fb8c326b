package humanize

import (
	"math"
	"strings"
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
	if got := Plural(3, "launch"); got != "3 launches" {
		t.Errorf("got %q", got)
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

func TestFigure(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		v    any
		want string
	}{
		{nil, "-"},
		{1234.56, "1235"},
		{99.96, "100.0"},
		{87.46, "87.5"},
		{3.14159, "3.14"},
		{0.05123, "0.0512"},
		{-12.34, "-12.3"},
		{2.0, "2"},
		{0.0, "0"},
		{1e300, "1" + strings.Repeat("0", 0)}, // only its beginning is held
		{math.Inf(1), "+Inf"},
		{math.NaN(), "NaN"},
		{int64(1 << 40), "1099511627776"},
		{true, "true"},
		{time.Unix(0, 0), "1970-01-01T00:00:00Z"},
	} {
		if got := Figure(c.v); got != c.want && !(c.v == 1e300 && strings.HasPrefix(got, c.want)) {
			t.Errorf("Figure(%v) = %q, want %q", c.v, got, c.want)
		}
	}
}

func TestPrice(t *testing.T) {
	for _, c := range []struct {
		v    any
		want string
	}{
		{nil, "-"},
		{0.0, "0.00"},
		{12.5, "12.50"},
		{0.1, "0.10"},
		{0.0359, "0.0359"},
		{0.09999, "0.1"},
		{6.88e-05, "0.0000688"},
		{0.000733, "0.000733"},
	} {
		if got := Price(c.v); got != c.want {
			t.Errorf("Price(%v) = %q, want %q", c.v, got, c.want)
		}
	}
}

func TestList(t *testing.T) {
	for want, texts := range map[string][]string{
		"": nil, "a": {"a"}, "a, b": {"a", "b"}, "a, b and 1 more": {"a", "b", "c"}, "a, b and 2 more": {"a", "b", "c", "d"},
	} {
		if got := List(texts, 2); got != want {
			t.Errorf("List(%q) = %q, want %q", texts, got, want)
		}
	}
}

func TestFloor(t *testing.T) {
	for n, want := range map[float64]int{363: 360, 9.9: 9, 12.9: 12, 0.5: 0, 1999: 1900, 10: 10, math.Inf(1): 0, -3: 0} {
		if got := Floor(n); got != want {
			t.Errorf("%v is %d, want %d", n, got, want)
		}
	}
	if got := Floor(math.NaN()); got != 0 {
		t.Errorf("NaN is %d", got)
	}
}
