// Package engine describes inference engines as data: how each is started, when it
// is ready, which requests it takes and the names of its metrics. To add an engine,
// add a YAML file under profiles/.
package engine

import (
	"cmp"
	"net"
	"strconv"
	"time"

	"sweep.dev/sweep/engine/failure"
	"sweep.dev/sweep/engine/loglines"
)

// A Profile is one engine.
type Profile struct {
	Name string `yaml:"name" doc:"Name of the engine, as plans and commands use it." pattern:"^[a-z0-9][a-z0-9.-]*$"`
	// Like names a built-in profile that this one starts from.
	Like string `yaml:"like,omitempty" doc:"Built-in profile that this one starts from, key by key."`
	Doc  string `yaml:"doc" doc:"What it is, in one line."` // one line
	// Homepage is where the facts of this profile can be checked.
	Homepage string `yaml:"homepage,omitempty" doc:"Where the facts of the profile can be checked."`

	// Roles are the kinds of process that one deployment of this engine has,
	// in start order. A plain server is one role named "server". Empty for an
	// engine that sweep cannot start (generic-openai).
	Roles []Role `yaml:"roles,omitempty" doc:"Kinds of process of one deployment, in start order; none for an engine that sweep cannot start."`

	// Entry is the role that requests go to; "" is the first.
	Entry string `yaml:"entry,omitempty" doc:"Role that requests go to." default:"the first"`

	// Ready says when a started deployment may be measured.
	Ready Ready `yaml:"ready" doc:"When a deployment may be measured."`
	// API is what may be sent to it.
	API API `yaml:"api" doc:"What may be sent to it."`
	// Flags says how a plan's args become a command line.
	Flags Flags `yaml:"flags,omitempty" doc:"How the args of a plan become a command line."`
	// Speculation says which of its settings are those of speculative decoding.
	Speculation Speculation `yaml:"speculation,omitempty" doc:"Settings of speculative decoding."`
	// GPUs says how many GPUs its replicas use.
	GPUs GPUs `yaml:"gpus,omitempty" doc:"How many GPUs one replica uses, by its arguments."`
	// MemoryLike is the engine whose use of GPU memory it has: one that the simulator
	// can predict. "" predicts nothing.
	MemoryLike string `yaml:"memory_like,omitempty" doc:"Engine whose use of GPU memory it has: whether a server fits is predicted by it before a start." default:"none, and nothing is predicted" enum:"none,vllm,sglang,trtllm,tgi"`
	// Metrics says what its /metrics means.
	Metrics Metrics `yaml:"metrics,omitempty" doc:"What its metrics mean."`
	// Totals says, for single quantities, in which roles they are counted: in a
	// deployment that splits prefill from decode both workers see every
	// request. A quantity that is not listed is that of all roles of the tier
	// engine, else of the frontend, else of the router.
	Totals map[string][]string `yaml:"totals,omitempty" doc:"For single quantities, the roles in which they are counted." default:"all roles of the tier engine, else the frontend, else the router"`
	// Failures are this engine's own failure texts, tried before the common ones.
	Failures []failure.Text `yaml:"failures,omitempty" doc:"Texts in its log that say why it ended, tried before the common ones."`
	// Logs says what single lines of its logs mean.
	Logs loglines.Logs `yaml:"logs,omitempty" doc:"What single lines of its logs mean: noise, and the steps of a request."`
}

