package finding

import "slices"

// The codes. Each has a fact below, as a reason for INVALID, as a remark, or as
// both.
var (
	TimeScaled          = Code{"time_scaled"}
	EngineRestarted     = Code{"engine_restarted"}
	ServerStopped       = Code{"server_stopped"}
	Compiling           = Code{"compiling"}
	ErrorRate           = Code{"error_rate"}
	ScheduleLag         = Code{"schedule_lag"}
	OutputLength        = Code{"output_length"}
	TokensContradict    = Code{"tokens_contradict"}
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
	ClientLost          = Code{"client_lost"}
	ClientThrottled     = Code{"client_throttled"}
	ClientClock         = Code{"client_clock"}
	ClientSkew          = Code{"client_skew"}
	ClientsDiffer       = Code{"clients_differ"}
	GPUThrottled        = Code{"gpu_throttled"}
	GPUForeign          = Code{"gpu_foreign"}
	Drift               = Code{"drift"}
	StackChanged        = Code{"stack_changed"}
	StackUnwatched      = Code{"stack_unwatched"}
	Tunnelled           = Code{"tunnelled"}
	PDAbsent            = Code{"pd_absent"}
	PDPartial           = Code{"pd_partial"}
	ServerShared        = Code{"server_shared"}

	BoundLoosened           = Code{"bound_loosened"}
	ServerStalled           = Code{"server_stalled"}
	ColdConnections         = Code{"cold_connections"}
	ClientWallClock         = Code{"client_wall_clock"}
	CalibrationDisturbed    = Code{"calibration_disturbed"}
	ContentUnrepresentative = Code{"content_unrepresentative"}
	EndedEarly              = Code{"ended_early"}
	LoadStopped             = Code{"load_stopped"}
	LoadRefused             = Code{"load_refused"}
	RecordsFull             = Code{"records_full"}
	LevelSkipped            = Code{"level_skipped"}
	TrialsEnough            = Code{"trials_enough"}
	DeviceSeen              = Code{"device_seen"}
	TraceRowsSkipped        = Code{"trace_rows_skipped"}
	PromptLengthUnknown     = Code{"prompt_length_unknown"}
	PromptLengthInexact     = Code{"prompt_length_inexact"}
	ProbeFailed             = Code{"probe_failed"}
	SteadinessUnknown       = Code{"steadiness_unknown"}
	OneCycle                = Code{"one_cycle"}
	WarmupShort             = Code{"warmup_short"}
	CacheUnsettled          = Code{"cache_unsettled"}
	TokensAssumed           = Code{"tokens_assumed"}
	TextUnknown             = Code{"text_unknown"}
	ITLUnknown              = Code{"itl_unknown"}
	ChunksCoalesced         = Code{"chunks_coalesced"}
	TokensDisagree          = Code{"tokens_disagree"}
	InputDisagrees          = Code{"input_disagrees"}
	RequestsDisagree        = Code{"requests_disagree"}
	TTFTDisagrees           = Code{"ttft_disagrees"}
	TPOTDisagrees           = Code{"tpot_disagrees"}
	E2EDisagrees            = Code{"e2e_disagrees"}
	ReportedThroughput      = Code{"reported_throughput"}
	QualityVaries           = Code{"quality_varies"}
	QualityRefused          = Code{"quality_refused"}
	QualityUnknown          = Code{"quality_unknown"}
	QualityCut              = Code{"quality_cut"}
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
	HostDrift               = Code{"host_drift"}
	SlowDevice              = Code{"slow_device"}
	StackUneven             = Code{"stack_uneven"}
	StackRole               = Code{"stack_role"}
	PDUnknown               = Code{"pd_unknown"}
	PDPairsCold             = Code{"pd_pairs_cold"}
	PDPairsUnknown          = Code{"pd_pairs_unknown"}
	LogsUnread              = Code{"logs_unread"}
	RoutingUnknown          = Code{"routing_unknown"}
)

// Reasons returns the findings that make a trial INVALID, in the order of the
// documentation.
func Reasons() []Fact { return slices.Clone(reasons) }

// Remarks returns the findings beside numbers that stand, in the order of the
// documentation.
func Remarks() []Fact { return slices.Clone(remarks) }

