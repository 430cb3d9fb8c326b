package plan

import (
	"time"

	"sweep.dev/sweep/internal/fieldtag"
	"sweep.dev/sweep/internal/secret"
)

// Load is what is sent in one trial. Every field that is an axis of the
// matrix is filled in from the cell.
type Load struct {
	// Client is "" if the plan leaves the choice to sweep, as auto does.
	Client string `yaml:"client,omitempty" doc:"Client that sends: fast (plain HTTP/1.1), std (Go's net/http), or auto, the one that suits the server. The flag --client replaces it." default:"auto" enum:"auto,std,fast" example:"std"`

	// Clients has N 0 if this process sends alone. If it is auto, who runs the plan puts a
	// number in its place before a deployment is measured; digests keep auto.
	Clients Clients `yaml:"clients,omitempty" doc:"Clients that send the load together, as processes or as pods. Their number alone may be written." default:"1, sweep itself" example:"4"`

	Concurrency int     `yaml:"concurrency,omitempty" doc:"Closed loop: requests in flight at once. Exactly one of concurrency, request_rate, stages and trace is given." min:"1" max:"65536" unit:"requests" example:"8"`
	RequestRate float64 `yaml:"request_rate,omitempty" doc:"Open loop: requests sent per second, whether or not earlier ones have ended." gt:"0" max:"1000000" unit:"requests/s" example:"4"`
	Stages      []Stage `yaml:"stages,omitempty" doc:"Open loop: a sequence of rates, instead of request_rate. The trial ends with the last one." example:"[{rate: 20, over: 60s}, {rate: 20, for: 2m}]"`
	Trace       *Trace  `yaml:"trace,omitempty" doc:"Open loop: requests at the times of a recorded trace, instead of request_rate. The trial ends with the trace, or before if requests or duration end it." example:"{file: chat.jsonl, format: mooncake, speed: 2}"`
	Arrivals    string  `yaml:"arrivals,omitempty" doc:"Open loop: distribution of the times between requests." default:"poisson" enum:"constant,poisson,gamma" example:"constant"`
	Burstiness  float64 `yaml:"burstiness,omitempty" doc:"Shape of gamma arrivals: 1 is Poisson, below 1 is burstier." default:"1" gt:"0" max:"1000" example:"0.5"`
	MaxInFlight int     `yaml:"max_in_flight,omitempty" doc:"Open loop: most requests in flight. A request beyond it waits, and its lateness is measured." default:"the driver's own limit" min:"1" max:"65536" unit:"requests" example:"256"`

	// Start is "" if the workers begin one after the other.
	Start string `yaml:"start,omitempty" doc:"Closed loop: start the workers one after the other, evenly over the time that a request of the warm-up took, or a conversation of such requests, or all at once." default:"staggered" enum:"staggered,together" example:"together"`

	Requests          int           `yaml:"requests,omitempty" doc:"Requests of one trial after the ramp. The first request of each worker of a closed loop, or one conversation of each, and the requests due in the ramp of an open loop, are added. With duration, the first limit reached ends the trial." min:"1" max:"5000000" unit:"requests" example:"300"`
	RequestsPerWorker int           `yaml:"requests_per_worker,omitempty" doc:"Closed loop: requests of one trial for each worker, instead of requests. The first request of each worker is added, or one conversation." min:"1" max:"5000000" unit:"requests" example:"40"`
	Duration          time.Duration `yaml:"duration,omitempty" doc:"How long one trial sends. Requests in flight then end by their deadline." unit:"s" example:"60s"`
	Warmup            Warmup        `yaml:"warmup,omitempty" doc:"Requests before a trial is measured." example:"{requests: 16}"`
	Until             *Until        `yaml:"until,omitempty" doc:"End a trial as soon as a metric is known well enough. requests, requests_per_worker or duration is then its cap." example:"{metric: p95_ttft_ms, within: 5%}"`
	Stop              *Stop         `yaml:"stop,omitempty" doc:"End a trial early if going on would show nothing more. It counts as a result, not as a failure." example:"{error_rate: 5%, saturated: true}"`
	ThinkTime         time.Duration `yaml:"think_time,omitempty" doc:"Closed loop: pause of a worker between the end of a request and its next one." default:"none" unit:"s" example:"2s"`
	Conversation      *Conversation `yaml:"conversation,omitempty" doc:"Closed loop: each worker runs conversations. Each turn has the earlier turns and the server's own answers as its history." example:"{turns: 6}"`
	Cancel            *Cancel       `yaml:"cancel,omitempty" doc:"Cancel a share of the requests on purpose, as users do. They are counted separately and are not failures." example:"{share: 10%, after: 2s}"`
	Probe             *Probe        `yaml:"probe,omitempty" doc:"A few small requests beside the load. Their figures are separate from those of the load. {} takes the defaults." example:"{rate: 1, input_tokens: 50}"`

	Endpoint       string                   `yaml:"endpoint,omitempty" doc:"API to send requests to." default:"chat" enum:"chat,completions" example:"completions"`
	Stream         *bool                    `yaml:"stream,omitempty" doc:"Whether answers are streamed. Without streaming there is no TTFT, ITL or TPOT." default:"true" example:"false"`
	MaxTokens      int                      `yaml:"max_tokens,omitempty" doc:"Most output tokens of one request; may be written 4k (4,000) or 4ki (4,096)." min:"1" max:"10000000" unit:"tokens" example:"128"`
	Output         string                   `yaml:"output,omitempty" doc:"Expected output length: exactly max_tokens (ignore_eos), or until the model stops." default:"exact where the engine knows ignore_eos and there is no stop, else natural" enum:"exact,natural" example:"natural"`
	Sampling       Sampling                 `yaml:"sampling,omitempty" doc:"How the server picks tokens." example:"{temperature: 0}"`
	Prompts        Prompts                  `yaml:"prompts,omitempty" doc:"The prompts." example:"{input_tokens: 512, shared_prefix: 50%}"`
	Body           map[string]any           `yaml:"body,omitempty" doc:"Further fields of every request's JSON body." example:"{min_tokens: 16}"`
	Headers        map[string]secret.String `yaml:"headers,omitempty" doc:"Further headers of every request. Credentials by reference only: Bearer ${SWEEP_API_KEY}." example:"{X-Tenant: bench}"`
	RequestHeaders map[string]string        `yaml:"request_headers,omitempty" doc:"Headers that differ from request to request. {n}, {slot}, {turn}, {conversation}, {max_tokens} and {input_tokens} are replaced by the request's values; other braces are kept." example:"{X-Session: '{conversation}'}"`
}

