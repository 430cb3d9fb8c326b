package paired

// Figures are those of a [Side] as data. What is not known is nil.
type Figures struct {
	Verdict    string   `json:"verdict"` // worse, better or cannot tell
	Pairs      int      `json:"pairs"`   // prompts with a known score on both sides
	Losses     int      `json:"became_wrong"`
	Gains      int      `json:"became_right"`
	Base       *float64 `json:"base_score"` // 0 to 1, over the pairs, as the next
	Score      *float64 `json:"score"`
	Difference *float64 `json:"difference"` // of the scores, -1 to 1; a loss is negative
	Low        *float64 `json:"low"`
	High       *float64 `json:"high"`
	Confidence float64  `json:"confidence"` // of low to high, shared over all comparisons
	P          *float64 `json:"p"`
	Detectable *float64 `json:"smallest_loss"` // that these prompts show 4 times in 5; nil if none
	// SameRate is the share of the answers that are the same text on both sides, and First
	// the median position of the first character, from 0, in which the others differ.
	SameRate *float64 `json:"same_answer_rate"`
	First    *float64 `json:"first_difference"`
}

// Figures returns those of the side.
func (s *Side) Figures() Figures {
	f := Figures{
		Verdict: string(s.Verdict), Pairs: s.Pairs, Losses: s.Losses, Gains: s.Gains,
		Confidence: s.Confidence, Detectable: s.Detectable, First: s.First,
	}
	if base, score, ok := s.Scores(); ok {
		f.Base, f.Score = &base, &score
		f.Difference, f.Low, f.High, f.P = &s.Difference, &s.Low, &s.High, &s.P
	}
	if rate, ok := s.SameRate(); ok {
		f.SameRate = &rate
	}
	return f
}
