package failure

import (
	"slices"
	"strings"
)

const MaxLine = maxLine

// Shorten is shorten.
func Shorten(line string) string { return shorten(line) }

// Common returns the texts of all engines.
func Common() (list []Text) {
	for _, p := range common().patterns {
		list = append(list, p.Text)
	}
	return list
}

// Explains returns the text that Classify takes.
func Explains(own []Text, lines []string) (Text, bool) {
	lines = common().telling(lines)
	patterns := slices.Concat(compile(own), common().patterns)
	for _, wrappers := range []bool{false, true} {
		if _, by := search(patterns, wrappers, lines, ""); by != nil {
			return *by, true
		}
	}
	return Text{}, false
}

// Overlooked returns the common texts that match one of the lines, and are not found
// in it.
func Overlooked(lines []string) (list []Text) {
	for _, line := range common().telling(lines) {
		lower := strings.ToLower(line)
		for _, p := range common().patterns {
			if p.re.MatchString(line) != (p.find(line, lower) != nil) {
				list = append(list, p.Text)
			}
		}
	}
	return list
}
