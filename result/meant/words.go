package meant

import "sweep.dev/sweep/result/col"

// The settings of a plan, by their paths.
var settings = [...]word{
	{"load.concurrency", "users vus clients workers threads connections streams parallel max_concurrency num_concurrent batch batch_size", ""},
	{"load.request_rate", "rate qps rps req_s requests_per_second arrival_rate", ""},
	{"load.requests", "n num_requests number_of_requests num_prompts max_requests request_count samples", ""},
	{"load.duration", "time run_time test_duration", ""},
	{"load.warmup", "warm_up num_warmups warmup_requests", ""},
	{"load.max_tokens", "osl output_len output_length output_tokens max_new_tokens max_output_tokens completion_tokens n_predict num_predict gen_len", ""},
	{"load.prompts.input_tokens", "input_tokens isl input_len input_length prompt_len prompt_length prompt_tokens context_len", ""},
	{"load.prompts.file", "dataset dataset_path input_file prompts_file", ""},
	{"load.sampling.temperature", "temp", ""},
	{"load.think_time", "think delay pause", ""},
	{"load.arrivals", "arrival distribution_of_arrivals", ""},
	{"repeats", "trials runs reps iterations repetitions n_repeats", ""},
	{"seed", "random_seed rng_seed", ""},
	{"slo", "objective objectives sla slas thresholds", ""},
	{"matrix", "axes grid params parameters sweep", ""},
	{"matrix.engine", "engine framework runtime server", ""},
	{"matrix.gpu", "gpu gpus gpu_type gpu_name accelerator hardware", ""},
	{"matrix.gpu_count", "num_gpus n_gpus ngpus gpus_per_node gpu_num", ""},
	{"model", "model_name model_id model_path", ""},
	{"engines.<name>.served_model_name", "served_name", ""},
	{"backend", "provider platform target", ""},
	{"backend.url", "url base_url api_base address server_url", ""},
	{"backend.key", "api_key apikey openai_api_key bearer bearer_token token auth_token", ""},
	{"budget.max_cost", "cost price max_usd max_price max_dollars", ""},
	{"budget.max_time", "max_duration max_minutes", ""},
	{"timeouts.request", "timeout request_timeout deadline", ""},
	{"timeouts.ready", "startup_timeout start_timeout ready_timeout", ""},
}

// Keys that a plan had, with what to write instead.
var gone = [...]word{
	{
		"",
		"validity.max_schedule_lag validity.max_client_cpu validity.max_client_lag validity.max_stall validity.max_coalesced validity.max_loop",
		"leave it out: what a client does late now decides by how far it may have moved each figure, more than 5 % (of TTFT and E2E more than 2 ms too) being INVALID; max_moved is that share",
	},
}

// Kinds of parallelism, as the profiles of engines have them.
var parallelism = [...]word{
	{"tensor", "tp tp_size tensor_parallel tensor_parallel_size tensor_parallelism", ""},
	{"pipeline", "pp pp_size pipeline_parallel pipeline_parallel_size pipeline_parallelism", ""},
	{"data", "dp dp_size data_parallel data_parallel_size data_parallelism replicas", ""},
	{"context", "cp cp_size context_parallel context_parallel_size", ""},
}

