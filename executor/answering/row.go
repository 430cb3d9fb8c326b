package answering

import (
	"fmt"

	"sweep.dev/sweep/internal/humanize"
	"sweep.dev/sweep/judge/quality"
	"sweep.dev/sweep/result"
	"sweep.dev/sweep/result/col"
	"sweep.dev/sweep/result/finding"
)

// confidence is that of the interval in the row.
const confidence = 0.95

// mostCut is the share of the answers above which reaching the most tokens is a finding.
const mostCut = 0.1

// Scores returns what scored answers come to, as columns of every row of the deployment: all
// that is known of answers that sweep did not ask for.
func Scores(list []quality.Answer) result.Row {
	s := quality.Summarize(list, confidence)
	return scores(&s)
}

func scores(s *quality.Summary) result.Row {
	row := result.Row{col.QualityN: int64(s.Scored)}
	if score, ok := s.Score(); ok {
		row[col.QualityScore], row[col.QualityScoreLow], row[col.QualityScoreHigh] = score, s.Low, s.High
	}
	return row
}

// Row returns what answers come to, as columns and findings of every row of the deployment.
func Row(list []quality.Answer) (result.Row, []result.Finding) {
	s := quality.Summarize(list, confidence)
	row := scores(&s)
	row[col.QualityRefused], row[col.QualityUnknown], row[col.QualityCut] = int64(s.Refused), int64(s.Unknown), int64(s.Cut)
	var notes []result.Finding
	note := func(code finding.Code, format string, args ...any) {
		notes = append(notes, result.Finding{Code: code, Text: fmt.Sprintf(format, args...)})
	}
	if s.Repeated > 0 {
		row[col.QualityRepeatRate] = float64(s.Repeated-s.Varied) / float64(s.Repeated)
	}
	if s.Varied > 0 {
		note(finding.QualityVaries, "%d of %s that were answered twice at temperature 0 got two different answers (%.1f %%): batch effects do that",
			s.Varied, humanize.Plural(s.Repeated, "quality prompt"), 100*float64(s.Varied)/float64(s.Repeated))
	}
	if s.Refused > 0 {
		note(finding.QualityRefused, "%d of %s were refused, and count as wrong: %s", s.Refused, humanize.Plural(s.Items, "quality prompt"), firstError(list, true))
	}
	if s.Unknown > 0 {
		note(finding.QualityUnknown, "%d of %s got no answer: %s", s.Unknown, humanize.Plural(s.Items, "quality prompt"), firstError(list, false))
	}
	if answered := s.Items - s.Refused - s.Unknown; float64(s.Cut) > mostCut*float64(answered) {
		note(finding.QualityCut, "%d of %s to quality prompts reached quality.max_tokens", s.Cut, humanize.Plural(answered, "answer"))
	}
	return row, notes
}

func firstError(list []quality.Answer, refused bool) string {
	for i := range list {
		if a := &list[i]; a.Text == nil && a.Refused == refused {
			return a.Error
		}
	}
	return ""
}
