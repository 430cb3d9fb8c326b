package engine

import "math"

// The kinds of a canonical quantity.
const (
	Gauge     = "gauge"
	Counter   = "counter"
	Histogram = "histogram"
)

// A Quantity is something that engines expose, under one name for all of them.
type Quantity struct {
	Name string
	Kind string // Gauge, Counter or Histogram
	Unit string // "s", "tokens", "requests", "ratio", "bytes", "blocks", ... or ""
	Doc  string // half a sentence
	// Range is what its values can be; a value outside of it is unknown. A value
	// by which one engine alone means unknown is in its profile: see [Series].
	Range Range
}

// A Range is the values that a quantity can have. None holds a negative number,
// an infinite one or NaN.
type Range string

// The ranges.
const (
	NotNegative Range = "0 and more"
	// Positive: a KV cache has a size, and one step of speculative decoding gives
	// at least one token. Engines show 0 before they know, and without it.
	Positive Range = "more than 0"
	// Share: some releases of SGLang had hit rates in percent (#1461) and accept
	// rates above 1 (#11572).
	Share Range = "0 to 1"
)

// Measured reports whether v can be a measurement of the quantity. If not, the
// value is unknown, never 0.
func (q Quantity) Measured(v float64) bool {
	switch {
	case math.IsNaN(v), math.IsInf(v, 0), v < 0:
		return false
	case q.Range == Positive:
		return v > 0
	case q.Range == Share:
		return v <= 1
	}
	return true
}

// Canonical returns the kind of a canonical quantity, or "" if there is
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
	KVReceived     = "kv_transfer_tokens"
	KVFailures     = "kv_transfer_failures"
	PDDecisions    = "pd_decisions"
	PDSplit        = "pd_split_decisions"
	SpecDrafted    = "spec_draft_tokens"
	SpecAccepted   = "spec_accepted_tokens"
	SpecDrafts     = "spec_drafts"
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
	ActiveEndpoints = "active_endpoints"
	TransportUp     = "transport_up"
	TransportErrors = "transport_errors"
	ProcessStart    = "process_start"
	Uptime          = "uptime"
)

var quantities = [...]Quantity{
	{RequestsRunning, Gauge, "requests", "requests that the engine works on", NotNegative},
	{RequestsWaiting, Gauge, "requests", "requests in the engine's queue", NotNegative},
	{RequestsFinished, Counter, "requests", "requests that ended, whatever their end", NotNegative},
	{RequestsFailed, Counter, "requests", "requests that ended by an error or were given up", NotNegative},
	{Preemptions, Counter, "requests", "requests that were put back to free KV cache", NotNegative},
	{PrefillBootstrapQueue, Gauge, "requests", "prefill worker: requests that wait for a decode worker to be known", NotNegative},
	{PrefillInflightQueue, Gauge, "requests", "prefill worker: requests whose KV cache is on its way", NotNegative},
	{DecodePreallocQueue, Gauge, "requests", "decode worker: requests that wait for KV cache to receive into", NotNegative},
	{DecodeTransferQueue, Gauge, "requests", "decode worker: requests whose KV cache is on its way", NotNegative},
	{KVCacheUsage, Gauge, "ratio", "share of the KV cache in use, 0 to 1", Share},
	{KVCacheBlocks, Gauge, "blocks", "size of the KV cache", Positive},
	{KVCacheTokens, Gauge, "tokens", "size of the KV cache", Positive},
	{PrefixQueries, Counter, "tokens", "of prompts, looked up in the prefix cache", NotNegative},
	{PrefixHits, Counter, "tokens", "of prompts, found in the prefix cache", NotNegative},
	{PrefixHitRate, Gauge, "ratio", "hits / queries", Share},
	{KVTransfer, Histogram, "s", "time to move the KV cache of a request from prefill to decode", NotNegative},
	{KVTransferred, Counter, "bytes", "KV cache that was moved from prefill to decode", NotNegative},
	{KVReceived, Counter, "tokens", "of prompts, whose KV cache came from another server", NotNegative},
	{KVFailures, Counter, "", "transfers of KV caches that failed", NotNegative},
	{PDDecisions, Counter, "requests", "requests for which a router chose whether to prefill elsewhere", NotNegative},
	{PDSplit, Counter, "requests", "those of pd_decisions for a prefill server", NotNegative},
	{SpecDrafted, Counter, "tokens", "tokens that speculative decoding proposed", NotNegative},
	{SpecAccepted, Counter, "tokens", "proposed tokens that were accepted", NotNegative},
	{SpecDrafts, Counter, "steps", "steps of speculative decoding", NotNegative},
	{SpecAcceptRate, Gauge, "ratio", "accepted / proposed", Share},
	{SpecAcceptLen, Gauge, "tokens", "tokens that one step of speculative decoding gives", Positive},
	{PromptTokens, Counter, "tokens", "prompt tokens", NotNegative},
	{GenerationTokens, Counter, "tokens", "output tokens", NotNegative},
	{GenerationPerSecond, Gauge, "tokens/s", "the engine's own figure of its output", NotNegative},
	{TTFT, Histogram, "s", "time to first token", NotNegative},
	{ITL, Histogram, "s", "gap between two tokens", NotNegative},
	{TPOT, Histogram, "s", "time per output token after the first, a value for each request", NotNegative},
	{E2E, Histogram, "s", "end-to-end latency", NotNegative},
	{Queue, Histogram, "s", "time in the queue", NotNegative},
	{Prefill, Histogram, "s", "prefill time", NotNegative},
	{Decode, Histogram, "s", "decode time", NotNegative},
	{RequestBytes, Counter, "bytes", "bodies of requests", NotNegative},
	{ResponseBytes, Counter, "bytes", "bodies of responses", NotNegative},
	{ActiveEndpoints, Gauge, "endpoints", "endpoints that serve requests of the message transport", NotNegative},
	{TransportUp, Gauge, "", "whether the message transport between the roles is connected", NotNegative},
	{TransportErrors, Counter, "", "errors of the message transport between the roles", NotNegative},
	{ProcessStart, Gauge, "s", "start of the process, since the epoch", Positive},
	{Uptime, Gauge, "s", "time since the process started", Positive},
}
