package export

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"

	"sweep.dev/sweep/report/conclude"
	"sweep.dev/sweep/result"
	"sweep.dev/sweep/result/col"
)

// A gauge is one metric of a trial. All its values come from columns of the cells table,
// so they are of the plateau, with failures as infinite.
type gauge struct {
	name, help string
	factor     float64 // from the column's unit to the metric's
	// columns are the values, by that of the label percentile; "" has no such label.
	// A gauge may not have the label quantile: promtool refuses it.
	columns map[string]string
	// value is that of a gauge without columns.
	value func(row result.Row) (float64, bool)
}

const (
	milliseconds = 1e-3
	same         = 1
)

// gauges returns the metrics of a trial, in their order. Names have their base unit, as
// Prometheus asks for.
func gauges() []gauge {
	percentile := func(latency string) map[string]string {
		return map[string]string{
			"50": col.Latency("p50", latency), "90": col.Latency("p90", latency),
			"95": col.Latency("p95", latency), "99": col.Latency("p99", latency),
		}
	}
	plain := func(column string) map[string]string { return map[string]string{"": column} }
	return []gauge{
		{name: "sweep_trial_valid", help: "1 if the numbers of the trial may be used, 0 if it is INVALID.", value: boolean(col.Valid)},
		{name: "sweep_trial_simulated", help: "1 if the server was the built-in simulator: it says nothing of real hardware.", value: boolean(col.Simulated)},
		{name: "sweep_trial_objectives_met", help: "1 if every objective of the plan is met, 0 if one is missed; absent if undecided.", value: boolean(col.SLOPass)},
		{name: "sweep_trial_finished_timestamp_seconds", help: "When the trial was over, Unix time.", value: func(row result.Row) (float64, bool) {
			at, ok := row[col.FinishedAt].(time.Time)
			return float64(at.UnixMilli()) / 1e3, ok
		}},
		{name: "sweep_ttft_seconds", help: "Time to first token on the plateau, failures counted as infinite.", factor: milliseconds, columns: percentile("ttft")},
		{name: "sweep_tpot_seconds", help: "Time per output token after the first on the plateau, failures counted as infinite.", factor: milliseconds, columns: percentile("tpot")},
		{name: "sweep_itl_seconds", help: "Gaps between tokens on the plateau, failures counted as infinite.", factor: milliseconds, columns: percentile("itl")},
		{name: "sweep_e2e_seconds", help: "End-to-end latency on the plateau, failures counted as infinite.", factor: milliseconds, columns: percentile("e2e")},
		{name: "sweep_output_tokens_per_second", help: "Output tokens per second on the plateau.", factor: same, columns: plain(col.ThroughputTokS)},
		{name: "sweep_tokens_per_second", help: "Input and output tokens per second on the plateau.", factor: same, columns: plain(col.TotalThroughputTokS)},
		{name: "sweep_output_tokens_per_second_per_gpu", help: "Throughput per GPU: output tokens alone per second on the plateau / gpu_count.", value: func(row result.Row) (float64, bool) {
			rate, ok := row.Number(col.ThroughputTokS)
			gpus, counted := row.Number(col.GPUCount)
			return rate / gpus, ok && counted && gpus > 0
		}},
		{name: "sweep_user_tokens_per_second", help: "Interactivity: 1 / median time per output token, the tokens per second of a user while an answer comes.", factor: same, columns: plain(col.P50UserTokS)},
		{name: "sweep_requests_per_second", help: "Requests completed per second on the plateau.", factor: same, columns: plain(col.RequestThroughput)},
		{name: "sweep_goodput_requests_per_second", help: "Requests per second within every bound of the plan's goodput.", factor: same, columns: plain(col.GoodputReqS)},
		{name: "sweep_error_ratio", help: "failed / (completed + failed).", factor: same, columns: plain(col.ErrorRate)},
		{name: "sweep_duration_seconds", help: "From the first send to the last byte.", factor: same, columns: plain(col.DurationS)},
		{name: "sweep_max_requests_waiting", help: "Most requests that waited in the server.", factor: same, columns: plain(col.MaxRequestsWaiting)},
		{name: "sweep_max_kv_cache_usage_ratio", help: "Highest use of the server's KV cache, 0 to 1.", factor: same, columns: plain(col.MaxKVCacheUsage)},
		{name: "sweep_gpu_power_watts", help: "Mean power of all GPUs of the server.", factor: same, columns: plain(col.MeanGPUPowerW)},
		{name: "sweep_joules_per_output_token", help: "Energy of the GPUs / output tokens.", factor: same, columns: plain(col.JoulesPerOutputToken)},
		{name: "sweep_cost_usd", help: "Price of the measured time.", factor: same, columns: plain(col.CostUSD)},
		{name: "sweep_usd_per_million_output_tokens", help: "Price of a million output tokens at the plateau's throughput.", factor: same, columns: plain(col.USDPer1MOutputTokens)},
	}
}

// boolean returns a column of truth as 0 or 1.
func boolean(column string) func(result.Row) (float64, bool) {
	return func(row result.Row) (float64, bool) {
		v, ok := row[column].(bool)
		if v {
			return 1, ok
		}
		return 0, ok
	}
}

