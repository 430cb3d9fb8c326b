package executor

import (
	"bufio"
	"errors"
	"io"
	"os"
	"regexp"
	"strconv"

	"sweep.dev/sweep/engine"
)

// reported is what the engines' logs claim of the output during this attempt,
// in tokens per second: of each replica the mean of what it said while it was at
// work, all of them together. It is not ok where they say nothing.
func (m *measurement) reported() (claimed float64, ok bool) {
	for _, role := range m.d.server.Roles {
		metrics := m.d.profile.MetricsOf(role.Name)
		if metrics.Reported == "" || !m.d.profile.Role(role.Name).Computes() {
			continue
		}
		re, err := regexp.Compile(metrics.Reported)
		if err != nil {
			continue // a profile that was read has one that compiles
		}
		for replica := range role.Replicas {
			path := role.LogPath(replica)
			if mean, said := claimedIn(path, m.logStart[path], re); said {
				claimed, ok = claimed+mean, true
			}
		}
	}
	return claimed, ok
}

// claimedIn is the mean of the figures above zero in a log, from an offset on
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
	lines := bufio.NewReaderSize(io.LimitReader(f, engineLogMax), 64<<10)
	for {
		line, err := lines.ReadSlice('\n')
		if found := re.FindSubmatch(engine.Uncoloured(line)); found != nil {
			if v, err := strconv.ParseFloat(string(found[1]), 64); err == nil && v > 0 {
				if n == 0 {
					first = v
				}
				sum, n = sum+v, n+1
			}
		}
		if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
			break
		}
	}
	if n < 2 {
		return 0, false
	}
	return (sum - first) / float64(n-1), true
}
