package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"sweep.dev/sweep/cmd/sweep/internal/vocabulary"
	"sweep.dev/sweep/engine"
	"sweep.dev/sweep/internal/syntax"
	"sweep.dev/sweep/nightly/schedule"
	"sweep.dev/sweep/plan"
	"sweep.dev/sweep/plan/axes"
	"sweep.dev/sweep/plan/planfile"
	"sweep.dev/sweep/result"
	"sweep.dev/sweep/rundir"
)

// arguments returns what the commands take besides flags, by their full names.
func arguments() map[string]source {
	plans := first(files(".yaml", ".yml"))
	return map[string]source{
		"sweep validate":         files(".yaml", ".yml"),
		"sweep plan":             plans,
		"sweep run":              plans,
		"sweep doctor calibrate": plans,
		"sweep compare noise":    either(plans, runDirs),
		"sweep resume":           first(runDirs),
		"sweep cells":            dirThenCell,
		"sweep logs":             dirThenCell,
		"sweep report":           runDirs,
		"sweep compare":          runDirs,
		"sweep runs merge":       runDirs,
		"sweep export":           first(runDirs),
		"sweep sim fit":          first(runDirs),
		"sweep judge":            files(".json", ".jsonl", ".csv"),
		"sweep night gate":       first(runDirs),
		"sweep night accept":     first(runDirs),
		"sweep night schedule":   plans,
		"sweep night run":        plans,
		"sweep runs prune":       first(files("/")),
		"sweep init":             first(files(".yaml", ".yml")),
		"sweep runs":             first(runDirs),
		"sweep list columns":     first(columnNames),
		"sweep list engines":     first(either(engineNames, files(".yaml", ".yml"))),
		"sweep probe metrics":    first(files("")),
		"sweep list schema":      first(choice(schemaNames()...)),
		"sweep help":             first(helpTopics),
	}
}

// flagValues returns the values of flags, by their names, or by those of the command and
// the flag where commands differ.
func flagValues() map[string]source {
	kinds := make([]string, 0, 8)
	for _, b := range vocabulary.All().Backends {
		kinds = append(kinds, b.Kind)
	}
	return map[string]source{
		"set":           keys,
		"only":          axisNames,
		"engine-file":   files(".yaml", ".yml"),
		"key-file":      files(""),
		"events":        files(""),
		"output":        files("/"),
		"run-dir":       files("/"),
		"save":          files("/"),
		"reuse":         runDirs,
		"noise":         files(".json"),
		"csv":           files(".csv"),
		"slo":           columnNames,
		"history":       files(".jsonl"),
		"target":        choice(schedule.Targets()...),
		"baseline":      runDirs,
		"metric":        choice(metricNames()...),
		"write-plan":    files(".yaml", ".yml"),
		"backend":       choice(kinds...),
		"engine":        engineNames,
		"columns":       either(choice("all"), columnNames),
		"status":        listOf(cellStatuses...),
		"retry":         listOf(result.StatusInvalid, result.StatusFailed, result.SLOUndecided),
		"calibrate":     choice(calibrateAuto, "never"),
		"client":        choice(plan.ClientAuto, plan.ClientStd, plan.ClientFast),
		"bench output":  choice(), // a number of tokens
		"decide":        choice(rundir.DecideBound, rundir.DecidePoint),
		"export format": choice(exportFormats()...),
		"noise output":  files(".json"),
		"fit output":    files(".json"),
		"trend output":  files(".html"),
	}
}

func choice(list ...string) source {
	return func(*app, cursor) []candidate {
		all := make([]candidate, len(list))
		for i, w := range list {
			all[i].text = w
		}
		return all
	}
}

// first returns a source for the first argument alone.
func first(s source) source {
	return func(a *app, at cursor) []candidate {
		if len(at.args) > 0 {
			return nil
		}
		return s(a, at)
	}
}

func either(sources ...source) source {
	return func(a *app, at cursor) []candidate {
		var all []candidate
		for _, s := range sources {
			all = append(all, s(a, at)...)
		}
		return all
	}
}

// listOf returns the values of a list with commas, of which the last is completed.
func listOf(list ...string) source {
	return func(_ *app, at cursor) []candidate {
		before := at.part[:strings.LastIndex(at.part, ",")+1]
		var all []candidate
		for _, w := range list {
			if !slices.Contains(strings.Split(before, ","), w) {
				all = append(all, candidate{text: before + w})
			}
		}
		return all
	}
}

// mostEntries bounds the entries of a folder that are looked at.
const mostEntries = 1000

