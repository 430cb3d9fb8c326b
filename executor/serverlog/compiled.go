package serverlog

import (
	"bytes"
	"io"
	"os"
	"regexp"
	"slices"

	"sweep.dev/sweep/engine/loglines"
	"sweep.dev/sweep/internal/lines"
)

// Compiled returns the first line, since the load began, that says that the engine compiled a
// kernel; "" for none.
func (l *Logs) Compiled() string {
	if l.load == nil || len(l.profile.Logs.Compiling) == 0 {
		return ""
	}
	for _, f := range l.files() {
		if line := compiledIn(f, l.load[f.path], l.profile.Logs.Compiling); line != "" {
			return line
		}
	}
	return ""
}

func compiledIn(log file, offset int64, kinds []loglines.Noise) string {
	var all []*regexp.Regexp
	for _, k := range kinds {
		if re, err := regexp.Compile(k.Match); err == nil && (len(k.Roles) == 0 || slices.Contains(k.Roles, log.source.Role)) {
			all = append(all, re) // a profile that was read has ones that compile
		}
	}
	f, err := os.Open(log.path)
	if err != nil {
		return ""
	}
	defer f.Close()
	if _, err := f.Seek(offset, io.SeekStart); err != nil {
		return ""
	}
	in := lines.NewReader(io.LimitReader(f, most), lines.Max)
	for line, ok := in.Next(); ok; line, ok = in.Next() {
		text := bytes.TrimSpace(lines.Uncoloured(line))
		if slices.ContainsFunc(all, func(re *regexp.Regexp) bool { return re.Match(text) }) {
			return string(text)
		}
	}
	return ""
}