// A Role is one kind of process of an engine.
type Role struct {
	Name string `yaml:"name" doc:"Name of the role: small letters, digits and underscores." pattern:"^[a-z][a-z0-9_]*$"`
	// Command is the argv of a server on this machine, as text/template
	// strings over [Vars]; see [Profile.Argv]. The plan's args follow it as
	// flags, and a plan may replace Command itself (engines.<name>.command).
	Command []string `yaml:"command" doc:"Command line, each element a template and one argument."`
	Image   string   `yaml:"image,omitempty" doc:"Container image."`
	// Entrypoint is the ENTRYPOINT of Image: with what Command begins, or what
	// stands there in the place of its first element; see [InImage]. Empty for
	// an image without one.
	Entrypoint []string `yaml:"entrypoint,omitempty" doc:"ENTRYPOINT of the image."`
	// Versions is how older releases were started; see [Profile.At].
	Versions []RoleVersion `yaml:"versions,omitempty" doc:"How older releases were started, the oldest first."`
	// Env is the environment of a replica, as templates like Command.
	Env  map[string]string `yaml:"env,omitempty" doc:"Environment, as templates."`
	Port int               `yaml:"port,omitempty" doc:"The engine's own default port." min:"0" max:"65535"` // the engine's own default
	// Ports are further ports that the role listens on, by name, with the
	// engine's own defaults: {{.Ports.metrics}} in templates.
	Ports map[string]int `yaml:"ports,omitempty" doc:"Further ports by name, with their defaults." min:"0" max:"65535"`
	// Files are written before the role starts, by name, as templates:
	// {{.Dir}}/NAME is where.
	Files map[string]string `yaml:"files,omitempty" doc:"Files to write before it starts, by name, as templates."`
	// Replicas is how many of this role are started; 0 is one, and a plan may
	// say otherwise.
	Replicas int `yaml:"replicas,omitempty" doc:"How many are started." default:"1" min:"0" max:"1024"`
	// Tier is what the role is to a request: the engine itself (the default),
	// or a frontend or router that sees the same requests once more. The plan's
	// args become flags of the tier engine alone.
	Tier string `yaml:"tier,omitempty" doc:"What the role is to a request; only those of tier engine get the args of a plan." default:"engine" enum:"engine,frontend,router"`
	// Ready is what has to hold before the next role is started, or the deployment
	// is asked whether it serves.
	Ready RoleReady `yaml:"ready,omitempty" doc:"What has to hold before the next role is started, or the deployment is asked whether it serves."`
	// Metrics takes the place of the profile's for this role.
	Metrics *Metrics `yaml:"metrics,omitempty" doc:"What its metrics mean, in the place of the profile's."`
	// KeyEnv is the variable from which the server takes the key that its
	// clients must have.
	KeyEnv string `yaml:"key_env,omitempty" doc:"Variable from which the server takes the key that clients must have."`
}

// Tiers of a role.
const (
	TierEngine   = "engine"
	TierFrontend = "frontend"
	TierRouter   = "router"
)

// A RoleVersion takes the place of what a role says, for releases before Below.
type RoleVersion struct {
	Below      string   `yaml:"below" doc:"Release from which on this no longer holds." example:"0.11"`
	Command    []string `yaml:"command,omitempty" doc:"Command line then."`
	Image      string   `yaml:"image,omitempty" doc:"Image then."`
	Entrypoint []string `yaml:"entrypoint,omitempty" doc:"ENTRYPOINT of the image then."`
}

// A RoleReady is when one role is so far that the next may be started; the zero
// value is at once. Of each replica, all that is given must hold.
type RoleReady struct {
	Line   string        `yaml:"line,omitempty" doc:"Regular expression over one line of its log."` // regular expression over one line of its log
	Health string        `yaml:"health,omitempty" doc:"Path that answers 200."`                     // path that answers 200
	Wait   time.Duration `yaml:"wait,omitempty" doc:"Time to wait after that."`                     // after that, for steps without a signal
}

// An Address is where one replica of a role listens.
type Address struct {
	Host  string
	Port  int
	Ports map[string]int // by the names of Role.Ports
	Dir   string         // where its Role.Files are, for roles on one machine that share one
}

func (a Address) String() string { return net.JoinHostPort(a.Host, strconv.Itoa(a.Port)) }

// URL returns the base of its HTTP server.
func (a Address) URL() string { return "http://" + a.String() }