// Clients are the processes that send a load together: requests are dealt to them by
// turns.
type Clients struct {
	N    int    `yaml:"n,omitempty" doc:"Number of clients, or auto: as many as the calibration of this machine says that the load needs; processes are then at most as many as its CPUs. A closed loop uses at most as many as its concurrency." word:"auto" default:"1" min:"1" max:"64" example:"4"`
	Kind string `yaml:"kind,omitempty" doc:"Where the clients run: as processes of the machine that runs sweep, or as pods of the cluster that serves (backend kubernetes)." default:"process" enum:"process,kubernetes" example:"kubernetes"`

	Namespace string  `yaml:"namespace,omitempty" doc:"Pods: their namespace." default:"that of the servers" example:"load"`
	Image     string  `yaml:"image,omitempty" doc:"Pods: an image of sweep. Without it sweep copies itself into pods of the image base." example:"registry.example.com/sweep:1.0"`
	Base      string  `yaml:"base,omitempty" doc:"Pods: the image that sweep copies itself into. It has sh, gzip and sha256sum." default:"busybox:1.37" example:"alpine:3.22"`
	CPUs      float64 `yaml:"cpus,omitempty" doc:"Pods: CPUs of each. A whole number is a limit too, so that a node can keep them free for it." default:"1, without a limit" gt:"0" max:"256" example:"2"`
}

// Auto reports whether the plan leaves the number to a calibration.
func (c Clients) Auto() bool { return c.N == fieldtag.Auto }

// Short returns the key that a plan may leave out.
func (Clients) Short() string { return "n" }

// A Stage is one part of an open loop. Exactly one of For and Over is set.
type Stage struct {
	Rate float64       `yaml:"rate,omitempty" doc:"Requests sent per second: held, or reached at the end of a ramp." min:"0" max:"1000000" unit:"requests/s" example:"8"`
	For  time.Duration `yaml:"for,omitempty" doc:"How long to hold the rate. Give exactly one of for and over." unit:"s" example:"30s"`
	Over time.Duration `yaml:"over,omitempty" doc:"Length of the ramp: a straight line to the rate from the rate before, or from 0." unit:"s" example:"60s"`
}

