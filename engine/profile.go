// Package engine knows inference engines as data: how each is started, when it
// is ready, what it may be sent and what its metrics are called. A new engine
// is a YAML file under profiles/, not code.
package engine

import "time"

// A Profile is one engine.
type Profile struct {
	Name string `yaml:"name"`
	// Like names a built-in profile that this one starts from.
	Like string `yaml:"like,omitempty"`
	Doc  string `yaml:"doc"` // one line
	// Homepage is where the facts of this profile can be checked.
	Homepage string `yaml:"homepage,omitempty"`

	// Roles are the kinds of process that one deployment of this engine has,
	// in start order. A plain server is one role named "server". Empty for an
	// engine that sweep cannot start (generic-openai).
	Roles []Role `yaml:"roles,omitempty"`

	// Ready says when a started server may be measured.
	Ready Ready `yaml:"ready"`
	// API is what may be sent to it.
	API API `yaml:"api"`
	// Flags says how a plan's args become a command line.
	Flags Flags `yaml:"flags,omitempty"`
	// Metrics says what its /metrics means.
	Metrics Metrics `yaml:"metrics,omitempty"`
	// Failures are this engine's own failure texts, tried before the common ones.
	Failures []Failure `yaml:"failures,omitempty"`
}

// A Role is one kind of process of an engine.
type Role struct {
	Name string `yaml:"name"`
	// Command is the argv of a server on this machine, as text/template
	// strings over [Vars]; see [Profile.Argv]. The plan's args follow it as
	// flags, and a plan may replace Command itself (engines.<name>.command).
	Command []string `yaml:"command"`
	Image   string   `yaml:"image,omitempty"`
	// Entrypoint is the ENTRYPOINT of Image: with what Command begins. Empty for
	// an image without one.
	Entrypoint []string          `yaml:"entrypoint,omitempty"`
	Env        map[string]string `yaml:"env,omitempty"`
	Port       int               `yaml:"port,omitempty"` // the engine's own default
	// KeyEnv is the variable from which the server takes the key that its
	// clients must have.
	KeyEnv string `yaml:"key_env,omitempty"`
}

// Vars is what a template of a Role may use.
type Vars struct {
	Model string
	// Served is the name that the server shall answer to; "" is Model.
	Served string
	Host   string // where to listen
	Port   int
	GPUs   int
	GPU    string
	Seed   uint64
	// Sweep is the path of the running program, for the simulated engine.
	Sweep string
}

// Ready says when a server may be measured: Health answers 200, Models lists
// the model, and a completion of one token comes back. Health and Models are
// skipped where empty; the completion never is.
type Ready struct {
	Health  string        `yaml:"health,omitempty"`  // path
	Models  string        `yaml:"models,omitempty"`  // path
	Timeout time.Duration `yaml:"timeout,omitempty"` // default for the plan's timeouts.ready
}

// API is the dialect of OpenAI's API that an engine speaks.
type API struct {
	Chat        string `yaml:"chat,omitempty"`        // path of chat completions
	Completions string `yaml:"completions,omitempty"` // path of completions
	// IgnoreEOS: the server takes ignore_eos and then generates exactly max_tokens.
	IgnoreEOS bool `yaml:"ignore_eos,omitempty"`
	// MinTokens: the server takes min_tokens.
	MinTokens bool `yaml:"min_tokens,omitempty"`
	// IncludeUsage: the server takes stream_options.include_usage.
	IncludeUsage bool `yaml:"include_usage,omitempty"`
	// ContinuousUsage: stream_options.continuous_usage_stats gives the token
	// count with every chunk.
	ContinuousUsage bool `yaml:"continuous_usage,omitempty"`
	// MaxTokensField is "max_tokens" unless the server wants another.
	MaxTokensField string `yaml:"max_tokens_field,omitempty"`
	// CacheReset is a path to POST to that empties the prefix cache; "" where
	// there is none. A 404 means that the server was started without it.
	CacheReset string `yaml:"cache_reset,omitempty"`
	// Version is a path whose JSON answer holds "version".
	Version string `yaml:"version,omitempty"`
	// FreshConnections: the server closes connections on its own after an
	// answer, so a request that reused one would race with that.
	FreshConnections bool `yaml:"fresh_connections,omitempty"`
	// Body is sent with every request beside what sweep itself sends.
	Body map[string]any `yaml:"body,omitempty"`
}

