package plan

import (
	"sweep.dev/sweep/plan/internal/expression"
	"sweep.dev/sweep/result"
	"sweep.dev/sweep/result/objective"
)

// Find is a search for the greatest load that keeps objectives, on one axis. Its levels
// are values of that axis in the matrix, and its objectives those of the plan, so that
// each trial of the search is one of an ordinary cell.
type Find struct {
	Axis string  `yaml:"axis" doc:"Axis to search: request_rate, whose answer is the load of an open loop, or concurrency." enum:"request_rate,concurrency" example:"request_rate"`
	From float64 `yaml:"from" doc:"Least load that is tried. The search begins with it." gt:"0" max:"1000000" example:"0.5"`
	To   float64 `yaml:"to" doc:"Greatest load that is tried." gt:"0" max:"1000000" example:"100"`
	// Within is the ratio of neighbouring levels, less 1.
	Within float64 `yaml:"within,omitempty" doc:"How far apart neighbouring loads are: each is this share above the one below, and a concurrency at least 1." default:"0.05" min:"0.01" max:"0.5" unit:"ratio" example:"5%"`
	// Objectives are those of the plan, which has them in the file's order.
	Objectives map[string]string `yaml:"objectives" doc:"Objectives by name, each searched for; they share trials. One that implies another is searched for first; write the strictest of the others first. The parts that and joins are percentiles of a latency, means of one, or error_rate, each with an upper bound, or good_share with a lower one." example:"{interactive: p95_ttft_ms < 200 and p95_tpot_ms < 25}"`
	Confidence float64           `yaml:"confidence,omitempty" doc:"Confidence of each answer: the chance that the server keeps the objective at the certified load." default:"0.99" min:"0.5" lt:"1" unit:"ratio" example:"99%"`
	Devices    int               `yaml:"devices,omitempty" doc:"On how many different GPUs, by their UUIDs, a load has to be certified: each is another launch, and the answer is the least load of all. On rented GPUs 3 are the default if budget.max_cost carries them." default:"1" min:"1" max:"16" unit:"GPUs" example:"3"`
	MaxProbes  int               `yaml:"max_probes,omitempty" doc:"Most trials of each search, INVALID ones included." default:"100" min:"4" max:"1000" unit:"trials" example:"40"`
}

// Trials of one level of a search.
const (
	FindTrials     = 3  // fresh ones before a bound is looked at
	FindMostTrials = 32 // all of them on each device, those that are INVALID or to find included
)

// Searches returns the cells of each search: those that differ in nothing but the axis of
// find, from the least load up, in the order of their first cells. Nil without find.
func (p *Plan) Searches(cells []Cell) [][]Cell {
	if p.Find == nil {
		return nil
	}
	return along(p.Find.Axis, cells)
}

// Implied are, by the name of an objective, the others that imply it: at a load where one of
// them is kept, it is kept. Nil if there are none.
func (p *Plan) Implied() map[string][]string {
	var by map[string][]string
	for _, loose := range p.SLO {
		for _, strict := range p.SLO {
			if strict.Name == loose.Name || !strict.implies(loose) {
				continue
			}
			if by == nil {
				by = map[string][]string{}
			}
			by[loose.Name] = append(by[loose.Name], strict.Name)
		}
	}
	return by
}

func (s SLO) implies(o SLO) bool {
	if s.check == nil || o.check == nil {
		return false
	}
	strict, _ := s.comparisons(0)
	loose, _ := o.comparisons(0)
	return objective.Implies(strict, loose)
}

// Unbounded returns the parts of the objective that no search can decide: those that no
// number of requests bounds, and those that more load may help to keep.
func (s SLO) Unbounded() []string {
	if s.check == nil {
		return nil
	}
	var texts []string
	comparisons, _ := s.comparisons(0)
	for i, part := range s.check.expr.Parts() {
		sides := []expression.Part{part}
		if len(part.Any) > 0 {
			sides = part.Any
		}
		for j, c := range comparisons[i] {
			rule := c.Rule()
			lower := c.Op == ">" || c.Op == ">="
			if rule == result.RulePoint || rule == result.RuleRate || rule == result.RuleMean && lower {
				texts = append(texts, sides[j].Text)
			}
		}
	}
	return texts
}

// Fingerprints reports whether each launch is asked how fast it computes: if the plan says so,
// and else where devices of one name may differ: of rented GPUs, and of a search on several.
// A server that is given is not asked what the plan does not say.
func (p *Plan) Fingerprints(given, rents bool) bool {
	if p.Fingerprint != nil {
		return *p.Fingerprint
	}
	return !given && (rents || p.Find != nil && p.Find.Devices > 1)
}
