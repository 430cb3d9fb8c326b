package engine

// The kinds of a canonical quantity.
const (
	Gauge     = "gauge"
	Counter   = "counter"
	Histogram = "histogram"
)

// A Quantity is something that engines tell of themselves, under one name
// whatever they call it.
type Quantity struct {
	Name string
	Kind string // Gauge, Counter or Histogram
	Unit string // "s", "tokens", "requests", "ratio", "bytes", "blocks", ... or ""
	Doc  string // half a sentence
}

// Canonical returns the kind of a canonical quantity, or "" where there is
// none of that name.
func Canonical(name string) string {
	q, _ := LookupQuantity(name)
	return q.Kind
}

// LookupQuantity finds a canonical quantity by its name.
func LookupQuantity(name string) (Quantity, bool) {
	for _, q := range quantities {
		if q.Name == name {
			return q, true
		}
	}
	return Quantity{}, false
}

// Quantities lists the canonical quantities, in the order in which people read
// them.
func Quantities() []Quantity { return quantities[:] }

// Canonical quantities.
const (
	RequestsRunning  = "requests_running"
	RequestsWaiting  = "requests_waiting"
	RequestsFinished = "requests_finished"
	RequestsFailed   = "requests_failed"
	Preemptions      = "preemptions"

	PrefillBootstrapQueue = "prefill_bootstrap_queue"
	PrefillInflightQueue  = "prefill_inflight_queue"
	DecodePreallocQueue   = "decode_prealloc_queue"
	DecodeTransferQueue   = "decode_transfer_queue"

	KVCacheUsage   = "kv_cache_usage"
	KVCacheBlocks  = "kv_cache_blocks"
	KVCacheTokens  = "kv_cache_tokens"
	PrefixQueries  = "prefix_cache_queries"
	PrefixHits     = "prefix_cache_hits"
	PrefixHitRate  = "prefix_cache_hit_rate"
	KVTransfer     = "kv_transfer"
	KVTransferred  = "kv_transfer_bytes"
	SpecDrafted    = "spec_draft_tokens"
	SpecAccepted   = "spec_accepted_tokens"
	SpecAcceptRate = "spec_accept_rate"
	SpecAcceptLen  = "spec_accept_length"

	PromptTokens        = "prompt_tokens"
	GenerationTokens    = "generation_tokens"
	GenerationPerSecond = "generation_per_second"

	TTFT    = "ttft"
	ITL     = "itl"
	TPOT    = "tpot"
	E2E     = "e2e"
	Queue   = "queue"
	Prefill = "prefill"
	Decode  = "decode"

	RequestBytes    = "request_bytes"
	ResponseBytes   = "response_bytes"
	TransportUp     = "transport_up"
	TransportErrors = "transport_errors"
	ProcessStart    = "process_start"
	Uptime          = "uptime"
)

var quantities = [...]Quantity{
	{RequestsRunning, Gauge, "requests", "requests that the engine works on"},
	{RequestsWaiting, Gauge, "requests", "requests in the engine's queue"},
	{RequestsFinished, Counter, "requests", "requests that ended, whatever their end"},
	{RequestsFailed, Counter, "requests", "requests that ended by an error or were given up"},
	{Preemptions, Counter, "requests", "requests that were put back to free KV cache"},
	{PrefillBootstrapQueue, Gauge, "requests", "prefill worker: requests that wait for a decode worker to be known"},
	{PrefillInflightQueue, Gauge, "requests", "prefill worker: requests whose KV cache is on its way"},
	{DecodePreallocQueue, Gauge, "requests", "decode worker: requests that wait for KV cache to receive into"},
	{DecodeTransferQueue, Gauge, "requests", "decode worker: requests whose KV cache is on its way"},
	{KVCacheUsage, Gauge, "ratio", "share of the KV cache in use, 0 to 1"},
	{KVCacheBlocks, Gauge, "blocks", "size of the KV cache"},
	{KVCacheTokens, Gauge, "tokens", "size of the KV cache"},
	{PrefixQueries, Counter, "tokens", "prompt tokens looked up in the prefix cache"},
	{PrefixHits, Counter, "tokens", "prompt tokens found in the prefix cache"},
	{PrefixHitRate, Gauge, "ratio", "the engine's own figure of hits / queries"},
	{KVTransfer, Histogram, "s", "time to move the KV cache of a request from prefill to decode"},
	{KVTransferred, Counter, "bytes", "KV cache that was moved from prefill to decode"},
	{SpecDrafted, Counter, "tokens", "tokens that speculative decoding proposed"},
	{SpecAccepted, Counter, "tokens", "proposed tokens that were accepted"},
	{SpecAcceptRate, Gauge, "ratio", "the engine's own figure of accepted / proposed"},
	{SpecAcceptLen, Gauge, "tokens", "tokens that one step of speculative decoding gives"},
	{PromptTokens, Counter, "tokens", "prompt tokens"},
	{GenerationTokens, Counter, "tokens", "output tokens"},
	{GenerationPerSecond, Gauge, "tokens/s", "the engine's own figure of its output"},
	{TTFT, Histogram, "s", "time to first token"},
	{ITL, Histogram, "s", "gap between two tokens"},
	{TPOT, Histogram, "s", "time per output token after the first, a value for each request"},
	{E2E, Histogram, "s", "end-to-end latency"},
	{Queue, Histogram, "s", "time in the queue"},
	{Prefill, Histogram, "s", "prefill time"},
	{Decode, Histogram, "s", "decode time"},
	{RequestBytes, Counter, "bytes", "bodies of requests"},
	{ResponseBytes, Counter, "bytes", "bodies of responses"},
	{TransportUp, Gauge, "", "whether the message transport between the roles is connected"},
	{TransportErrors, Counter, "", "errors of the message transport between the roles"},
	{ProcessStart, Gauge, "s", "start of the process, since the epoch"},
	{Uptime, Gauge, "s", "time since the process started"},
}
