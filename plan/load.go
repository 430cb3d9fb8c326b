package plan

import (
	"time"

	"sweep.dev/sweep/internal/secret"
)

// Load is what is sent in one trial. Every field that is an axis of the
// matrix is filled in from the cell.
type Load struct {
	// Client is "" if the plan leaves the choice to sweep, as auto does.
	Client string `yaml:"client,omitempty" doc:"Which client sends: the fast one of plain HTTP/1.1, the one of Go's net/http, or whichever suits the server. The flag --client takes its place." default:"auto" enum:"auto,std,fast"`

	Concurrency int     `yaml:"concurrency,omitempty" doc:"Closed loop: requests in flight at once. Exactly one of concurrency, request_rate, stages and trace is given." min:"1" max:"65536" unit:"requests" example:"8"`
	RequestRate float64 `yaml:"request_rate,omitempty" doc:"Open loop: requests sent per second, whether or not earlier ones have ended." gt:"0" max:"1000000" unit:"requests/s" example:"4"`
	Stages      []Stage `yaml:"stages,omitempty" doc:"Open loop: rates one after the other, in place of request_rate. The trial ends with the last of them."`
	Trace       *Trace  `yaml:"trace,omitempty" doc:"Open loop: requests sent at the times of a recorded trace, in place of request_rate. The trial ends with the trace, unless requests or duration end it before."`
	Arrivals    string  `yaml:"arrivals,omitempty" doc:"Open loop: the times between requests." default:"poisson" enum:"constant,poisson,gamma"`
	Burstiness  float64 `yaml:"burstiness,omitempty" doc:"Shape of gamma arrivals: 1 is Poisson, below 1 is burstier." default:"1" gt:"0" max:"1000"`
	MaxInFlight int     `yaml:"max_in_flight,omitempty" doc:"Open loop: most requests in flight; one that would pass it waits, and its lateness is measured." default:"the driver's own limit" min:"1" max:"65536" unit:"requests" example:"256"`

	// Start is "" if the workers begin one after the other.
	Start string `yaml:"start,omitempty" doc:"Closed loop: whether its workers begin one after the other, evenly spread over the time that a request of the warm-up took, or all at once." default:"staggered" enum:"staggered,together"`

	Requests          int           `yaml:"requests,omitempty" doc:"Requests of one trial once it is at work. The first of each of a closed loop's workers, and what is due in the ramp of an open loop, come on top. With duration, whichever is reached first ends it." min:"1" max:"5000000" unit:"requests" example:"300"`
	RequestsPerWorker int           `yaml:"requests_per_worker,omitempty" doc:"Closed loop: requests of one trial for each of its concurrency, in place of requests. The first of each comes on top." min:"1" max:"5000000" unit:"requests" example:"40"`
	Duration          time.Duration `yaml:"duration,omitempty" doc:"How long one trial sends; requests in flight then end by their deadline." unit:"s" example:"60s"`
	Warmup            Warmup        `yaml:"warmup,omitempty" doc:"What is sent before a trial is measured."`
	Until             *Until        `yaml:"until,omitempty" doc:"End a trial as soon as a metric is known well enough; requests, requests_per_worker or duration is then its cap."`
	Stop              *Stop         `yaml:"stop,omitempty" doc:"End a trial early, as a result and no failure, where going on would tell no more." example:"1m"`
	ThinkTime         time.Duration `yaml:"think_time,omitempty" doc:"Closed loop: pause between the end of a request and the next of the same worker." default:"none" unit:"s" example:"2s"`
	Conversation      *Conversation `yaml:"conversation,omitempty" doc:"Closed loop: each worker leads conversations whose history grows by the server's own answers."`
	Cancel            *Cancel       `yaml:"cancel,omitempty" doc:"Give up a share of the requests on purpose, as users do. They are counted apart and fail nothing."`
	Probe             *Probe        `yaml:"probe,omitempty" doc:"A few small requests beside the load, with figures of their own and no part in those of the load. {} takes the defaults."`

	Endpoint       string                   `yaml:"endpoint,omitempty" doc:"API that requests go to." default:"chat" enum:"chat,completions"`
	Stream         *bool                    `yaml:"stream,omitempty" doc:"Whether answers are streamed. Without streaming there is no TTFT, ITL or TPOT." default:"true"`
	MaxTokens      int                      `yaml:"max_tokens,omitempty" doc:"Output tokens of one request at most; may be written 4k (4,000) or 4ki (4,096)." min:"1" max:"10000000" unit:"tokens" example:"128"`
	Output         string                   `yaml:"output,omitempty" doc:"What output length is expected: exactly max_tokens (ignore_eos), or where the model stops." default:"exact where the engine knows ignore_eos and there is no stop, else natural" enum:"exact,natural"`
	Sampling       Sampling                 `yaml:"sampling,omitempty" doc:"How the server picks tokens."`
	Prompts        Prompts                  `yaml:"prompts,omitempty" doc:"What is asked."`
	Body           map[string]any           `yaml:"body,omitempty" doc:"Further fields of every request's JSON body."`
	Headers        map[string]secret.String `yaml:"headers,omitempty" doc:"Further headers of every request. Credentials by reference only: Bearer ${SWEEP_API_KEY}."`
	RequestHeaders map[string]string        `yaml:"request_headers,omitempty" doc:"Headers that differ from request to request: {n}, {slot}, {turn}, {conversation}, {max_tokens} and {input_tokens} stand for the request's own; any other brace is one."`
}

