// Package plan is the plan language: it reads a YAML file, says everything
// that is wrong with it, and expands it into deployments, cells and trials.
package plan

import (
	"time"

	"github.com/goccy/go-yaml/ast"

	"sweep.dev/sweep/internal/secret"
)

// A Plan is one experiment, checked and with its defaults filled in.
type Plan struct {
	Version     int    `yaml:"version"`
	Name        string `yaml:"name"`
	Description string `yaml:"description,omitempty"`

	Model         string `yaml:"model,omitempty"` // or an axis
	ModelRevision string `yaml:"model_revision,omitempty"`

	Matrix  Matrix            `yaml:"matrix"`
	Backend Plugin            `yaml:"backend"`
	Engines map[string]Engine `yaml:"engines,omitempty"`
	Load    Load              `yaml:"load"`

	SLO      []SLO     `yaml:"slo,omitempty"` // a mapping in the file, in its order
	Goodput  *Goodput  `yaml:"goodput,omitempty"`
	Validity *Validity `yaml:"validity,omitempty"`

	Sinks   []Plugin `yaml:"sinks,omitempty"`
	Collect []Plugin `yaml:"collect,omitempty"`

	Repeats        int      `yaml:"repeats,omitempty"`
	Seed           uint64   `yaml:"seed,omitempty"`
	Order          string   `yaml:"order,omitempty"`            // declared or shuffled
	Retries        *int     `yaml:"retries,omitempty"`          // attempts after a server died under a trial; default 1
	OnStartFailure string   `yaml:"on_start_failure,omitempty"` // fail or record
	Timeouts       Timeouts `yaml:"timeouts,omitempty"`
}

// A Plugin is one backend, collector or sink with its own part of the plan. In
// the file it is either a bare name or a mapping with the key kind (backend),
// or a mapping of one name (collect, sinks).
type Plugin struct {
	Kind string
	// Node is the plug-in's own keys, nil where there are none.
	Node ast.Node
	// Decode decodes Node over a struct's defaults, strictly and with
	// positions in its errors: the decode of the plug-in's Factory.
	Decode func(any) error
}

// An Engine is what a plan says of one engine.
type Engine struct {
	Profile string                   `yaml:"profile,omitempty"` // default: the key itself
	Image   string                   `yaml:"image,omitempty"`
	Command []string                 `yaml:"command,omitempty"` // replaces the profile's
	Args    map[string]any           `yaml:"args,omitempty"`
	Env     map[string]secret.String `yaml:"env,omitempty"`
	CPUs    []int                    `yaml:"cpus,omitempty"` // pin the server to these (process backend)
	Served  string                   `yaml:"served_model_name,omitempty"`
}

// Load is what is sent in one trial. Every field that is an axis of the
// matrix is filled in from the cell.
type Load struct {
	Concurrency int     `yaml:"concurrency,omitempty"`  // closed loop
	RequestRate float64 `yaml:"request_rate,omitempty"` // open loop, requests per second
	Arrivals    string  `yaml:"arrivals,omitempty"`     // constant, poisson (default), gamma
	Burstiness  float64 `yaml:"burstiness,omitempty"`   // gamma's shape: 1 is Poisson, below 1 is burstier
	MaxInFlight int     `yaml:"max_in_flight,omitempty"`

	Requests          int           `yaml:"requests,omitempty"`
	RequestsPerWorker int           `yaml:"requests_per_worker,omitempty"`
	Duration          time.Duration `yaml:"duration,omitempty"`
	Warmup            Warmup        `yaml:"warmup,omitempty"`
	ThinkTime         time.Duration `yaml:"think_time,omitempty"`

	Endpoint  string                   `yaml:"endpoint,omitempty"` // chat (default) or completions
	Stream    *bool                    `yaml:"stream,omitempty"`   // default true
	MaxTokens int                      `yaml:"max_tokens,omitempty"`
	Output    string                   `yaml:"output,omitempty"` // exact or natural; default exact where the engine knows ignore_eos
	Sampling  Sampling                 `yaml:"sampling,omitempty"`
	Prompts   Prompts                  `yaml:"prompts,omitempty"`
	Body      map[string]any           `yaml:"body,omitempty"`
	Headers   map[string]secret.String `yaml:"headers,omitempty"`
}

// Warmup is what is sent before a trial is measured, with prompts of its own.
type Warmup struct {
	Requests int `yaml:"requests,omitempty"`
}

