package oracle

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"sweep.dev/sweep/internal/slow"
	"sweep.dev/sweep/report/conclude"
)

// seed makes the grids of the suite; each has its number as a second seed.
const seed = 20261122

// TestClaims derives every conclusion of random experiments a second time, and
// holds the report's claims and what is printed of them against that.
func TestClaims(t *testing.T) {
	t.Parallel()
	grids, least := 200, 2
	if slow.Tests {
		grids, least = 1000, 20
	}
	answers := map[string]int{}
	for n := range grids {
		e := random(rand.New(rand.NewPCG(seed, uint64(n))))
		run := e.of()
		want := e.statements()
		for _, s := range want {
			answers[s.question+" "+s.answer]++
		}
		wrong := differences(want, claimed(e, run.Conclude().Claims), exact)
		wrong = append(wrong, printed(e, run, want)...)
		if len(wrong) > 0 {
			t.Fatalf("grid %d of seed %d: %d differ; the first:\n%s\n%v", n, seed, len(wrong), strings.Join(wrong[:min(3, len(wrong))], "\n"), e)
		}
	}
	// A generator that never comes to some answer tests nothing about it.
	for _, answer := range []string{
		"sweet decided", "sweet none", "sweet open", "sweet tied", "most decided", "more decided", "engine decided", "engine tied", "engine open", "engine incomparable",
		"gpu decided", "gpu tied", "gpu open", "gpu incomparable", "gpubest decided", "gpubest tied", "gpubest open", "gpubest incomparable", "cost decided", "cost tied", "cost open", "cost incomparable",
		"verdict " + acceptable, "verdict " + unstable, "verdict " + undecided, "verdict " + missed, "verdict " + invalid, "verdict " + noStart,
		"verdict " + failed, "verdict " + skipped, "verdict " + pending, "verdict " + sweetSpot,
	} {
		if answers[answer] < least {
			t.Errorf("%d grids have %d times the answer %q", grids, answers[answer], answer)
		}
	}
	t.Logf("seed %d, %d grids, answers: %v", seed, grids, answers)
}

// claimed returns the report's claims, as statements.
func claimed(e *experiment, claims []conclude.Claim) map[string]statement {
	questions := map[conclude.Question]string{
		conclude.AskVerdict: qVerdict, conclude.AskSweetSpot: qSweet, conclude.AskBest: qMost, conclude.AskMoreLoad: qMore,
		conclude.AskEngine: qEngine, conclude.AskGPU: qGPU, conclude.AskGPUBest: qGPUBest, conclude.AskCost: qCost,
	}
	answers := map[conclude.Answer]string{
		conclude.Decided: aDecided, conclude.None: aNone, conclude.NotDecided: aOpen, conclude.NotComparable: aIncomparble,
		conclude.Tied: aTied,
	}
	all := map[string]statement{}
	for _, c := range claims {
		s := statement{question: questions[c.Question], about: c.About, answer: answers[c.Answer], figure: c.Measure.ID()}
		switch s.question {
		case qVerdict:
			s.answer = string(c.Places[0].Verdict)
			all[s.key()] = s
			continue
		case qSweet, qGPU, qGPUBest, qCost:
			s.loads = c.Loads
		}
		for _, p := range c.Places {
			s.places = append(s.places, place{side: p.Side, cell: p.Cell, value: p.Value, ratio: p.Ratio, lacks: p.More > 0})
		}
		for _, l := range c.Left {
			switch {
			case s.question == qSweet:
				for _, c := range e.cells {
					if slices.Contains(l.Cells(), c.id) {
						s.open = append(s.open, fmt.Sprint(c.load()))
					}
				}
			case l.Hole:
				s.open = append(s.open, l.Side)
			default:
				s.left = append(s.left, l.Side)
			}
		}
		all[s.key()] = s
	}
	return all
}

// tolerance is how far two values may be apart.
type tolerance struct {
	value, ratio float64 // shares
	usd          float64 // dollars, of prices
}

var exact = tolerance{value: 1e-9, ratio: 1e-9}

// differences says how statements differ from what they have to be.
func differences(want, got map[string]statement, tol tolerance) []string {
	var wrong []string
	for key, w := range want {
		g, ok := got[key]
		if !ok {
			if w.question == qEngine && w.figure != "" && !has(said, w.figure) {
				continue // of a table that is not shown
			}
			wrong = append(wrong, fmt.Sprintf("not said: %s: %+v", key, w))
			continue
		}
		if why := differ(w, g, tol); why != "" {
			wrong = append(wrong, fmt.Sprintf("%s: %s:\n  want %+v\n  got  %+v", key, why, w, g))
		}
	}
	for key, g := range got {
		if _, ok := want[key]; !ok {
			wrong = append(wrong, fmt.Sprintf("does not follow from the rows: %s: %+v", key, g))
		}
	}
	slices.Sort(wrong)
	return wrong
}

func differ(w, g statement, tol tolerance) string {
	short := false
	if n := len(g.places); n > 0 && g.places[n-1].more == len(w.places)-(n-1) {
		short = g.places[n-1].more > 0
		w.places, g.places = w.places[:n-1], g.places[:n-1]
	}
	switch {
	case w.answer != g.answer:
		return "the answer"
	case !slices.Equal(w.loads, g.loads):
		return "the loads"
	case len(w.places) != len(g.places):
		return "the number of places"
	case !sameSet(w.open, g.open):
		return "who is open"
	case !sameSet(w.left, g.left):
		return "who is left out"
	}
	for i, p := range w.places {
		// Equal values may stand in any order.
		j := slices.IndexFunc(g.places, func(o place) bool { return o.side == p.side })
		if j < 0 {
			return "the place of " + p.side
		}
		o := g.places[j]
		if o.cell != "" && o.cell != p.cell || o.label != "" && o.label != p.label || o.load != 0 && o.load != p.load {
			return "the cell"
		}
		if w.figure == "" {
			continue
		}
		if cents := w.figure == costs.id() && math.Abs(p.value-o.value) <= tol.usd; !cents && !near(p.value, o.value, tol.value) {
			return fmt.Sprintf("the value of %s, %v and not %v", p.side, o.value, p.value)
		}
		// Whether the first is better than any is not said of it where some are left out.
		if (p.ratio > 0) != (o.ratio > 0) && (i > 0 || !short) {
			return fmt.Sprintf("whether %s can be told apart", p.side)
		}
		if p.lacks != o.lacks {
			return fmt.Sprintf("whether %s lacks trials", p.side)
		}
		if i != j && !near(p.value, w.places[j].value, max(tol.value, 1e-12)) {
			return "the order"
		}
		if math.IsInf(o.ratio, 1) {
			p.ratio = readable(p.ratio)
		}
		if p.ratio > 0 && !near(p.ratio, o.ratio, tol.ratio) {
			return fmt.Sprintf("the ratio of %s, %v and not %v", p.side, o.ratio, p.ratio)
		}
	}
	return ""
}

func near(a, b, share float64) bool {
	return a == b || !math.IsInf(a-b, 0) && math.Abs(a-b) <= share*math.Max(math.Abs(a), math.Abs(b))
}

func sameSet(a, b []string) bool {
	a, b = slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b))
	return slices.Equal(a, b)
}