// runTrials is the one metric of the run itself.
const runTrials = "sweep_run_trials"

func prometheus(e *export) error {
	var b bytes.Buffer
	for _, f := range e.families(false) {
		if _, err := expfmt.MetricFamilyToText(&b, f); err != nil {
			return err
		}
	}
	e.file("sweep.prom", b.Bytes())
	return nil
}

func openmetrics(e *export) error {
	var b bytes.Buffer
	for _, f := range e.families(true) {
		if _, err := expfmt.MetricFamilyToOpenMetrics(&b, f); err != nil {
			return err
		}
	}
	if _, err := expfmt.FinalizeOpenMetrics(&b); err != nil {
		return err
	}
	e.file("sweep.om", b.Bytes())
	return nil
}

// families returns the metrics of the run, those without a value left out. The textfile
// collector refuses times; a backfill needs them.
func (e *export) families(timed bool) []*dto.MetricFamily {
	var all []*dto.MetricFamily
	list := gauges()
	families := make([]*dto.MetricFamily, len(list))
	for i, g := range list {
		families[i] = family(g.name, g.help)
	}
	var last *int64
	for t := range e.trials() {
		row := t.Outcome.Row
		labels := e.labels(t)
		var at *int64
		if end, ok := row[col.FinishedAt].(time.Time); ok && timed {
			at = new(end.UnixMilli())
			if last == nil || *at > *last {
				last = at
			}
		}
		for i, g := range list {
			for _, p := range percentilesOf(g) {
				v, ok := g.of(row, p)
				if !ok {
					continue
				}
				named := labels
				if p != "" {
					named = append(slices.Clone(labels), label("percentile", p))
				}
				families[i].Metric = append(families[i].Metric, &dto.Metric{Label: named, Gauge: &dto.Gauge{Value: &v}, TimestampMs: at})
			}
		}
		e.Trials++
	}
	counts := family(runTrials, "Trials of the run by their state; INVALID ones have no other metric unless --invalid was asked for.")
	states := e.states()
	for _, state := range []string{"valid", "invalid", "unmeasured", "pending"} {
		n := float64(states[state])
		counts.Metric = append(counts.Metric, &dto.Metric{
			Label: []*dto.LabelPair{label("plan", e.run.State.Manifest.Plan), label("run", e.run.State.Manifest.RunID), label("state", state)},
			Gauge: &dto.Gauge{Value: &n}, TimestampMs: last,
		})
	}
	for _, f := range append([]*dto.MetricFamily{counts}, families...) {
		if len(f.Metric) > 0 {
			all = append(all, f)
		}
	}
	return all
}

func family(name, help string) *dto.MetricFamily {
	return &dto.MetricFamily{Name: &name, Help: &help, Type: dto.MetricType_GAUGE.Enum()}
}

// percentilesOf returns the values of the label percentile that a metric has.
func percentilesOf(g gauge) []string {
	if g.value != nil {
		return []string{""}
	}
	var list []string
	for q := range g.columns {
		list = append(list, q)
	}
	slices.Sort(list)
	return list
}

func (g gauge) of(row result.Row, p string) (float64, bool) {
	if g.value != nil {
		return g.value(row)
	}
	v, ok := row.Number(g.columns[p])
	return v * g.factor, ok
}

// states counts the trials of the plan.
func (e *export) states() map[string]int {
	n := map[string]int{}
	for _, t := range e.run.Trials {
		switch {
		case t.Outcome == nil:
			n["pending"]++
		case t.Outcome.Row[col.Valid] == nil:
			n["unmeasured"]++
		case t.Outcome.Row[col.Valid] == true:
			n["valid"]++
		default:
			n["invalid"]++
		}
	}
	return n
}

// labels returns the identity of a trial and its cell's axes.
func (e *export) labels(t conclude.Trial) []*dto.LabelPair {
	row := t.Outcome.Row
	list := []*dto.LabelPair{
		label("plan", text(row, col.Plan)), label("run", text(row, col.RunID)), label("cell", t.Cell.ID), label("trial", fmt.Sprint(t.Trial)),
	}
	if model := text(row, col.Model); model != "" {
		list = append(list, label("model", model))
	}
	for _, s := range t.Cell.Settings {
		name := labelName(s.Column)
		if slices.ContainsFunc(list, func(l *dto.LabelPair) bool { return l.GetName() == name }) {
			if name == "model" {
				continue
			}
			name = "axis_" + name
		}
		list = append(list, label(name, fmt.Sprint(s.Value)))
	}
	return list
}

func label(name, value string) *dto.LabelPair {
	value = strings.ToValidUTF8(value, "\uFFFD")
	return &dto.LabelPair{Name: &name, Value: &value}
}

// labelName returns a column as a label: letters, digits and underscores, and none of the
// names that a metric has already.
func labelName(column string) string {
	name := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' {
			return r
		}
		return '_'
	}, column)
	if name == "quantile" || name == "percentile" || name == "" || name[0] >= '0' && name[0] <= '9' || strings.HasPrefix(name, "__") {
		return "axis_" + name
	}
	return name
}
