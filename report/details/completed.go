package details

import (
	"fmt"

	"sweep.dev/sweep/internal/humanize"
	"sweep.dev/sweep/report/compare"
	"sweep.dev/sweep/result/col"
)

// planned is how many requests the plan has for one trial of a point; 0 if
// its time decides.
func (s *summary) planned(p *compare.Point) int64 {
	fixed := s.fixed.Of(p.Cell)
	if fixed["duration"] != nil {
		return 0
	}
	workers, _ := s.set.Value(p, col.Concurrency).(float64)
	if each, _ := fixed["requests_per_worker"].(float64); each > 0 {
		return int64(each * workers)
	}
	n, _ := fixed[col.Requests].(float64)
	return int64(n)
}

// completion is how many requests of a point were completed, and of how many:
// those that the plan has, or if it has a time, those that were sent. Trials
// without an outcome count as none of theirs.
func (s *summary) completion(p *compare.Point) (done, of int64) {
	planned := s.planned(p)
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
func (s *summary) completed(p *compare.Point) string {
	done, of := s.completion(p)
	if of == 0 {
		return "-"
	}
	return fmt.Sprintf("%d of %d", done, of)
}

// requests are all requests of the run in one line; "" if nothing was sent.
// Servers that did not start count where the plan takes that for a fault.
func (s *summary) requests() string {
	var done, of, failed, planned, cancelled int64
	measured := false
	for _, p := range s.points {
		if p.Verdict == compare.NoStart && s.Resolved.RecordStarts {
			continue
		}
		d, o := s.completion(p)
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
