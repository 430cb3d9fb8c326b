package finding

import "slices"

// The codes. Each has a fact below, as a reason for INVALID, as a remark, or as
// both.
var (
	TimeScaled          = Code{"time_scaled"}
	EngineRestarted     = Code{"engine_restarted"}
	ServerStopped       = Code{"server_stopped"}
	ErrorRate           = Code{"error_rate"}
	ScheduleLag         = Code{"schedule_lag"}
	OutputLength        = Code{"output_length"}
	WarmupMissing       = Code{"warmup_missing"}
	CacheState          = Code{"cache_state"}
	ConnectionsReopened = Code{"connections_reopened"}
	ClientCPU           = Code{"client_cpu"}
	ClientLoop          = Code{"client_loop"}
	ClientCeiling       = Code{"client_ceiling"}
	ClientLag           = Code{"client_lag"}
	Coalesced           = Code{"coalesced"}
	ClientStalled       = Code{"client_stalled"}
	CPUSteal            = Code{"cpu_steal"}
	ClockStep           = Code{"clock_step"}
	GPUThrottled        = Code{"gpu_throttled"}
	GPUForeign          = Code{"gpu_foreign"}
	Drift               = Code{"drift"}

	BoundLoosened           = Code{"bound_loosened"}
	ServerStalled           = Code{"server_stalled"}
	ColdConnections         = Code{"cold_connections"}
	CalibrationDisturbed    = Code{"calibration_disturbed"}
	ContentUnrepresentative = Code{"content_unrepresentative"}
	EndedEarly              = Code{"ended_early"}
	LoadStopped             = Code{"load_stopped"}
	LoadRefused             = Code{"load_refused"}
	RecordsFull             = Code{"records_full"}
	LevelSkipped            = Code{"level_skipped"}
	TrialsEnough            = Code{"trials_enough"}
	TraceRowsSkipped        = Code{"trace_rows_skipped"}
	PromptLengthUnknown     = Code{"prompt_length_unknown"}
	PromptLengthInexact     = Code{"prompt_length_inexact"}
	ProbeFailed             = Code{"probe_failed"}
	SteadinessUnknown       = Code{"steadiness_unknown"}
	WarmupShort             = Code{"warmup_short"}
	TokensAssumed           = Code{"tokens_assumed"}
	ITLUnknown              = Code{"itl_unknown"}
	ChunksCoalesced         = Code{"chunks_coalesced"}
	TokensDisagree          = Code{"tokens_disagree"}
	InputDisagrees          = Code{"input_disagrees"}
	RequestsDisagree        = Code{"requests_disagree"}
	TTFTDisagrees           = Code{"ttft_disagrees"}
	TPOTDisagrees           = Code{"tpot_disagrees"}
	E2EDisagrees            = Code{"e2e_disagrees"}
	ReportedThroughput      = Code{"reported_throughput"}
	SettingDiffers          = Code{"setting_differs"}
	CacheNotReset           = Code{"cache_not_reset"}
	CacheUnknown            = Code{"cache_unknown"}
	WorkerIdle              = Code{"worker_idle"}
	MetricsUnreachable      = Code{"metrics_unreachable"}
	MetricsMissing          = Code{"metrics_missing"}
	MetricsPartial          = Code{"metrics_partial"}
	MetricsCut              = Code{"metrics_cut"}
	GPUMetricsMissing       = Code{"gpu_metrics_missing"}
	GPUMetricsPartial       = Code{"gpu_metrics_partial"}
	GPUIdle                 = Code{"gpu_idle"}
	GPUMoved                = Code{"gpu_moved"}
	ProcessMetricsMissing   = Code{"process_metrics_missing"}
	NoHeartbeat             = Code{"no_heartbeat"}
	NetworkProxy            = Code{"network_proxy"}
	CostAboveQuote          = Code{"cost_above_quote"}
	DuplicatePod            = Code{"duplicate_pod"}
	LogNotWritten           = Code{"log_not_written"}
	ServerNotFollowed       = Code{"server_not_followed"}
)

// Reasons are the findings that make a trial INVALID, in the order of the
// documentation.
func Reasons() []Fact { return slices.Clone(reasons) }

// Remarks are the findings beside numbers that stand, in the order of the
// documentation.
func Remarks() []Fact { return slices.Clone(remarks) }