// A Trace says when requests are sent, by a record of when real ones were.
type Trace struct {
	File   string  `yaml:"file,omitempty" doc:"The trace, relative to the plan's folder." example:"chat.jsonl"`
	Format string  `yaml:"format,omitempty" doc:"Format of the file. timestamps has only times: a number of seconds or a date and time on each line, or a column or field timestamp. mooncake (JSON lines), azure (Azure's LLM inference, CSV) and burstgpt (CSV) also have the lengths of prompts and answers." enum:"timestamps,mooncake,azure,burstgpt" example:"mooncake"`
	Speed  float64 `yaml:"speed,omitempty" doc:"Play the trace this many times as fast." default:"1" gt:"0" max:"10000" example:"2"`
	Limit  int     `yaml:"limit,omitempty" doc:"Number of requests to take from the beginning of the trace." default:"all" min:"1" max:"5000000" unit:"requests" example:"1000"`

	// FileRef is File as written; File is resolved against the plan's folder.
	FileRef string `yaml:"-"`
	// FileSHA256 is the digest of the file's content when the plan was read.
	FileSHA256 string `yaml:"-"`
}

// Lengths reports whether the trace's format brings the lengths of prompts and
// answers.
func (t *Trace) Lengths() bool {
	return t != nil && t.Format != "" && t.Format != TraceTimestamps
}

// A Conversation is how long each of a worker's conversations is.
type Conversation struct {
	Turns int `yaml:"turns,omitempty" doc:"Requests of one conversation. Each has all earlier turns as its history. load.think_time passes between them." min:"2" max:"10000" unit:"requests" example:"4"`
}

// Cancel is the share of the requests that are given up on purpose.
type Cancel struct {
	Share float64       `yaml:"share,omitempty" doc:"Share of the requests, picked by the seed." gt:"0" max:"1" unit:"ratio" example:"10%"`
	After time.Duration `yaml:"after,omitempty" doc:"Time after its send at which such a request is cancelled, if it has not ended by then." unit:"s" example:"2s"`
}

// A Probe is a stream of a few small requests beside the load.
type Probe struct {
	Rate        float64 `yaml:"rate,omitempty" doc:"Probes sent per second; few, so that they add no load." default:"1" gt:"0" max:"10" unit:"requests/s" example:"1"`
	InputTokens int     `yaml:"input_tokens,omitempty" doc:"Length of a probe's prompt." default:"50" min:"1" max:"100000" unit:"tokens" example:"50"`
	MaxTokens   int     `yaml:"max_tokens,omitempty" doc:"Output tokens of a probe." default:"16" min:"1" max:"100000" unit:"tokens" example:"16"`
}

// Until ends a trial once a metric is known well enough.
type Until struct {
	Metric      string  `yaml:"metric,omitempty" doc:"The metric to measure: its mean, or with p50, p90, p95 or p99 before it that percentile." enum:"ttft_ms,tpot_ms,itl_ms,e2e_ms,throughput_tok_s,p50_ttft_ms,p90_ttft_ms,p95_ttft_ms,p99_ttft_ms,p50_tpot_ms,p90_tpot_ms,p95_tpot_ms,p99_tpot_ms,p50_e2e_ms,p90_e2e_ms,p95_e2e_ms,p99_e2e_ms" example:"p95_ttft_ms"`
	Within      float64 `yaml:"within,omitempty" doc:"Half width of the metric's confidence interval, as a share of its value, at which the trial ends." gt:"0" lt:"1" unit:"ratio" example:"5%"`
	Confidence  float64 `yaml:"confidence,omitempty" doc:"Confidence of the interval." default:"0.95" gt:"0" lt:"1" unit:"ratio" example:"99%"`
	Objectives  bool    `yaml:"objectives,omitempty" doc:"Also end a trial as soon as each objective of severity fail passes or fails by its requests." default:"false" example:"true"`
	MinRequests int     `yaml:"min_requests,omitempty" doc:"Completed requests that a trial has at least." default:"30" min:"2" max:"10000000" unit:"requests" example:"100"`
}

// Stop says where going on would tell no more. A trial that it ends is valid.
type Stop struct {
	ErrorRate  float64 `yaml:"error_rate,omitempty" doc:"Share of failed requests above which a trial ends." default:"none" gt:"0" lt:"1" unit:"ratio" example:"5%"`
	Saturated  bool    `yaml:"saturated,omitempty" doc:"Open loop: end a trial if its server cannot follow: the requests in flight and TTFT both keep rising." default:"false" example:"true"`
	SkipHigher bool    `yaml:"skip_higher,omitempty" doc:"Do not run higher levels of the same axis, request_rate or concurrency, after trials that ended in this way. Their rows give the reason." default:"false" example:"true"`
}

// Warmup is what is sent before a trial is measured, with prompts of its own.
type Warmup struct {
	// Requests is nil if the plan leaves their number to sweep, see
	// [Load.WarmupRequests].
	Requests *int          `yaml:"requests,omitempty" doc:"Requests before each trial, with other prompts than the trial; 0 is none. If only duration is given, as many as it allows." default:"2 for each of the concurrency; in an open loop 2 for each that is expected in flight, at least 2; where prompts begin alike, more until the caches of a server of sweep's own are flat" min:"0" max:"1000000" unit:"requests" example:"16"`
	Duration time.Duration `yaml:"duration,omitempty" doc:"Time after which no more of them are sent." default:"none" unit:"s" example:"10s"`
}