// files returns those below the typed path that end in one of some suffixes, and folders:
// "" is any file, "/" folders alone.
func files(suffixes ...string) source {
	return func(a *app, at cursor) []candidate {
		folder, _ := filepath.Split(at.part)
		look := folder
		if home, ok := a.env("HOME"); ok && strings.HasPrefix(folder, "~/") {
			look = home + folder[1:]
		}
		entries, err := readDir(look)
		if err != nil {
			return nil
		}
		hidden := strings.HasPrefix(filepath.Base(at.part), ".") && !strings.HasSuffix(at.part, "/")
		var all []candidate
		for _, e := range entries {
			name := folder + e.Name()
			info, err := os.Stat(filepath.Join(look, e.Name()))
			switch {
			case err != nil, strings.HasPrefix(e.Name(), ".") && !hidden:
			case info.IsDir():
				all = append(all, candidate{text: name + "/"})
			case slices.ContainsFunc(suffixes, func(s string) bool { return s != "/" && strings.HasSuffix(name, s) }):
				all = append(all, candidate{text: name})
			}
		}
		return all
	}
}

func readDir(folder string) ([]os.DirEntry, error) {
	if folder == "" {
		folder = "."
	}
	f, err := os.Open(folder)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	entries, err := f.ReadDir(mostEntries)
	if len(entries) == 0 && err != nil {
		return nil, err
	}
	slices.SortFunc(entries, func(x, y os.DirEntry) int { return strings.Compare(x.Name(), y.Name()) })
	return entries, nil
}

// runDirs returns the runs under runs/, the latest first, and folders that may be others.
func runDirs(a *app, at cursor) []candidate {
	var all []candidate
	list, err := runsOf(runsFolder)
	if err != nil {
		list = nil
	}
	for _, r := range list {
		if r.Error == "" {
			all = append(all, candidate{r.Dir, fmt.Sprintf("%s, %s, %d of %d trials", r.Plan, r.Started.Local().Format("Jan 2 15:04"), *r.Done, *r.Trials)})
		}
	}
	for _, f := range files("/")(a, at) {
		if !slices.ContainsFunc(all, func(c candidate) bool { return c.text+"/" == f.text }) {
			all = append(all, f)
		}
	}
	return all
}

// dirThenCell are run directories and the cells of the latest run, then the cells of
// the run that is named.
func dirThenCell(a *app, at cursor) []candidate {
	switch len(at.args) {
	case 0:
		all := runDirs(a, at)
		if list, err := runsOf(runsFolder); err == nil && len(list) > 0 && list[0].Error == "" {
			all = append(all, cellsOf(list[0].Dir)...)
		}
		return all
	case 1:
		return cellsOf(at.args[0])
	}
	return nil
}

// cellsOf returns the ids of the cells of a run.
func cellsOf(dir string) []candidate {
	run, _, err := openRun(dir)
	if err != nil {
		return nil
	}
	var all []candidate
	for _, c := range run.Resolved.Cells {
		all = append(all, candidate{c.ID, brief(c.Label)})
	}
	return all
}

func columnNames(*app, cursor) []candidate {
	var all []candidate
	for _, c := range result.Columns(result.Extra{}) {
		all = append(all, candidate{c.Name, brief(c.Doc)})
	}
	return all
}

func axisNames(*app, cursor) []candidate {
	var all []candidate
	for _, d := range axes.Docs() {
		if d.Pattern == "" {
			all = append(all, candidate{d.Name, brief(d.Field.Doc)})
		}
	}
	return append(all, candidate{plan.LoadAxis, "Named loads of a plan with loads."})
}

// keys returns the keys of a plan that --set can name.
func keys(_ *app, at cursor) []candidate {
	paths := planfile.KeyPaths()
	var all []candidate
	for _, path := range paths {
		all = append(all, candidate{text: path + "="})
	}
	for _, name := range namedLoads(at) {
		for _, path := range paths {
			if key, ok := strings.CutPrefix(path, "load."); ok {
				all = append(all, candidate{text: "loads." + name + "." + key + "="})
			}
		}
	}
	return all
}

// maxCompleted is how much of a plan is read for the names of its loads.
const maxCompleted = 1 << 20

// namedLoads returns the names of loads that a key can be of: the one that is typed already,
// or those of the plans on the line.
func namedLoads(at cursor) []string {
	if rest, ok := strings.CutPrefix(at.part, "loads."); ok {
		if name, _, typed := strings.Cut(rest, "."); typed {
			return []string{name}
		}
	}
	var names []string
	for _, path := range at.args {
		info, err := os.Stat(path)
		if err != nil || !info.Mode().IsRegular() || info.Size() > maxCompleted {
			continue
		}
		text, err := os.ReadFile(path)
		if err != nil {
			continue
		}
		// A plan that is not finished yet has what can be read of it.
		root := syntax.Parse(path, string(text), &syntax.Report{})
		if root == nil || root.Get("loads") == nil {
			continue
		}
		for _, load := range root.Get("loads").Items {
			if name := load.Get("name"); name != nil && name.Text != "" {
				names = append(names, name.Text)
			}
		}
	}
	return names
}

func engineNames(*app, cursor) []candidate {
	return choice(engine.Names()...)(nil, cursor{})
}

func helpTopics(a *app, _ cursor) []candidate {
	var all []candidate
	for _, t := range topics() {
		all = append(all, candidate{t.name, t.doc})
	}
	return append(all, subcommands(a.root())...)
}
