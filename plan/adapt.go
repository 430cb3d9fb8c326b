package plan

// Adapt says that the levels of the plan's load axis are measured which tell most about a
// metric, and that the others are interpolated.
type Adapt struct {
	Metric string  `yaml:"metric" doc:"Column whose curve over the load is measured, for each combination of the other axes." enum:"throughput_tok_s,total_throughput_tok_s,request_throughput,mean_ttft_ms,p50_ttft_ms,p90_ttft_ms,p95_ttft_ms,mean_tpot_ms,p50_tpot_ms,p90_tpot_ms,p95_tpot_ms,mean_itl_ms,p50_itl_ms,p90_itl_ms,p95_itl_ms,mean_e2e_ms,p50_e2e_ms,p90_e2e_ms,p95_e2e_ms" example:"throughput_tok_s"`
	Within float64 `yaml:"within" doc:"Greatest error of a level that is not measured, as a share of the metric that a line between its measured neighbours gives there." min:"0.001" max:"0.5" unit:"ratio" example:"5%"`
}

// AdaptLevels is how many levels are measured of any curve: one needs more for an effect.
const AdaptLevels = 4

// Curves are the cells of each curve of a plan with adapt: those that differ in nothing but
// the load axis, from the least load up, in the order of their first cells. Nil without adapt.
func (p *Plan) Curves(cells []Cell) [][]Cell {
	if p.Adapt == nil {
		return nil
	}
	axis := p.Matrix.Amount()
	if axis == nil {
		return nil
	}
	return along(axis.Name, cells)
}
