package plan

import (
	"time"

	"sweep.dev/sweep/internal/secret"
	"sweep.dev/sweep/internal/syntax"
	"sweep.dev/sweep/result/bounds"
)

// A Plan is one experiment, checked and with its defaults filled in.
type Plan struct {
	Version     int    `yaml:"version" doc:"Version of the plan language." min:"1" max:"1" example:"1"`
	Name        string `yaml:"name" doc:"Name of the experiment. Run directories begin with it." pattern:"^[a-z0-9][a-z0-9._-]{0,62}$" example:"chat-capacity"`
	Description string `yaml:"description,omitempty" doc:"The question that the experiment answers, for people." example:"How many chats does one L4 carry?"`

	Model         string `yaml:"model,omitempty" doc:"Model to serve, by the name that the engine uses. Leave it out if model is an axis." example:"Qwen/Qwen2.5-1.5B-Instruct"`
	ModelRevision string `yaml:"model_revision,omitempty" doc:"Revision of the model (commit, tag), recorded in every row and in the spec digest." default:"none" example:"v1.0"`

	Matrix  Matrix            `yaml:"matrix,omitempty" doc:"Axes of the experiment, and cells added to or taken from their product. Every combination of values is a cell." default:"one cell" example:"{engine: vllm, gpu: l4, concurrency: [1, 8, 32]}"`
	Backend Plugin            `yaml:"backend" doc:"Where servers run: a kind, or a mapping with the key kind and the backend's own keys." example:"{kind: docker, gpus: ['0']}"`
	Engines map[string]Engine `yaml:"engines,omitempty" doc:"Settings of each engine, by the name that the axis engine uses." default:"every engine as its profile has it" example:"{vllm: {args: {max-model-len: 4096}}}"`
	// EngineFiles are as written; see EngineFile.
	EngineFiles []string `yaml:"engine_files,omitempty" doc:"Your own engine profiles: YAML files, relative to the plan's folder. Each adds an engine or replaces a built-in one." default:"none" example:"[toy.yaml]"`
	Load        Load     `yaml:"load" doc:"The requests of one trial. A key that is an axis of the matrix is left out here." example:"{requests: 300, max_tokens: 128, prompts: {input_tokens: 512}}"`
	// Loads takes the place of Load, which is then zero.
	Loads []NamedLoad `yaml:"loads,omitempty" doc:"Named loads in place of load: each is run on every server, with those axes of the matrix that it takes. Nothing is compared across loads." default:"none" example:"[{name: chat, concurrency: 8, requests: 300, max_tokens: 128, prompts: {input_tokens: 512}}]"`

	SLO []SLO `yaml:"slo,omitempty" doc:"Objectives by name: an expression over the columns of the cells table, or a mapping of expr and severity. Latencies and rates are of the plateau, and a failed request counts as infinite. Columns that end in _whole are of the whole trial." default:"none" example:"{fast: p95_ttft_ms < 200}"`
	// Confidence is 0 if the plan does not say it.
	Confidence float64  `yaml:"confidence,omitempty" doc:"Confidence of the verdict on an objective over a percentile, an error rate, a mean or a rate. The parts of an objective that and or or joins share it." default:"0.95" gt:"0.5" lt:"1" unit:"ratio" example:"99%"`
	Goodput    *Goodput `yaml:"goodput,omitempty" doc:"Bounds of a good request, for goodput_req_s." default:"none" example:"{ttft_ms: 200, tpot_ms: 25}"`
	// Quality is nil for a plan that asks for no answers beside its load.
	Quality *Quality `yaml:"quality,omitempty" doc:"Prompts that each deployment answers at temperature 0 outside of the measured time, twice, so that a faster setting that answers worse is seen. They are announced and counted as requests beyond the load. quality.lm_eval takes the answers of lm-evaluation-harness in their place." default:"none" example:"{file: short-answers.jsonl, baseline: {engine: vllm}}"`
	// Fingerprint is nil if the plan leaves it open, see [Plan.Fingerprints].
	Fingerprint *bool         `yaml:"fingerprint,omitempty" doc:"Whether each launch answers a fixed prompt and a fixed number of tokens before it is measured, for at most 30 s, so that a card that is slower than others of its name is seen. The requests are announced and counted." default:"true if the GPUs are rented, or sweep starts the servers and find.devices is above 1" example:"false"`
	Validity    bounds.Bounds `yaml:"validity,omitempty" doc:"Bounds beyond which a trial is INVALID." example:"{max_error_rate: 1%}"`

	Sinks   []Plugin `yaml:"sinks,omitempty" doc:"Derived tables to write: names, or mappings of one name to its own keys. Raw requests and samples are always kept." default:"[parquet, csv]" example:"[parquet, csv]"`
	Collect []Plugin `yaml:"collect,omitempty" doc:"Collectors that measure beside the requests: names, or mappings of one name to its own keys." default:"[prom, gpu, proc]" example:"[prom, gpu]"`

	// Find is nil for a plan that searches for nothing.
	Find    *Find   `yaml:"find,omitempty" doc:"Search for the greatest load that keeps objectives, for each combination of the other axes: its trials are cells of the matrix, chosen one after another. See docs/capacity.md." default:"none" example:"{axis: request_rate, from: 0.5, to: 100, objectives: {interactive: p95_ttft_ms < 200}}"`
	Repeats Repeats `yaml:"repeats,omitempty" doc:"Trials of each cell: their number, or a mapping." default:"1" example:"5"`
	// Compare is nil for a plan that compares nothing by turns.
	Compare        *Compare `yaml:"compare,omitempty" doc:"Compare the values of a server axis with one of them. Their servers take turns, trial by trial in an order of the seed, and each turn has its own launch. It wants repeats with launch: each." default:"none" example:"{axis: engine, baseline: vllm}"`
	Seed           uint64   `yaml:"seed,omitempty" doc:"Seed of prompts, arrivals and order. The same plan and seed give the same load." default:"1" min:"0" example:"42"`
	Order          string   `yaml:"order,omitempty" doc:"Order of the deployments, and of the cells in each: as declared, or shuffled by the seed." default:"declared" enum:"declared,shuffled" example:"shuffled"`
	Retries        *int     `yaml:"retries,omitempty" doc:"Further attempts at a trial if its server died during it." default:"1" min:"0" max:"10" unit:"attempts" example:"2"`
	OnStartFailure string   `yaml:"on_start_failure,omitempty" doc:"How a server that does not start counts: its cells fail, or the failure is recorded as a result." default:"fail" enum:"fail,record" example:"record"`
	Predicted      string   `yaml:"predicted,omitempty" doc:"Whether servers are started that the simulator's arithmetic predicts not to fit their GPU." default:"start" enum:"start,skip" example:"skip"`
	Calibrate      string   `yaml:"calibrate,omitempty" doc:"Whether the client is calibrated before a run, at the plan's largest load: if this host and version have no calibration yet, or never." default:"auto" enum:"auto,never" example:"never"`
	// Prices are of GPUs by their names; see [Plan.PriceOf].
	Prices map[string]Price `yaml:"prices,omitempty" doc:"Prices of owned or reserved GPUs, by their names in matrix.gpu. For a rented GPU the provider's price takes precedence." default:"the user's configuration, else the catalogue's list price" example:"{l4: {usd_per_hour: 0.71}}"`

	Budget   *Budget   `yaml:"budget,omitempty" doc:"Bounds on the cost and time of the run. The flags --max-cost and --max-time replace its keys." example:"{max_cost: 5, max_time: 2h}"`
	OnFinish *OnFinish `yaml:"on_finish,omitempty" doc:"Who is told how a run ended." default:"nobody" example:"{webhook: {url: '${SWEEP_WEBHOOK}', format: slack}}"`
	Timeouts Timeouts  `yaml:"timeouts,omitempty" doc:"Time limits of every phase. An error names the one that was reached." example:"{ready: 20m, request: 2m}"`

	rest       Rest
	conditions map[string]string // the digests of those that the plan itself says, by the names of loads
	variables  string            // the digest of Plan.Variables
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
	Keys any `yaml:"-"`
	// Digests are the SHA-256 of the manifests that it names, in their order.
	Digests []string     `yaml:"-"`
	Place   *syntax.Node `yaml:"-"`
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
	Profile string `yaml:"profile,omitempty" doc:"Engine profile to start from." default:"the engine's name" example:"vllm"`
	Image   string `yaml:"image,omitempty" doc:"Container image, on backends that run images." default:"the profile's" example:"vllm/vllm-openai:v0.11.0"`
	// Entrypoint of the image; nil is the profile's, which is of the profile's image.
	Entrypoint []string `yaml:"entrypoint,omitempty" doc:"ENTRYPOINT of the image, with which the command line begins. Needed if the image is not the profile's and has another ENTRYPOINT." default:"the profile's" example:"[vllm, serve]"`

	Command []string                 `yaml:"command,omitempty" doc:"Command line that replaces the profile's. {{.Model}}, {{.Host}}, {{.Port}} and the other fields of docs/engines.md are filled in." default:"the profile's" example:"[my-server, '--port', '{{.Port}}']"`
	Args    map[string]any           `yaml:"args,omitempty" doc:"Arguments of the engine by name, without dashes. true is --name; false is --no-name if the engine has it." example:"{max-num-seqs: 64, enable-prefix-caching: false}"`
	Env     map[string]secret.String `yaml:"env,omitempty" doc:"Environment of the server. Credentials by reference only: ${HF_TOKEN}." example:"{HF_TOKEN: '${HF_TOKEN}'}"`
	CPUs    []int                    `yaml:"cpus,omitempty" doc:"CPUs to pin the server to, on backends that can." default:"all" min:"0" max:"4095" example:"[0, 1, 2, 3]"`
	Served  string                   `yaml:"served_model_name,omitempty" doc:"Name under which the server serves the model. any is the model's own name, of which answers may come under every other: those of a router." default:"the model" example:"chat"`

	Roles map[string]Role `yaml:"roles,omitempty" doc:"Settings of single roles, by the role's name, for an engine that has several." default:"every role as the profile has it" example:"{worker: {replicas: 2}}"`
}

