// Package humanize puts counts, times and money into words for people.
package humanize

import (
	"fmt"
	"time"
)

// Plural is a count of things: "1 pod", "2 pods".
func Plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// Duration is a time in the unit that a person would choose, never negative:
// "90 s", "61 min", "3.0 h", "2 days".
func Duration(d time.Duration) string {
	switch d = max(d, 0); {
	case d < 2*time.Minute:
		return fmt.Sprintf("%.0f s", d.Seconds())
	case d < 2*time.Hour:
		return fmt.Sprintf("%.0f min", d.Minutes())
	case d < 48*time.Hour:
		return fmt.Sprintf("%.1f h", d.Hours())
	}
	return fmt.Sprintf("%.0f days", d.Hours()/24)
}

// Dollars is money in cents. Less than a cent is "<$0.01", not "$0.00".
func Dollars(usd float64) string {
	if usd > 0 && usd < 0.01 {
		return "<$0.01"
	}
	return fmt.Sprintf("$%.2f", usd)
}
