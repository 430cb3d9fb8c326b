package reporttest

import (
	"fmt"

	"sweep.dev/sweep/judge/search"
	"sweep.dev/sweep/report"
	"sweep.dev/sweep/result"
	"sweep.dev/sweep/result/objective"
	"sweep.dev/sweep/rundir"
)

// A Searched is a run of one search for p95_ttft_ms < 200, an objective by the name of
// fast, on servers that keep it below a load of their own and never from there on.
type Searched struct {
	Axis, GPU string // of the load, and of vllm's GPU
	Levels    search.Levels
	MaxProbes int
	Edges     []float64 // of each device the least load that it fails at
	Most      int       // trials before the run stops; 0 is no bound
	// Row is what a trial's row has besides: of a level, on a device, which kept the
	// objective or did not.
	Row func(level float64, device int, kept bool) result.Row
}

// Run returns the run, which is nowhere on disk.
func (d Searched) Run() *report.Run {
	s := report.Search{
		Settings: search.Settings{
			Levels: d.Levels, Objectives: []string{"fast"}, Confidence: 0.99,
			Trials: 3, MaxTrials: 32, MaxProbes: d.MaxProbes, Seed: 1, Devices: len(d.Edges),
		},
		Axis: d.Axis, Label: "vllm " + d.GPU,
	}
	r := &report.Run{Dir: "runs/" + d.GPU, State: &rundir.State{}, Resolved: report.Resolved{Columns: result.Columns(result.Extra{})}}
	for _, x := range s.Levels {
		id := fmt.Sprintf("c%v", x)
		s.Cells = append(s.Cells, id)
		r.Resolved.Cells = append(r.Resolved.Cells, report.Cell{ID: id, Settings: []report.Setting{
			{Column: "gpu", Server: true, Text: d.GPU, Value: d.GPU}, {Column: "max_tokens", Text: "max_tokens=8", Value: 8.0}, {Column: d.Axis, Amount: true, Value: x},
		}})
	}
	r.Resolved.Searches = []report.Search{s}
	var outcomes []search.Outcome
	for d.Most == 0 || len(outcomes) < d.Most {
		p, ok := search.Next(s.Settings, outcomes)
		if !ok {
			break
		}
		part := result.SLOPart{Expr: "p95_ttft_ms < 200", Rule: result.RuleShare, Confidence: 0.95, Allowed: 0.05, Requests: 400, N: 400, Deff: 1}
		level := s.Levels[p.Level]
		kept := level < d.Edges[p.Device]
		if !kept {
			part.Over = 100
		}
		row := d.Row(level, p.Device, kept)
		row["status"], row["valid"], row["requests"] = result.StatusOK, true, int64(400)
		slo := objective.PoolAt([]result.SLOResult{{Name: "fast", Expr: part.Expr, Parts: []result.SLOPart{part}, Verdict: result.SLOPass}}, 0.95)
		o := &result.Outcome{CellID: s.Cells[p.Level], Trial: p.Trial, Row: row, SLOs: []result.SLOResult{slo}}
		r.Trials = append(r.Trials, report.Trial{Key: rundir.Key{Cell: o.CellID, Trial: o.Trial}, Outcome: o})
		one := search.Of(o)
		one.Probe = p
		outcomes = append(outcomes, one)
	}
	return r
}
