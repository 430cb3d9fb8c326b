package result

import (
	"slices"
	"strings"

	"sweep.dev/sweep/result/col"
)

// This file is the registry's data: every column of the cells table, with its
// meaning. The order of the functions in Columns and of the columns in them is
// the order of the table, and a name that was published stays what it means.

// core returns the columns of the tier core: what a person reads of a trial. They are
// at most 45, and the plan's own axes and objectives come on top.
func core() []string {
	return []string{
		col.GPU, col.Concurrency, col.MaxTokens, col.P50TTFTMs, col.P95TTFTMs, col.P50E2EMs, col.P95E2EMs, col.ThroughputTokS,
		col.RunID, col.CellID, col.Trial, col.Simulated, col.Engine, col.EngineVersion, col.Model, col.GPUCount, col.RequestRate,
		col.Status, col.Valid, col.InvalidReasons, col.InvalidFigures, col.LowConfidence, col.Findings, col.ErrorClass, col.Error, col.SLOPass,
		col.Requests, col.Completed, col.Failed, col.ErrorRate, col.DurationS, col.OutputTokens, col.RequestThroughput, col.GoodputReqS,
		col.P50TPOTMs, col.P95TPOTMs,
		col.MaxRequestsWaiting, col.MaxKVCacheUsage, col.MeanGPUPowerW,
		col.USDPerHour, col.USDPer1MOutputTokens,
	}
}

// fixedAxes and headline open the table with what people already have in their
// spreadsheets.
func fixedAxes() []Column {
	return []Column{
		nullable("gpu", String, "", "GPU of the server: a name of the catalogue, or the plan's own label."),
		nullable("concurrency", Int, "requests", "Requests in flight at once; null in an open loop."),
		nullable("max_tokens", Int, "tokens", "Output tokens that each request asked for at most; null if each prompt brings its own, as those of a trace or a distribution do."),
	}
}

func headline() []Column {
	var cols []Column
	for _, name := range []string{"p50_ttft_ms", "p95_ttft_ms", "p50_e2e_ms", "p95_e2e_ms"} {
		c, _ := Lookup(latency(), name)
		cols = append(cols, c)
	}
	c, _ := Lookup(load(), "throughput_tok_s")
	return append(cols, c)
}

func identity() []Column {
	return []Column{
		required("run_id", String, "", "The run that measured this row."),
		nullable("reused_from", String, "", "Name of the run directory that the trial was taken over from (sweep run --reuse); null for what the run of this directory measured itself."),
		required("plan", String, "", "Name of the plan."),
		required("cell_id", String, "", "Hash of the axes' values, the model and the load's shape: the same cell has it in every run."),
		required("spec_digest", String, "", "Hash of everything else in the plan that could change the measurement: how, and what is measured."),
		required("method", Int, "", "Number of the way in which the figures were made: rows of different methods cannot be compared."),
		required("conditions_digest", String, "", "Hash of how it was measured: load, prompts, seeds, client, collectors and the deadline of a request. Rows with the same cell_id and conditions_digest are measurements of one thing."),
		nullable("subject_digest", String, "", "Hash of what was measured: the engine with its image, fixed arguments and environment, the backend, and the image digest, engine version and model revision that were seen; null if no server became ready."),
		required("trial", Int, "", "Which of the plan's repeats this is, from 1."),
		required("attempt", Int, "", "Which try at the trial this is, from 1."),
		nullable("why", String, "", "Why the trial was run, in a plan with find, which chose it: find (a search looks for the load), confirm (a fresh trial of a load) or close (a trial of a certified load at the end of the search). Null in other plans, and of a trial that was not run."),
		nullable("started_at", Timestamp, "", "When the trial began, by the wall clock."),
		nullable("finished_at", Timestamp, "", "When the trial was over, by the wall clock."),
		required("backend", String, "", "Kind of the backend that ran the server."),
		required("simulated", Bool, "", "Whether the server was the built-in simulator: such a row says nothing about real hardware."),
		nullable("time_scale", Float, "ratio", "Simulated seconds in a real second, as the built-in simulator says of itself: at any value but 1 the row is INVALID (time_scaled). Null of any other server, and if it does not say."),
		required("engine", String, "", "The engine, by its key in the plan."),
		nullable("engine_version", String, "", "Version that the engine reported."),
		nullable("image_digest", String, "", "Digest of the container image that ran: sha256:...; of a stack on Kubernetes whose containers differ, that of each as ROLE/CONTAINER=sha256:..., separated by spaces."),
		nullable("model", String, "", "The model that was served."),
		nullable("model_revision", String, "", "Revision of the model, where the plan pins one."),
		nullable("answered_model", String, "", "Name of the model in the server's first answer: another than model for an alias, or for what a router has behind it. Null if the answer had none."),
		nullable("gpu_count", Int, "GPUs", "GPUs of all roles and replicas of the deployment: by the engine's parallelism arguments, else by the plan; null for a given server of which the plan says neither gpu nor gpu_count, unless its cluster says it."),
		nullable("gpu_uuid", String, "", "UUIDs of the GPUs, joined by commas."),
		nullable("driver_version", String, "", "Version of the GPU driver."),
		nullable("launch", Int, "", "Which launch of its deployment measured the trial, from 1 over all resumes of the run: trials of a cell with the same run_id and launch shared a server. Null if no server was up, or if it was up before the run."),
		nullable("start_up_s", Float, "s", "From the launch of the deployment until it answered."),
		nullable("device_prefill_ms", Float, "ms", "How much longer a prompt of 1,000 words took than a short one before this launch was measured, one at a time, the median of 3 to 5: of its card and engine, not of the load; null without fingerprint, and if the server refused it."),
		nullable("device_decode_ms", Float, "ms", "How long each further of 32 output tokens took then, the median of 3 to 5; null without fingerprint, and if the answers were shorter."),
		nullable("client_host", String, "", "Name of the machine that sent the load."),
		nullable("network_path", String, "", "How the client reached the server: loopback, direct, tunnel or proxy."),
		nullable("stamp_kind", String, "", "How receive times were taken: kernel (as a segment came in), user (by this process, after its read returned) or mixed (some of each; the requests table says which)."),
	}
}

