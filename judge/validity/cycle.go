package validity

import (
	"fmt"
	"slices"
	"strings"

	"sweep.dev/sweep/result"
	"sweep.dev/sweep/result/col"
	"sweep.dev/sweep/result/finding"
)

// maxCycle is by how many times p95 TTFT differs between two starts of a closed loop whose
// requests have one length, at the most: 1.39 / 0.80 of H100 C 128 in docs/statistics.md,
// "Requests of one length". The p90 and the p99 differ as far, and E2E by less than 1 %.
const maxCycle = 1.75

// A Tail is a percentile that a trial is to say something about: an objective's, or the
// metric that ends a load.
type Tail struct {
	Column string
	Value  float64 // in milliseconds; 0 if it is not known
	Limit  float64 // in milliseconds; 0 if it is to be known, and not compared
}

// Tails returns the percentiles that objectives compare with a limit.
func Tails(objectives []result.SLOResult) []Tail {
	var tails []Tail
	var add func(parts []result.SLOPart)
	add = func(parts []result.SLOPart) {
		for _, p := range parts {
			if p.Rule == result.RuleShare && p.Figure != nil {
				tails = append(tails, Tail{p.Column, *p.Figure, p.Limit})
			}
			add(p.Any)
		}
	}
	for _, o := range objectives {
		add(o.Parts)
	}
	return tails
}

// OneCycle returns the finding on the only trial of a closed loop whose prompts have one length,
// and its answers too: it has one of several cycles, and another start another p95 TTFT. It
// is found only if one of the tails could be on the other side of its limit for that reason,
// or has no limit.
func OneCycle(requests []result.Request, concurrency int, tails []Tail) (result.Finding, bool) {
	var names []string
	for _, t := range tails {
		near := t.Limit == 0 || t.Value*maxCycle > t.Limit && t.Value < t.Limit*maxCycle
		if near && !slices.Contains(names, t.Column) && slices.Contains([]string{col.P90TTFTMs, col.P95TTFTMs, col.P99TTFTMs}, t.Column) {
			names = append(names, t.Column)
		}
	}
	if concurrency < 2 || len(names) == 0 {
		return fine()
	}
	prompt, answer, ok := oneLength(requests)
	if !ok {
		return fine()
	}
	return result.Finding{Code: finding.OneCycle, Text: fmt.Sprintf(
		"all prompts have %d tokens and all answers %d, so %d slots repeat one cycle as long as the load lasts; from start to start %s differed by up to %.4g times in simulations: set repeats: 3, or let the lengths of answers vary (load.prompts.distribution: empirical, or load.output: natural)",
		prompt, answer, concurrency, strings.Join(names, ", "), maxCycle)}, true
}

// oneLength returns the length of the plateau's prompts and that of their answers, in tokens; ok
// is false if they have several, by more than 1 %, or if one is not known.
func oneLength(requests []result.Request) (prompt, answer int, ok bool) {
	var prompts, answers []int
	for i := range requests {
		if r := &requests[i]; r.Phase == result.Plateau && r.Status == result.Completed {
			prompts, answers = append(prompts, r.PromptTokens), append(answers, r.CompletionTokens)
		}
	}
	if len(answers) < 2 {
		return 0, 0, false
	}
	prompt, answer = prompts[0], answers[0]
	for _, lengths := range [][]int{prompts, answers} {
		least, most := slices.Min(lengths), slices.Max(lengths)
		if least <= 0 || 100*(most-least) > most {
			return 0, 0, false
		}
	}
	return prompt, answer, true
}
