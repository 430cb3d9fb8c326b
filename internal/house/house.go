package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
)

// module is the path of everything that is ours.
const module = "sweep.dev/sweep/"

// floors are the rooms of the house, the folders at the top level that have code of the
// program or of its tests, from the bottom up. A room imports rooms below it alone.
var floors = [][]string{
	{"internal", "schemas"},
	{"result"},
	{"engine"},
	{"load", "sim", "sinks"},
	{"backends"},
	{"collectors", "judge", "rundir"},
	{"plan"},
	{"executor"},
	{"report"},
	{"nightly"},
	{"cmd"},
	{"test"},
}

// apart are the rooms of which nothing is imported: pages, plans, and modules of their own.
var apart = []string{"docs", "plans", "tools"}

// floorOf returns the floor of a room, from 0 up.
func floorOf(room string) (int, bool) {
	i := slices.IndexFunc(floors, func(f []string) bool { return slices.Contains(f, room) })
	return i, i >= 0
}

// roomOf returns the room of a package of ours.
func roomOf(pkg string) string {
	room, _, _ := strings.Cut(strings.TrimPrefix(pkg, module), "/")
	return room
}

// imports counts the imports from each room to each other one.
func imports(packages []pkg) map[[2]string]int {
	out := map[[2]string]int{}
	for _, p := range packages {
		for _, i := range p.Imports {
			if from, to := roomOf(p.ImportPath), roomOf(i); strings.HasPrefix(i, module) && from != to {
				out[[2]string{from, to}]++
			}
		}
	}
	return out
}

// upward returns the imports that do not lead down.
func upward(between map[[2]string]int) [][2]string {
	var out [][2]string
	for a := range between {
		from, known := floorOf(a[0])
		to, knownToo := floorOf(a[1])
		if !known || !knownToo || to >= from {
			out = append(out, a)
		}
	}
	slices.SortFunc(out, func(a, b [2]string) int { return strings.Compare(a[0]+" "+a[1], b[0]+" "+b[1]) })
	return out
}

// inCycles returns the rooms that reach themselves.
func inCycles(between map[[2]string]int) []string {
	next := map[string][]string{}
	for a := range between {
		next[a[0]] = append(next[a[0]], a[1])
	}
	var out []string
	for _, room := range slices.Sorted(maps.Keys(next)) {
		seen := map[string]bool{}
		for ahead := slices.Clone(next[room]); len(ahead) > 0; {
			at := ahead[0]
			ahead = ahead[1:]
			if !seen[at] {
				seen[at] = true
				ahead = append(ahead, next[at]...)
			}
		}
		if seen[room] {
			out = append(out, room)
		}
	}
	return out
}

// drawHouse prints the rooms floor by floor, the lines of each in the program and in all
// else, and what it imports with the number of imports.
func drawHouse(w io.Writer, folders []string, packages []pkg, lines map[string]count) {
	between := imports(packages)
	fmt.Fprintf(w, "%d top-level folders, %d floors, %d pairs of rooms of which one imports the other, %d of them upward, %d rooms in cycles\n\n",
		len(folders), len(floors), len(between), len(upward(between)), len(inCycles(between)))
	fmt.Fprintf(w, "%-11s %8s %8s   %s\n", "room", "program", "rest", "imports")
	rooms := slices.Clone(floors)
	slices.Reverse(rooms)
	for _, room := range slices.Concat(append(rooms, apart)...) {
		var below []string
		for a, n := range between {
			if a[0] == room {
				below = append(below, fmt.Sprintf("%s %d", a[1], n))
			}
		}
		slices.Sort(below)
		fmt.Fprintf(w, "%-11s %8d %8d   %s\n", room, lines[room].program, lines[room].rest, strings.Join(below, ", "))
	}
	for _, a := range upward(between) {
		fmt.Fprintf(w, "\n%s imports %s, which is not below it", a[0], a[1])
	}
}
