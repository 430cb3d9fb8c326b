package view

import (
	"fmt"

	"sweep.dev/sweep/internal/humanize"
	"sweep.dev/sweep/report/conclude"
	"sweep.dev/sweep/result/col"
)

// planned returns how many requests the plan has for one trial of a point; 0 if
// its time decides.
func (v *View) planned(p *conclude.Point) int64 {
	fixed := v.fixed.Of(p.Cell)
	if fixed["duration"] != nil {
		return 0
	}
	workers, _ := v.Set.Value(p, col.Concurrency).(float64)
	if each, _ := fixed["requests_per_worker"].(float64); each > 0 {
		return int64(each * workers)
	}
	n, _ := fixed[col.Requests].(float64)
	return int64(n)
}

// completion returns how many requests of a point were completed, and of how many:
// those that the plan has, or if it has a time, those that were sent. Trials
// without an outcome count as none of theirs.
func (v *View) completion(p *conclude.Point) (done, of int64) {
	planned := v.planned(p)
	for _, t := range p.Trials {
		sent := planned
		if t.Outcome != nil {
			done += int64(t.Outcome.Row.Float(col.Completed))
			sent = max(sent, int64(t.Outcome.Row.Float(col.Requests)))
		}
		of += sent
	}
	return done, of
}

// completed says it in words: "5 of 5"; "-" if requests were not counted.
func (v *View) completed(p *conclude.Point) string {
	done, of := v.completion(p)
	if of == 0 {
		return "-"
	}
	return fmt.Sprintf("%d of %d", done, of)
}

// Requests returns all requests of the run in one line; "" if nothing was sent.
// Servers that did not start count where the plan takes that for a fault.
func (v *View) Requests() string {
	var done, of, failed, planned, cancelled int64
	measured := false
	for _, p := range v.Set.Points {
		if p.Verdict == conclude.NoStart && v.Resolved.RecordStarts {
			continue
		}
		d, o := v.completion(p)
		done, of = done+d, of+o
		for _, t := range p.Trials {
			if t.Outcome != nil {
				measured = measured || t.Outcome.Row[col.Requests] != nil
				failed += int64(t.Outcome.Row.Float(col.Failed))
				given := int64(t.Outcome.Row.Float(col.CancelledPlanned))
				planned, cancelled = planned+given, cancelled+int64(t.Outcome.Row.Float(col.Cancelled))-given
			}
		}
	}
	if !measured || of == 0 {
		return ""
	}
	text := fmt.Sprintf("Completed %d of %s", done, humanize.Plural(int(of), "request"))
	if failed > 0 {
		text += fmt.Sprintf("; %d failed", failed)
	}
	if planned > 0 {
		text += fmt.Sprintf("; %d given up as planned", planned)
	}
	if cancelled > 0 {
		text += fmt.Sprintf("; %d in flight when the load ended", cancelled)
	}
	return text + "."
}
