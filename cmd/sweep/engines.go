package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/urfave/cli/v3"

	"sweep.dev/sweep/engine"
	"sweep.dev/sweep/internal/plaintext"
	"sweep.dev/sweep/report/draw"
)

func (a *app) enginesCommand() *cli.Command {
	return &cli.Command{
		Name:      "engines",
		Usage:     "lists the engines that a plan can name, and explains one",
		ArgsUsage: "[NAME|FILE]",
		Description: `Without an argument it lists the engines. With the name of one it shows its
start command, when it is ready, which requests it takes and how a plan's
args become flags; with -v also the meaning of its metrics. A file is first
checked as a profile of an engine, and every fault is printed with its line.

  $ sweep list engines
  $ sweep list engines -v vllm
  $ sweep list engines ./my-engine.yaml` + exitHelp(exitOK, exitUsage),
		Flags: []cli.Flag{
			&cli.StringSliceFlag{Name: "engine-file", Usage: "a further `FILE` with a profile of an engine"},
			&cli.BoolFlag{Name: "verbose", Aliases: []string{"v"}, Usage: "print the roles of each engine, or the metrics of one"},
			&cli.BoolFlag{Name: "json", Usage: "print as JSON"},
		},
		OnUsageError: usageError,
		Action: func(_ context.Context, c *cli.Command) error {
			if c.Args().Len() > 1 {
				return &usage{fmt.Errorf("engines takes at most one name or file, got %d arguments (see: %s --help)", c.Args().Len(), c.FullName())}
			}
			var set engine.Set
			files := c.StringSlice("engine-file")
			name := c.Args().First()
			if isProfileFile(name) {
				files = append(files, name)
			}
			for _, file := range files {
				p, err := addProfile(&set, file)
				if err != nil {
					return &usage{err}
				}
				if file == name {
					name = p.Name
				}
			}
			if c.Bool("json") {
				return a.enginesJSON(&set, name)
			}
			return a.engines(&set, name, c.Bool("verbose"))
		},
	}
}

// isProfileFile reports whether an argument is a file and no engine's name.
func isProfileFile(name string) bool {
	return strings.ContainsRune(name, filepath.Separator) || slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(name))
}