// Vars holds the values that a template of a Role may use.
type Vars struct {
	Model string
	// Served is the name that the server shall answer to; "" is Model.
	Served string
	Host   string // where to listen
	Port   int
	Ports  map[string]int // see Role.Ports
	Dir    string         // where Role.Files are
	// Peers is where the replicas of all roles listen: {{(index .Peers.worker 0).URL}},
	// or as an element of its own {{each "worker" "URL"}}, which becomes one
	// argument for each replica.
	Peers   map[string][]Address
	Replica int // which of its role this is, from 0
	GPUs    int // of one replica of this role
	GPU     string
	Seed    uint64
	// Sweep is the path of the running program, for the simulated engine.
	Sweep string
}

// Ready says when a server may be measured: Line stands in the log of the entry
// role, Health answers 200, Models lists the model, and a completion of one
// token comes back. What is empty is skipped; the completion never is.
type Ready struct {
	Line    string        `yaml:"line,omitempty" doc:"Regular expression over one line of the entry role's log; necessary, never sufficient."` // regular expression over one line; necessary, never sufficient
	Health  string        `yaml:"health,omitempty" doc:"Path that answers 200."`                                                               // path
	Models  string        `yaml:"models,omitempty" doc:"Path of the list of models, which must have the model."`                               // path
	Timeout time.Duration `yaml:"timeout,omitempty" doc:"How long a start may take unless the plan says otherwise."`                           // default for the plan's timeouts.ready
}

// API is the dialect of OpenAI's API that an engine speaks.
type API struct {
	Chat        string `yaml:"chat,omitempty" doc:"Path of chat completions."`   // path of chat completions
	Completions string `yaml:"completions,omitempty" doc:"Path of completions."` // path of completions
	// IgnoreEOS: the server takes ignore_eos and then generates exactly max_tokens.
	IgnoreEOS bool `yaml:"ignore_eos,omitempty" doc:"It takes ignore_eos and then gives exactly max_tokens." default:"false"`
	// MinTokens: the server takes min_tokens.
	MinTokens bool `yaml:"min_tokens,omitempty" doc:"It takes min_tokens." default:"false"`
	// IncludeUsage: the server takes stream_options.include_usage.
	IncludeUsage bool `yaml:"include_usage,omitempty" doc:"It takes stream_options.include_usage." default:"false"`
	// ContinuousUsage: stream_options.continuous_usage_stats gives the token
	// count with every chunk.
	ContinuousUsage bool `yaml:"continuous_usage,omitempty" doc:"It takes stream_options.continuous_usage_stats." default:"false"`
	// MaxTokensField is "max_tokens" unless the server wants another.
	MaxTokensField string `yaml:"max_tokens_field,omitempty" doc:"What it calls max_tokens." default:"max_tokens"`
	// CacheReset is a path to POST to that empties the prefix cache; "" if
	// there is none. A 404 means that the server was started without it.
	CacheReset string `yaml:"cache_reset,omitempty" doc:"Path to POST to that empties the prefix cache."`
	// Tokenize is a path that counts the tokens of a text; "" if there is none.
	Tokenize string `yaml:"tokenize,omitempty" doc:"Path that counts the tokens of a text."`
	// TokenizeField is what a request to it calls the text.
	TokenizeField string `yaml:"tokenize_field,omitempty" doc:"What a request to it calls the text." default:"prompt"`
	// Version is a path whose JSON answer holds VersionField.
	Version string `yaml:"version,omitempty" doc:"Path whose JSON answer holds the version."`
	// VersionField is "version" unless the server calls it otherwise.
	VersionField string `yaml:"version_field,omitempty" doc:"Field of that answer." default:"version"`
	// FreshConnections: the server closes connections on its own after an
	// answer, so a request that reused one would race with that.
	FreshConnections bool `yaml:"fresh_connections,omitempty" doc:"It closes connections on its own, so none is used twice." default:"false"`
	// Body is sent with every request beside what sweep itself sends.
	Body map[string]any `yaml:"body,omitempty" doc:"Sent with every request."`
}

