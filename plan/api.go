package plan

import (
	"errors"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"time"

	"sweep.dev/sweep/catalog"
	"sweep.dev/sweep/engine"
	"sweep.dev/sweep/internal/input"
	"sweep.dev/sweep/internal/secret"
	"sweep.dev/sweep/internal/syntax"
	"sweep.dev/sweep/plan/internal/expression"
	"sweep.dev/sweep/plan/internal/file"
	"sweep.dev/sweep/plan/internal/strict"
	"sweep.dev/sweep/result"
)

// A Diagnostic is one thing that is wrong with a plan: where, what, what was
// expected and which valid name is nearest. It is JSON-able as it is.
type Diagnostic = syntax.Diagnostic

// Diagnostics is everything that is wrong with a plan, as one error. Error is
// one line for each; Pretty has snippets.
type Diagnostics = syntax.Diagnostics

// A Vocabulary is what cmd tells the language about the plug-ins there are.
type Vocabulary struct {
	Backends   []PluginDoc
	Collectors []PluginDoc
	Sinks      []PluginDoc
}

// A PluginDoc is one plug-in as the language sees it.
type PluginDoc struct {
	Kind    string
	Doc     string
	Config  any  // zero value of its configuration struct; nil for none
	FreeGPU bool // backends: gpu may be a free label
	// Launch is the default of timeouts.launch on this backend; 0 is five minutes.
	Launch time.Duration
	// Given says of a backend that its servers run already: nothing that a
	// plan says of an engine's command line reaches them, and saying it is an
	// error.
	Given bool
}

// Options of Open and Parse.
type Options struct {
	Vocabulary Vocabulary
	Set        []string    // --set path=value, in order
	AllowEnv   []string    // further variables that ${VAR} may name
	MaxCells   int         // 0 is 10,000
	Engines    *engine.Set // nil is the built-in ones
	// EngineFiles are paths of further engine profiles (--engine-file), beside
	// the plan's own.
	EngineFiles []string
	// EngineTexts take the place of all engine files where they are not nil:
	// what a run that is resumed has kept.
	EngineTexts []EngineFile
	// Before says that the plan is that of a run of before, which may use names that
	// columns had then.
	Before    bool
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
func Open(path string, opts Options) (*Plan, error) {
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
func Parse(name, dir string, src []byte, opts Options) (*Plan, error) {
	l := &loader{opts: opts, dir: dir}
	l.Report = &syntax.Report{}
	p := l.read(name, src)
	if p == nil {
		return nil, l.Report.Err()
	}
	c := l.checked(p)
	c.apply(rules)
	if l.Report.Len() == 0 && l.expand(p) {
		c.apply(cellRules)
	}
	if err := l.Report.Err(); err != nil {
		return nil, err
	}
	if len(l.Env.Plain) > 0 {
		p.variables = digest(l.Env.Plain, 12)
	}
	return p, nil
}

// read decodes a plan, fills in its defaults and finds what it names; nil for what
// is no plan at all.
func (l *loader) read(name string, src []byte) *Plan {
	root := syntax.Parse(name, string(src), l.Report)
	if root == nil {
		return nil
	}
	if root.Kind != syntax.Map {
		l.Report.Node(root, "type", "a plan is a mapping, found %s", root.Kind.Name())
		return nil
	}
	l.Mistyped = make(map[string]bool)
	l.file = &file.File{Root: syntax.Set(root, l.opts.Set, l.Report), Report: l.Report, Mistyped: l.Mistyped}
	p := l.decode()
	l.engineFiles(p)
	p.engines = l.profile
	p.source = src
	l.fill(p)
	l.resolve(p)
	return p
}

// internals is what a Plan knows beside what the file says.
type internals struct {
	set        []string
	cells      []Cell
	columns    []result.Column
	axisEnv    exprEnv
	order      []Deployment
	conditions string // the digest of those that the plan itself says
	variables  string // the digest of Plan.Variables
	env        *strict.Env
	config     Config
	engines    func(name string) (*engine.Profile, bool)
	source     []byte

	engineTexts []EngineFile
}

// loader holds what is needed while one plan is read.
type loader struct {
	strict.Decoder
	opts Options
	dir  string
	file *file.File

	backend  PluginDoc
	profiles map[string]*engine.Profile // of the plan's engines, by key
	excludes []*expression.Expression
	config   *syntax.Node // the user's configuration; nil where there is none
	trees    forester

	own   engine.Set        // of the engine files
	sums  map[string]string // of their contents, by profile
	texts []EngineFile
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

// IsDiagnostics says whether err is, or wraps, what is wrong with a plan.
func IsDiagnostics(err error) (*Diagnostics, bool) {
	var d *Diagnostics
	ok := errors.As(err, &d)
	return d, ok
}

// Profile is an engine profile by its name, as Server.Profile has it.
func (p *Plan) Profile(name string) (*engine.Profile, bool) {
	if p.engines == nil {
		return engine.Lookup(name)
	}
	return p.engines(name)
}

// Columns is the columns of this plan's cells table, axes and SLOs included.
func (p *Plan) Columns() []result.Column { return slices.Clone(p.columns) }

// Deployments expands the matrix: deployments in the order of their first
// cell, cells in the plan's order, or both shuffled by the seed.
func (p *Plan) Deployments() []Deployment {
	out := slices.Clone(p.order)
	for i := range out {
		out[i].Cells = slices.Clone(out[i].Cells)
	}
	return out
}

// Cells is every cell in the plan's order.
func (p *Plan) Cells() []Cell { return slices.Clone(p.cells) }

// Source is the file that the plan was read from.
func (p *Plan) Source() []byte { return slices.Clone(p.source) }

// Secrets is every environment variable that a text which is never shown refers
// to, of the plan itself and of the plug-ins that have been decoded.
func (p *Plan) Secrets() []secret.String {
	if p.env == nil {
		return nil
	}
	var list []secret.String
	for _, name := range slices.Sorted(maps.Keys(p.env.Given)) {
		list = append(list, secret.New("${"+name+"}", p.env.Given[name]))
	}
	return list
}

// Filter compiles an expression over the axes (--only). The error is a
// *Diagnostics about the expression.
func (p *Plan) Filter(only string) (func(Cell) (bool, error), error) {
	r := &syntax.Report{}
	n := syntax.Literal("--only", only)
	e := expression.Compile(r, n, p.axisEnv.Env)
	if err := r.Err(); err != nil {
		return nil, err
	}
	return func(c Cell) (bool, error) { return e.Run(p.axisEnv.values(c.Settings)) }, nil
}