// loadAxes returns the axes with a column of their own that no spreadsheet had.
func loadAxes() []Column {
	return []Column{
		nullable("request_rate", Float, "requests/s", "Offered rate of an open loop; null in a closed loop."),
		nullable("target_input_tokens", Int, "tokens", "Input tokens that the prompts were made for; the axis input_tokens. What was sent is input_tokens. Null if their lengths are those of a trace or a distribution."),
	}
}

func outcome() []Column {
	return []Column{
		required("status", String, "", "ok, failed, invalid or skipped."),
		nullable("valid", Bool, "", "Whether the numbers of this row may be used; null if nothing was measured."),
		nullable("invalid_reasons", String, "", "Codes of why not, joined by commas."),
		nullable("invalid_figures", String, "", "Columns of this row that must not be used, joined by commas; a name stands for those made of it too, as with _completed, _whole, _low and _high, and for the price of a token. What is not named may be used, also of a row that is INVALID. Null if none is, or if the whole row is INVALID, and in runs of earlier versions, whose rows are judged as a whole."),
		nullable("low_confidence", String, "", "Percentile columns that rest on too few requests, joined by commas; a name without a suffix stands for those with _completed and _whole too."),
		nullable("findings", String, "", "Codes of what else a person should know, joined by commas."),
		nullable("error_class", String, "", "Class of what made the trial fail."),
		nullable("error", String, "", "What made the trial fail, in words."),
		nullable("slo_pass", Bool, "", "Whether every objective of severity fail is met; null if there is none, or if none is missed and one is undecided or could not be checked."),
	}
}

