package answer

import (
	"sweep.dev/sweep/report/paired"
	"sweep.dev/sweep/report/view"
)

// Quality is how the deployments answered the prompts of a plan with quality.
type Quality struct {
	Servers     []Score          `json:"servers"` // baselines first
	Comparisons []QualityAgainst `json:"comparisons"`
	Unread      []string         `json:"not_read"` // files of answers that cannot be read, and why
}

// A Score is that of one deployment.
type Score struct {
	About   string   `json:"about"`
	Score   *float64 `json:"quality_score"`     // 0 to 1; null if no prompt has a known score
	Low     *float64 `json:"quality_score_low"` // the 95 % interval
	High    *float64 `json:"quality_score_high"`
	N       int      `json:"quality_n"`       // prompts with a known score
	Refused *int     `json:"quality_refused"` // null, as the next, for answers of quality.lm_eval
	Unknown *int     `json:"quality_unknown"`
}

// QualityAgainst is one deployment against its baseline, over the prompts that both have a
// known score for. A loss is a negative difference.
type QualityAgainst struct {
	About string `json:"about"`
	Base  string `json:"base"`
	paired.Figures
	Text string `json:"text"` // the same in words, as in summary.md
}

// qualityOf returns that of a run; nil if its plan has no quality.
func qualityOf(v *view.View) *Quality {
	p, unread := v.Quality()
	if unread != "" {
		return &Quality{Servers: []Score{}, Comparisons: []QualityAgainst{}, Unread: []string{unread}}
	}
	if p == nil {
		return nil
	}
	q := &Quality{Servers: []Score{}, Comparisons: []QualityAgainst{}, Unread: append([]string{}, p.Unread...)}
	for i := range p.Servers {
		s := &p.Servers[i]
		one := Score{About: s.Label, N: s.Scored}
		if s.Asked() {
			one.Refused, one.Unknown = &s.Refused, &s.Unknown
		}
		if v, ok := s.Score(); ok {
			one.Score, one.Low, one.High = &v, &s.Low, &s.High
		}
		q.Servers = append(q.Servers, one)
	}
	verdicts := p.Verdicts()
	for i := range p.Sides {
		s := &p.Sides[i]
		q.Comparisons = append(q.Comparisons, QualityAgainst{s.Server.Label, s.Baseline.Label, s.Figures(), verdicts[i].Text})
	}
	return q
}
