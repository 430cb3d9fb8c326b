package report

// advice says for each code of invalid_reasons what makes it and what to try.
// A code that is not here has its reason alone.
var advice = map[string]string{
	"engine_restarted": "the engine went away under the load -> read why in its log (sweep logs DIR CELL); give it less load or more memory",
	"error_rate":       "too many requests failed -> sweep cells DIR CELL has the error; lower the load, raise timeouts.request, or raise validity.max_error_rate where failures are what you measure",
	"schedule_lag":     "requests were sent later than planned -> give the client cores of its own (engines.NAME.cpus pins a local engine away from it), lower request_rate, or raise load.max_in_flight",
	"output_length":    "answers were shorter or longer than the exact length that the plan declares -> raise max-model-len where it cut them, or declare load.output: natural where the engine knows no ignore_eos",
	"client_cpu":       "the client was too busy to measure well -> give it cores of its own (engines.NAME.cpus pins a local engine away from it), run sweep on another machine, or lower the load",
	"client_stalled":   "the client stood still for a while -> run again on a machine that is not suspended, stopped (Ctrl-Z) or starved by others",
	"nothing_measured": "no request was completed -> raise load.duration or timeouts.request above the time of one answer",
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
			if t.Outcome.StartFailure && t.Outcome.Row["error_class"] == "spec" {
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
			items = append(items, item{text: code + " (" + plural(count[code], "trial") + "): " + text})
		}
	}
	if impossible > 0 {
		items = append(items, item{text: "spec (" + plural(impossible, "trial") + "): the server cannot be started like that -> install the engine where PATH finds it, or say how it starts with engines.NAME.command (sweep plan --commands PLAN shows every command)"})
	}
	if unchecked > 0 {
		items = append(items, item{text: "an objective could not be checked, which is no pass -> let a collector measure its column (collect), or take the objective out"})
	}
	if few > 0 {
		items = append(items, item{text: "a p95 of few requests is their maximum by another name (" + plural(few, "cell") + ") -> raise load.requests, load.requests_per_worker or load.duration"})
	}
	edges := 0
	for _, l := range ladders(s.points) {
		if l.points[len(l.points)-1].Verdict == SweetSpot {
			edges++
		}
	}
	if edges > 0 {
		items = append(items, item{text: "no more load was tried than that of " + plural(edges, "sweet spot") + ", so the server may carry more -> add larger values of concurrency or request_rate"})
	}
	for _, p := range s.points {
		if p.Verdict == Unstable {
			items = append(items, item{text: "a p95 far from its p50 is queueing, preemption or a noisy machine -> look at requests_waiting_max, preemptions and kv_cache_usage_max (sweep cells DIR CELL); try repeats, less load or a larger max-num-seqs"})
			break
		}
	}
	return items
}