// addProfile reads a profile from a file. Its error lists each mistake with its
// file:line:column.
func addProfile(set *engine.Set, file string) (*engine.Profile, error) {
	src, err := engine.ReadFile(file)
	if err != nil {
		return nil, err
	}
	p, err := set.Add(src)
	if err == nil {
		return p, nil
	}
	many, ok := err.(interface{ Unwrap() []error })
	if !ok {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	var errs []error
	for _, err := range many.Unwrap() {
		errs = append(errs, fmt.Errorf("%s:%w", file, err))
	}
	return nil, errors.Join(errs...)
}

// rolesOf returns the names of the roles that sweep starts of an engine.
func rolesOf(p *engine.Profile) []string {
	roles := []string{}
	for _, r := range p.Roles {
		roles = append(roles, r.Name)
	}
	return roles
}

// noEngine returns the usage error of a name that no engine has.
func noEngine(name string) error {
	return &usage{fmt.Errorf("no engine %q (see: sweep list engines)", name)}
}

func (a *app) enginesJSON(set *engine.Set, name string) error {
	if name != "" {
		p, ok := set.Lookup(name)
		if !ok {
			return noEngine(name)
		}
		text, err := p.JSON()
		if err != nil {
			return err
		}
		return a.json().Encode(json.RawMessage(text))
	}
	type line struct {
		Name  string   `json:"name"`
		Roles []string `json:"roles"`
		Doc   string   `json:"doc"`
		Own   bool     `json:"own"` // of a file, and no built-in one
	}
	lines := []line{}
	for _, name := range set.Names() {
		p, _ := set.Lookup(name)
		lines = append(lines, line{Name: name, Roles: rolesOf(p), Doc: p.Doc, Own: set.Own(name)})
	}
	return a.json().Encode(lines)
}

// engines lists the engines of a set, or explains the one of that name.
func (a *app) engines(set *engine.Set, name string, verbose bool) error {
	if name != "" {
		p, ok := set.Lookup(name)
		if !ok {
			return noEngine(name)
		}
		if err := explainEngine(a.page(), p, verbose); err != nil || verbose {
			return err
		}
		a.next("sweep list engines -v " + plaintext.Word(name))
		return nil
	}
	var rows [][]string
	for _, name := range set.Names() {
		p, _ := set.Lookup(name)
		text := p.Doc
		if roles := strings.Join(rolesOf(p), ", "); verbose && roles != "" {
			text += " (" + roles + ")"
		}
		rows = append(rows, []string{name, text})
	}
	page := a.page()
	page.Rows(rows...)
	if err := page.Err(); err != nil {
		return err
	}
	a.next("sweep list engines " + plaintext.Word(rows[0][0]))
	return nil
}

// explainEngine says what a profile says, in words; with verbose also what its metrics
// mean.
func explainEngine(page *draw.Document, p *engine.Profile, verbose bool) error {
	w := &explainer{page: page, p: p}
	w.say("%s: %s", p.Name, p.Doc)
	if p.Homepage != "" {
		w.say("%s", p.Homepage)
	}
	if p.Like != "" {
		w.say("like %s, but for what it says itself", p.Like)
	}
	w.started()
	w.ready()
	w.api()
	w.flags()
	if !verbose {
		w.flush()
		return page.Err()
	}
	for _, r := range p.Roles {
		if r.Metrics != nil {
			w.metrics("METRICS of "+r.Name, r.Metrics)
		}
	}
	if len(p.Roles) == 0 || slices.ContainsFunc(p.Roles, func(r engine.Role) bool { return r.Metrics == nil }) {
		w.metrics("METRICS", &p.Metrics)
	}
	w.totals()
	w.section("FAILURES")
	w.say("  %d texts of its own, before the common ones", len(p.Failures))
	w.flush()
	return page.Err()
}

// An explainer writes a profile for people.
type explainer struct {
	page *draw.Document
	p    *engine.Profile
	rows [][]string // of the table that is not written yet
}

// say writes one line, below the table before it.
func (w *explainer) say(format string, args ...any) {
	w.flush()
	w.page.Text(fmt.Sprintf(format, args...))
}

// cells adds one line to a table.
func (w *explainer) cells(cells ...string) { w.rows = append(w.rows, cells) }

// flush writes the table: the columns of one are no other's.
func (w *explainer) flush() {
	if len(w.rows) > 0 {
		w.page.Rows(w.rows...)
	}
	w.rows = nil
}

func (w *explainer) section(title string) {
	w.flush()
	w.page.Blank()
	w.say("%s", title)
}

// example returns where the roles of a deployment could be.
func example(p *engine.Profile) map[string][]engine.Address {
	peers := make(map[string][]engine.Address)
	for _, r := range p.Roles {
		for n := range max(r.Replicas, 1) {
			a := engine.Address{Host: "HOST", Port: r.Port + n, Ports: map[string]int{}, Dir: "DIR"}
			for name, port := range r.Ports {
				a.Ports[name] = port + n
			}
			peers[r.Name] = append(peers[r.Name], a)
		}
	}
	return peers
}

func (w *explainer) started() {
	w.section("STARTED")
	if len(w.p.Roles) == 0 {
		w.say("  not by sweep: it takes one that runs")
		return
	}
	peers := example(w.p)
	for _, r := range w.p.Roles {
		at := peers[r.Name][0]
		v := engine.Vars{Model: "MODEL", Host: at.Host, Port: at.Port, Ports: at.Ports, Dir: at.Dir, Peers: peers, GPUs: 1, GPU: "GPU", Sweep: "sweep"}
		tier := r.Tier
		if tier == "" {
			tier = engine.TierEngine
		}
		title := r.Name + ", tier " + tier
		if r.Replicas > 1 {
			title += fmt.Sprintf(", %d of them", r.Replicas)
		}
		if r.Name == w.p.EntryRole() && len(w.p.Roles) > 1 {
			title += ", where requests go"
		}
		w.say("  %s", title)
		argv, err := w.p.Argv(r.Name, v, nil, nil)
		if err != nil { // one that wants an argument of the plan
			argv = r.Command
		}
		w.say("    %s", quoted(argv))
		for _, old := range r.Versions {
			w.say("    before %s: %s", old.Below, strings.Join(old.Command, " "))
		}
		if r.Image != "" {
			w.say("    image %s %s", r.Image, strings.Join(r.Entrypoint, " "))
		}
		env, files, err := w.p.Extra(r.Name, v, nil)
		if err != nil {
			w.say("    %v", err)
		}
		for _, name := range slices.Sorted(maps.Keys(env)) {
			w.say("    env %s=%s", name, env[name])
		}
		for _, name := range slices.Sorted(maps.Keys(files)) {
			w.say("    file DIR/%s, %d bytes", name, len(files[name]))
		}
		for _, name := range slices.Sorted(maps.Keys(r.Ports)) {
			w.say("    port %s %d", name, r.Ports[name])
		}
		if r.KeyEnv != "" {
			w.say("    takes its API key from %s", r.KeyEnv)
		}
		if r.Ready.Line != "" {
			w.say("    then a line of its log that matches %s", r.Ready.Line)
		}
		if r.Ready.Health != "" {
			w.say("    then GET %s answers 200", r.Ready.Health)
		}
		if r.Ready.Wait > 0 {
			w.say("    then %s", r.Ready.Wait)
		}
	}
}

// quoted joins a command line for reading.
func quoted(argv []string) string {
	out := make([]string, len(argv))
	for i, arg := range argv {
		out[i] = arg
		if arg == "" || strings.ContainsAny(arg, " \"'{}") {
			out[i] = "'" + strings.ReplaceAll(arg, "'", `'\''`) + "'"
		}
	}
	return strings.Join(out, " ")
}

func (w *explainer) ready() {
	w.section("READY WHEN")
	r := w.p.Ready
	if r.Line != "" {
		w.say("  a line of its log matches %s", r.Line)
	}
	if r.Health != "" {
		w.say("  GET %s answers 200", r.Health)
	}
	if r.Models != "" {
		w.say("  GET %s lists the model", r.Models)
	}
	w.say("  a completion of one token comes back")
	if r.Timeout > 0 {
		w.say("  within %s, unless the plan says otherwise", r.Timeout)
	}
}

func (w *explainer) api() {
	w.section("API")
	api := w.p.API
	for _, l := range []struct{ what, path string }{
		{"chat", api.Chat},
		{"completions", api.Completions},
		{"empties the prefix cache", api.CacheReset},
		{"counts tokens", api.Tokenize},
		{"reports its version at", api.Version},
	} {
		if l.path != "" {
			w.cells(l.what, l.path)
		}
	}
	takes := []string{}
	for _, l := range []struct {
		what string
		is   bool
	}{
		{"ignore_eos", api.IgnoreEOS},
		{"min_tokens", api.MinTokens},
		{"stream_options.include_usage", api.IncludeUsage},
		{"stream_options.continuous_usage_stats", api.ContinuousUsage},
		{api.MaxTokensField, true},
	} {
		if l.is {
			takes = append(takes, l.what)
		}
	}
	w.cells("takes", strings.Join(takes, ", "))
	if !api.IgnoreEOS {
		w.cells("", "not ignore_eos: an answer may be shorter than asked")
	}
	if api.FreshConnections {
		w.cells("connections", "a new one for each request")
	}
}

func (w *explainer) flags() {
	w.section("ARGUMENTS OF A PLAN")
	i := slices.IndexFunc(w.p.Roles, func(r engine.Role) bool { return r.Computes() })
	if i < 0 {
		w.say("  none")
		return
	}
	// One role of its flags alone shows what they become.
	plain := &engine.Profile{Name: w.p.Name, Flags: w.p.Flags, Roles: []engine.Role{{Name: "r", Command: []string{"x"}}}}
	plain.Flags.Reserved = nil
	negated := "some_flag"
	if len(plain.Flags.Negate) > 0 && plain.Flags.Negate[0] != "*" {
		negated = plain.Flags.Negate[0]
	}
	for _, e := range []struct {
		text string
		arg  engine.Arg
	}{
		{"some_flag: 64", engine.Arg{Name: "some_flag", Value: int64(64)}},
		{"some_flag: true", engine.Arg{Name: "some_flag", Value: true}},
		{negated + ": false", engine.Arg{Name: negated, Value: false}},
		{"some_flag: [a, b]", engine.Arg{Name: "some_flag", Value: []any{"a", "b"}}},
		{"some_flag: {a: 1}", engine.Arg{Name: "some_flag", Value: map[string]any{"a": int64(1)}}},
		{"some.flag: 1", engine.Arg{Name: "some.flag", Value: int64(1)}},
	} {
		argv, err := plain.Argv("r", engine.Vars{Dir: "DIR"}, []engine.Arg{e.arg}, nil)
		if err != nil {
			continue
		}
		becomes := quoted(argv[1:])
		if _, files, _ := plain.Extra("r", engine.Vars{}, []engine.Arg{e.arg}); len(files) > 0 {
			becomes += " with " + strings.Join(strings.Fields(string(files[engine.ArgsFile])), " ")
		}
		if becomes == "" {
			becomes = "no flag"
		}
		w.cells(e.text, becomes)
	}
	if len(w.p.Flags.Reserved) > 0 {
		w.cells("sweep's own", strings.Join(w.p.Flags.Reserved, ", "))
	}
	w.cells("known", fmt.Sprintf("%d flags; others are passed on", len(w.p.Flags.Known)))
}

func (w *explainer) metrics(title string, m *engine.Metrics) {
	if m.Path == "" && len(m.Series) == 0 {
		w.section(title)
		w.say("  none")
		return
	}
	title += ": GET " + m.Path
	if m.Port != "" {
		title += ", port " + m.Port
	}
	if m.Flag != "" {
		title += ", on the port of --" + m.Flag + " alone"
	}
	if len(m.Fallback) > 0 {
		title += ", else " + strings.Join(m.Fallback, ", ")
	}
	w.section(title)
	if m.Iterations != "" {
		w.say("  iteration statistics: GET %s", m.Iterations)
	}
	if m.Exclusive {
		w.say("  each answer changes the next one: no other client may read it during a measurement")
	}
	if len(m.Prefixes) > 1 {
		w.say("  %s may also be %s", m.Prefixes[0], strings.Join(quotedEach(m.Prefixes[1:]), ", "))
	}
	for _, q := range engine.Quantities() {
		for i, s := range m.Series[q.Name] {
			if i == 0 {
				w.cells(q.Name, q.Unit, q.Doc+": "+seriesText(s))
			} else {
				w.cells("", "", "or "+seriesText(s))
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(m.Settings)) {
		for i, s := range m.Settings[name] {
			if i == 0 {
				w.cells(name, "", "what the engine says it runs with: "+seriesText(s))
			} else {
				w.cells("", "", "or "+seriesText(s))
			}
		}
	}
	if len(m.Meanings) > 0 {
		w.say("  and what %d further series mean", len(m.Meanings))
	}
}

func quotedEach(texts []string) []string {
	out := make([]string, len(texts))
	for i, t := range texts {
		out[i] = t
		if t == "" {
			out[i] = "nothing"
		}
	}
	return out
}

// seriesText returns one way to find a quantity, in a line.
func seriesText(s engine.Series) string {
	var b strings.Builder
	b.WriteString(s.Name)
	var labels []string
	for _, name := range slices.Sorted(maps.Keys(s.Match)) {
		labels = append(labels, name+"="+s.Match[name])
	}
	for _, name := range slices.Sorted(maps.Keys(s.Not)) {
		labels = append(labels, name+" not "+strings.Join(s.Not[name], "|"))
	}
	if labels != nil {
		fmt.Fprintf(&b, "{%s}", strings.Join(labels, ", "))
	}
	if s.Label != "" {
		b.WriteString(" label " + s.Label)
	}
	for _, more := range s.Plus {
		b.WriteString(" + " + more)
	}
	if s.Scale != 0 && s.Scale != 1 {
		fmt.Fprintf(&b, " * %g", s.Scale)
	}
	if s.Times != nil {
		b.WriteString(" * " + strings.TrimSpace(seriesText(*s.Times)))
	}
	if s.Reduce != "" && s.Reduce != "sum" {
		b.WriteString(" (" + s.Reduce + ")")
	}
	for _, v := range s.Unknown {
		fmt.Fprintf(&b, ", %g is unknown", v)
	}
	if s.Needs != nil {
		b.WriteString(", needs " + s.Needs.Name)
	}
	if s.Zero != nil {
		b.WriteString(", 0 if absent beside " + s.Zero.Name)
	}
	if s.Unit != "" {
		b.WriteString(", in " + s.Unit)
	}
	return b.String()
}

func (w *explainer) totals() {
	if len(w.p.Totals) == 0 {
		return
	}
	w.section("COUNTED IN")
	for _, q := range engine.Quantities() {
		if roles, ok := w.p.Totals[q.Name]; ok {
			w.cells(q.Name, strings.Join(roles, ", "))
		}
	}
}