// Sampling is how the server picks tokens.
type Sampling struct {
	Temperature *float64 `yaml:"temperature,omitempty"`
	TopP        *float64 `yaml:"top_p,omitempty"`
	Seed        *uint64  `yaml:"seed,omitempty"`
	IgnoreEOS   *bool    `yaml:"ignore_eos,omitempty"`
	Stop        []string `yaml:"stop,omitempty"`
}

// Prompts is what is asked.
type Prompts struct {
	Kind         string   `yaml:"kind,omitempty"` // synthetic, inline, jsonl, sharegpt
	InputTokens  int      `yaml:"input_tokens,omitempty"`
	Distribution string   `yaml:"distribution,omitempty"`  // fixed, uniform, normal, lognormal
	Spread       float64  `yaml:"spread,omitempty"`        // uniform: half width; normal, lognormal: sd; as a share of input_tokens
	SharedPrefix float64  `yaml:"shared_prefix,omitempty"` // share of the input tokens that all prompts of a trial have in common
	Texts        []string `yaml:"texts,omitempty"`
	File         string   `yaml:"file,omitempty"` // resolved against the plan's folder
	System       string   `yaml:"system,omitempty"`
	Reuse        string   `yaml:"reuse,omitempty"` // inline, jsonl, sharegpt: never (default; too few is an error) or allowed
}

// An SLO is one objective over the columns of the cells table.
type SLO struct {
	Name     string
	Expr     string
	Severity string // fail or warn
	check    *Check
}

// Goodput says which requests count as good.
type Goodput struct {
	TTFT float64 `yaml:"ttft_ms,omitempty"`
	TPOT float64 `yaml:"tpot_ms,omitempty"`
	E2E  float64 `yaml:"e2e_ms,omitempty"`
}

// Validity holds the bounds beyond which a trial is INVALID.
type Validity struct {
	MaxErrorRate   float64       `yaml:"max_error_rate,omitempty"`   // default 0.05
	MaxScheduleLag time.Duration `yaml:"max_schedule_lag,omitempty"` // of the p99; default 10ms
	MaxClientCPU   float64       `yaml:"max_client_cpu,omitempty"`   // default 0.85
	MaxStall       time.Duration `yaml:"max_stall,omitempty"`        // of our own process; default 1s
}

// Timeouts bound every phase. Each is reported by its name when it is reached.
type Timeouts struct {
	Launch  time.Duration `yaml:"launch,omitempty"`
	Ready   time.Duration `yaml:"ready,omitempty"`
	Request time.Duration `yaml:"request,omitempty"`
	Trial   time.Duration `yaml:"trial,omitempty"`
	Drain   time.Duration `yaml:"drain,omitempty"`
	Stop    time.Duration `yaml:"stop,omitempty"`
}

// A Value is one value of an axis: string, int64, float64 or bool.
type Value = any

// An Axis is one dimension of the matrix.
type Axis struct {
	Name   string // as in the file: "concurrency", "args.max-num-seqs"
	Column string // as in columns and expressions: "arg_max_num_seqs"
	Server bool   // changes the server, not only the load
	Values []Value
}

// Matrix is the axes and what is added to and taken from their product.
type Matrix struct {
	Axes    []Axis // in the file's order
	Zip     [][]string
	Include []map[string]Value
	Exclude []string
}

// A Setting is the value of one axis in one cell.
type Setting struct {
	Column string
	Value  Value
}

// A Server is what one deployment runs: everything that a change of would need
// a new launch.
type Server struct {
	Engine        string // the key in the plan
	Profile       string // the engine profile's name
	Model         string
	ModelRevision string
	Served        string // the name that the server answers to; default Model
	GPU           string
	GPUCount      int
	Image         string
	Command       []string // nil: the profile's
	Args          []Arg    // sorted by name
	Env           map[string]secret.String
	CPUs          []int
}

// An Arg is one engine argument: --name value.
type Arg struct {
	Name  string
	Value Value
}

// A Cell is one point of the matrix.
type Cell struct {
	ID       string    // 12 hex digits, see CellID
	Index    int       // place in the plan's order, from 0
	Settings []Setting // every axis, in the plan's order
	Server   Server
	Load     Load // resolved
}

// A Deployment is all cells that share a server.
type Deployment struct {
	ID     string // short hash of Server
	Server Server
	Cells  []Cell // in the order in which they are to run
}
