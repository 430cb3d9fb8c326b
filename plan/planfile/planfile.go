// Package planfile reads a plan: it decodes the file, fills in its defaults, holds
// it against the rules and expands its matrix.
package planfile

import (
	"cmp"
	"errors"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"sweep.dev/sweep/engine"
	"sweep.dev/sweep/engine/catalog"
	"sweep.dev/sweep/internal/input"
	"sweep.dev/sweep/internal/manifest"
	"sweep.dev/sweep/internal/syntax"
	"sweep.dev/sweep/plan"
	"sweep.dev/sweep/plan/internal/cells"
	"sweep.dev/sweep/plan/internal/file"
	"sweep.dev/sweep/plan/internal/rules"
	"sweep.dev/sweep/plan/internal/strict"
	"sweep.dev/sweep/result"
)

// Options of Open and Parse.
type Options struct {
	Vocabulary plan.Vocabulary
	Set        []string    // --set path=value, in order
	AllowEnv   []string    // further variables that ${VAR} may name
	SendEnv    []string    // NAME=HOST: where variables may go, beyond the rules
	MaxCells   int         // 0 is 10,000
	Engines    *engine.Set // nil is the built-in ones
	// EngineFiles are paths of further engine profiles (--engine-file), beside
	// the plan's own.
	EngineFiles []string
	// EngineTexts take the place of all engine files where they are not nil:
	// what a run that is resumed has kept.
	EngineTexts []plan.EngineFile
	// Manifests take the place of the files of manifests in the same way.
	Manifests []manifest.File
	LookupEnv func(string) (string, bool)
	// Stdin is the plan whose path is [Stdin]; nil: there is none.
	Stdin io.Reader
	// Config is the path of the user's configuration file; "" is none.
	Config string

	// Fixed in tests, so that a new profile or GPU changes no golden file.
	profiles map[string]*engine.Profile
	gpus     []string
}

// DefaultMaxCells bounds the product of a matrix, counted before it is made.
const DefaultMaxCells = 10_000

// Stdin is the path of a plan on the standard input. What it names is relative to
// the working directory.
const Stdin = "-"

// Open reads, checks and resolves a plan file of at most 1 MiB. The error is a
// *Diagnostics where the plan is wrong, with everything that is wrong with it.
func Open(path string, opts Options) (*plan.Plan, error) {
	var src []byte
	var err error
	if path == Stdin && opts.Stdin != nil {
		src, err = input.ReadStream(path, opts.Stdin, syntax.MaxBytes)
	} else {
		src, err = input.ReadNamed(path, syntax.MaxBytes)
	}
	for rule, cause := range map[string]error{"too-large": input.ErrTooLarge, "empty": input.ErrEmpty} {
		if errors.Is(err, cause) {
			var r syntax.Report
			unread(&r, path, rule, "the plan", err)
			return nil, r.Err()
		}
	}
	if err != nil {
		return nil, err
	}
	return Parse(path, filepath.Dir(path), src, opts)
}

// unread reports a file that was not read.
func unread(r *syntax.Report, path, rule, what string, err error) {
	r.At(syntax.NewSource(path, ""), syntax.Span{Line: 1, Col: 1, EndCol: 2}, rule, "%s is not read: %v", what, input.Reason(err))
}

// Parse is Open for bytes; name stands in messages, dir is what relative files
// are resolved against.
func Parse(name, dir string, src []byte, opts Options) (*plan.Plan, error) {
	l := &loader{opts: opts, dir: dir}
	l.Report = &syntax.Report{}
	p := l.read(name, src)
	if p == nil {
		return nil, l.Report.Err()
	}
	c := l.check(p, (*rules.Checked).Apply)
	if err := l.Report.Err(); err != nil {
		return nil, err
	}
	p.Complete(plan.Rest{
		Source: src, Set: opts.Set, Cells: c.Cells, Deployments: cells.Deployments(p, c.Cells), Columns: l.columns,
		Config: l.config, EngineTexts: l.texts, Manifests: l.manifests, Engines: l.profile, Env: l.Env, SendEnv: opts.SendEnv,
	})
	return p, nil
}