// A Stage is one part of an open loop. Exactly one of For and Over is set.
type Stage struct {
	Rate float64       `yaml:"rate,omitempty" doc:"Requests sent per second: held, or reached at the end of a ramp." min:"0" max:"1000000" unit:"requests/s" example:"8"`
	For  time.Duration `yaml:"for,omitempty" doc:"Hold the rate for so long. Exactly one of for and over is given." unit:"s" example:"30s"`
	Over time.Duration `yaml:"over,omitempty" doc:"Go to the rate in a straight line over so long, from the rate before or from 0." unit:"s" example:"60s"`
}

// A Trace says when requests are sent, by a record of when real ones were.
type Trace struct {
	File   string  `yaml:"file,omitempty" doc:"The trace, relative to the plan's folder." example:"prompts.jsonl"`
	Format string  `yaml:"format,omitempty" doc:"What the file is: times alone (a number of seconds or a date and time on each line, or a column or field timestamp), or a trace of Mooncake's (JSON lines), of Azure's LLM inference (CSV) or of BurstGPT's (CSV). The last three bring the lengths of prompts and answers too." enum:"timestamps,mooncake,azure,burstgpt"`
	Speed  float64 `yaml:"speed,omitempty" doc:"Play the trace so many times as fast." default:"1" gt:"0" max:"10000"`
	Limit  int     `yaml:"limit,omitempty" doc:"Requests to take from the trace's beginning." default:"all" min:"1" max:"5000000" unit:"requests" example:"1000"`

	// FileRef is File as written; File is resolved against the plan's folder.
	FileRef string `yaml:"-"`
	// FileSHA256 is the digest of the file's content when the plan was read.
	FileSHA256 string `yaml:"-"`
}

// Lengths says whether the trace's format brings the lengths of prompts and
// answers.
func (t *Trace) Lengths() bool {
	return t != nil && t.Format != "" && t.Format != TraceTimestamps
}

// A Conversation is how long each of a worker's conversations is.
type Conversation struct {
	Turns int `yaml:"turns,omitempty" doc:"Requests of one conversation, each with all before it as its history. load.think_time lies between them." min:"2" max:"10000" unit:"requests" example:"4"`
}

// Cancel is the share of the requests that are given up on purpose.
type Cancel struct {
	Share float64       `yaml:"share,omitempty" doc:"Share of the requests, picked by the seed." gt:"0" max:"1" unit:"ratio" example:"0.1"`
	After time.Duration `yaml:"after,omitempty" doc:"How long after its send such a request is given up, if it has not ended by then." unit:"s" example:"2s"`
}

// A Probe is a stream of a few small requests beside the load.
type Probe struct {
	Rate        float64 `yaml:"rate,omitempty" doc:"Probes sent per second; few, so that they load nothing." default:"1" gt:"0" max:"10" unit:"requests/s" example:"8"`
	InputTokens int     `yaml:"input_tokens,omitempty" doc:"Length of a probe's prompt." default:"50" min:"1" max:"100000" unit:"tokens" example:"512"`
	MaxTokens   int     `yaml:"max_tokens,omitempty" doc:"Output tokens of a probe." default:"16" min:"1" max:"100000" unit:"tokens"`
}

// Until ends a trial once a metric is known well enough.
type Until struct {
	Metric      string  `yaml:"metric,omitempty" doc:"The metric that is to be known: its mean, or with p50, p90, p95 or p99 before it that percentile." enum:"ttft_ms,tpot_ms,itl_ms,e2e_ms,throughput_tok_s,p50_ttft_ms,p90_ttft_ms,p95_ttft_ms,p99_ttft_ms,p50_tpot_ms,p90_tpot_ms,p95_tpot_ms,p99_tpot_ms,p50_e2e_ms,p90_e2e_ms,p95_e2e_ms,p99_e2e_ms"`
	Within      float64 `yaml:"within,omitempty" doc:"Half width of the metric's confidence interval, as a share of its value, at which the trial ends." gt:"0" lt:"1" unit:"ratio" example:"5%"`
	Confidence  float64 `yaml:"confidence,omitempty" doc:"Confidence of the interval." default:"0.95" gt:"0" lt:"1" unit:"ratio"`
	Objectives  bool    `yaml:"objectives,omitempty" doc:"End a trial too as soon as each objective of severity fail passes or fails by its requests." default:"false"`
	MinRequests int     `yaml:"min_requests,omitempty" doc:"Completed requests that a trial has at least." default:"30" min:"2" max:"10000000" unit:"requests"`
}