// Sampling is how the server picks tokens.
type Sampling struct {
	Temperature *float64 `yaml:"temperature,omitempty" doc:"Sampling temperature; 0 is greedy." default:"the server's" min:"0" max:"100" example:"0.7"`
	TopP        *float64 `yaml:"top_p,omitempty" doc:"Probability mass to sample from." default:"the server's" gt:"0" max:"1" unit:"ratio" example:"0.95"`
	Seed        *uint64  `yaml:"seed,omitempty" doc:"Seed sent with every request." default:"none" min:"0" example:"7"`
	IgnoreEOS   *bool    `yaml:"ignore_eos,omitempty" doc:"Generate up to max_tokens even if the model ends its answer. The same as output: exact." default:"true if output is exact" example:"true"`
	Stop        []string `yaml:"stop,omitempty" doc:"Texts that end the output." default:"none" blank:"allowed" example:"['###']"`
}

// Prompts is what is asked.
type Prompts struct {
	Kind         string   `yaml:"kind,omitempty" doc:"Where prompts come from: generated to a length, listed here, or read from a file." default:"synthetic" enum:"synthetic,inline,jsonl,sharegpt,csv" example:"sharegpt"`
	InputTokens  int      `yaml:"input_tokens,omitempty" doc:"Synthetic: mean length of a prompt; may be written 4k or 4ki." min:"1" max:"4000000" unit:"tokens" example:"512"`
	Distribution string   `yaml:"distribution,omitempty" doc:"Synthetic: how lengths vary around input_tokens, or empirical: drawn from pairs." default:"fixed" enum:"fixed,uniform,normal,lognormal,empirical" example:"lognormal"`
	Pairs        [][]int  `yaml:"pairs,omitempty" doc:"Empirical: pairs of an input and an output length, drawn with equal chances." min:"1" max:"4000000" unit:"tokens" example:"[[200, 150], [1200, 60]]"`
	PairsFile    string   `yaml:"pairs_file,omitempty" doc:"Empirical: a CSV file of such pairs, input,output on each line, relative to the plan's folder." example:"lengths.csv"`
	Spread       float64  `yaml:"spread,omitempty" doc:"Half width (uniform) or standard deviation (normal, lognormal), as a share of input_tokens." gt:"0" max:"10" unit:"ratio" example:"25%"`
	SharedPrefix float64  `yaml:"shared_prefix,omitempty" doc:"Synthetic: share of input_tokens that all prompts of a trial begin with." default:"0" min:"0" max:"1" unit:"ratio" example:"50%"`
	PrefixGroups int      `yaml:"prefix_groups,omitempty" doc:"Synthetic: number of different prefixes. Each prompt begins with one of them." default:"1" min:"1" max:"1000000" example:"8"`
	Length       string   `yaml:"length,omitempty" doc:"Synthetic: input_tokens is exact by the server's own tokenizer, or is the number of words." default:"exact" enum:"exact,words" example:"words"`
	Texts        []string `yaml:"texts,omitempty" doc:"Inline: the prompts." example:"[What is a transformer?, Explain paging.]"`
	File         string   `yaml:"file,omitempty" doc:"jsonl, sharegpt, csv: the file, relative to the plan's folder." example:"prompts.jsonl"`
	System       string   `yaml:"system,omitempty" doc:"System message of every request (chat)." default:"none" example:"You are a helpful assistant."`
	SystemShare  *float64 `yaml:"system_share,omitempty" doc:"Share of the requests that have the system message, picked by the seed." default:"1" min:"0" max:"1" unit:"ratio" example:"80%"`
	CacheBust    bool     `yaml:"cache_bust,omitempty" doc:"Inline and files: put a different marker before every prompt, so that no two share a prefix." default:"false" example:"true"`
	Reuse        string   `yaml:"reuse,omitempty" doc:"Whether a list of prompts may be used again after its end. A prefix cache may then know the prompts." default:"never" enum:"never,allowed" example:"allowed"`

	// FileRef is File as written; File is resolved against the plan's folder.
	FileRef string `yaml:"-"`
	// FileSHA256 is the digest of the file's content when the plan was read.
	FileSHA256 string `yaml:"-"`
	// PairsRef and PairsSHA256 are the same of PairsFile.
	PairsRef    string `yaml:"-"`
	PairsSHA256 string `yaml:"-"`
}
