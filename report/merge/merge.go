// Package merge makes one run directory of runs of one plan: of a grid that was split over
// several machines, or over several runs of one.
//
// It refuses runs that do not belong together: runs of different plans, methods, versions of
// sweep or environments, runs that are at work or owe pods, and a cell that two of them
// have measured. The rows keep the run that measured them; money and time are those of all
// runs together.
package merge

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"sweep.dev/sweep/internal/effect"
	"sweep.dev/sweep/internal/humanize"
	"sweep.dev/sweep/internal/layout"
	"sweep.dev/sweep/report"
	"sweep.dev/sweep/report/compare"
	"sweep.dev/sweep/result"
	"sweep.dev/sweep/result/col"
	"sweep.dev/sweep/rundir"
)

// A Refused error says why runs do not belong together, and what to do.
type Refused struct {
	Reason string
	Hint   string
}

func (e *Refused) Error() string { return e.Reason }

// A source is a run directory, read.
type source struct {
	dir      string // as it was named
	state    *rundir.State
	resolved report.Resolved
	plan     []byte // as it was given
	journal  string // its digest
	missing  int    // trials without an outcome
}

// A Set is runs that belong together.
type Set struct {
	sources []source
	parts   []rundir.Part
	cells   []report.Cell // of all runs, in the plan's order
	skipped []report.Cell
}

// Open reads run directories without changing them. The error is a [*Refused] if they do
// not belong together, and a [*rundir.LockedError] if a process is at work in one.
func Open(dirs []string) (*Set, error) {
	s := &Set{}
	for _, dir := range dirs {
		src, err := read(dir)
		if err != nil {
			return nil, err
		}
		s.sources = append(s.sources, *src)
	}
	// In the order in which they were made, whatever the order of their names.
	slices.SortStableFunc(s.sources, func(a, b source) int {
		return cmp.Or(a.state.Manifest.CreatedAt.Compare(b.state.Manifest.CreatedAt), cmp.Compare(a.state.Manifest.RunID, b.state.Manifest.RunID))
	})
	seen := map[string]string{}
	for _, src := range s.sources {
		if err := known(seen, src.dir, rundir.Merged{RunID: src.state.Manifest.RunID, Merged: src.state.Manifest.Merged}); err != nil {
			return nil, err
		}
		if err := alike(s.sources[0], src); err != nil {
			return nil, err
		}
	}
	s.unite()
	return s, s.share()
}

func read(dir string) (*source, error) {
	holder, err := rundir.LockHolder(dir)
	if err != nil {
		return nil, err
	}
	if holder != nil {
		return nil, &rundir.LockedError{Dir: dir, Holder: *holder}
	}
	src := &source{dir: dir}
	if src.state, err = rundir.Read(dir); err != nil {
		return nil, err
	}
	if src.state.Warning != "" || len(src.state.Pending) > 0 {
		return nil, &Refused{fmt.Sprintf("%s was killed and not looked after since", dir), fmt.Sprintf("sweep resume %s, then merge again", dir)}
	}
	if n := len(src.state.Owed); n > 0 {
		return nil, &Refused{fmt.Sprintf("%s owes %s: what it costs is not known yet", dir, humanize.Plural(n, "pod")), fmt.Sprintf("sweep resume %s ends them, or sweep gc does", dir)}
	}
	for _, f := range []struct {
		name string
		take func([]byte) error
	}{
		{layout.Journal, func(b []byte) error { sum := sha256.Sum256(b); src.journal = hex.EncodeToString(sum[:]); return nil }},
		{layout.Plan, func(b []byte) error { src.plan = b; return nil }},
		{layout.Resolved, func(b []byte) (err error) { src.resolved, err = report.ParseResolved(b); return err }},
	} {
		if err := rundir.ReadFile(dir, f.name, f.take); err != nil {
			return nil, err
		}
	}
	if src.state.Manifest.Searches > 0 {
		return nil, &Refused{dir + " is a run of searches, which are not merged", "run the whole plan in one directory, or compare the answers (capacity.csv)"}
	}
	src.missing = max(0, src.state.Planned()-len(src.state.Committed))
	return src, nil
}

// known refuses a run that is there twice, also as a part of a merged one: its money would
// count twice.
func known(seen map[string]string, dir string, m rundir.Merged) error {
	if first, ok := seen[m.RunID]; ok {
		return &Refused{fmt.Sprintf("%s and %s both have the run %s", first, dir, m.RunID), "leave one of them out"}
	}
	seen[m.RunID] = dir
	for _, inner := range m.Merged {
		if err := known(seen, dir, inner); err != nil {
			return err
		}
	}
	return nil
}

