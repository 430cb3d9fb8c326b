package result

import (
	"strings"

	"sweep.dev/sweep/result/col"
)

// Method is the number of the way in which this program makes figures, as the
// manifest of a run and each row say it. A comparison across methods compares nothing.
const Method = 3

// FirstMethod is the earliest whose runs are read. Columns had other names before.
const FirstMethod = 2

// Methods say what was new in each method, from method 1, as the documentation does. The
// texts are Markdown without links.
func Methods() []string {
	return []string{
		"the plain figures are of the whole trial, and latencies leave its failures out",
		"the plain figures are of the plateau, and a failed request is infinitely slow",
		"loads whose prompts begin alike are warmed up until the caches are flat, the interval of a percentile counts correlated requests for fewer, further trials of a closed loop begin their slots over another time, and a load that wanders slowly is `steadiness_unknown`",
	}
}

// MethodOf returns the method that a manifest says. It is 1 if it says none: such runs are of
// method 1.
func MethodOf(said int) int { return max(1, said) }

// NewSince says what is new in this program's figures since those of an earlier method;
// "" for a method that is not earlier.
func NewSince(method int) string {
	return strings.ReplaceAll(strings.Join(Methods()[min(max(0, method), Method):], "; "), "`", "")
}

// Method returns the number of the way in which the figures of a row were made; 0 if it has
// none.
func (r Row) Method() int {
	n, _ := r[col.Method].(int64)
	return int(n)
}