// Flags says how a plan's args become command-line flags: --name value.
type Flags struct {
	// Style is "dash" (--max-num-seqs, the default) or "underscore".
	Style string `yaml:"style,omitempty" doc:"How names of flags are written." default:"dash" enum:"dash,underscore"`
	// Negate lists boolean flags that have a --no- form; false for a boolean
	// that is not listed leaves the flag out. "*" means that all have one.
	Negate []string `yaml:"negate,omitempty" doc:"Boolean flags that have a --no- form; \"*\" is all."`
	// Known lists the flags that validate knows, for its "did you mean". An
	// unlisted flag is passed on: engines grow faster than this list.
	Known []string `yaml:"known,omitempty" doc:"Flags that it knows, for \"did you mean\"; others are passed on."`
	// Lists says how a list becomes a flag: "spread" (--x a b, the default),
	// "repeat" (--x a --x b) or "comma" (--x a,b).
	Lists string `yaml:"lists,omitempty" doc:"How a list is written: --x a b, --x a --x b or --x a,b." default:"spread" enum:"spread,repeat,comma"`
	// Served is the flag that takes the name to answer to, if there is one.
	Served string `yaml:"served,omitempty" doc:"Flag for the name to answer to."`
	// Nested is the flag that takes a YAML file of settings: an argument whose
	// value is a mapping, or whose name has a dot, goes there and not on the
	// command line.
	Nested string `yaml:"nested,omitempty" doc:"Flag that takes a YAML file of settings: mappings and names with a dot go there."`
	// NestedNames lists arguments that go there too, with any value.
	NestedNames []string `yaml:"nested_names,omitempty" doc:"Further arguments that go there."`
	// Reserved names the flags that sweep sets itself and a plan must not.
	Reserved []string `yaml:"reserved,omitempty" doc:"Flags that sweep sets itself."`
}

// Metrics says what an engine's /metrics means.
type Metrics struct {
	// Like names built-in profiles, or the parts under profiles/parts, whose
	// metrics these start from: a Dynamo worker has its own and those of the
	// engine inside it. Where two of them have a quantity, it is looked for as
	// the first has it and then as the second.
	Like []string `yaml:"like,omitempty" doc:"Built-in profiles or parts whose metrics these start from."`
	Path string   `yaml:"path,omitempty" doc:"Path of the metrics."`
	// Fallback are paths that are tried where Path holds no metrics.
	Fallback []string `yaml:"fallback,omitempty" doc:"Paths to try where that holds none."`
	// Port is the name of the port, of Role.Ports; "" is the role's own.
	Port string `yaml:"port,omitempty" doc:"Name of the port, if it is not the role's own."`
	// Flag is the argument that turns the metrics on, for a role without any by default: its
	// value is their port. They are read of a stack that was found, by what its manifests say.
	Flag string `yaml:"flag,omitempty" doc:"Argument, without dashes, that turns the metrics on, with their port as its value: without it the role has none. They are read of stacks on Kubernetes that run already." example:"metrics-port"`
	// Iterations is a path of iteration statistics in JSON, of which every
	// answer empties the queue (trtllm-serve).
	Iterations string `yaml:"iterations,omitempty" doc:"Path of iteration statistics in JSON."`
	// Prefixes are the namespaces of the engine's own series. The names in
	// Series have the first; the others stand for it: vllm: and vllm_ and
	// ray_vllm:, or "" for a server that has none.
	Prefixes []string `yaml:"prefixes,omitempty" doc:"Namespaces of the engine's own series; the names below have the first."`
	// Exclusive: a scrape changes what the next one sees, so only one client
	// may scrape.
	Exclusive bool `yaml:"exclusive,omitempty" doc:"A scrape changes what the next one sees." default:"false"`
	// Series maps canonical names (see [Canonical]) to where the engine has
	// them; the first of the list that a body contains is taken.
	Series map[string][]Series `yaml:"series,omitempty" doc:"Where it has each quantity; the first that a body contains is taken."`
	// Settings are arguments that the engine reports of itself, by the name of
	// the argument: another value than the plan's is a finding.
	Settings map[string][]Series `yaml:"settings,omitempty" doc:"Arguments that it reports of itself."`
	// Reported is a regular expression over one line of the engine's log, whose
	// first group is the output tokens per second that it claims of itself.
	Reported string `yaml:"reported,omitempty" doc:"Regular expression over one line of the log; its first group is the output tokens per second that the engine claims."`
	// Routed is a regular expression over one line of the log of a role that chooses
	// a worker for each phase of a request. Its groups request, worker and phase are
	// the router's own id of the request, the worker, and what it is chosen for.
	Routed string `yaml:"routed,omitempty" doc:"Regular expression over one line of the log that names the chosen worker; its groups are request, worker and phase (prefill, decode)."`
	// Meanings says in a few words what further series mean, by name.
	Meanings map[string]string `yaml:"meanings,omitempty" doc:"What further series mean."`
}

