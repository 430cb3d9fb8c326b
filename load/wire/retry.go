package wire

import (
	"net/http"
	"strconv"
	"time"
)

// RetryAfter returns the wait that an answer asks for by its Retry-After, in either form
// of RFC 9110, section 10.2.3: seconds, or a date. A date is relative to the
// answer's own Date, so that a server's clock may be wrong, or to now if it has
// none. It is 0 if the header is missing, past or malformed.
func RetryAfter(h http.Header, now time.Time) time.Duration {
	v := h.Get("Retry-After")
	if v == "" {
		return 0
	}
	if s, err := strconv.ParseUint(v, 10, 31); err == nil {
		return time.Duration(s) * time.Second
	}
	at, err := http.ParseTime(v)
	if err != nil {
		return 0
	}
	if date, err := http.ParseTime(h.Get("Date")); err == nil {
		now = date
	}
	return max(0, at.Sub(now))
}