// A Role is what a plan says of one role of an engine, beyond what it says of
// the engine. What stands here wins.
type Role struct {
	Replicas   int                      `yaml:"replicas,omitempty" doc:"Number of servers of this role." default:"the profile's, or 1" min:"1" max:"1024" example:"2"`
	Image      string                   `yaml:"image,omitempty" doc:"Container image of this role, on backends that run images." default:"the engine's" example:"vllm/vllm-openai:v0.11.0"`
	Entrypoint []string                 `yaml:"entrypoint,omitempty" doc:"ENTRYPOINT of the image." default:"the engine's" example:"[vllm, serve]"`
	Command    []string                 `yaml:"command,omitempty" doc:"Command line that replaces the profile's." default:"the profile's" example:"[my-router, '--port', '{{.Port}}']"`
	Args       map[string]any           `yaml:"args,omitempty" doc:"Arguments of this role alone, by name, without dashes. The engine's own args go to the roles that run the model; frontends and routers get only these." example:"{router-mode: kv}"`
	Env        map[string]secret.String `yaml:"env,omitempty" doc:"Environment of this role, added to the engine's. Credentials by reference only: ${HF_TOKEN}." example:"{HF_TOKEN: '${HF_TOKEN}'}"`
	CPUs       []int                    `yaml:"cpus,omitempty" doc:"CPUs to pin the role to, on backends that can." default:"the engine's" min:"0" max:"4095" example:"[0, 1]"`
}