var reasons = []Fact{
	{
		TimeScaled, "the simulated engine ran faster or slower than what it simulates", "the column `time_scale` has the factor",
		"leave out `time_scale` of the backend (`--time-scale` of `sweep sim`); for a shorter run send fewer requests or ask for fewer tokens",
	},
	{
		EngineRestarted, "the engine went away under the load", "its process started anew or its counters fell during the trial",
		"read why in its log (`sweep logs DIR CELL`); give it less load or more memory",
	},
	{
		ServerStopped, "the server's process did not run while requests waited",
		"it was stopped (state T), got no CPU time for a second without an answer, or its machine was paused by the hypervisor. Seen only for processes of this machine, with `collect: [proc]`; a stall of a running engine is the finding `server_stalled`",
		"find what stopped it or took its CPU, and run the cell again",
	},
	{
		Compiling, "the engine compiled kernels under the load",
		"all streams were silent at once, and a line of its log says so; most engines compile a kernel at the first use of a size of a batch. A silence without such a line is the finding `server_stalled`",
		"warm up at the loads of the plan (`load.warmup`), so that each size has its kernels, and run the cell again on the same server",
	},
	{
		ErrorRate, "too many requests failed", "the bound is `max_error_rate`, and the text has the commonest error",
		"lower the load; `sweep cells DIR CELL` has the error; raise `timeouts.request`, or raise `validity.max_error_rate` if failures are what you measure",
	},
	{
		ScheduleLag, "requests were sent later than planned", "INVALID are the figures that it may have moved by more than `max_moved`, see below",
		"give the client cores of its own (`engines.NAME.cpus` pins a local engine away from it), lower `request_rate`, or raise `load.max_in_flight`",
	},

	{
		OutputLength, "answers were shorter or longer than the exact length that the plan declares",
		"the plan wants exactly `max_tokens` tokens, and more than `max_output_off` of the answers had another number or were not counted",
		"raise `max-model-len` if it cut them; or declare `load.output: natural` if the engine has no `ignore_eos`",
	},
	{
		TokensContradict, "the server's counts of tokens contradict one another, or the chunks",
		"in more than 1 % of the answers the total is not prompt and completion (nor with the reasoning beside them), or there were more chunks with text than tokens; INVALID are the figures of tokens alone",
		"look at a usage (`sweep probe URL --verbose`), and have the server or the gateway count; latencies and requests/s stand",
	},
	{
		WarmupMissing, "every request of the warm-up failed", "the requests table has them, as `phase` `warmup`",
		"fix their error, or set `load.warmup: {requests: 0}`",
	},
	{
		CacheState, "the server's prefix cache held more of the prompts than the plan's shared parts explain",
		"the bound of the excess is `max_cache_hit_excess`; these prompts were sent before",
		"empty the cache (`backend.reset_cache` of an endpoint), take another seed, or set `load.prompts.cache_bust: true`",
	},
	{
		ConnectionsReopened, "the server closed connections under the load", "what these requests would have got on an open one is not known, so that as many values of each figure may be anything; `max_moved` bounds that",
		"raise its keep-alive time, or find the proxy that closes them",
	},

	{
		ClientLag, "the client read late and took the receive times itself", "`max_moved` bounds what that may have moved, see below",
		"give it cores of its own (`engines.NAME.cpus` pins a local engine away from it), or fewer streams",
	},

	{
		Coalesced, "one read returned several chunks, so their times are not exact",
		"`max_moved` bounds what that may have moved; if the client read in time and the server wrote several at once, the times are right, and the gaps between tokens alone are INVALID from 10 % of the chunks on",
		"give the client cores of its own; if the reason says that the server wrote several at once, use TPOT or change its stream interval",
	},

	{
		ClientStalled, "the client's process did not run for a while, and sent or read late", "`max_moved` bounds what that may have moved; it was stopped, or other processes took the CPU",
		"run again without suspending the machine or stopping sweep (Ctrl-Z), and without other load",
	},

	{
		CPUSteal, "the hypervisor gave this machine's CPU to others", "the bound is `max_steal` of its CPU time",
		"measure from a machine that is not shared",
	},
	{
		ClockStep, "the wall clock was set during the trial", "receive times are stamped by it, until that is seen; `max_moved` bounds what it may have moved",
		"wait until the machine's clock is synchronized (NTP), and run again",
	},

	{
		ClientLost, "one of several clients ended or fell silent", "its part of the load is missing, so the others stopped too; the text says how it ended",
		"run the cell again; if it ends again, look at the memory of its machine, or lower `load.clients`",
	},

	{
		ClientClock, "the clock of a client changed during the load, or is not known well enough", "`max_moved` bounds what that may have moved (`load.clients`)",
		"wait until its machine's clock is synchronized (NTP); bring the clients closer to the machine that runs sweep",
	},

	{
		ClientSkew, "the clients of one load did not begin together", "`max_moved` bounds what the plateau has of the time before the last began",
		"give each client a CPU of its own, or lower `load.clients`",
	},

	{
		ClientsDiffer, "one client waited longer for its answers than the others", "clients are dealt one load by turns, so their medians are alike; the bound is 20 ms and 20 %, and more than chance",
		"look at that client's path to the server; if prompts repeat with the number of clients, set another `load.clients`",
	},
	{
		GPUThrottled, "heat or a hardware limit lowered a GPU's clocks", "the bound is `max_throttled` of the load",
		"cool the GPU, or measure another",
	},
	{
		GPUForeign, "processes of others used the GPUs", "the bound is `max_foreign_processes`",
		"end those processes, or give the server GPUs of its own",
	},
	{
		Drift, "the figures changed over the plateau",
		"the bound of TTFT, TPOT and throughput is `max_drift`, and the change is more than chance (p < 0.0001)",
		"warm up longer (`load.warmup`), lower the load, or look at the slices in `samples.parquet`",
	},
	{
		StackChanged, "pods of the stack on Kubernetes changed during the trial",
		"a pod went, came, was replaced or ceased to be ready, or one of its containers was started again; the text has each",
		"wait until the stack is at rest, and run the cell again; stop its autoscaler for the run",
	},
	{
		StackUnwatched, "the pods of the stack on Kubernetes could not be looked at before or after the trial",
		"nothing proves that they were the same ones all the time; if only looks in between failed, the pods' names, restarts and roles before and after prove it",
		"read the error in the text: of the API server, or of a right that is missing",
	},
	{
		Tunnelled, "requests went through a port-forward or the proxy of the API server",
		"all of them share one connection, so the latencies and the limit are not the stack's",
		"run sweep inside the cluster, or give the address of its gateway (`backend.url`)",
	},
	{
		PDAbsent, "the servers that decode computed the prompts themselves",
		"the engine has servers for prefill, and no request ended there or no KV cache was moved; a router does so silently if no prefill server is ready, and for prompts that it finds short.",
		"look at the prefill servers and at the router's threshold, or send longer prompts; measure such a stack as an engine without prefill servers",
	},
	{
		PDPartial, "the servers that decode computed a part of the prompts themselves",
		"more than `max_decode_only` of the requests or of the prompt tokens (without those that `decode_only_below` counts apart), or transfers of KV caches failed: the row is of a mixture; the column `pd_share` has the part that went through prefill",
		"send prompts above the router's threshold, with `cache_bust: true`; raise `max_decode_only` if the router decides so on purpose",
	},
	{
		ServerShared, "other clients used the server during the trial",
		"its counters have more requests than were sent to it, and more than `max_foreign_load` of its output or prompt tokens are of none of them: the latencies include that load",
		"give the server to this run alone, or stop the other load",
	},
}

