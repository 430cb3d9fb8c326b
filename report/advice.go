package report

import (
	"sweep.dev/sweep/internal/humanize"
	"sweep.dev/sweep/result/col"
)

// advice says for each code of invalid_reasons what makes it and what to try.
// A code that is not here has its reason alone.
var advice = map[string]string{
	"time_scaled":          "the simulated engine ran faster or slower than what it simulates -> leave out time_scale of the backend, or --time-scale of sweep sim; for a shorter run send fewer requests or ask for fewer tokens",
	"engine_restarted":     "the engine went away under the load -> read why in its log (sweep logs DIR CELL); give it less load or more memory",
	"error_rate":           "too many requests failed -> sweep cells DIR CELL has the error; lower the load, raise timeouts.request, or raise validity.max_error_rate where failures are what you measure",
	"schedule_lag":         "requests were sent later than planned -> give the client cores of its own (engines.NAME.cpus pins a local engine away from it), lower request_rate, or raise load.max_in_flight",
	"output_length":        "answers were shorter or longer than the exact length that the plan declares -> raise max-model-len where it cut them, or declare load.output: natural where the engine knows no ignore_eos",
	"client_cpu":           "the client was too busy to measure well -> give it cores of its own (engines.NAME.cpus pins a local engine away from it), run sweep on another machine, or lower the load",
	"client_stalled":       "the client stood still for a while -> run again on a machine that is not suspended, stopped (Ctrl-Z) or starved by others",
	"client_loop":          "an event loop of the client was too busy to read in time -> give it more or faster cores, run sweep on another machine, or lower the load",
	"client_ceiling":       "more chunks came than this client was calibrated to carry -> give it more or faster cores (sweep calibrate shows what they bring), or lower the load",
	"client_lag":           "the client read late -> give it cores of its own (engines.NAME.cpus pins a local engine away from it), or fewer streams",
	"coalesced":            "chunks came several in one read, so that their times are not their own -> the reason says whether the client was late (give it cores of its own) or the server wrote them at once (use TPOT, or its stream interval)",
	"server_stopped":       "the server's process did not run while requests waited -> find who stopped it or took its CPU, and run the cell again",
	"cpu_steal":            "the hypervisor gave this machine's CPU to others -> measure from a machine that is not shared",
	"clock_step":           "the wall clock, which receive times are stamped by, was set -> let the machine's clock settle before the run",
	"warmup_missing":       "no request of the warm-up was completed -> fix their error, or say load.warmup: {requests: 0}",
	"cache_state":          "the server's prefix cache knew more of the prompts than the plan shares -> empty the cache, take another seed, or say load.prompts.cache_bust: true",
	"connections_reopened": "the server closed connections under the load -> raise its keep-alive, or look for a proxy that closes",
	"drift":                "the figures changed over the plateau -> warm up longer (load.warmup), ask for less, or look at the slices in samples.parquet",
	"gpu_throttled":        "heat or a hardware limit held a GPU's clocks down -> cool it, or measure another",
	"gpu_foreign":          "others had processes on the GPUs -> end them, or give the server GPUs of its own",
	"nothing_measured":     "no request was completed -> raise load.duration or timeouts.request above the time of one answer",
}

// Advice is what to try about a code of invalid_reasons, as cause -> what to
// try; "" for a code that has none.
func Advice(code string) string { return advice[code] }

// advise gathers what to try, for what there is in this run.
func (s *summary) advise() []item {
	var items []item
	count := map[string]int{}
	var codes []string
	unchecked, few, impossible := 0, 0, 0
	for _, p := range s.points {
		if p.Few > 0 {
			few++
		}
		for _, t := range p.Trials {
			if t.Outcome == nil {
				continue
			}
			if t.Outcome.StartFailure && t.Outcome.Row[col.ErrorClass] == "spec" {
				impossible++
			}
			for _, f := range t.Outcome.Invalid {
				if count[f.Code]++; count[f.Code] == 1 {
					codes = append(codes, f.Code)
				}
			}
			for _, o := range t.Outcome.SLOs {
				if o.Error != "" {
					unchecked++
				}
			}
		}
	}
	for _, code := range codes {
		if text := Advice(code); text != "" {
			items = append(items, item{text: code + " (" + humanize.Plural(count[code], "trial") + "): " + text})
		}
	}
	if impossible > 0 {
		items = append(items, item{text: "spec (" + humanize.Plural(impossible, "trial") + "): the server cannot be started like that -> install the engine where PATH finds it, or say how it starts with engines.NAME.command (sweep plan --commands PLAN shows every command)"})
	}
	if unchecked > 0 {
		items = append(items, item{text: "an objective could not be checked, so its cells are undecided -> let a collector measure its column (collect), or take the objective out, and run the plan again"})
	}
	if few > 0 {
		items = append(items, item{text: "a p95 of few requests is close to their maximum (" + humanize.Plural(few, "cell") + ") -> raise load.requests, load.requests_per_worker or load.duration"})
	}
	edges := len(s.answers(AskMoreLoad))
	if edges > 0 {
		items = append(items, item{text: "no more load was tried than that of " + humanize.Plural(edges, "sweet spot") + ", so the server may carry more -> add larger values of concurrency or request_rate"})
	}
	for _, p := range s.points {
		if p.Verdict == Unstable {
			items = append(items, item{text: "a p95 far from its p50 is queueing, preemption or a noisy machine -> look at requests_waiting_max, preemptions and kv_cache_usage_max (sweep cells DIR CELL); try repeats, less load or a larger max-num-seqs"})
			break
		}
	}
	return items
}