var reasons = []Fact{
	{
		TimeScaled, "the simulated engine ran faster or slower than what it simulates", "the column `time_scale` has the factor",
		"leave out `time_scale` of the backend, or `--time-scale` of `sweep sim`; for a shorter run send fewer requests or ask for fewer tokens",
	},
	{
		EngineRestarted, "the engine went away under the load", "its process started anew or its counters fell during the trial",
		"read why in its log (`sweep logs DIR CELL`); give it less load or more memory",
	},
	{
		ServerStopped, "the server's process did not run while requests waited",
		"it was in state T, it had no CPU time for a second in which nothing came, or a hypervisor had its machine. Seen of processes of this machine, with `collect: [proc]`; a stall of an engine that runs is the finding `server_stalled`",
		"find who stopped it or took its CPU, and run the cell again",
	},
	{
		ErrorRate, "too many requests failed", "the bound is `max_error_rate`, and the text has the commonest error",
		"`sweep cells DIR CELL` has the error; lower the load, raise `timeouts.request`, or raise `validity.max_error_rate` where failures are what you measure",
	},
	{
		ScheduleLag, "requests were sent later than planned", "the bound of their p99 is `max_schedule_lag`",
		"give the client cores of its own (`engines.NAME.cpus` pins a local engine away from it), lower `request_rate`, or raise `load.max_in_flight`",
	},
	{
		OutputLength, "answers were shorter or longer than the exact length that the plan declares",
		"the plan wants exactly `max_tokens` tokens, and more than `max_output_off` of the answers had others or were not counted",
		"raise `max-model-len` where it cut them, or declare `load.output: natural` where the engine knows no `ignore_eos`",
	},
	{
		WarmupMissing, "no request of the warm-up was completed", "the requests table has them, as `phase` `warmup`",
		"fix their error, or say `load.warmup: {requests: 0}`",
	},
	{
		CacheState, "the server's prefix cache knew more of the prompts than the plan shares",
		"the bound of the excess is `max_cache_hit_excess`; somebody sent these prompts before",
		"empty the cache (`backend.reset_cache` of an endpoint), take another seed, or say `load.prompts.cache_bust: true`",
	},
	{
		ConnectionsReopened, "the server closed connections under the load", "more than 5 % of the requests found theirs closed",
		"raise its keep-alive, or look for a proxy that closes",
	},
	{
		ClientCPU, "the client was too busy to measure well",
		"it used more than `max_client_cpu` of the CPUs or the cgroup limit that it may use, so it measured itself",
		"give it cores of its own (`engines.NAME.cpus` pins a local engine away from it), run sweep on another machine, or lower the load",
	},
	{
		ClientLoop, "an event loop of the client was too busy to read in time",
		"it was busy for more than `max_loop` of the time, so what it read had queued",
		"give it more or faster cores, run sweep on another machine, or lower the load",
	},
	{
		ClientCeiling, "more chunks came than this client was calibrated to carry",
		"the bound is 70 % of that, and a disturbed calibration judges no trial",
		"give it more or faster cores (`sweep calibrate` shows what they bring), or lower the load",
	},
	{
		ClientLag, "the client read late", "the bound of its p99 is `max_client_lag`, see below",
		"give it cores of its own (`engines.NAME.cpus` pins a local engine away from it), or fewer streams",
	},
	{
		Coalesced, "chunks came several in one read, so that their times are not their own",
		"the bound is `max_coalesced` of them, or 10 % if the client read soon and the server wrote several at once; the text has the share",
		"the reason says whether the client was late (give it cores of its own) or the server wrote them at once (use TPOT, or its stream interval)",
	},
	{
		ClientStalled, "the client stood still for a while", "the bound is `max_stall`; its process was stopped, or its machine starved",
		"run again on a machine that is not suspended, stopped (Ctrl-Z) or starved by others",
	},
	{
		CPUSteal, "the hypervisor gave this machine's CPU to others", "the bound is `max_steal` of its CPU time",
		"measure from a machine that is not shared",
	},
	{
		ClockStep, "the wall clock, which receive times are stamped by, was set during the trial", "",
		"let the machine's clock settle before the run",
	},
	{
		GPUThrottled, "heat or a hardware limit held a GPU's clocks down", "the bound is `max_throttled` of the load",
		"cool it, or measure another",
	},
	{
		GPUForeign, "others had processes on the GPUs", "the bound is `max_foreign_processes`",
		"end them, or give the server GPUs of its own",
	},
	{
		Drift, "the figures changed over the plateau",
		"the bound of TTFT, TPOT and throughput is `max_drift`, and the change is more than chance (p < 0.0001)",
		"warm up longer (`load.warmup`), ask for less, or look at the slices in `samples.parquet`",
	},
}