func load() []Column {
	throughput, total, requests := batched(col.ThroughputTokS, "tokens/s"), batched(col.TotalThroughputTokS, "tokens/s"), batched(col.RequestThroughput, "requests/s")
	return []Column{
		nullable("requests", Int, "requests", "Requests that were sent and measured: completed, failed and cancelled; never the warm-up. Null, as are the next nine, if there was none."),
		nullable("completed", Int, "requests", "Requests that ended as they should."),
		nullable("failed", Int, "requests", "Requests that ended otherwise."),
		nullable("cancelled", Int, "requests", "Requests that we gave up: those that the plan cancels, and those still in flight when the trial's time was over."),
		nullable("cancelled_planned", Int, "requests", "Requests that were given up because the plan says so; part of cancelled."),
		nullable("finish_stop", Int, "requests", "Completed requests with the finish_reason stop: the model ended its answer."),
		nullable("finish_length", Int, "requests", "Completed requests with the finish_reason length: the answer reached max_tokens."),
		nullable("finish_tool_calls", Int, "requests", "Completed requests with the finish_reason tool_calls."),
		nullable("finish_content_filter", Int, "requests", "Completed requests with the finish_reason content_filter."),
		nullable("finish_other", Int, "requests", "Completed requests with another finish_reason, or none."),
		nullable("error_rate", Float, "ratio", "failed / (completed + failed)."),
		nullable("duration_s", Float, "s", "From the first send to the last byte."),
		nullable("slot_paused_s", Float, "s", "Time that the slots of a closed loop waited because their last request had failed, summed over slots; think time is no part of it. Null in an open loop."),
		nullable("input_tokens", Int, "tokens", "Prompt tokens of the completed requests, as the server counted them; null if it did not say for each, and if none was completed."),
		nullable("output_tokens", Int, "tokens", "Completion tokens of the completed requests, as the server counted them, or of one token a chunk if it did not (finding tokens_assumed); null if neither is known for each, and if none was completed."),
		nullable("request_throughput", Float, "requests/s", "Requests that were completed within the plateau / plateau_s."),
		nullable("achieved_rate", Float, "requests/s", "Sends per second over the whole trial: (sends - 1) / the time from the first send to the last. In an open loop it stands beside request_rate."),
		nullable("throughput_tok_s", Float, "tokens/s", "Output tokens of completed requests that arrived within the plateau / plateau_s."),
		nullable("total_throughput_tok_s", Float, "tokens/s", "The output tokens of throughput_tok_s and the prompt tokens of the completed requests whose first token arrived within the plateau / plateau_s."),
		nullable("goodput_req_s", Float, "requests/s", "Requests that were completed within the plateau and within every bound of the plan's goodput / plateau_s; null if the plan has none."),
		nullable("request_throughput"+col.WholeSuffix, Float, "requests/s", "completed / duration_s."),
		nullable("throughput_tok_s"+col.WholeSuffix, Float, "tokens/s", "output_tokens / duration_s."),
		nullable("total_throughput_tok_s"+col.WholeSuffix, Float, "tokens/s", "(input_tokens + output_tokens) / duration_s."),
		nullable("good_share", Float, "ratio", "Share of the requests sent on the plateau that were completed within every bound of the plan's goodput; a failed one is not good. Null if the plan has none, and if a completed request lacks a bounded latency."),
		nullable("goodput_req_s"+col.WholeSuffix, Float, "requests/s", "Completed requests within every bound of the plan's goodput / duration_s; null if the plan has none."),
		throughput[0], throughput[1], total[0], total[1], requests[0], requests[1],
		nullable("mean_prompt_tokens", Float, "tokens", "Mean of the prompt lengths of the completed requests, as the server counted them; null, as are the next seven, if it did not count every one."),
		nullable("std_prompt_tokens", Float, "tokens", "Standard deviation (/ n) of the prompt lengths of the completed requests."),
		nullable("min_prompt_tokens", Float, "tokens", "Shortest prompt of the completed requests."),
		nullable("p50_prompt_tokens", Float, "tokens", "Median of the prompt lengths of the completed requests."),
		nullable("p95_prompt_tokens", Float, "tokens", "95th percentile of the prompt lengths of the completed requests."),
		nullable("max_prompt_tokens", Float, "tokens", "Longest prompt of the completed requests."),
		nullable("prompt_length_error", Float, "ratio", "Mean of |achieved - target| / target over the completed requests whose prompt was made for a length; null if none was."),
		nullable("cached_tokens", Int, "tokens", "Prompt tokens of the completed requests that the server had in its prefix cache; null if it did not say for each, and where prompts are computed by other servers: a decode server counts the KV caches that it got from them."),
		nullable("output_length_error", Float, "ratio", "Share of the completed requests whose output, as the server counted it, has another length than max_tokens; null if it did not count every one."),
		nullable("extra_requests", Int, "requests", "Requests that sweep sent to the deployment's servers beyond the measured ones and the probes since the row before: readiness, counting of tokens, cache resets, warm-up, looks at metrics, and attempts that were discarded; null if nothing was run."),
		nullable("extra_completions", Int, "requests", "Those of the extra_requests that asked the model for tokens."),
	}
}

// A latencyDoc is the name of a latency and what it is.
type latencyDoc struct{ name, doc string }

// short returns what it is, without how it is measured.
func (l latencyDoc) short() string {
	name, _, _ := strings.Cut(l.doc, ":")
	return name
}

