package wire

import (
	"net/http"
	"testing"
	"time"
)

func TestRetryAfter(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for _, c := range []struct {
		after, date string
		want        time.Duration
	}{
		{"", "", 0},
		{"0", "", 0},
		{"7", "", 7 * time.Second},
		{"3600", "", time.Hour},
		{"-1", "", 0},
		{"1.5", "", 0},
		{"99999999999999999999", "", 0},
		{"soon", "", 0},
		{"Fri, 02 Jan 2026 03:04:09 GMT", "", 4 * time.Second},
		{"Friday, 02-Jan-26 03:04:09 GMT", "", 4 * time.Second},
		{"Fri Jan  2 03:04:09 2026", "", 4 * time.Second},
		{"Fri, 02 Jan 2026 03:04:00 GMT", "", 0}, // it is past
		// The server's clock is an hour ahead, and says so.
		{"Fri, 02 Jan 2026 04:04:09 GMT", "Fri, 02 Jan 2026 04:04:07 GMT", 2 * time.Second},
	} {
		h := http.Header{}
		if c.after != "" {
			h.Set("Retry-After", c.after)
		}
		if c.date != "" {
			h.Set("Date", c.date)
		}
		if got := RetryAfter(h, now); got != c.want {
			t.Errorf("%q at %q: %v, want %v", c.after, c.date, got, c.want)
		}
	}
}
