package stopping

import "testing"

func TestTrials_Known(t *testing.T) {
	t.Parallel()
	rule := Trials{Within: 0.05, Confidence: 0.95, Min: 3}
	for name, c := range map[string]struct {
		rule   Trials
		values []float64
		want   int
	}{
		"none":                 {rule, nil, 0},
		"one":                  {rule, []float64{100}, 0},
		"two are too few":      {rule, []float64{100, 100.1}, 0},
		"three that agree":     {rule, []float64{100, 100.1, 100.2}, 3},
		"not twice in a row":   {rule, []float64{100, 106, 103}, 0},
		"held at four":         {rule, []float64{100, 101, 100.5, 100.4}, 4},
		"lost and found":       {rule, []float64{100, 100.1, 120, 100, 101, 100}, 0},
		"what comes later":     {rule, []float64{100, 100.1, 100.2, 500}, 3},
		"min":                  {Trials{Within: 0.05, Confidence: 0.95, Min: 5}, []float64{100, 100.1, 100.2, 100.1, 100}, 5},
		"below min":            {Trials{Within: 0.05, Confidence: 0.95, Min: 5}, []float64{100, 100.1, 100.2, 100.1}, 0},
		"equal values":         {rule, []float64{100, 100, 100, 100}, 0},
		"a mean of zero":       {rule, []float64{1, -1, 0, 0}, 0},
		"a greater confidence": {Trials{Within: 0.05, Confidence: 0.9999, Min: 3}, []float64{100, 100.1, 100.2}, 0},
	} {
		n, mean, half := c.rule.Known(c.values)
		if n != c.want {
			t.Errorf("%s: known after %d, want %d", name, n, c.want)
		}
		if n > 0 && (half <= 0 || half > c.rule.Within*mean) {
			t.Errorf("%s: %v ± %v", name, mean, half)
		}
	}
}