// loader holds what is needed while one plan is read.
type loader struct {
	strict.Decoder
	opts Options
	dir  string
	file *file.File

	loads    []*reading // of the plan, one for each load
	backend  plan.PluginDoc
	profiles map[string]*engine.Profile // of the plan's engines, by key
	columns  []result.Column
	excludes []func([]plan.Setting) (bool, error)

	config     plan.Config
	configNode *syntax.Node // nil if there is no configuration

	own   engine.Set        // of the engine files
	sums  map[string]string // of their contents, by profile
	texts []plan.EngineFile

	manifests []manifest.File // that the backend names
	objects   *manifest.Set   // of them; nil for none
}

// read decodes a plan, fills in its defaults and finds what it names; nil for what
// is no plan at all.
func (l *loader) read(name string, src []byte) *plan.Plan {
	root := syntax.Parse(name, string(src), l.Report)
	if root == nil {
		return nil
	}
	if root.Kind != syntax.Map {
		l.Report.Node(root, "type", "a plan is a mapping, found %s", root.Kind.Name())
		return nil
	}
	l.Mistyped = make(map[string]bool)
	l.file = &file.File{Root: withLevels(syntax.Set(root, l.opts.Set, l.Report)), Report: l.Report, Mistyped: l.Mistyped}
	p := l.decode()
	if p.Find != nil {
		l.Mistake("matrix." + cmp.Or(p.Find.Axis, "request_rate")) // what is wrong with it is reported
	}
	l.loads = l.readings(p)
	l.engineFiles()
	l.fill(p)
	l.resolve(p)
	return p
}

func (l *loader) checked(p *plan.Plan) *rules.Checked {
	return &rules.Checked{
		File: l.file, Plan: p, Backend: l.backend, Profiles: l.profiles, Config: l.configNode, Manifests: l.objects,
		Backends: kinds(l.opts.Vocabulary.Backends), Engines: l.profileNames(), GPUs: l.gpuNames(),
	}
}

// check holds a plan against the rules: as each of its loads sees it, and as a whole. It
// returns the whole, with the cells of all loads if the plan is right so far.
func (l *loader) check(p *plan.Plan, apply func(*rules.Checked, []rules.Rule)) *rules.Checked {
	c := l.checked(p)
	wrong := func() bool {
		return l.Report.Len() > 0 || slices.ContainsFunc(l.loads, func(r *reading) bool { return r.Report.Len() > 0 })
	}
	for _, r := range l.loads {
		one := r.checked(r.plan)
		one.Load = r.name
		c.Each = append(c.Each, one)
		apply(one, rules.OfPlan)
	}
	apply(c, rules.OfLoads)
	if !wrong() {
		for i, r := range l.loads {
			if one := c.Each[i]; r.expand(one, len(c.Cells)) {
				apply(one, rules.OfCells)
				c.Cells = append(c.Cells, r.placed(one.Cells, p, len(c.Cells))...)
			}
		}
	}
	l.gather()
	return c
}

// expand makes the cells of a plan, beside those that are there before; false if there
// are none.
func (l *loader) expand(c *rules.Checked, before int) (ok bool) {
	x := cells.Expander{
		File: l.file, Plan: c.Plan, Backend: l.backend, Profiles: l.profiles, Sums: l.sums, Excludes: l.excludes,
		Narrowed: slices.ContainsFunc(l.opts.Set, func(s string) bool { return strings.HasPrefix(s, "matrix.") }),
		Limit:    cmp.Or(l.opts.MaxCells, DefaultMaxCells),
		Before:   before,
	}
	if c.Cells, ok = x.Expand(); ok {
		c.Deployments = cells.Deployments(c.Plan, c.Cells)
	}
	return ok
}

func (l *loader) profile(name string) (*engine.Profile, bool) {
	if l.own.Own(name) {
		return l.own.Lookup(name)
	}
	if l.opts.profiles != nil {
		p, ok := l.opts.profiles[name]
		return p, ok
	}
	return l.opts.Engines.Lookup(name)
}

func (l *loader) profileNames() []string {
	var names []string
	if l.opts.profiles == nil {
		names = l.opts.Engines.Names()
	}
	names = slices.AppendSeq(names, maps.Keys(l.opts.profiles))
	names = slices.AppendSeq(names, maps.Keys(l.sums))
	slices.Sort(names)
	return slices.Compact(names)
}

func (l *loader) gpuNames() []string {
	if l.opts.gpus != nil {
		return l.opts.gpus
	}
	return catalog.GPUNames()
}