// An SLO is one objective over the columns of the cells table.
type SLO struct {
	Name     string
	Expr     string
	Severity string   // fail or warn
	Loads    []string // the named loads that it is for; nil: all
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
	MaxCost        float64       `yaml:"max_cost,omitempty" doc:"Most that may be spent on rented servers, clean-up included." default:"no bound" gt:"0" max:"1000000" unit:"USD" example:"5"`
	MaxTime        time.Duration `yaml:"max_time,omitempty" doc:"Longest that the run may measure." default:"no bound" unit:"s" example:"2h"`
	MaxPodLifetime time.Duration `yaml:"max_pod_lifetime,omitempty" doc:"Time after which a pod ends itself, even if sweep is gone." default:"6h" unit:"s" example:"4h"`
}

// OnFinish says who is told how a run ended.
type OnFinish struct {
	Webhook *Webhook `yaml:"webhook,omitempty" doc:"URL that gets a POST when sweep run or sweep resume ends. It is called only with --allow-webhook." default:"none" example:"{url: '${SWEEP_WEBHOOK}', when: failure}"`
}

// A Webhook is a URL that is told how a run ended.
type Webhook struct {
	// URL is one reference: who knows the URL of a chat's webhook can post there.
	URL    secret.String `yaml:"url" doc:"URL, as a reference to an environment variable. It is stored nowhere. https only, unless --allow-private-webhook is given." example:"${SWEEP_WEBHOOK}"`
	Format string        `yaml:"format,omitempty" doc:"Body of the request: a JSON object (docs/nightly.md), or a text as Slack, Mattermost and others take it." default:"json" enum:"json,slack" example:"slack"`
	When   string        `yaml:"when,omitempty" doc:"Runs that are told: all, or those with an exit code other than 0. Exit code 4 (something may still be running or billing) always is." default:"always" enum:"always,failure" example:"failure"`
}

// Values of Webhook.Format and Webhook.When other than the defaults.
const (
	WebhookSlack   = "slack"
	WebhookFailure = "failure"
)

// Timeouts bound every phase. Each is reported by its name when it is reached.
type Timeouts struct {
	Launch  time.Duration `yaml:"launch,omitempty" doc:"From the request for a server until it is started." default:"the backend's, or 5m" unit:"s" example:"10m"`
	Ready   time.Duration `yaml:"ready,omitempty" doc:"From its start until a server answers a completion." default:"the engine profile's, or 10m" unit:"s" example:"20m"`
	Request time.Duration `yaml:"request,omitempty" doc:"Deadline of each request." default:"5m" unit:"s" example:"2m"`
	Trial   time.Duration `yaml:"trial,omitempty" doc:"One attempt at a trial, including warm-up and drain." default:"1h, or longer where load.duration or load.stages ask for it" unit:"s" example:"30m"`
	Stop    time.Duration `yaml:"stop,omitempty" doc:"From SIGTERM to a server until SIGKILL." default:"30s" unit:"s" example:"1m"`
}
