package serverlog

import (
	"io"
	"os"
	"regexp"
	"strconv"

	"sweep.dev/sweep/internal/lines"
)

// Reported returns what the engines claim of their output since the mark, in tokens per
// second: of each replica the mean of what it said while it was at work, all of
// them together. It is not ok where they say nothing.
func (l *Logs) Reported() (claimed float64, ok bool) {
	for _, role := range l.server.Roles {
		metrics := l.profile.MetricsOf(role.Name)
		if metrics.Reported == "" || !l.profile.Role(role.Name).Computes() {
			continue
		}
		re, err := regexp.Compile(metrics.Reported)
		if err != nil {
			continue // a profile that was read has one that compiles
		}
		for replica := range role.Replicas {
			path := role.LogPath(replica)
			if mean, said := claimedIn(path, l.from[path], re); said {
				claimed, ok = claimed+mean, true
			}
		}
	}
	return claimed, ok
}

// claimedIn returns the mean of the figures above zero in a log, from an offset on
// and over 16 MiB at most. The first of them is left out: an engine speaks of
// the seconds before, and those begin before the load.
func claimedIn(path string, offset int64, re *regexp.Regexp) (float64, bool) {
	f, err := os.Open(path)
	if err != nil {
		return 0, false
	}
	defer f.Close()
	if _, err := f.Seek(offset, io.SeekStart); err != nil {
		return 0, false
	}
	sum, first, n := 0.0, 0.0, 0
	in := lines.NewReader(io.LimitReader(f, most), lines.Max)
	for line, ok := in.Next(); ok; line, ok = in.Next() {
		if found := re.FindSubmatch(lines.Uncoloured(line)); found != nil {
			if v, err := strconv.ParseFloat(string(found[1]), 64); err == nil && v > 0 {
				if n == 0 {
					first = v
				}
				sum, n = sum+v, n+1
			}
		}
	}
	if n < 2 {
		return 0, false
	}
	return (sum - first) / float64(n-1), true
}
