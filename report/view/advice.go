package view

import (
	"slices"

	"sweep.dev/sweep/internal/humanize"
	"sweep.dev/sweep/report/conclude"
	"sweep.dev/sweep/report/draw"
	"sweep.dev/sweep/result"
)

// Advice returns what to try, but for the reasons for INVALID and for failures, which have theirs
// with them.
func (v *View) Advice() []draw.Item {
	var items []draw.Item
	unchecked, undecided, few := 0, 0, 0
	for _, p := range v.Set.Points {
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
			for _, o := range t.Outcome.SLOs {
				if o.Verdict == "" {
					unchecked++
				}
			}
		}
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
	if edge := Edge(v.Set.Claims); edge != "" && !v.Searching() {
		items = append(items, draw.Item{Text: edge + " -> add larger values of concurrency or request_rate"})
	}
	for _, p := range v.Set.Points {
		if p.Verdict == conclude.Unstable {
			items = append(items, draw.Item{Text: "an unstable cell preempts or stands on a noisy machine -> look at max_requests_waiting, preemptions and max_kv_cache_usage (sweep cells DIR CELL); try repeats, less load or a larger max-num-seqs"})
			break
		}
	}
	return items
}