// ours reports whether it is a latency of our own, which a failed request has too.
func (l latencyDoc) ours() bool { return l.name == "schedule_lag" }

// The latencies of the cells table.
var latencies = [...]latencyDoc{
	{"ttft", "time to first token: the first content, reasoning or tool-call text"},
	{"ttfo", "time to first output: the first text that is not reasoning"},
	{"tpot", "time per output token after the first: (E2E - TTFT) / (n - 1), n as the server counted; requests with n < 2 left out"},
	{"itl", "inter-token latency: the gap before each token after the first; a chunk of k tokens gives k equal gaps"},
	{"icl", "inter-chunk latency: the gap before each chunk after the first with a token, as it arrived"},
	{"e2e", "end-to-end latency: to the last chunk"},
	{"schedule_lag", "our own lateness: sent - scheduled"},
}

// The statistics of each latency.
var statistics = [...]struct{ name, doc string }{
	{"mean", "Mean"},
	{"std", "Standard deviation (/ n, as in numpy)"},
	{"min", "Minimum"},
	{"p50", "Median"},
	{"p90", "90th percentile"},
	{"p95", "95th percentile"},
	{"p99", "99th percentile"},
	{"max", "Maximum"},
}

// steady returns what a trial's ramp, plateau and tail are, and how steady it was.
func steady() []Column {
	cols := []Column{
		nullable("expected_ramp_s", Float, "s", "What the warm-up let expect of the ramp: the time over which the slots of a closed loop began one after the other, the median e2e of the warm-up and think_time, of conversations for each of their turns; in an open loop the warm-up's p95 e2e. Null if the slots began together."),
		nullable("burst_recovery_s", Float, "s", "Of `load.stages` with a burst, a rate that is held above those held before and after it: the time from its end until at most as many requests are in flight as in the mean over the second half of the stage before, the longest of all bursts. Null without a burst, and if the stage after one ended first."),
		nullable("ramp_s", Float, "s", "From the first send to the beginning of the plateau."),
		nullable("plateau_s", Float, "s", "Length of the plateau: of the requests that are not their slot's first, from the first to the last moment with the target at work; in an open loop from the p95 e2e after the first send to the last send. Null if there was none, as are all figures of it."),
		nullable("tail_s", Float, "s", "From the end of the plateau to the last byte."),
		nullable("mean_in_flight", Float, "requests", "Mean over the plateau of the requests in flight."),
		nullable("plateau_requests", Int, "requests", "Requests sent on the plateau that its figures are of: completed, or counted as infinite."),
		nullable("infinite", String, "", "Columns that are null because they are infinite, joined by commas: failed requests count as infinite, and so do those that were given up when the load was ended for its errors or its saturation."),
	}
	for _, d := range []struct{ name, doc string }{
		{"ttft", "the time to first token"}, {"tpot", "the time per output token"}, {"throughput", "the output tokens per second"},
	} {
		cols = append(cols, nullable(d.name+"_drift", Float, "ratio", "Relative change of "+d.doc+" over the plateau: the median of the last quarter of its slices / that of the first - 1; null if there are too few."))
	}
	return append(cols, nullable("ended_by", String, "", "What ended the load: requests, duration, precision (the metric is known as well as asked), objectives (each passes or fails), error_rate, saturated, refused (every answer is an error that comes at once) or records (no more can be kept); null if it did not end."))
}

// probe returns the figures of the low-rate stream beside the load.
func probe() []Column {
	return []Column{
		nullable("probe_requests", Int, "requests", "Requests of the probe beside the load; they are in no other figure."),
		nullable("probe_failed", Int, "requests", "Requests of the probe that failed."),
		nullable("p50_probe_ttft_ms", Float, "ms", "Median time to first token of the completed probe requests."),
		nullable("p95_probe_ttft_ms", Float, "ms", "95th percentile of the time to first token of the completed probe requests."),
		nullable("p50_probe_tpot_ms", Float, "ms", "Median time per output token of the completed probe requests."),
		nullable("p50_probe_e2e_ms", Float, "ms", "Median end-to-end latency of the completed probe requests."),
		nullable("p95_probe_e2e_ms", Float, "ms", "95th percentile of the end-to-end latency of the completed probe requests."),
	}
}

