// Package humanize puts counts, times and money into words for people.
package humanize

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// Plural returns a count of things: "1 pod", "2 pods", "2 launches".
func Plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	for _, end := range []string{"ch", "sh", "s", "x"} {
		if strings.HasSuffix(what, end) {
			return fmt.Sprintf("%d %ses", n, what)
		}
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// List returns the first of some texts, most of them at most, and how many more there are:
// "a, b and 3 more".
func List(texts []string, most int) string {
	if more := len(texts) - most; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(texts[:most], ", "), more)
	}
	return strings.Join(texts, ", ")
}

// Duration returns a time in the unit that a person would choose, never negative:
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

// Dollars returns money in cents. Less than a cent is "<$0.01", not "$0.00".
func Dollars(usd float64) string {
	if usd > 0 && usd < 0.01 {
		return "<$0.01"
	}
	return fmt.Sprintf("$%.2f", usd)
}

// Floor returns a number rounded down to two digits, and below ten to a whole one; 0 for what is
// no positive number.
func Floor(n float64) int {
	if !(n >= 1) || n > math.MaxInt32 {
		return 0
	}
	digit := math.Pow(10, max(0, math.Floor(math.Log10(n))-1))
	return int(math.Floor(n/digit+1e-9) * digit)
}

// Figure returns a value for people: a number with three or more significant
// digits and no noise, "-" for what was not measured.
func Figure(v any) string {
	switch v := v.(type) {
	case nil:
		return "-"
	case time.Time:
		return v.UTC().Format(time.RFC3339)
	case float64:
		switch size := math.Abs(v); {
		case size >= 100 || v == math.Trunc(v):
			return strconv.FormatFloat(v, 'f', 0, 64)
		case size >= 10:
			return strconv.FormatFloat(v, 'f', 1, 64)
		case size >= 1:
			return strconv.FormatFloat(v, 'f', 2, 64)
		default:
			return strconv.FormatFloat(v, 'g', 3, 64)
		}
	default:
		return fmt.Sprint(v)
	}
}

// Price returns a number of dollars, without their sign: cents, or three digits of what is
// less than ten cents, never with an exponent.
func Price(v any) string {
	usd, ok := v.(float64)
	switch {
	case !ok:
		return Figure(v)
	case usd == 0 || usd >= 0.1:
		return fmt.Sprintf("%.2f", usd)
	}
	digits := 2 - int(math.Floor(math.Log10(math.Abs(usd))))
	return strings.TrimRight(strconv.FormatFloat(usd, 'f', digits, 64), "0")
}
