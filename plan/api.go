package plan

import "sweep.dev/sweep/result"

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
}

// Options of Load.
type Options struct {
	Vocabulary Vocabulary
	Set        []string // --set path=value, in order
	AllowEnv   []string // further variables that ${VAR} may name
	MaxCells   int      // 0 is 10,000
	LookupEnv  func(string) (string, bool)
}

// Open reads, checks and resolves a plan file. The error is a *Diagnostics
// where the plan is wrong, with everything that is wrong with it.
func Open(path string, opts Options) (*Plan, error) { panic("in work") }

// Parse is Open for bytes; name stands in messages, dir is what relative files
// are resolved against.
func Parse(name, dir string, src []byte, opts Options) (*Plan, error) { panic("in work") }

// Deployments expands the matrix: deployments in the order of their first
// cell, cells in the plan's order (or shuffled by the seed).
func (p *Plan) Deployments() []Deployment { panic("in work") }

// SpecDigest is what else could change the measurement of a cell: 12 hex digits.
func (p *Plan) SpecDigest(c Cell) string { panic("in work") }

// Digest is the digest of the whole resolved plan, which resume compares.
func (p *Plan) Digest() string { panic("in work") }

// Resolved is plan.resolved.json: defaults filled in, secrets as references,
// --set recorded.
func (p *Plan) Resolved() ([]byte, error) { panic("in work") }

// Columns is the columns of this plan's cells table, axes and SLOs included.
func (p *Plan) Columns() []result.Column { panic("in work") }

// Filter compiles an expression over the axes (--only).
func (p *Plan) Filter(expr string) (func(Cell) (bool, error), error) { panic("in work") }

// A Check is a compiled SLO.
type Check struct{}

// Evaluate holds the objective against a row. A column that is nil makes an
// error, never a pass.
func (s SLO) Evaluate(row result.Row) result.SLOResult { panic("in work") }