// quality returns how the deployment answered the plan's prompts of quality, outside of the
// measured time: all rows of a deployment have the same.
func quality() []Column {
	return []Column{
		nullable("quality_score", Float, "ratio", "Right answers of the deployment to the plan's quality prompts / quality_n; a refused prompt counts as wrong. Null, as are the next seven, if the plan has no quality, or if the prompts could not be asked. With quality.lm_eval it is of the deployment's file, and null without one."),
		nullable("quality_score"+col.LowSuffix, Float, "ratio", "Lower end of the 95 % interval of quality_score over prompts of this kind (Clopper-Pearson)."),
		nullable("quality_score"+col.HighSuffix, Float, "ratio", "Upper end of the 95 % interval of quality_score."),
		nullable("quality_n", Int, "items", "Quality prompts with a score: those that have an expected answer, and whose answer or refusal is known."),
		nullable("quality_refused", Int, "items", "Quality prompts that the server refused, such as those beyond its context. Null, as are the next three, with quality.lm_eval."),
		nullable("quality_unknown", Int, "items", "Quality prompts without an answer for another reason; they are not in quality_n."),
		nullable("quality_cut", Int, "items", "First answers that reached quality.max_tokens."),
		nullable("quality_repeat_rate", Float, "ratio", "Share of the quality prompts that the deployment answered twice with the same text."),
	}
}

// latency returns the latencies: those of the plateau with failures as infinite, the
// intervals of their percentiles, those of the requests that were completed, and
// those of the whole trial.
func latency() []Column {
	var plain, intervals, completed, whole []Column
	for _, l := range latencies {
		of, failures, all := "; of the requests sent on the plateau", ", a failed one counted as infinite", ", over the completed requests of the whole trial."
		if l.ours() {
			failures, all = "", ", over all requests of the trial that were sent."
		}
		for _, s := range statistics {
			name := col.Latency(s.name, l.name)
			plain = append(plain, nullable(name, Float, "ms", s.doc+" of "+l.doc+of+failures+"."))
			if !l.ours() {
				completed = append(completed, nullable(name+col.CompletedSuffix, Float, "ms", s.doc+" of "+l.short()+", over the completed requests sent on the plateau."))
			}
			whole = append(whole, nullable(name+col.WholeSuffix, Float, "ms", s.doc+" of "+l.short()+all))
		}
	}
	for _, name := range IntervalPercentiles() {
		for _, s := range statistics[3:7] {
			name := col.Latency(s.name, name)
			intervals = append(intervals,
				nullable(name+col.LowSuffix, Float, "ms", "Lower end of the 95 % interval of "+name+" within the trial; requests that neighbours predict count for fewer. Null if they are too few for one."),
				nullable(name+col.HighSuffix, Float, "ms", "Upper end of the 95 % interval of "+name+"; null if it is infinite, too."),
			)
		}
	}
	for _, name := range IntervalMeans() {
		intervals = append(intervals, batched(col.Latency("mean", name), "ms")...)
	}
	plain = append(plain, nullable("p50_user_tok_s", Float, "tokens/s", "What one user sees: 1000 / p50_tpot_ms."))
	whole = append(whole, nullable("p50_user_tok_s"+col.WholeSuffix, Float, "tokens/s", "1000 / p50_tpot_ms_whole."))
	return slices.Concat(plain, intervals, completed, whole)
}

// batched returns the columns of the interval of a mean or a rate.
func batched(name, unit string) []Column {
	return []Column{
		nullable(name+col.LowSuffix, Float, unit, "Lower end of the 95 % interval of "+name+" within the trial, from the means of ten parts of the plateau; null without a plateau, or with too few requests on it."),
		nullable(name+col.HighSuffix, Float, unit, "Upper end of the 95 % interval of "+name+" within the trial."),
	}
}

// IntervalRates returns the rates with an interval within the trial.
func IntervalRates() []string {
	return []string{col.ThroughputTokS, col.TotalThroughputTokS, col.RequestThroughput}
}

// IntervalMeans returns the latencies whose means have an interval within the trial.
func IntervalMeans() []string { return []string{"ttft", "tpot", "e2e"} }

// IntervalPercentiles returns the latencies whose percentiles have an interval within the
// trial: those with one value a request.
func IntervalPercentiles() []string { return []string{"ttft", "ttfo", "tpot", "e2e"} }

