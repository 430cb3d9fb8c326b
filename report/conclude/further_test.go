package conclude

import (
	"testing"

	"sweep.dev/sweep/result"
)

// TestFurther holds how many trials are added to a cell: as its parts say, by how much its own
// trials had, and none where one of them cannot say it.
func TestFurther(t *testing.T) {
	t.Parallel()
	open := func(parts ...result.SLOPart) result.SLOResult {
		for i := range parts {
			parts[i].Verdict = result.SLOUndecided
		}
		return result.SLOResult{Verdict: result.SLOUndecided, Parts: parts}
	}
	requests := func(had, more int) result.SLOPart { return result.SLOPart{Requests: had, MoreRequests: more} }
	warn := open(requests(100, 900))
	warn.Severity = SeverityWarn
	for name, c := range map[string]struct {
		valid      int
		objectives []result.SLOResult
		want       int
	}{
		"one trial":                {1, []result.SLOResult{open(requests(100, 200))}, 3},
		"two had as many":          {2, []result.SLOResult{open(requests(100, 200))}, 6},
		"the part that lacks most": {1, []result.SLOResult{open(requests(100, 200), requests(100, 500)), open(requests(100, 10))}, 7},
		"seconds":                  {1, []result.SLOResult{open(result.SLOPart{Seconds: 10, MoreSeconds: 20})}, 3},
		"one of an or":             {1, []result.SLOResult{open(result.SLOPart{Any: []result.SLOPart{{Verdict: result.SLOFail}, {Verdict: result.SLOUndecided, Requests: 100, MoreRequests: 200}}})}, 3},
		"at its limit":             {1, []result.SLOResult{open(requests(100, 200), requests(100, 0))}, 0},
		"one only warns":           {1, []result.SLOResult{open(requests(100, 200)), warn}, 3},
	} {
		p := &Point{Verdict: Undecided, Valid: c.valid, Objectives: c.objectives}
		if got := p.Further(); got != c.want {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
	}
	if n := (&Point{Verdict: Acceptable, Valid: 1, Objectives: []result.SLOResult{open(requests(100, 200))}}).Further(); n != 0 {
		t.Errorf("of another cell: %d", n)
	}
}