var remarks = []Fact{
	{
		BoundLoosened, "the plan has wider bounds than the defaults", "",
		"nothing, if the text says that the verdict is the same",
	},
	{
		ServerStalled, "no stream got a chunk for 20 median gaps and 100 ms at least, and the client ran meanwhile", "",
		"its log, and what is before it; the p99 of the gaps is what users got",
	},
	{
		ColdConnections, "more than 5 % of the requests waited for a connection to be opened", "",
		"the server's keep-alive, or what stands before it",
	},
	{
		ClientLag, "the client read late, and the kernel's stamps make that harmless", "",
		"nothing; it is INVALID where it is not",
	},
	{
		CalibrationDisturbed,
		"the calibration speaks against the trial (`client_ceiling`, `client_lag`), but the machine did other things while it was made, so it does not count", "",
		"`sweep calibrate --fresh` on a quiet machine",
	},
	{
		ContentUnrepresentative,
		"the server decodes speculatively, and its prompts are made up or its answers have an exact length (`ignore_eos`)",
		"its speed is not that of users' texts, and no comparison of engines or servers ranks the trial",
		"prompts of users with `load.output: natural`; or a setting of the engine that fixes the acceptance, which the text names",
	},
	{
		EndedEarly, "`load.until` ended the load before its cap", "",
		"nothing: the text says what is known",
	},
	{
		LoadStopped, "`load.stop` ended the load", "its server fails, or cannot follow",
		"nothing: the row is a result, and the text says why",
	},
	{
		LoadRefused, "the last 50 answers were errors that came within 100 ms each, and the load was ended", "",
		"the text has the last error; look at the server's log and its limits",
	},
	{
		RecordsFull, "the records of the requests take 2 GiB, and the load was ended", "",
		"a shorter load, or fewer tokens",
	},
	{
		LevelSkipped, "the trial was not run, since a lower level of the same axis was ended by errors or saturation", "",
		"leave `skip_higher` out to run it",
	},
	{
		TrialsEnough, "the trial was not run, since `repeats.until` knows the mean of its metric from the trials before it", "",
		"nothing: the text says how well it is known; a smaller `within` runs more trials",
	},
	{
		TraceRowsSkipped, "requests of the trace have no tokens in or out, as failed ones are recorded", "they are not sent",
		"nothing, or a trace without them",
	},
	{
		PromptLengthUnknown, "the server does not tell how it counts tokens", "made-up prompts have one word for each token of `input_tokens`",
		"the columns `prompt_tokens` and `prompt_length_error` have what was sent",
	},
	{
		PromptLengthInexact, "no words were found of which a text has exactly as many tokens as asked", "",
		"the same columns; the text says how far off prompts are",
	},
	{
		ProbeFailed, "the client could not send the probes", "",
		"the text has its error; the load's own figures stand",
	},
	{
		SteadinessUnknown, "it is not known whether the load had settled",
		"there was no plateau, or too little of it, or its figures still moved half-way through, or moved too slowly to be seen often enough",
		"send for longer: the text says how long, or how many `load.requests`",
	},
	{
		WarmupShort, "the warm-up was shorter than it takes to bring the server to its load",
		"fewer requests than 2 for each of the concurrency never fill its batch, and a cache may not be full",
		"leave `load.warmup` to its default, or give it what the text says",
	},
	{
		TokensAssumed, "the server did not count the output, and each chunk was taken for a token; TPOT and ITL are null", "",
		"if the server can send `usage` with a stream, turn that on; else tokens/s is right only for a server that sends one token a chunk",
	},
	{
		ITLUnknown, "the tokens of some chunks are not known", "their requests are left out of the inter-token latency, or there is none",
		"use TPOT and the inter-chunk latency",
	},
	{
		ChunksCoalesced, "chunks hold several tokens, so gaps between chunks are not those between tokens", "",
		"use TPOT; look for a proxy or a stream interval of the engine",
	},
	{
		TokensDisagree, "answers and engine count different output tokens", "",
		"mostly another client: give the server to the run alone",
	},
	{
		InputDisagrees, "answers and engine count different prompt tokens", "",
		"mostly another client: give the server to the run alone",
	},
	{
		RequestsDisagree, "client and engine count different requests", "",
		"mostly another client: give the server to the run alone",
	},
	{
		TTFTDisagrees, "client and engine have different means of TTFT", "",
		"the text has the likely reason; the client's is what a user gets",
	},
	{
		TPOTDisagrees, "client and engine have different means of TPOT", "",
		"the text has the likely reason; the client's is what a user gets",
	},
	{
		E2EDisagrees, "client and engine have different means of the E2E latency", "",
		"the text has the likely reason; the client's is what a user gets",
	},
	{
		ReportedThroughput, "the engine claims another throughput than it delivered", "",
		"use `throughput_tok_s`: an engine averages over its busy times",
	},
	{
		SettingDiffers, "the engine reports another setting than the plan gave it", "",
		"fix the plan's argument; the row is of the setting that the engine has",
	},
	{
		CacheNotReset, "the engine has a way to empty its prefix cache, and it did not work", "",
		"nothing rests on it, since no made-up prompt is sent twice; look at its log for why",
	},
	{
		CacheUnknown,
		"an earlier run may have left these prompts in the server's prefix cache, which was not emptied, and the server does not say what it had cached", "",
		"`cache_bust: true`; or `backend.reset_cache: between_trials`, if the server's owner permits it",
	},
	{
		WorkerIdle, "a router left a worker without a request", "",
		"more load, or another `router-mode`",
	},
	{
		MetricsUnreachable, "the plan has no address of a role's metrics", "its columns are null",
		"`backend.roles` of an endpoint",
	},
	{
		MetricsMissing, "looks at the engine's metrics failed", "",
		"a longer `interval` of `prom`, if the server is too busy to answer",
	},
	{
		MetricsPartial, "lines of the metrics could not be read, or a series vanished", "",
		"`sweep metrics URL` shows the lines; other columns are right",
	},
	{
		MetricsCut, "the engine exposes more than is kept", "",
		"nothing for the columns; the archive under `scrapes/` has an end",
	},
	{
		GPUMetricsMissing, "no GPU could be watched", "",
		"`collect: [prom, {gpu: {port: 9400}}]` where an exporter runs; no column `gpu_` has a value",
	},
	{
		GPUMetricsPartial, "looks at the GPUs failed, or one server's GPU could not be watched", "",
		"a longer `interval` of `gpu`; where the power has holes, energy is not stated",
	},
	{
		GPUIdle, "no GPU changed under load, and none holds a model", "",
		"the wrong GPU or the wrong server: look at `nvidia-smi -L` and at the URL",
	},
	{
		GPUThrottled, "heat or a hardware limit held clocks down for more than 1 % of the load", "",
		"cool it; beyond `max_throttled` the trial is INVALID",
	},
	{
		GPUForeign, "others have processes on the GPUs", "",
		"set `max_foreign_processes: 0` where that must not be",
	},
	{
		GPUMoved, "it ran on another GPU than the cell asks for", "",
		"`move_gpu` of the backend is what allows that",
	},
	{
		ProcessMetricsMissing, "the kernel shows neither the server's nor our own processes", "",
		"there are no samples of `host` and `client`; all columns stand",
	},
	{
		Collector("prom"), "the collector of the engine's metrics failed as a whole, or had only a part", "",
		"the text has its error; `collect` without it, if it cannot work there",
	},
	{
		Collector("gpu"), "the collector of the GPUs failed as a whole, or had only a part", "",
		"the text has its error; `collect` without it, if it cannot work there",
	},
	{
		Collector("proc"), "the collector of the processes failed as a whole, or had only a part", "",
		"the text has its error; `collect` without it, if it cannot work there",
	},
	{
		NoHeartbeat, "a rented server or one on a host does not hear from sweep", "without sweep only its expiry time ends it",
		"python3 on the host or in the image",
	},
	{
		NetworkProxy, "requests went through the provider's HTTP proxy, which adds latency and may buffer", "",
		"`network: tcp`, for latencies",
	},
	{
		CostAboveQuote, "the provider bills over 10 % more than it said", "",
		"look at the account; `budget` counts what is billed",
	},
	{
		DuplicatePod, "one create made a second pod, which showed up late and was deleted", "",
		"nothing; `sweep pods` shows that it is gone",
	},
	{
		LogNotWritten, "the server's log could not be written here", "",
		"look at the disk; the class of this server's failure may be less precise",
	},
	{
		ServerNotFollowed, "what the server says could not be read for a while, and its end would have been missed",
		"after two minutes in which every try breaks at once the server counts as lost",
		"the text has the last error: of the connection, or of `attach` of a provider's program",
	},
}
