package syntax

import "strings"

// Nearest returns the one of names that a mistyped one most likely means, or "". A
// swap of two neighbours counts as one slip, as does a wrong, missing or extra
// character; about one slip in three characters is forgiven.
func Nearest(name string, names []string) string {
	lower := strings.ToLower(name)
	best, dist := "", len(name)/3+1
	for _, n := range names {
		if n == name {
			continue
		}
		if d := Distance(lower, strings.ToLower(n)); d <= dist && d < max(len(n), 2) && (best == "" || d < dist) {
			best, dist = n, d
		}
	}
	if best != "" || len(name) < 3 {
		return best
	}
	// One that begins as the other: prometheus for prom, ttft for ttft_ms.
	for _, n := range names {
		if n != name && len(n) >= 3 && (strings.HasPrefix(n, lower) || strings.HasPrefix(lower, n)) {
			if best != "" {
				return ""
			}
			best = n
		}
	}
	return best
}

// Distance counts the slips between two names: Levenshtein's distance with
// swaps of neighbours (optimal string alignment), over bytes.
func Distance(a, b string) int {
	// Names are short; long ones are far from everything.
	if len(a) > 64 || len(b) > 64 {
		return max(len(a), len(b))
	}
	before, last := make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row := make([]int, len(b)+1)
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			row[j] = min(last[j]+1, row[j-1]+1, last[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, last = last, row
	}
	return last[len(b)]
}
