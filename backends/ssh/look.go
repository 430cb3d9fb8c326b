package ssh

import (
	"regexp"
	"strings"

	"sweep.dev/sweep/backends"
)

// A sighting is what one look at the host has found.
type sighting struct {
	home  string // the workdir, absolute; "" if there is none
	units map[string]*found
}

// found is what the host has of a unit.
type found struct {
	folder, gone, live bool
	marks              map[string]string // nil if it has none
	process            string            // pid@start of the first; "" before it was started
	boot               string
}

var unitPattern = regexp.MustCompile(`^[a-z0-9-]+(\.[A-Za-z0-9_-]+\.[0-9]+)?$`)

// isUnit reports whether a text can be a unit's name.
func isUnit(name string) bool {
	_, ok := backends.ParseName(podOf(name))
	return ok && unitPattern.MatchString(name)
}

// parseSighting reads what sw_look and sw_show print. Lines that it does not
// know say nothing.
func parseSighting(out []byte) sighting {
	s := sighting{units: map[string]*found{}}
	unit := &found{}
	at := func(name string) *found {
		if s.units[name] == nil && isUnit(name) {
			s.units[name] = &found{}
		}
		if s.units[name] == nil {
			return &found{} // none of ours
		}
		return s.units[name]
	}
	for line := range strings.Lines(string(out)) {
		key, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		fields := strings.Fields(value)
		switch {
		case key == "home":
			s.home = value
		case key == "unit":
			unit = at(value)
			unit.folder = true
		case key == "gone":
			unit.gone = true
		case key == "mark":
			if unit.marks == nil {
				unit.marks = map[string]string{}
			}
			name, value, _ := strings.Cut(value, "=")
			unit.marks[name] = value
		case key == "process" && len(fields) == 3:
			unit.process, unit.boot = fields[0]+"@"+fields[1], fields[2]
		case key == "live" && len(fields) >= 3:
			at(fields[0]).live = true
		}
	}
	return s
}

// members returns the processes that sw_members prints, as pid@start.
func members(out []byte) []string {
	var list []string
	for line := range strings.Lines(string(out)) {
		if fields := strings.Fields(line); len(fields) == 3 {
			list = append(list, fields[0]+"@"+fields[1])
		}
	}
	return list
}
