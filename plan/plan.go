package plan

import (
	"time"

	"sweep.dev/sweep/internal/secret"
	"sweep.dev/sweep/internal/syntax"
	"sweep.dev/sweep/result/validity"
)

// A Plan is one experiment, checked and with its defaults filled in.
type Plan struct {
	Version     int    `yaml:"version" doc:"Version of the plan language." min:"1" max:"1" example:"1"`
	Name        string `yaml:"name" doc:"Name of the experiment; run directories begin with it." pattern:"^[a-z0-9][a-z0-9._-]{0,62}$" example:"chat-capacity"`
	Description string `yaml:"description,omitempty" doc:"What question the experiment answers, for people." example:"How many chats does one L4 carry?"`

	Model         string `yaml:"model,omitempty" doc:"Model to serve, as the engine knows it; or the axis model." example:"Qwen/Qwen2.5-1.5B-Instruct"`
	ModelRevision string `yaml:"model_revision,omitempty" doc:"Revision of the model (commit, tag), recorded in every row and in the spec digest." default:"none" example:"v1.0"`

	Matrix  Matrix            `yaml:"matrix,omitempty" doc:"Axes of the experiment, what is added to and what is taken from their product. Every combination is a cell." default:"one cell"`
	Backend Plugin            `yaml:"backend" doc:"Where servers run: a kind, or a mapping with the key kind and the backend's own keys."`
	Engines map[string]Engine `yaml:"engines,omitempty" doc:"Settings of each engine, by the name that the axis engine uses." default:"every engine as its profile has it"`
	// EngineFiles are as written; see EngineFile.
	EngineFiles []string `yaml:"engine_files,omitempty" doc:"Engine profiles of your own: YAML files, relative to the plan's folder, that add an engine or take the place of a built-in one." default:"none"`
	Load        Load     `yaml:"load" doc:"What is sent in one trial. A key that is an axis of the matrix is left out here."`

	SLO []SLO `yaml:"slo,omitempty" doc:"Objectives by name: an expression over the columns of the cells table, or a mapping of expr and severity. Latencies and rates are of the plateau, with failed requests as infinite; p95_ttft_ms_whole and its like are of the whole trial." default:"none"`
	// Confidence is 0 if the plan does not say it.
	Confidence float64         `yaml:"confidence,omitempty" doc:"How sure the verdict on an objective is, where it is over a percentile, an error rate, a mean or a rate; shared over what the objective joins by and." default:"0.95" gt:"0.5" lt:"1" unit:"ratio" example:"99%"`
	Goodput    *Goodput        `yaml:"goodput,omitempty" doc:"Bounds within which a request counts as good, for goodput_req_s." default:"none"`
	Validity   validity.Bounds `yaml:"validity,omitempty" doc:"Bounds beyond which a trial is INVALID."`

	Sinks   []Plugin `yaml:"sinks,omitempty" doc:"Derived tables to write: names, or mappings of one name to its own keys. Raw requests and samples are always kept." default:"[parquet, csv]"`
	Collect []Plugin `yaml:"collect,omitempty" doc:"What is measured beside the requests: names, or mappings of one name to its own keys." default:"[prom, gpu, proc]"`

	Repeats        Repeats `yaml:"repeats,omitempty" doc:"Trials of each cell: their number, or a mapping." default:"1"`
	Seed           uint64  `yaml:"seed,omitempty" doc:"Seed of prompts, arrivals and order: the same plan and seed give the same load." default:"1" min:"0"`
	Order          string  `yaml:"order,omitempty" doc:"Order of the deployments and of the cells in each: as declared, or shuffled by the seed." default:"declared" enum:"declared,shuffled"`
	Retries        *int    `yaml:"retries,omitempty" doc:"Further attempts at a trial whose server died under it." default:"1" min:"0" max:"10" unit:"attempts"`
	OnStartFailure string  `yaml:"on_start_failure,omitempty" doc:"What a server that does not start is: a failure of its cells, or a result to record." default:"fail" enum:"fail,record"`
	Predicted      string  `yaml:"predicted,omitempty" doc:"What is done with servers that the simulator's arithmetic predicts not to fit their GPU." default:"start" enum:"start,skip"`
	Calibrate      string  `yaml:"calibrate,omitempty" doc:"Whether the measuring client is calibrated before a run, at the plan's worst shape: where no calibration of this host and version is at hand, or never." default:"auto" enum:"auto,never"`
	// Prices are of GPUs by their names; see [Plan.PriceOf].
	Prices map[string]Price `yaml:"prices,omitempty" doc:"Prices of GPUs that are owned or reserved, by their names in matrix.gpu. For a rented GPU the provider's price comes first." default:"the user's configuration, else the catalogue's list price"`

	Budget   *Budget  `yaml:"budget,omitempty" doc:"What the run may cost at most. The flags --max-cost and --max-time take the place of its keys."`
	Timeouts Timeouts `yaml:"timeouts,omitempty" doc:"Bounds on every phase; each is reported by its name when it is reached."`

	rest       Rest
	conditions string // the digest of those that the plan itself says
	variables  string // the digest of Plan.Variables
}

// A Plugin is one backend, collector or sink with its own part of the plan. In
// the file it is either a bare name, or a mapping with the key kind (backend),
// or a mapping of one name to its keys (collect, sinks).
type Plugin struct {
	Kind string
	// Decode decodes the plug-in's own keys over a struct's defaults, strictly
	// and with positions in its errors: the decode of the plug-in's Factory.
	Decode func(any) error

	// Keys are as written, references unexpanded; nil if there are none. Place is
	// where Kind stands in the file, nil for a default.
	Keys  any          `yaml:"-"`
	Place *syntax.Node `yaml:"-"`
}

