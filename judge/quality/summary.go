package quality

import "unicode/utf8"

// A Summary is how one server answered a set.
type Summary struct {
	Items  int
	Scored int // with a known score
	Right  int
	// Low and High are a confidence interval of the score over sets of such items, see
	// [Share]; 0 and 1 if nothing is scored.
	Low, High float64
	Refused   int // counted as wrong
	Unknown   int // without an answer, for a reason that says nothing of the server's answers
	Cut       int // answers that reached the most tokens
	// Repeated are the items with two answers, and Varied those of them whose two differ.
	Repeated, Varied int
}

// Score returns the share of right answers; false if nothing is scored.
func (s *Summary) Score() (float64, bool) {
	if s.Scored == 0 {
		return 0, false
	}
	return float64(s.Right) / float64(s.Scored), true
}

// Summarize counts answers, with the interval of their score at a confidence.
func Summarize(list []Answer, confidence float64) Summary {
	s := Summary{Items: len(list)}
	for i := range list {
		a := &list[i]
		switch {
		case a.Text == nil && a.Refused:
			s.Refused++
		case a.Text == nil && a.Right == nil:
			s.Unknown++
		}
		if a.Right != nil {
			s.Scored++
			if *a.Right {
				s.Right++
			}
		}
		if a.Finish == "length" {
			s.Cut++
		}
		if a.Text != nil && a.Again != nil {
			s.Repeated++
			if *a.Text != *a.Again {
				s.Varied++
			}
		}
	}
	s.Low, s.High = Share(s.Right, s.Scored, confidence)
	return s
}

// FirstDifference returns the position of the first character in which two texts differ, from 0.
func FirstDifference(a, b string) int {
	at := 0
	for a != "" && b != "" {
		x, n := utf8.DecodeRuneInString(a)
		y, m := utf8.DecodeRuneInString(b)
		if x != y || n != m {
			break
		}
		a, b = a[n:], b[m:]
		at++
	}
	return at
}