// Columns of the cells table. A latency without a statistic is its p95, as most
// objectives have it.
var columns = [...]word{
	{col.P95TTFTMs, "ttft ttft_ms time_to_first_token first_token_latency", ""},
	{col.P95TPOTMs, "tpot tpot_ms time_per_output_token", ""},
	{col.P95ITLMs, "itl itl_ms inter_token_latency", ""},
	{col.P95E2EMs, "e2e e2e_ms e2el latency latency_ms response_time", ""},
	{col.ThroughputTokS, "throughput tps tok_s toks tokens_per_second tokens_per_sec output_throughput", ""},
	{col.RequestThroughput, "rps qps req_s requests_per_second", ""},
	{col.GoodputReqS, "goodput", ""},
	{col.Failed, "errors failures failed_requests num_errors", ""},
	{col.ErrorRate, "error_ratio errors_rate failure_rate fail_rate", ""},
	{col.CostUSD, "cost price dollars", ""},
	{col.USDPer1MOutputTokens, "cost_per_million cost_per_1m_tokens usd_per_million_tokens cost_per_token", ""},
	{col.MeanGPUUtil, "gpu_utilization gpu_utilisation gpu_usage", ""},
	{col.MaxGPUMemoryUsedBytes, "vram gpu_mem gpu_memory memory", ""},
	{col.MaxKVCacheUsage, "kv_cache kv_usage", ""},
	{col.PrefixCacheHitRate, "cache_hit_rate hit_rate", ""},
	{col.MeanGPUPowerW, "power watts", ""},
	{col.GPUEnergyJ, "energy joules", ""},
}

// parts are the parts of a column's name, by what else people call them.
var parts = [...]word{
	{"mean", "avg average", ""},
	{"p50", "median", ""},
	{"std", "stddev sd", ""},
	{"e2e", "latency e2el", ""},
}

// Commands, with the line to write where the name alone does not say it.
var commands = [...]word{
	{"runs", "ls history status show state progress ps", "sweep runs lists the runs, sweep runs DIR says how far one is, and sweep pods lists what is rented"},
	{"runs", "prune merge", "sweep runs prune removes old run directories, and sweep runs merge makes one of several"},
	{"list", "columns cols fields variables vars describe engines engine profiles models backends gpus gpu hardware catalog catalogue schema json-schema jsonschema", "sweep list has engines, gpus, columns and schema"},
	{"night", "gate trend schedule fetch nightly cron", "sweep night has run, gate, trend, accept, schedule and fetch"},
	{"report", "size", "sweep report --load 40/s says how many servers carry a load"},
	{"cells", "results result table csv summary print report grid", ""},
	{"validate", "check lint verify", ""},
	{"plan", "expand dry-run dryrun preview estimate quote cost explain diff", ""},
	{"run", "start bench benchmark measure exec execute launch go test load apply", ""},
	{"resume", "continue retry restart", ""},
	{"logs", "log tail", ""},
	{"pods", "instances machines kill stop delete destroy terminate rm", "sweep pods terminate NAME ends one, sweep gc all that was left behind"},
	{"gc", "clean cleanup down teardown", ""},
	{"probe", "ping inspect curl metrics prometheus", "sweep probe URL asks a server, and sweep probe metrics reads what it counts"},
	{"sim", "serve server mock simulate simulator fit", "sweep sim serves a simulated engine, and sweep sim fit finds its rates by a run"},
	{"doctor", "env info diagnose calibrate selftest self-test", "sweep doctor checks this machine, and sweep doctor calibrate measures what its client adds"},
	{"compare", "noise", "sweep compare noise measures how far two runs differ with nothing changed"},
	{"", "init new create", "copy one of the plans in the folder plans, like plans/quickstart.yaml, and change it"},
}

// Flags whose meaning is another flag or a command.
var flags = [...]word{
	{"", "dry-run dryrun plan-only no-run n", "sweep plan PLAN shows the cells, minutes and dollars of a run; sweep validate PLAN checks it; neither starts anything"},
	{"output", "out out-dir outdir output-dir dir directory results-dir", ""},
	{"only", "filter where select cells match", ""},
	{"max-cost", "budget cost max-usd max-price", ""},
	{"max-time", "time-limit max-duration", ""},
	{"parallel", "jobs j max-parallel", ""},
	{"json", "format output-format", ""},
	{"fail-fast", "exitfirst x stop-on-error bail", ""},
	{"yes", "force assume-yes non-interactive no-input", ""},
	{"key-env", "key api-key token", "the key itself never stands on a command line: it is read from an environment variable"},
	{"", "config file f plan", "the plan is an argument, not a flag: sweep run plans/quickstart.yaml"},
	{"", "verbose v debug log-level", "--events FILE has every event of a run, sweep logs DIR what its servers printed"},
}