// The latencies of the engine's own histograms, and the statistics of each.
var (
	serverLatencies = [...]latencyDoc{
		{"ttft", "time to first token"},
		{"itl", "inter-token latency"},
		{"tpot", "time per output token"},
		{"e2e", "end-to-end latency"},
		{"queue", "time in the queue"},
		{"prefill", "prefill time"},
		{"decode", "decode time"},
	}
	serverStatistics = [...]struct{ name, doc string }{
		{"mean", "Mean"}, {"p50", "Median"}, {"p95", "95th percentile"}, {"p99", "99th percentile"},
	}
)

// histogram says how a percentile is read from a histogram.
func histogram(statistic string) string {
	if statistic == "mean" {
		return ""
	}
	return " Linear within the bucket in which it lies (Prometheus' rule), so that the truth is anywhere between the bounds of that bucket."
}

func server() []Column {
	var cols []Column
	for _, l := range serverLatencies {
		for _, s := range serverStatistics {
			cols = append(cols, nullable(col.ServerLatency(s.name, l.name), Float, "ms",
				s.doc+" of the "+l.doc+" by the engine's own histogram over the whole trial."+histogram(s.name)))
		}
	}
	cols = append(cols,
		nullable("server_percentile_bounds", String, "", "Percentiles of the engine's histograms that are null because their bucket begins at 0, has no end or is wider than the mean allows: each with the bounds of its bucket in ms, such as p50_server_queue_ms < 300, joined by commas."),
		nullable("mean_requests_running", Float, "requests", "Mean of the requests that the engine was working on."),
		nullable("max_requests_running", Float, "requests", "Most requests that the engine was seen working on."),
		nullable("mean_requests_waiting", Float, "requests", "Mean of the requests in the engine's queue."),
		nullable("max_requests_waiting", Float, "requests", "Most requests seen in the engine's queue."),
		nullable("mean_kv_cache_usage", Float, "ratio", "Mean share of the KV cache in use, 0 to 1."),
		nullable("max_kv_cache_usage", Float, "ratio", "Largest share of the KV cache seen in use, 0 to 1."),
		nullable("prefix_cache_hit_rate", Float, "ratio", "Prompt tokens found in the prefix cache / prompt tokens looked up, over the trial; of blocks where the engine counts those."),
		nullable("preemptions", Int, "requests", "Requests that the engine put back during the trial."),
		nullable("server_output_tokens", Int, "tokens", "Output tokens that the engine counted during the trial."),
		nullable("server_throughput_tok_s", Float, "tokens/s", "server_output_tokens / duration_s."),
		nullable("server_reported_throughput_tok_s", Float, "tokens/s", "Output that the engine claims by its own gauge or log: the mean of what it said while it was at work."),
		nullable("server_input_tokens", Int, "tokens", "Prompt tokens that the engine counted during the trial."),
		nullable("server_requests", Int, "requests", "Requests that ended at the engine during the trial, whatever their end."),
		nullable("server_requests_failed", Int, "requests", "Requests that ended at the engine during the trial by an error or were given up; part of server_requests."),
		nullable("kv_cache_blocks", Int, "blocks", "Size of the KV cache, as the engine reports it."),
		nullable("kv_cache_tokens", Int, "tokens", "Size of the KV cache, as the engine reports it or as its blocks have it."),
		nullable("spec_accept_rate", Float, "ratio", "Proposed tokens that speculative decoding accepted / proposed, over the trial; null without speculative decoding."),
		nullable("spec_accept_length", Float, "tokens", "Mean of the tokens that one step of speculative decoding gave, 1 or more; null without speculative decoding."),
		nullable("max_prefill_bootstrap_queue", Float, "requests", "Most requests seen on prefill workers that waited for their decode worker."),
		nullable("max_prefill_inflight_queue", Float, "requests", "Most requests seen on prefill workers whose KV cache was on its way."),
		nullable("max_decode_prealloc_queue", Float, "requests", "Most requests seen on decode workers that waited for KV cache to receive into."),
		nullable("max_decode_transfer_queue", Float, "requests", "Most requests seen on decode workers whose KV cache was on its way."),
		nullable("mean_kv_transfer_ms", Float, "ms", "Mean time to move the KV cache of a request from prefill to decode."),
		nullable("p95_kv_transfer_ms", Float, "ms", "95th percentile of the time to move the KV cache of a request."),
		nullable("kv_transfer_bytes", Int, "bytes", "KV cache that was moved from prefill to decode during the trial."),
		nullable("kv_transfer_tokens", Int, "tokens", "Prompt tokens whose KV cache came from another server during the trial."),
		nullable("kv_transfer_failures", Int, "", "Transfers of KV caches that failed during the trial, and their notifications."),
		nullable("server_request_bytes", Int, "bytes", "Bodies of requests that the engine counted during the trial."),
		nullable("server_response_bytes", Int, "bytes", "Bodies of responses that the engine counted during the trial."),
		nullable("active_endpoints", Int, "endpoints", "Endpoints that Dynamo's workers had open on NATS at the end of the trial; null if it is not used."),
		nullable("transport_up", Bool, "", "Whether the message transport between the roles was connected at every look."),
		nullable("transport_errors", Int, "", "Errors of the message transport between the roles during the trial."),
		nullable("engine_uptime_s", Float, "s", "How long the engine's processes had been up at the end of the trial; the youngest of them."),
		nullable("pods", Int, "", "Pods of the stack on Kubernetes at the beginning of the trial; null of any other server."),
		nullable("pod_restarts", Int, "", "How often containers of these pods had been started again by then, as the cluster counts it."),
		nullable("metric_lines", Int, "lines", "Samples that the engine exposed at the end, without _created; all roles together."),
		nullable("metric_names", Int, "", "Different names among the metric_lines."),
	)
	for _, family := range MetricFamilies() {
		cols = append(cols,
			nullable(col.OfFamily("metric_lines", family), Int, "lines", "Those of metric_lines whose name has a prefix of "+family+"."),
			nullable(col.OfFamily("metric_names", family), Int, "", "Different names among metric_lines_"+family+"."),
		)
	}
	return cols
}