var remarks = []Fact{
	{
		BoundLoosened, "the plan has wider bounds than the defaults", "of what was measured, or of what the client may have moved (`max_moved`)",
		"nothing, if the text says that the default bounds give the same verdict",
	},
	{
		ServerStalled, "no stream got a chunk for 20 median gaps (100 ms at least) while the client ran", "",
		"look at the server's log and at proxies before it; it may have compiled a kernel, and a rerun decides: a kernel is compiled once; the p99 of the gaps includes the stall, as users see it",
	},
	{
		ColdConnections, "more than 5 % of the requests waited for a connection to be opened", "",
		"raise the server's keep-alive time, or look at the proxy before it",
	},
	{
		ClientCPU, "the client had too much to do",
		"it used more than 85 % of its CPUs or its cgroup limit; what it did late by that is bounded",
		"give it cores of its own (`engines.NAME.cpus` pins a local engine away from it), run sweep on another machine, or lower the load",
	},
	{
		ClientLoop, "an event loop of the client had too much to do",
		"it was busy for more than 70 % of the time; what it did late by that is bounded",
		"give it more or faster cores, run sweep on another machine, or lower the load",
	},
	{
		ClientCeiling, "more chunks came than this client was calibrated to carry",
		"the bound is 70 % of the calibrated ceiling; a disturbed calibration judges no trial",
		"give it more or faster cores (`sweep doctor calibrate` shows the ceiling), or lower the load",
	},
	{
		ClientThrottled, "the kernel held a client back at its CPU limit", "`nr_throttled` of its cgroup rose during the load (`load.clients`)",
		"give each client whole CPUs, or no CPU limit",
	},
	{
		ClientWallClock, "the wall clock of a client differs from this machine's by more than 100 ms", "the times of its requests were corrected by the offset that was measured",
		"nothing for the numbers; synchronize its clock (NTP) to find its lines in logs",
	},
	{
		CalibrationDisturbed,
		"by the calibration the client was too busy (`client_ceiling`) or read late (`client_lag`), but the machine was busy during the calibration, so it does not count", "",
		"run `sweep doctor calibrate --fresh` on a quiet machine",
	},
	{
		ContentUnrepresentative,
		"the server decodes speculatively, and its prompts are synthetic or its answers have an exact length (`ignore_eos`)",
		"its speed differs from that on users' texts, so comparisons of engines and servers leave the trial out",
		"use prompts of users with `load.output: natural`, or fix the acceptance by the engine's setting that the text names",
	},
	{
		EndedEarly, "`load.until` ended the load before its cap", "",
		"nothing: the text gives the interval reached",
	},
	{
		LoadStopped, "`load.stop` ended the load", "the server fails requests, or cannot keep up",
		"nothing: the row is a result, and the text says why",
	},
	{
		LoadRefused, "the last 50 answers were errors that came within 100 ms each, and the load was ended", "",
		"the text has the last error; look at the server's log and its limits",
	},
	{
		RecordsFull, "the records of the requests reached 2 GiB, and the load was ended", "",
		"shorten the load, or ask for fewer tokens",
	},
	{
		LevelSkipped, "the trial was skipped: a lower level of the same axis ended by errors or saturation", "",
		"leave `skip_higher` out to run it",
	},
	{
		TrialsEnough, "the trial was not run, since `repeats.until` knows the mean of its metric from the trials before it", "",
		"nothing: the text says how well it is known; a smaller `within` runs more trials",
	},
	{
		DeviceSeen, "the trial was not run: its new server is on a device that the search has measured already", "`find.devices` asks for several",
		"nothing: another server is started, a few times; where the provider has one device alone, write `find.devices: 1`",
	},
	{
		TraceRowsSkipped, "requests of the trace have no input or no output tokens", "a trace has failed requests so; they are not sent",
		"nothing, or remove them from the trace",
	},
	{
		PromptLengthUnknown, "the server does not say how it counts tokens", "synthetic prompts have one word for each token of `input_tokens`",
		"read the lengths sent in the columns `prompt_tokens` and `prompt_length_error`",
	},
	{
		PromptLengthInexact, "no words were found that give prompts of exactly the asked number of tokens", "",
		"read the lengths sent in the same columns; the text has the difference",
	},
	{
		ProbeFailed, "the client could not send the probes", "",
		"the text has its error; the load's own figures stand",
	},
	{
		SteadinessUnknown, "it is not known whether the load had settled",
		"there was no plateau, it was too short, or its figures still changed half-way through",
		"lengthen the load: the text says to what time, or how many `load.requests`",
	},
	{
		OneCycle, "the only trial of a closed loop whose requests have one length decides by a p90, p95 or p99 of TTFT",
		"its slots repeat one cycle, and another start can lead to another p95, up to 1.75 times as high in simulations; found only if the limit is that near, or `until` ends the load by it",
		"set `repeats: 3`, since each trial begins differently, or let the lengths of answers vary",
	},
	{
		WarmupShort, "the warm-up was too short to bring the server to its load",
		"fewer than 2 requests for each of the concurrency do not fill its batch, and a cache may not be full",
		"remove `load.warmup` from the plan (its default is long enough), or set what the text says",
	},
	{
		CacheUnsettled, "the warm-up reached its bound before the prefix cache's hit rate and the KV occupancy were flat",
		"what the trial measured is of a cache that was still filling",
		"use a smaller `prefix_groups`, or a larger KV cache; `prefix_cache_hit_rate` of the row says what the load found",
	},
	{
		TokensAssumed, "the server did not count the output, and each chunk was taken for a token; TPOT and ITL are null", "",
		"let the server send `usage` with a stream if it can; without it tokens/s is right only if each chunk is one token",
	},
	{
		TextUnknown, "answers have tokens, and no text in a place that is known; there is no TTFT", "the text has a chunk as the server sends it",
		"if the model writes in a field of its own, an engine file or a gateway can put it into `content` or `reasoning_content`",
	},
	{
		ITLUnknown, "the tokens of some chunks are not known", "the inter-token latency leaves their requests out, and is null if none is left",
		"use TPOT and the inter-chunk latency",
	},
	{
		ChunksCoalesced, "chunks hold several tokens, so a gap between chunks is not a gap between tokens", "",
		"use TPOT; look for a proxy or a stream interval of the engine",
	},
	{
		TokensDisagree, "answers and engine count different output tokens", "",
		"usually another client sends requests: give the server to this run alone",
	},
	{
		InputDisagrees, "answers and engine count different prompt tokens", "",
		"usually another client sends requests: give the server to this run alone",
	},
	{
		RequestsDisagree, "client and engine count different requests", "",
		"usually another client sends requests: give the server to this run alone",
	},
	{
		TTFTDisagrees, "client and engine have different means of TTFT", "",
		"read the likely reason in the text; the client's figure is what a user gets",
	},
	{
		TPOTDisagrees, "client and engine have different means of TPOT", "",
		"read the likely reason in the text; the client's figure is what a user gets",
	},
	{
		E2EDisagrees, "client and engine have different means of the E2E latency", "",
		"read the likely reason in the text; the client's figure is what a user gets",
	},
	{
		ReportedThroughput, "the engine's reported throughput differs from what it delivered", "",
		"use `throughput_tok_s`: engines average over their busy time only",
	},
	{
		SettingDiffers, "the engine reports a setting that differs from the plan's", "",
		"correct the argument in the plan; the row was measured with the engine's setting",
	},
	{
		CacheNotReset, "the engine did not empty its prefix cache when asked", "",
		"nothing for the numbers: no synthetic prompt is sent twice; its log may say why",
	},
	{
		CacheUnknown,
		"the server's prefix cache may still hold these prompts from an earlier run, and the server does not report cached tokens", "",
		"set `cache_bust: true`, or `backend.reset_cache: between_trials` if the server's owner permits it",
	},
	{
		WorkerIdle, "a router sent no request to a worker", "",
		"raise the load, or set another `router-mode`",
	},
	{
		MetricsUnreachable, "the metrics of a role cannot be read", "its columns are null; of an endpoint the plan has no address for them",
		"name it in `backend.roles` of the endpoint; of a stack on Kubernetes the text says what is missing",
	},
	{
		MetricsMissing, "reads of the engine's metrics failed", "",
		"raise `interval` of `prom` if the server is too busy to answer",
	},
	{
		MetricsPartial, "lines of the metrics could not be read, or a series vanished", "",
		"`sweep probe metrics URL` shows the lines; other columns are right",
	},
	{
		MetricsCut, "the engine's metrics are larger than the bound of the archive", "",
		"nothing for the columns; the archive under `scrapes/` is cut off",
	},
	{
		GPUMetricsMissing, "no GPU could be read", "",
		"set `collect: [prom, {gpu: {port: 9400}}]` if an exporter runs; the `gpu_` columns are null",
	},
	{
		GPUMetricsPartial, "some reads of the GPUs failed, or one GPU could not be read", "",
		"if a GPU was lost, all `gpu_` figures are null: see the kernel's log, and reset the GPU; else raise `interval` of `gpu`; with gaps in the power, energy is null",
	},
	{
		GPUIdle, "no GPU showed any load, and none holds a model", "",
		"sweep reads the wrong GPU or server: compare `nvidia-smi -L` and the URL",
	},
	{
		GPUThrottled, "heat or a hardware limit lowered the clocks for more than 1 % of the load", "",
		"cool the GPU; above `max_throttled` the trial is INVALID",
	},
	{
		GPUForeign, "processes of others use the GPUs", "",
		"set `max_foreign_processes: 0` to make such trials INVALID",
	},
	{
		GPUMoved, "it ran on another GPU than the cell asks for", "",
		"remove `move_gpu` from the backend if that must not happen",
	},
	{
		ProcessMetricsMissing, "the kernel does not show the server's and sweep's own processes", "",
		"nothing for the columns; there are no samples of `host` and `client`",
	},
	{
		Collector("prom"), "the collector of the engine's metrics failed as a whole, or had only a part", "",
		"read its error in the text; remove it from `collect` if it cannot work there",
	},
	{
		Collector("gpu"), "the collector of the GPUs failed as a whole, or had only a part", "",
		"read its error in the text; remove it from `collect` if it cannot work there",
	},
	{
		Collector("proc"), "the collector of the processes failed as a whole, or had only a part", "",
		"read its error in the text; remove it from `collect` if it cannot work there",
	},
	{
		NoHeartbeat, "a rented server, or one on a host, gets no heartbeat from sweep", "if sweep dies, only the expiry time ends it",
		"install python3 on the host or in the image",
	},
	{
		NetworkProxy, "requests went through the provider's HTTP proxy, which adds latency and may buffer", "",
		"set `network: tcp` to measure latencies",
	},
	{
		CostAboveQuote, "the provider bills over 10 % more than it quoted", "",
		"look at the account; `budget` counts the billed amount",
	},
	{
		DuplicatePod, "one create request made a second pod, which was listed late and deleted", "",
		"nothing; `sweep pods` shows that it is gone",
	},
	{
		LogNotWritten, "the server's log could not be written here", "",
		"free space on the disk; the class of this server's failure may be less precise",
	},
	{
		ServerNotFollowed, "the connection to the server's log was lost for a while, so its end could have been missed",
		"after two minutes of failed tries the server counts as lost",
		"read the last error in the text: of the connection, or of `attach` of a provider's program",
	},
	{
		QualityVaries, "the deployment answered some quality prompts with two different texts at temperature 0",
		"each prompt is asked twice, the second time in the opposite order. Requests that are computed in one batch, and a prefix cache, change the order in which numbers are added, so that a close decision between two tokens can go the other way",
		"take the rate as the difference that shows nothing: a deployment that differs from the baseline as often is not shown to answer differently. `quality.concurrency: 1` leaves batches out",
	},
	{
		QualityRefused, "the deployment refused quality prompts, which count as wrong answers", "such as prompts beyond its context",
		"read the error in the text; raise the context of the engine, or take shorter prompts",
	},
	{
		QualityUnknown, "quality prompts got no answer, for a reason that does not say how the deployment answers", "a connection that broke, or a time limit",
		"read the error in the text, and run the deployment again",
	},
	{
		QualityCut, "more than a tenth of the answers to quality prompts reached `quality.max_tokens`", "an answer that was cut may lack its result",
		"raise `quality.max_tokens`; a model that thinks first can be told not to by `quality.body`",
	},
	{
		HostDrift, "in a plan that compares by turns (`compare`), a cell of the baseline moved by certainly more than 2 % of tok/s between its first turn and its last, with nothing changed",
		"it is of the run, below its ratios and as `comparison.host_drift` in `answer.json`; no row has it",
		"run again on a quiet host: the ratios between the sides cover what the host did too",
	},
	{
		SlowDevice, "a device took more than 10 % longer for the fixed prompt or the fixed tokens of `fingerprint` than the median of the others that ran the same server",
		"it is of the run, among the findings of `summary.md`, with the limits of its driver that are lower than those of another device; no row has it, and `device_prefill_ms` and `device_decode_ms` of the rows have the figures",
		"look at its limits (`min_gpu_power_limit_w`, `min_gpu_clock_limit_mhz`), its clocks (`mean_gpu_clock_mhz`) and what throttles it; rent another one, or keep its answer as that of the slowest card",
	},
	{
		StackUneven, "the stack on Kubernetes has what should be looked at before it is measured", "pods that are not ready or were restarted, or pods of one role that differ",
		"`sweep probe --kube` shows the stack; the text has what was found",
	},
	{
		StackRole, "the stack on Kubernetes has pods whose role the plan's engine does not have", "no column is of them",
		"choose the engine that has their roles, as `llm-d` has prefill and decode",
	},
	{
		PDUnknown, "whether KV caches came from the servers for prefill is not known", "no counter of the servers tells it, or no request ended at a server for decode; mock workers of Dynamo move no cache and count none",
		"look at `pd_share`, the share of the requests that ended at servers for prefill, and at the pages of metrics of the decode servers",
	},
	{
		PDPairsCold, "between some prefill and decode servers no KV cache was moved before the load", "the first transfer of such a pair opens its connection, which takes seconds, and a request of the load waits for it",
		"raise `load.warmup`, and look at the router's choices in `routing.json`: it may never use the pair",
	},
	{
		PDPairsUnknown, "the logs do not tell between which prefill and decode servers KV caches were moved before the load", "counters do not name the source; the warm-up over the pairs was sent, and some may still be cold",
		"have the stack print what the text names, or look at the first requests of the load",
	},
	{
		LogsUnread, "the logs of the stack are not kept", "a right is missing, or the disk is full",
		"read the error in the text",
	},
	{
		RoutingUnknown, "the logs do not tell which servers some requests went to", "the columns `prefill_pod`, `decode_pod`, `picked_prefill`, `picked_decode` and `decision` of these requests are null",
		"have the stack print what the text names; it costs time, so not where figures count",
	},
}
