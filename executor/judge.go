package executor

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"sweep.dev/sweep/plan"
	"sweep.dev/sweep/result"
)

// Reasons for INVALID. They are codes of the column invalid_reasons.
const (
	EngineRestarted = "engine_restarted"
	ErrorRate       = "error_rate"
	ScheduleLag     = "schedule_lag"
	OutputLength    = "output_length"
	ClientCPU       = "client_cpu"
	ClientStalled   = "client_stalled"
	GPUThrottled    = "gpu_throttled"
	GPUForeign      = "gpu_foreign"
)

// NothingMeasured is the error_class of a trial of which no request came to an
// end.
const NothingMeasured = "nothing_measured"

// cpuWindow is the shortest trial, in seconds, whose client's CPU share is
// judged. The kernel counts CPU time in steps of up to 10 ms, so that the share
// of a trial of a few milliseconds may be anything, beyond 1 too.
const cpuWindow = 0.5

// invalid says why the numbers of a measured trial must not be used: each rule
// with the figure that broke it and the bound. An empty answer means VALID.
//
// It judges the measurement, not the server: a slow server is valid, and what
// is good enough is the SLOs' question.
func (m *measurement) invalid(row result.Row) []result.Finding {
	v := m.Plan.Validity
	var why []result.Finding
	add := func(code, format string, args ...any) {
		why = append(why, result.Finding{Code: code, Text: fmt.Sprintf(format, args...)})
	}
	for _, n := range m.sink.notes {
		if n.Code == EngineRestarted {
			why = append(why, n)
		}
	}
	if rate, ok := row["error_rate"].(float64); ok && rate > v.MaxErrorRate {
		add(ErrorRate, "%.1f %% of the requests failed (bound %.1f %%), most often: %s",
			100*rate, 100*v.MaxErrorRate, commonError(m.requests))
	}
	if lag, held := m.scheduleLag(), ""; lag > milliseconds(v.MaxScheduleLag) {
		if bound := m.trial.cell.Load.MaxInFlight; bound > 0 {
			held = fmt.Sprintf(", or max_in_flight %d held it back", bound)
		}
		add(ScheduleLag, "p99 of sent - scheduled is %.1f ms (bound %s): the client did not keep the plan's schedule%s", lag, v.MaxScheduleLag, held)
	}
	if text := m.outputLength(); m.exact() && text != "" {
		add(OutputLength, "%s", text)
	}
	if took, ok := row["duration_s"].(float64); ok && took >= cpuWindow && m.health.CPU > v.MaxClientCPU {
		add(ClientCPU, "the client used %.0f %% of the CPU it may use (bound %.0f %%): give it cores of its own", 100*m.health.CPU, 100*v.MaxClientCPU)
	}
	if m.health.MaxGap > v.MaxStall {
		add(ClientStalled, "the client did not run for %s (bound %s): a stopped process or a starved machine",
			m.health.MaxGap.Round(time.Millisecond), v.MaxStall)
	}
	took, _ := row["duration_s"].(float64)
	if held, ok := row["gpu_throttled_ms"].(float64); ok && held/1000 > v.MaxThrottled*took {
		reasons, _ := row["gpu_throttle_reasons"].(string)
		add(GPUThrottled, "a GPU was held down for %.1f of %.1f s (bound %.0f %%) by %s: cool it, or measure another",
			held/1000, took, 100*v.MaxThrottled, cmp.Or(reasons, "heat or a hardware limit"))
	}
	if n, ok := row["gpu_foreign_processes"].(int64); ok && v.MaxForeign != nil && n > int64(*v.MaxForeign) {
		add(GPUForeign, "%d processes on the GPUs are not of this deployment (bound %d)", n, *v.MaxForeign)
	}
	return why
}

// scheduleLag is the p99, in milliseconds, of what the schedule was missed by;
// NaN where nothing was sent. In a closed loop a slot's first request does not
// count: all slots begin at one instant, which no client can keep, and each
// latency starts at its own send. From then on lateness is load that is missing.
func (m *measurement) scheduleLag() float64 {
	open := m.trial.cell.Load.RequestRate > 0
	first := map[int]time.Duration{} // by slot
	for _, r := range m.requests {
		if at, ok := first[r.Slot]; r.Measured() && r.Sent >= 0 && (!ok || r.Sent < at) {
			first[r.Slot] = r.Sent
		}
	}
	var lags []int64
	for _, r := range m.requests {
		if r.Measured() && r.Sent >= 0 && (open || r.Sent > first[r.Slot]) {
			lags = append(lags, int64(r.Sent-r.Scheduled))
		}
	}
	slices.Sort(lags)
	return result.Quantile(lags, 0.99) / 1e6
}

// outputLength says which completed requests did not get max_tokens tokens, or
// "". A server that does not count them leaves it unknown, which is no better.
func (m *measurement) outputLength() string {
	wrong, first := 0, result.Request{}
	for _, r := range m.requests {
		if !r.Measured() || r.Status != result.Completed || r.CompletionTokens == r.MaxTokens {
			continue
		}
		if wrong == 0 {
			first = r
		}
		wrong++
	}
	switch {
	case wrong == 0:
		return ""
	case first.CompletionTokens == result.Unknown:
		return fmt.Sprintf("of %d completed requests the server does not say how many tokens they got; the plan wants exactly %d",
			wrong, first.MaxTokens)
	}
	return fmt.Sprintf("%d completed requests did not get the exact output length, the first %d of %d tokens (finish_reason %q)",
		wrong, first.CompletionTokens, first.MaxTokens, first.FinishReason)
}

// exact says whether every request of this trial must yield max_tokens tokens.
func (m *measurement) exact() bool { return m.trial.cell.Load.Output == plan.OutputExact }

// commonError is the error that most requests failed with.
func commonError(reqs []result.Request) string {
	count := map[string]int{}
	for _, r := range reqs {
		if r.Measured() && r.Status == result.Failed {
			count[r.ErrorClass+": "+r.Error]++
		}
	}
	best := ""
	for _, text := range slices.Sorted(maps.Keys(count)) {
		if best == "" || count[text] > count[best] {
			best = text
		}
	}
	return best
}

// slos holds every objective against the row. slo_pass is what the failing
// severities say together; it is null where nothing was measured.
func (m *measurement) slos(row result.Row) []result.SLOResult {
	if len(m.Plan.SLO) == 0 {
		return nil
	}
	results := make([]result.SLOResult, 0, len(m.Plan.SLO))
	pass := true
	for _, slo := range m.Plan.SLO {
		r := slo.Evaluate(row)
		if r.Error == "" {
			row["slo_"+r.Name] = r.Pass
		}
		if !r.Pass && r.Severity != plan.SeverityWarn {
			pass = false
		}
		results = append(results, r)
	}
	row["slo_pass"] = pass
	return results
}

func codes(findings []result.Finding) any {
	if len(findings) == 0 {
		return nil
	}
	list := make([]string, len(findings))
	for i, f := range findings {
		list[i] = f.Code
	}
	return strings.Join(list, ",")
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