// disaggregation returns the columns that say whether an engine whose roles prefill and decode apart did so.
func disaggregation() []Column {
	return []Column{
		nullable("pd", String, "", "Whether prompts were computed by prefill servers and their KV caches moved to decode servers, by the servers' counters over the trial: proven (for all requests, and for all prompt tokens if that is known, but `max_decode_only` of `validity`), partial, absent or unknown. Null of an engine that does not have both roles."),
		nullable("pd_share", Float, "ratio", "Requests that ended at prefill servers / those that ended at decode servers, at most 1; where that is not known, by the decisions of the router. If fewer of the prompt tokens that the decode servers did not have in their own cache were moved there, the share of those. Without the requests of `pd_left`."),
		nullable("pd_left", Int, "requests", "Requests that the router left to decode servers on purpose, by its own counter, where `decode_only_below` of `validity` says that it may. Null if it does not, or if the router does not tell."),
	}
}

// MetricFamilies returns the engines whose metrics are counted apart, by the prefixes of
// their names: vllm:, sglang:, trtllm_ or dynamo_, and how gateways write them.
func MetricFamilies() []string { return []string{"vllm", "sglang", "trtllm", "dynamo"} }

func gpu() []Column {
	return []Column{
		nullable("mean_gpu_util", Float, "percent", "Mean utilisation of the GPUs; of one that is cut into instances (MIG), that of its busiest."),
		nullable("max_gpu_util", Float, "percent", "Highest utilisation seen of any GPU."),
		nullable("max_gpu_memory_used_bytes", Int, "bytes", "Most memory seen in use, summed over the GPUs."),
		nullable("mean_gpu_power_w", Float, "W", "Mean power, summed over the GPUs."),
		nullable("gpu_energy_j", Float, "J", "Energy over the trial, summed over the GPUs."),
		nullable("max_gpu_temp_c", Float, "celsius", "Highest temperature seen of any GPU."),
		nullable("gpu_energy_source", String, "", "Where gpu_energy_j is from: counter (the GPU's own) or integrated (power over time)."),
		nullable("gpu_memory_total_bytes", Int, "bytes", "Memory of the GPUs, summed."),
		nullable("min_gpu_memory_free_bytes", Int, "bytes", "Least memory seen free, summed over the GPUs."),
		nullable("gpu_memory_idle_bytes", Int, "bytes", "Memory in use before the load, summed over the GPUs."),
		nullable("gpu_util_idle", Float, "percent", "Utilisation at the last look before the load, mean over the GPUs."),
		nullable("mean_gpu_memory_bandwidth_util", Float, "percent", "Mean share of time in which memory was read or written."),
		nullable("mean_gpu_clock_mhz", Float, "MHz", "Mean clock of the multiprocessors."),
		nullable("min_gpu_power_limit_w", Float, "W", "Lowest power limit of any GPU of the deployment, as its driver enforces it; null if one of them does not say."),
		nullable("min_gpu_clock_limit_mhz", Float, "MHz", "Lowest of the highest clocks that the multiprocessors of the GPUs may reach; a clock that was locked lower shows in mean_gpu_clock_mhz alone. Null if a GPU does not say."),
		nullable("gpu_throttled_ms", Float, "ms", "Time in which heat or a hardware limit held the clocks down, of the GPU that had most; a power cap is normal and not in it."),
		nullable("gpu_throttle_reasons", String, "", "What held the clocks down, joined by commas."),
		nullable("gpu_foreign_processes", Int, "", "Most processes on the GPUs that are not of this deployment."),
	}
}

