package details

import (
	"sweep.dev/sweep/report"
	"sweep.dev/sweep/report/across"
	"sweep.dev/sweep/report/capacity"
	"sweep.dev/sweep/report/compare"
	"sweep.dev/sweep/report/draw"
	"sweep.dev/sweep/report/turns"
)

// Parts are what a summary says, part by part, for reports of another form. They are in
// the words of the summary: a fact has one wording, wherever it stands.
type Parts struct {
	Set       *compare.Set
	Count     string // how many cells have each verdict
	Simulated string // "" if nothing is
	Requests  string // "" if none was sent

	Rate      compare.Measure // how much a cell carries
	Latencies []string        // those whose percentiles are shown: ttft, tpot, e2e
	E2E       bool            // the latency of the whole answer was measured

	Claims   []Said   // the claims that are said, in the order of the summary
	ToDecide []string // the command that measures what leaves claims not decided; none if no command can

	Engines  *draw.Grid // engines side by side; nil for one engine
	Caveats  []string   // of Engines
	GPUs     []draw.Grid
	GPUNotes []string // of GPUs
	Surface  *draw.Grid
	Notes    []string // of Surface
	// Capacity is what the searches of the plan have found, under CapacityTitle; nil
	// without find. Then there are no claims: greatest loads rest on fresh trials alone.
	Capacity      []draw.Item
	CapacityTitle string
	// Rehearsed are predictions of the simulator beside what was measured, under
	// RehearsedTitle; nil if it was not asked.
	Rehearsed      []draw.Item
	RehearsedTitle string
	Searches       []capacity.Answer // the same as data
	Turns          *turns.Turns      // what the plan compares by turns; nil for nothing

	Owed, Kept, Prices                    []draw.Item
	Trust                                 []string
	Unstable, Jitter, Outliers            []draw.Item
	Missed, Undecided, Unchecked          []draw.Item
	Invalid, Failed, Unfinished, Findings []draw.Item
	NoStart                               []draw.Item
	NoStartTitle                          string
	Advice                                []draw.Item
	Files                                 []string
}

// A Said is a claim and the sentence that states it.
type Said struct {
	compare.Claim
	Text string
}

// PartsOf judges a run and concludes what there is to say about it.
func PartsOf(r *report.Run) *Parts {
	s := newSummary(r)
	p := &Parts{
		Set: s.set, Count: s.count(), Simulated: s.simulated(), Requests: s.requests(),
		Rate: s.rate, Latencies: s.latencies, E2E: s.e2e,
		Claims: s.said(), ToDecide: s.toDecide(),
		Owed: s.owed(false), Kept: s.owed(true), Prices: s.prices(), Trust: s.trust(),
		Unstable: s.unstable(), Jitter: s.jitter(), Outliers: s.outliers(),
		Missed: s.missed(), Undecided: s.undecided(), Unchecked: s.unchecked(),
		Invalid:      s.invalid(),
		Failed:       s.failed(func(t compare.Trial) bool { return compare.Judge(t) == compare.FailedRun }),
		NoStart:      s.failed(func(t compare.Trial) bool { return compare.Judge(t) == compare.NoStart }),
		NoStartTitle: s.noStartTitle(),
		Unfinished:   s.unfinished(), Findings: s.findings(), Advice: s.advise(), Files: s.files(),
		Turns:     s.turns(),
		Rehearsed: s.rehearsed(), RehearsedTitle: rehearsedTitle,
	}
	if len(r.Resolved.Searches) > 0 {
		answers := capacity.Of(r)
		p.Capacity, p.CapacityTitle, p.Searches = capacity.Items(answers), capacity.Title(answers), answers
		p.Claims, p.ToDecide, p.Missed, p.Undecided = nil, nil, nil, nil
		return p
	}
	if len(s.set.Engines) > 0 {
		g := s.table(s.set.Engines[0])
		p.Engines, p.Caveats = &g, s.caveats(s.set.Engines[0])
	}
	if surface := s.surface(); surface != nil {
		p.Surface, p.Notes = &surface.grid, surface.notes
	}
	for _, c := range s.set.Answers(compare.AskGPUBest) {
		if len(c.Places) > 0 {
			p.GPUs, p.GPUNotes = append(p.GPUs, bestTable(c)), []string{shapeNote}
		}
	}
	return p
}

// turns is what the plan compares by turns; nil for nothing.
func (s *summary) turns() *turns.Turns {
	return turns.Of(across.Side{Name: s.Dir, RunID: s.State.Manifest.RunID, Plan: s.Resolved.Plan, Points: s.points})
}

// said are the claims of a summary in words. The verdicts on single cells are not among
// them: the grid has those.
func (s *summary) said() []Said {
	var all []Said
	for _, c := range s.set.Claims {
		text := ""
		switch c.Question {
		case compare.AskVerdict, compare.AskMoreLoad:
			continue
		case compare.AskSweetSpot, compare.AskBest:
			text = s.spot(c)
		case compare.AskEngine:
			if c.Measure.ID() == "" || !c.Measure.Said && !c.Measure.Lasting {
				continue
			}
			text = ranking(c)
		default:
			text = compared(c)
		}
		all = append(all, Said{c, text})
	}
	return all
}

// spot is the load that a series is best at, in words.
func (s *summary) spot(c compare.Claim) string {
	switch {
	case c.Question == compare.AskBest:
		return s.describe(c)
	case c.Answer == compare.Decided:
		return s.describe(c) + c.Best("; ")
	case c.Answer == compare.Tied:
		return "not decided" + c.Best("; ") + c.WouldTell()
	case c.Answer == compare.None:
		return "no cell is acceptable"
	}
	return "not decided: " + c.Left[0].Why
}