// A Series is one way an engine exposes a canonical quantity.
type Series struct {
	Name   string            `yaml:"name" doc:"Name in the body, with prefix and with the _total of a counter."`
	Match  map[string]string `yaml:"match,omitempty" doc:"Only series with these labels."`
	Plus   []string          `yaml:"plus,omitempty" doc:"Names whose values are added."`
	Scale  float64           `yaml:"scale,omitempty" doc:"Factor to the canonical unit." default:"1" min:"0"`
	Reduce string            `yaml:"reduce,omitempty" doc:"How several series become one." default:"sum" enum:"sum,mean,max"`
	// Label takes the value from this label of an info series instead.
	Label string `yaml:"label,omitempty" doc:"Label that holds the value."`
	// Times is a second series, or a label of the same one, by which the value
	// is multiplied: blocks times tokens of a block.
	Times *Series `yaml:"times,omitempty" doc:"Series, or label of the same one, to multiply by."`
	// Unknown are values that the engine exposes if it has none, in the engine's
	// own unit: -1 for a cache that is off.
	Unknown []float64 `yaml:"unknown,omitempty" doc:"Values that stand for unknown, in the engine's own unit."`
	// Needs is a series with the same labels without which the value is unknown,
	// for a 0 that may be real: an accept rate counts if there is an accept length.
	Needs *Series `yaml:"needs,omitempty" doc:"Series with the same labels that must have a value: without it, this one is unknown."`
	// Zero is a series that the engine has from its first request on. Beside it an
	// absent counter is 0 and not unknown: the engine makes it with the first event,
	// such as a failure.
	Zero *Series `yaml:"zero,omitempty" doc:"Series beside which this counter, if the body lacks it, is 0: the engine makes it with the first event."`
	// Unit is that of the values if it is not the quantity's: one engine counts in
	// blocks what others count in tokens.
	Unit string `yaml:"unit,omitempty" doc:"Unit of the values, if it is not the quantity's." example:"blocks"`
	// Not leaves out series with one of these values of a label.
	Not map[string][]string `yaml:"not,omitempty" doc:"Leave out series with one of these values of a label."`
}

// Role returns the role of that name, or nil.
func (p *Profile) Role(name string) *Role {
	for i := range p.Roles {
		if p.Roles[i].Name == name {
			return &p.Roles[i]
		}
	}
	return nil
}

// Computes reports whether the role runs the model: the plan's args are for it, and it
// has GPUs and a prefix cache. A nil role, of a server without listed roles, does too.
func (r *Role) Computes() bool { return r == nil || r.Tier == "" || r.Tier == TierEngine }

// EntryRole returns the name of the role that requests go to.
func (p *Profile) EntryRole() string {
	switch {
	case p.Entry != "":
		return p.Entry
	case len(p.Roles) > 0:
		return p.Roles[0].Name
	}
	return "server"
}

// Classify says why a server of this engine ended, see [failure.Classify].
func (p *Profile) Classify(tail []string, end failure.End) failure.Diagnosis {
	end.Engine = cmp.Or(end.Engine, p.Name)
	return failure.Classify(p.Failures, tail, end)
}

// MetricsOf returns the metrics of a role: its own, or the profile's.
func (p *Profile) MetricsOf(role string) *Metrics {
	if r := p.Role(role); r != nil && r.Metrics != nil {
		return r.Metrics
	}
	return &p.Metrics
}