func processes() []Column {
	return []Column{
		nullable("server_cpu_cores", Float, "cores", "CPUs that the server's processes used, on average over the trial, where the kernel shows them."),
		nullable("server_busiest_thread_cpu", Float, "ratio", "Share of the trial in which the busiest of the server's threads was on a CPU, 0 to 1."),
	}
}

func cost() []Column {
	return append(given([]Column{
		nullable("usd_per_hour", Float, "USD/h", "Price of all GPUs of the deployment."),
		nullable("price_source", String, "", "Source of usd_per_hour: provider (what is billed), plan or config (prices of the plan, or of the user's configuration), catalogue (the list price). Null without a price."),
	}),
		nullable("cost_usd", Float, "USD", "Price of the measured time: usd_per_hour x duration_s / 3600."),
		nullable("usd_per_1m_output_tokens", Float, "USD", "Price of a million output tokens at the rate of the plateau: usd_per_hour / 3600 / throughput_tok_s x 1,000,000."),
		nullable("usd_per_1m_output_tokens"+col.WholeSuffix, Float, "USD", "cost_usd per million output_tokens."),
		nullable("joules_per_output_token", Float, "J", "gpu_energy_j / output_tokens."),
	)
}

func client() []Column {
	return []Column{
		nullable("client", String, "", "Which client sent the load: std (net/http) or fast (its own event loops)."),
		nullable("clients", Int, "", "Clients that sent the load; 1 is sweep itself, or one load pod."),
		nullable("client_skew_ms", Float, "ms", "How much later than the first of several clients the last one began; null of one client."),
		nullable("limiting_client", Int, "", "Of several clients the one that came nearest to a bound of validity, or passed it, as the column shard of the requests table has it; clients in the attempt's result.json says which bound. Null of one client."),
		nullable("client_cpu", Float, "ratio", "Share of the CPUs it may use, by affinity and cgroup limit, that the client used, 0 to 1."),
		nullable("client_loop", Float, "ratio", "Largest share of its time in which an event loop of the client was busy, 0 to 1; null if it has none."),
		nullable("p50_client_lag_ms", Float, "ms", "Median of how long after the kernel's stamp a read returned: what stamps of the client's own would be off by. Null, as are the next two, without kernel stamps."),
		nullable("p99_client_lag_ms", Float, "ms", "99th percentile of the time from the kernel's stamp to the read."),
		nullable("max_client_lag_ms", Float, "ms", "Longest time from the kernel's stamp to the read."),
		nullable("coalesced_ratio", Float, "ratio", "Chunks with a token that came out of the same read as the one before, whose receive time they share / all chunks with a token."),
		nullable("stamp_error_ms", Float, "ms", "Bound of how much the receive time of a coalesced chunk may be too late."),
		nullable("p50_rtt_ms", Float, "ms", "Median round trip of the connections in use, as TCP estimates it; no latency is adjusted by it."),
		nullable("max_rtt_ms", Float, "ms", "Longest round trip of the connections in use, as TCP estimates it."),
		nullable("clock_steps", Int, "", "Jumps of the wall clock against the monotonic one by more than 50 us."),
		nullable("tcp_retransmits", Int, "segments", "Segments that the client's TCP had to send again."),
		nullable("reopened_connections", Int, "", "Connections that had to be opened again during the load because the server had closed them."),
		nullable("max_client_stall_ms", Float, "ms", "Longest time by which the client's own ticker was late: a stopped or starved process."),
		nullable("cpu_steal", Float, "ratio", "Share of the machine's CPU time that its hypervisor gave to others, 0 to 1."),
		nullable("calibrated_error_ms", Float, "ms", "p99 of the error that this client adds to a receive time, by calibration on this machine."),
		nullable("calibrated_ceiling_chunks_s", Float, "chunks/s", "Most chunks per second that this client took in by calibration on this machine."),
	}
}