// alike refuses two runs whose figures must not stand in one grid.
func alike(a, b source) error {
	m, n := a.state.Manifest, b.state.Manifest
	differ := func(what, x, y, hint string) error {
		return &Refused{fmt.Sprintf("%s and %s differ in %s: %s and %s", a.dir, b.dir, what, x, y), hint}
	}
	decide := func(m rundir.Manifest) string { return cmp.Or(m.Decide, rundir.DecidePoint) }
	switch {
	case result.MethodOf(m.Method) != result.MethodOf(n.Method):
		return differ("how figures are made", fmt.Sprint("method ", result.MethodOf(m.Method)), fmt.Sprint("method ", result.MethodOf(n.Method)), "figures of two methods must not stand in one grid; measure again with one sweep")
	case m.PlanDigest != n.PlanDigest:
		return &Refused{
			fmt.Sprintf("%s and %s are runs of different plans: %s", a.dir, b.dir, differences(a.resolved.Plan, b.resolved.Plan)),
			"--only measures a part of a plan, and its runs can be merged; sweep compare and sweep report take runs of different plans",
		}
	case m.Version != n.Version:
		return differ("the version of sweep", m.Version, n.Version, "another version may measure differently; measure again with one")
	case m.Variables != n.Variables:
		return &Refused{fmt.Sprintf("an environment variable that the plan reads (${NAME}) had another value for %s than for %s", a.dir, b.dir), "measure again with the same value"}
	case decide(m) != decide(n):
		return differ("how objectives are decided", decide(m), decide(n), "measure again with one --decide")
	}
	return nil
}

// mostKeys bounds the keys in which plans differ that are named.
const mostKeys = 3

func differences(a, b json.RawMessage) string {
	x, y := compare.Keys(a), compare.Keys(b)
	all := maps.Clone(x)
	maps.Copy(all, y)
	var keys []string
	for _, key := range slices.Sorted(maps.Keys(all)) {
		if x[key] != y[key] {
			keys = append(keys, fmt.Sprintf("%s %s and %s", key, cmp.Or(x[key], "nothing"), cmp.Or(y[key], "nothing")))
		}
	}
	switch {
	case len(keys) == 0:
		return "the content of a file that the plan names"
	case len(keys) > mostKeys:
		keys = append(keys[:mostKeys], fmt.Sprintf("%d keys more", len(keys)-mostKeys))
	}
	return strings.Join(keys, "; ")
}

// unite gathers the cells of all runs in the plan's order, and those that none runs.
func (s *Set) unite() {
	has := map[string]bool{}
	for _, src := range s.sources {
		for _, c := range src.resolved.Cells {
			if !has[c.ID] {
				s.cells = append(s.cells, c)
			}
			has[c.ID] = true
		}
	}
	for _, src := range s.sources {
		for _, c := range src.resolved.Skipped {
			if !has[c.ID] {
				s.skipped = append(s.skipped, c)
			}
			has[c.ID] = true
		}
	}
	for _, list := range [][]report.Cell{s.cells, s.skipped} {
		slices.SortStableFunc(list, func(a, b report.Cell) int { return a.Index - b.Index })
	}
}

// share says which run each cell is taken from, and refuses cells that two have measured.
func (s *Set) share() error {
	owner := map[string]int{} // by cell
	for _, c := range s.cells {
		first := -1
		for i, src := range s.sources {
			trials := src.of(c.ID)
			switch {
			case len(trials) == 0:
			case first < 0:
				first = i
			case !measured(s.sources[first].of(c.ID)):
				if measured(trials) {
					first = i
				}
			case measured(trials) && !slices.EqualFunc(trials, s.sources[first].of(c.ID), equal):
				a, b := s.sources[first].dir, src.dir
				return &Refused{
					fmt.Sprintf("both %s and %s have measured the cell %s (%s), with different results", a, b, c.ID, c.Label),
					fmt.Sprintf("a run directory has a cell once: leave one of the two out, and measure what is then missing with sweep run --only; sweep compare %s %s holds them against each other", a, b),
				}
			}
		}
		owner[c.ID] = first
	}
	deployments := map[string]string{} // of cells
	for _, c := range s.cells {
		deployments[c.ID] = c.Deployment
	}
	used := map[string]int{} // the highest launch of a deployment until now
	for i, src := range s.sources {
		shift := map[string]int{}
		for deployment, n := range src.state.Launches {
			shift[deployment] = used[deployment]
			used[deployment] += n
		}
		s.parts = append(s.parts, rundir.Part{
			Dir: src.dir, State: src.state, Shift: shift,
			Takes: func(k rundir.Key) bool { return owner[k.Cell] == i },
			Change: func(o *result.Outcome) bool {
				n, ok := o.Row[col.Launch].(int64)
				by := shift[deployments[o.CellID]]
				if !ok || by == 0 || o.Row[col.ReusedFrom] != nil {
					return false
				}
				o.Row[col.Launch] = n + int64(by)
				return true
			},
		})
	}
	return nil
}