// Flags says how a plan's args become command-line flags: --name value.
type Flags struct {
	// Style is "dash" (--max-num-seqs, the default) or "underscore".
	Style string `yaml:"style,omitempty"`
	// Negate lists boolean flags that have a --no- form; false for a boolean
	// that is not listed leaves the flag out. "*" means that all have one.
	Negate []string `yaml:"negate,omitempty"`
	// Known lists the flags that validate knows, for its "did you mean". An
	// unlisted flag is passed on: engines grow faster than this list.
	Known []string `yaml:"known,omitempty"`
	// Lists says how a list becomes a flag: "spread" (--x a b, the default),
	// "repeat" (--x a --x b) or "comma" (--x a,b).
	Lists string `yaml:"lists,omitempty"`
	// Served is the flag that takes the name to answer to, where there is one.
	Served string `yaml:"served,omitempty"`
	// Reserved names the flags that sweep sets itself and a plan must not.
	Reserved []string `yaml:"reserved,omitempty"`
}

// Metrics says what an engine's /metrics means.
type Metrics struct {
	Path string `yaml:"path,omitempty"`
	// Exclusive: a scrape changes what the next one sees, so only one client
	// may scrape.
	Exclusive bool `yaml:"exclusive,omitempty"`
	// Series maps canonical names (see [Canonical]) to where the engine has
	// them; the first of the list that a body contains is taken.
	Series map[string][]Series `yaml:"series,omitempty"`
}

// A Series is one way an engine exposes a canonical quantity.
type Series struct {
	Name   string            `yaml:"name"`             // with its prefix, as in the body; _total of a counter included
	Match  map[string]string `yaml:"match,omitempty"`  // only series with these labels
	Plus   []string          `yaml:"plus,omitempty"`   // further names whose values are added to it
	Scale  float64           `yaml:"scale,omitempty"`  // multiply by this for the canonical unit; 0 is 1
	Reduce string            `yaml:"reduce,omitempty"` // over series: sum (default), mean, max
	// Label takes the value from this label of an info series instead.
	Label string `yaml:"label,omitempty"`
}

// A Failure maps a text in a server's log to the class of its end.
type Failure struct {
	Class string `yaml:"class"`
	Match string `yaml:"match"` // regular expression over one line, case-insensitive
	// Hint says what to try; ${1} or ${name} stands for a group of Match.
	Hint string `yaml:"hint,omitempty"`
	// Wrapper: this text only wraps the cause, which stands further up; it
	// counts if nothing else matches.
	Wrapper bool `yaml:"wrapper,omitempty"`
}

// The kinds of a canonical quantity.
const (
	Gauge     = "gauge"
	Counter   = "counter"
	Histogram = "histogram"
)

// Canonical returns the kind of a canonical quantity, or "" where there is
// none of that name.
func Canonical(name string) string {
	switch name {
	case RequestsRunning, RequestsWaiting, KVCacheUsage, ProcessStart, GenerationPerSecond:
		return Gauge
	case PrefixQueries, PrefixHits, Preemptions, PromptTokens, GenerationTokens, RequestsFinished:
		return Counter
	case TTFT, ITL, TPOT, E2E, Queue, Prefill, Decode:
		return Histogram
	}
	return ""
}

// Canonical quantities: name, kind, unit.
const (
	RequestsRunning     = "requests_running"      // gauge, requests
	RequestsWaiting     = "requests_waiting"      // gauge, requests
	KVCacheUsage        = "kv_cache_usage"        // gauge, 0 to 1
	PrefixQueries       = "prefix_cache_queries"  // counter, tokens
	PrefixHits          = "prefix_cache_hits"     // counter, tokens
	Preemptions         = "preemptions"           // counter
	PromptTokens        = "prompt_tokens"         // counter
	GenerationTokens    = "generation_tokens"     // counter
	TTFT                = "ttft"                  // histogram, seconds
	ITL                 = "itl"                   // histogram, seconds
	TPOT                = "tpot"                  // histogram, seconds
	E2E                 = "e2e"                   // histogram, seconds
	Queue               = "queue"                 // histogram, seconds
	Prefill             = "prefill"               // histogram, seconds
	Decode              = "decode"                // histogram, seconds
	RequestsFinished    = "requests_finished"     // counter
	ProcessStart        = "process_start"         // gauge, seconds since the epoch
	GenerationPerSecond = "generation_per_second" // gauge, the engine's own figure
)