// Stop says where going on would tell no more. A trial that it ends is valid.
type Stop struct {
	ErrorRate  float64 `yaml:"error_rate,omitempty" doc:"Share of failed requests above which a trial ends." default:"none" gt:"0" lt:"1" unit:"ratio"`
	Saturated  bool    `yaml:"saturated,omitempty" doc:"Open loop: end a trial whose server cannot follow: the requests in flight and TTFT both go on rising." default:"false"`
	SkipHigher bool    `yaml:"skip_higher,omitempty" doc:"Do not run the higher levels of the same axis, request_rate or concurrency, once a trial was ended so. Their rows say why." default:"false"`
}

// Warmup is what is sent before a trial is measured, with prompts of its own.
type Warmup struct {
	// Requests is nil if the plan leaves their number to sweep, see
	// [Load.WarmupRequests].
	Requests *int          `yaml:"requests,omitempty" doc:"Requests before each trial, with prompts of their own; 0 is none. Where duration stands alone, as many as its time takes." default:"2 for each of the concurrency; in an open loop 2 for each that is expected in flight, at least 2; where prompts begin alike, more until the caches of a server of sweep's own are flat" min:"0" max:"1000000" unit:"requests"`
	Duration time.Duration `yaml:"duration,omitempty" doc:"Time after which no more of them are sent." default:"none" unit:"s" example:"10s"`
}

// Sampling is how the server picks tokens.
type Sampling struct {
	Temperature *float64 `yaml:"temperature,omitempty" doc:"Sampling temperature; 0 is greedy." default:"the server's" min:"0" max:"100" example:"0.7"`
	TopP        *float64 `yaml:"top_p,omitempty" doc:"Probability mass to sample from." default:"the server's" gt:"0" max:"1" unit:"ratio" example:"0.95"`
	Seed        *uint64  `yaml:"seed,omitempty" doc:"Seed sent with every request." default:"none" min:"0"`
	IgnoreEOS   *bool    `yaml:"ignore_eos,omitempty" doc:"Generate up to max_tokens whatever the model says. The same as output: exact, for those who look for it here." default:"true if output is exact"`
	Stop        []string `yaml:"stop,omitempty" doc:"Texts that end the output." default:"none" blank:"allowed" example:"1m"`
}

// Prompts is what is asked.
type Prompts struct {
	Kind         string   `yaml:"kind,omitempty" doc:"Where prompts come from: made up to a length, listed here, or read from a file." default:"synthetic" enum:"synthetic,inline,jsonl,sharegpt,csv"`
	InputTokens  int      `yaml:"input_tokens,omitempty" doc:"Synthetic: mean length of a prompt; may be written 4k or 4ki." min:"1" max:"4000000" unit:"tokens"`
	Distribution string   `yaml:"distribution,omitempty" doc:"Synthetic: how lengths are spread around input_tokens, or that they are drawn from pairs." default:"fixed" enum:"fixed,uniform,normal,lognormal,empirical"`
	Pairs        [][]int  `yaml:"pairs,omitempty" doc:"Empirical: pairs of an input and an output length, drawn with equal chances." min:"1" max:"4000000" unit:"tokens"`
	PairsFile    string   `yaml:"pairs_file,omitempty" doc:"Empirical: a CSV file of such pairs, input,output on each line, relative to the plan's folder."`
	Spread       float64  `yaml:"spread,omitempty" doc:"Half width (uniform) or standard deviation (normal, lognormal), as a share of input_tokens." gt:"0" max:"10" unit:"ratio"`
	SharedPrefix float64  `yaml:"shared_prefix,omitempty" doc:"Synthetic: share of input_tokens that all prompts of a trial begin with." default:"0" min:"0" max:"1" unit:"ratio"`
	PrefixGroups int      `yaml:"prefix_groups,omitempty" doc:"Synthetic: how many different prefixes of that share there are; each prompt begins with one of them." default:"1" min:"1" max:"1000000"`
	Length       string   `yaml:"length,omitempty" doc:"Synthetic: whether input_tokens is exact by the server's own tokenizer, or the number of words." default:"exact" enum:"exact,words"`
	Texts        []string `yaml:"texts,omitempty" doc:"Inline: the prompts."`
	File         string   `yaml:"file,omitempty" doc:"jsonl, sharegpt, csv: the file, relative to the plan's folder."`
	System       string   `yaml:"system,omitempty" doc:"System message of every request (chat)." default:"none"`
	SystemShare  *float64 `yaml:"system_share,omitempty" doc:"Share of the requests that carry system, picked by the seed." default:"1" min:"0" max:"1" unit:"ratio"`
	CacheBust    bool     `yaml:"cache_bust,omitempty" doc:"Inline and files: put a marker of its own before every prompt, so that none shares a prefix with another." default:"false"`
	Reuse        string   `yaml:"reuse,omitempty" doc:"Whether prompts of a list may be sent again once all were sent, so that a prefix cache may know them." default:"never" enum:"never,allowed"`

	// FileRef is File as written; File is resolved against the plan's folder.
	FileRef string `yaml:"-"`
	// FileSHA256 is the digest of the file's content when the plan was read.
	FileSHA256 string `yaml:"-"`
	// PairsRef and PairsSHA256 are the same of PairsFile.
	PairsRef    string `yaml:"-"`
	PairsSHA256 string `yaml:"-"`
}
