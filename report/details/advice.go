package details

import (
	"slices"

	"sweep.dev/sweep/internal/humanize"
	"sweep.dev/sweep/report"
	"sweep.dev/sweep/report/compare"
	"sweep.dev/sweep/report/draw"
	"sweep.dev/sweep/result"
	"sweep.dev/sweep/result/col"
	"sweep.dev/sweep/result/finding"
)

// advise gathers what to try, for what there is in this run.
func (s *summary) advise() []draw.Item {
	return append(s.adviseInvalid(), s.adviseOthers()...)
}

// adviseInvalid is what to try about the reasons for INVALID.
func (s *summary) adviseInvalid() []draw.Item {
	var items []draw.Item
	count := map[finding.Code]int{}
	var codes []finding.Code
	for _, p := range s.points {
		for _, t := range p.Trials {
			if t.Outcome == nil {
				continue
			}
			for _, f := range t.Outcome.Invalid {
				if count[f.Code]++; count[f.Code] == 1 {
					codes = append(codes, f.Code)
				}
			}
		}
	}
	for _, code := range codes {
		if text := finding.Advice(code); text != "" {
			items = append(items, draw.Item{Text: code.String() + " (" + humanize.Plural(count[code], "trial") + "): " + text})
		}
	}
	return items
}

// adviseOthers is what to try about all else.
func (s *summary) adviseOthers() []draw.Item {
	var items []draw.Item
	unchecked, undecided, few, impossible := 0, 0, 0, 0
	for _, p := range s.points {
		if slices.ContainsFunc(p.Objectives, func(o result.SLOResult) bool { return o.Verdict == result.SLOUndecided }) {
			undecided++
		}
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
			for _, o := range t.Outcome.SLOs {
				if o.Verdict == "" {
					unchecked++
				}
			}
		}
	}
	if impossible > 0 {
		items = append(items, draw.Item{Text: "spec (" + humanize.Plural(impossible, "trial") + "): the server cannot be started like that -> " + report.SpecAdvice})
	}
	if unchecked > 0 {
		items = append(items, draw.Item{Text: "an objective could not be checked, so its cells are undecided -> let a collector measure its column (collect), or take the objective out, and run the plan again"})
	}
	if undecided > 0 {
		items = append(items, draw.Item{Text: "an objective is undecided (" + humanize.Plural(undecided, "cell") + "): too few requests, or requests that are too much alike -> raise load.requests, load.requests_per_worker or load.duration, or add repeats, which count together"})
	}
	if few > 0 {
		items = append(items, draw.Item{Text: "a p95 of few requests is close to their maximum (" + humanize.Plural(few, "cell") + ") -> raise load.requests, load.requests_per_worker or load.duration"})
	}
	edges := len(s.set.Answers(compare.AskMoreLoad))
	if edges > 0 {
		items = append(items, draw.Item{Text: "no more load was tried than that of " + humanize.Plural(edges, "sweet spot") + ", so the server may carry more -> add larger values of concurrency or request_rate"})
	}
	for _, p := range s.points {
		if p.Verdict == compare.Unstable {
			items = append(items, draw.Item{Text: "an unstable cell preempts or stands on a noisy machine -> look at max_requests_waiting, preemptions and max_kv_cache_usage (sweep cells DIR CELL); try repeats, less load or a larger max-num-seqs"})
			break
		}
	}
	return items
}