// Wrong places what the plug-in's factory found wrong, beyond what decoding
// can see, at the plug-in in the file. An error that has a place is returned as
// it is, nil for nil.
func (p Plugin) Wrong(err error) error {
	if err == nil {
		return nil
	}
	if _, ok := IsDiagnostics(err); ok || p.Place == nil {
		return err
	}
	r := &syntax.Report{}
	r.Node(p.Place, "plugin", "%s: %v", p.Kind, err)
	return r.Err()
}

// An Engine is what a plan says of one engine.
type Engine struct {
	Profile string `yaml:"profile,omitempty" doc:"Engine profile to start from." default:"the engine's name"`
	Image   string `yaml:"image,omitempty" doc:"Container image, on backends that run images." default:"the profile's" example:"vllm/vllm-openai:v0.11.0"`
	// Entrypoint of the image; nil is the profile's, which is of the profile's image.
	Entrypoint []string `yaml:"entrypoint,omitempty" doc:"ENTRYPOINT of the image, with which the command line begins; needed for another image than the profile's where its own differs." default:"the profile's"`

	Command []string                 `yaml:"command,omitempty" doc:"Command line that takes the place of the profile's; {{.Model}}, {{.Host}}, {{.Port}} and the like are filled in." default:"the profile's"`
	Args    map[string]any           `yaml:"args,omitempty" doc:"Arguments of the engine by name, without dashes: true is --name, false is --no-name where the engine knows it."`
	Env     map[string]secret.String `yaml:"env,omitempty" doc:"Environment of the server. Credentials by reference only: ${HF_TOKEN}."`
	CPUs    []int                    `yaml:"cpus,omitempty" doc:"CPUs to pin the server to, on backends that can." default:"all" min:"0" max:"4095"`
	Served  string                   `yaml:"served_model_name,omitempty" doc:"Name that the server answers to." default:"the model" example:"chat"`

	Roles map[string]Role `yaml:"roles,omitempty" doc:"What is different for single roles of an engine that has several, by the role's name." default:"every role as the profile has it"`
}

// A Role is what a plan says of one role of an engine, beyond what it says of
// the engine. What stands here wins.
type Role struct {
	Replicas   int                      `yaml:"replicas,omitempty" doc:"How many of this role are started." default:"the profile's, or 1" min:"1" max:"1024"`
	Image      string                   `yaml:"image,omitempty" doc:"Container image of this role, on backends that run images." default:"the engine's" example:"vllm/vllm-openai:v0.11.0"`
	Entrypoint []string                 `yaml:"entrypoint,omitempty" doc:"ENTRYPOINT of the image." default:"the engine's"`
	Command    []string                 `yaml:"command,omitempty" doc:"Command line that takes the place of the profile's." default:"the profile's"`
	Args       map[string]any           `yaml:"args,omitempty" doc:"Arguments of this role alone, by name, without dashes. The engine's own args reach the roles that run the model; frontends and routers have only these."`
	Env        map[string]secret.String `yaml:"env,omitempty" doc:"Environment of this role, beyond the engine's. Credentials by reference only: ${HF_TOKEN}."`
	CPUs       []int                    `yaml:"cpus,omitempty" doc:"CPUs to pin the role to, on backends that can." default:"the engine's" min:"0" max:"4095"`
}

// An SLO is one objective over the columns of the cells table.
type SLO struct {
	Name     string
	Expr     string
	Severity string // fail or warn
	// Line and Column are where it stands in the file, from 1.
	Line, Column int

	check *Check
}

// Goodput says which requests count as good: those within every bound given.
type Goodput struct {
	TTFT float64 `yaml:"ttft_ms,omitempty" doc:"Longest time to first token of a good request." gt:"0" unit:"ms" example:"200"`
	TPOT float64 `yaml:"tpot_ms,omitempty" doc:"Longest time per output token of a good request." gt:"0" unit:"ms" example:"25"`
	E2E  float64 `yaml:"e2e_ms,omitempty" doc:"Longest time from end to end of a good request." gt:"0" unit:"ms" example:"5000"`
}

// Budget is what a run may cost at most. What is needed to give everything back
// is kept in reserve.
type Budget struct {
	MaxCost        float64       `yaml:"max_cost,omitempty" doc:"Most that may be spent on what is rented, teardown included." default:"no bound" gt:"0" max:"1000000" unit:"USD" example:"5"`
	MaxTime        time.Duration `yaml:"max_time,omitempty" doc:"Longest that the run may measure." default:"no bound" unit:"s" example:"2h"`
	MaxPodLifetime time.Duration `yaml:"max_pod_lifetime,omitempty" doc:"When a pod ends itself, whatever has become of sweep." default:"6h" unit:"s" example:"4h"`
}

// Timeouts bound every phase. Each is reported by its name when it is reached.
type Timeouts struct {
	Launch  time.Duration `yaml:"launch,omitempty" doc:"From the request for a server until it is started." default:"the backend's, or 5m" unit:"s" example:"10m"`
	Ready   time.Duration `yaml:"ready,omitempty" doc:"From its start until a server answers a completion." default:"the engine profile's, or 10m" unit:"s" example:"20m"`
	Request time.Duration `yaml:"request,omitempty" doc:"Deadline of each request." default:"5m" unit:"s" example:"2m"`
	Trial   time.Duration `yaml:"trial,omitempty" doc:"One attempt at a trial, warm-up and drain included." default:"1h, or longer where load.duration or load.stages ask for it" unit:"s" example:"30m"`
	Stop    time.Duration `yaml:"stop,omitempty" doc:"From the polite signal to a server until the final one." default:"30s" unit:"s" example:"1m"`
}