// numbers returns those of the trials of a cell.
func (s source) numbers(cell string) (numbers []int) {
	for n := 1; n <= max(1, s.resolved.Repeats); n++ {
		numbers = append(numbers, n)
	}
	return append(numbers, s.state.AddedTo(cell)...)
}

// of returns the committed trials of a cell, in order.
func (s source) of(cell string) (list []rundir.Commit) {
	for _, n := range s.numbers(cell) {
		if c, ok := s.state.Committed[rundir.Key{Cell: cell, Trial: n}]; ok {
			list = append(list, c)
		}
	}
	return list
}

func measured(trials []rundir.Commit) bool {
	return slices.ContainsFunc(trials, func(c rundir.Commit) bool { return c.Status != result.StatusSkipped })
}

// equal reports whether two trials have the same bytes: the digest of a result has those of
// all other files.
func equal(a, b rundir.Commit) bool { return a.Key == b.Key && a.SHA256 == b.SHA256 }

// Into makes the run directory dir.
func (s *Set) Into(ctx context.Context, fx *effect.Effects, dir string) error {
	first := s.sources[0]
	resolved := first.resolved
	resolved.Cells, resolved.Skipped = s.cells, s.skipped
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetIndent("", " ")
	if err := enc.Encode(resolved); err != nil {
		return err
	}
	m, err := s.manifest()
	if err != nil {
		return err
	}
	return rundir.Assemble(ctx, fx, dir, m, first.plan, b.Bytes(), s.parts)
}

// manifest returns that of the first run, for all of them.
func (s *Set) manifest() (rundir.Manifest, error) {
	m := s.sources[0].state.Manifest
	m.Reuse, m.Merged, m.Rehearsed = "", nil, false
	m.Trials = len(s.cells) * max(1, s.sources[0].resolved.Repeats)
	var hosts, parts []string
	id := sha256.New()
	for i, src := range s.sources {
		n := src.state.Manifest
		dir, err := filepath.Abs(src.dir)
		if err != nil {
			return m, err
		}
		taken := 0
		for key := range src.state.Committed {
			if s.parts[i].Takes(key) {
				taken++
			}
		}
		m.Merged = append(m.Merged, rundir.Merged{RunID: n.RunID, Dir: dir, Host: n.Host, Journal: src.journal, Trials: taken, Merged: n.Merged})
		hosts = append(hosts, n.Host)
		parts = append(parts, n.Only)
		id.Write([]byte(n.RunID + " " + src.journal + "\n")) // of a hash: never fails
	}
	slices.Sort(hosts)
	m.Host = strings.Join(slices.Compact(hosts), ", ")
	m.Only = either(parts)
	// The same runs make the same run again.
	m.RunID = hex.EncodeToString(id.Sum(nil))[:len(s.sources[0].state.Manifest.RunID)]
	return m, nil
}

// either returns an expression that is true if one of some is; "" is true always.
func either(list []string) string {
	slices.Sort(list)
	list = slices.Compact(list)
	if list[0] == "" || len(list) == 1 {
		return list[0]
	}
	return "(" + strings.Join(list, ") or (") + ")"
}

// Notes say what a reader of the merged run should know: hosts that differ, and trials
// that no run has.
func (s *Set) Notes() (notes []string) {
	hosts := map[string]bool{}
	for _, src := range s.sources {
		hosts[src.state.Manifest.Host] = true
	}
	if len(hosts) > 1 {
		notes = append(notes, fmt.Sprintf("measured from %d clients (%s): what differs between cells of two of them may be the client or the network", len(hosts), strings.Join(slices.Sorted(maps.Keys(hosts)), ", ")))
	}
	for _, src := range s.sources {
		if src.missing > 0 {
			notes = append(notes, fmt.Sprintf("%s has %s without an outcome; sweep resume %s measures them, then merge again", src.dir, humanize.Plural(src.missing, "trial"), src.dir))
		}
	}
	return notes
}

// Dirs returns the run directories, in the order in which they were made.
func (s *Set) Dirs() (list []string) {
	for _, src := range s.sources {
		list = append(list, src.dir)
	}
	return list
}

// Trials returns those with an outcome, of all that the plan wants of the cells.
func (s *Set) Trials() (done, planned int) {
	for i, src := range s.sources {
		for key := range src.state.Committed {
			if s.parts[i].Takes(key) {
				done++
			}
		}
	}
	planned = len(s.cells) * max(1, s.sources[0].resolved.Repeats)
	for i, src := range s.sources {
		for _, key := range src.state.Added {
			if s.parts[i].Takes(key) {
				planned++
			}
		}
	}
	return done, planned
}

// Resolved returns the plan of all runs, as it was resolved.
func (s *Set) Resolved() *report.Resolved { return &s.sources[0].resolved }
