package oracle

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"sweep.dev/sweep/report"
	"sweep.dev/sweep/result"
	"sweep.dev/sweep/result/finding"
	"sweep.dev/sweep/rundir"
)

// A choice is one of some values.
func choice[T any](r *rand.Rand, values ...T) T { return values[r.IntN(len(values))] }

func chance(r *rand.Rand, p float64) bool { return r.Float64() < p }

// some returns the first few of some values, one at least.
func some(r *rand.Rand, values ...any) []any { return values[:1+r.IntN(len(values))] }

// random makes an experiment. How much is wrong with it differs from one to the
// next: with few holes most is decided, with many nothing is.
func random(r *rand.Rand) *experiment {
	e := &experiment{repeats: choice(r, 1, 1, 1, 2, 3, 5), record: chance(r, 0.2), objectives: map[string]bool{}}
	for _, name := range []string{"responsive", "smooth", "clean"} {
		if chance(r, 0.5) {
			e.objectives[name] = chance(r, 0.8)
			e.order = append(e.order, name)
		}
	}
	values := [][]any{some(r, "vllm", "sglang", "trtllm"), some(r, "l4", "a100-80gb", "mine", "h100")}
	e.axes = []axis{{"engine", true}, {"gpu", true}}
	add := func(a axis, v []any) {
		e.axes, values = append(e.axes, a), append(values, v)
	}
	model := chance(r, 0.15)
	if model {
		add(axis{"model", true}, []any{"tiny"}) // one for each engine, see below
	}
	if chance(r, 0.2) {
		add(axis{"arg_max_num_seqs", true}, some(r, 16.0, 64.0))
	}
	if chance(r, 0.4) {
		add(axis{"max_tokens", false}, some(r, 64.0, 256.0))
	}
	switch loop := r.IntN(10); {
	case loop < 6:
		add(axis{"concurrency", false}, some(r, 1.0, 4.0, 8.0, 16.0, 32.0))
	case loop < 9:
		add(axis{"request_rate", false}, some(r, 0.5, 2.0, 10.0, 40.0))
	}
	product(values, func(v []any) {
		c := &cell{id: fmt.Sprintf("c%03d", len(e.cells)), values: v, e: e}
		if model {
			c.values[2] = "model-of-" + fmt.Sprint(v[0])
		}
		e.cells = append(e.cells, c)
	})
	// exclude: single cells, or whatever is less on one GPU.
	out := choice(r, 0, 0, 0.15, 0.4)
	least := map[any]float64{}
	if chance(r, 0.3) {
		least[choice[any](r, "l4", "a100-80gb")] = choice(r, 2.0, 8.0)
	}
	var kept []*cell
	for _, c := range e.cells {
		if !chance(r, out) && c.load() >= least[c.value("gpu")] {
			kept = append(kept, c)
		}
	}
	if len(kept) > 0 {
		e.cells = kept
	}
	e.run(r)
	return e
}

func product(values [][]any, each func([]any)) {
	if len(values) == 0 {
		each(nil)
		return
	}
	last := len(values) - 1
	product(values[:last], func(v []any) {
		for _, x := range values[last] {
			each(append(append([]any{}, v...), x))
		}
	})
}

// run gives the cells their rows: a server that carries more with more load up
// to a point, with noise, ties, holes and columns that were not measured.
func (e *experiment) run(r *rand.Rand) {
	holes, nulls := choice(r, 0, 0.03, 0.1, 0.3), choice(r, 0, 0, 0.05, 0.2)
	noise, jitter := choice(r, 0, 0.01, 0.2), choice(r, 0, 0.05, 0.4)
	spread, each := choice(r, 0.003, 0.03, 0.1, 2), chance(r, 0.3)
	near := func(v float64) float64 { return v * (1 + 0.02*(2*r.Float64()-1)) }
	price := map[any]float64{"l4": 0.43, "a100-80gb": 1.64, "h100": 2.99}
	if chance(r, 0.1) {
		price = nil
	}
	simulated := choice(r, "", "", "all", "l4", "sglang")      // or what runs there
	speculates := choice(r, "", "", "", "all", "l4", "sglang") // or what runs there, on unrepresentative content
	speed, knee := map[string]float64{}, map[string]float64{}
	starts := map[string]bool{}
	server := func(a axis) bool { return a.server }
	for _, c := range e.cells {
		name := c.text(server)
		if speed[name] == 0 {
			speed[name], knee[name] = choice(r, 50.0, 100, 100, 170), choice(r, 0.3, 1, 10, 100) // where it saturates
			starts[name] = !chance(r, 0.06)
		}
		for trial := 1; trial <= e.repeats; trial++ {
			load := max(1, c.load())
			row := result.Row{
				"cell_id": c.id, "trial": int64(trial), "status": "ok", "valid": true, "requests": int64(200), "completed": int64(200),
				"simulated":  simulated == "all" || simulated == c.value("gpu") || simulated == c.value("engine"),
				"started_at": time.Unix(1790000000, 0).UTC(), "start_up_s": 10 + speed[name]/10,
			}
			if each {
				row["start_up_s"], row["launch"] = near(10+speed[name]/10), int64(trial)
			}
			for i, a := range e.axes {
				row[a.name] = c.values[i]
			}
			if speculates == "all" || speculates == c.value("gpu") || speculates == c.value("engine") {
				row["findings"] = "content_unrepresentative"
			}
			if usd := price[c.value("gpu")]; usd > 0 {
				row["usd_per_hour"] = usd
			}
			c.trials = append(c.trials, row)
			switch {
			case !starts[name]:
				row["status"], row["valid"], row["start_up_s"] = "failed", nil, nil
				row["error_class"], row["error"] = "oom.weights", "out of memory"
				continue
			case chance(r, holes):
				switch r.IntN(4) {
				case 0:
					c.trials[trial-1] = nil
					continue
				case 1:
					row["status"], row["valid"], row["error_class"], row["error"] = "failed", nil, "signal", "killed"
					continue
				case 2:
					row["status"], row["valid"], row["error"] = "skipped", nil, "not run"
					continue
				default:
					row["status"], row["valid"], row["invalid_reasons"] = "invalid", false, choice(r, "client_cpu", "drift")
				}
			}
			e.measure(r, row, load, speed[name], knee[name], noise)
			if chance(r, jitter) {
				row["p95_ttft_ms"] = choice(r, 2.1, 5) * row["p50_ttft_ms"].(float64)
			}
			for _, column := range []string{
				"throughput_tok_s", "request_throughput", "total_throughput_tok_s", "mean_ttft_ms", "mean_tpot_ms", "mean_e2e_ms",
				"p95_ttft_ms", "p50_tpot_ms", "p95_tpot_ms",
			} {
				v := row[column].(float64)
				row[column+"_low"], row[column+"_high"] = max(0, v*(1-spread*r.Float64())), v*(1+spread*r.Float64())
				if chance(r, nulls/4) {
					delete(row, column+choice(r, "_low", "_high"))
				}
			}
			for _, column := range []string{
				"throughput_tok_s", "total_throughput_tok_s", "p50_user_tok_s", "p95_ttft_ms", "usd_per_1m_output_tokens", "usd_per_hour", "mean_tpot_ms", "mean_ttft_ms",
			} {
				if chance(r, nulls/4) {
					delete(row, column)
				}
			}
			for _, name := range e.order {
				switch {
				case chance(r, nulls):
					row["slo_"+name] = nil
				case name == "responsive":
					row["slo_"+name] = verdict(r, load < 20 || chance(r, 0.4))
				default:
					row["slo_"+name] = verdict(r, chance(r, 0.93))
				}
			}
		}
	}
}

// verdict returns that on an objective; some are undecided.
func verdict(r *rand.Rand, met bool) string {
	switch {
	case chance(r, 0.05):
		return "undecided"
	case met:
		return "pass"
	}
	return "fail"
}

func (e *experiment) measure(r *rand.Rand, row result.Row, load, speed, knee, noise float64) {
	near := func(v float64) float64 { return v * (1 + noise*(2*r.Float64()-1)) }
	rate := near(speed * load * knee / (load + knee))
	row["throughput_tok_s"], row["request_throughput"], row["total_throughput_tok_s"] = rate, rate/128, 2.5*rate
	wait := near(20 + 3*load*100/speed)
	step := near(1000 / speed * (1 + load/knee))
	row["mean_ttft_ms"], row["p50_ttft_ms"], row["p95_ttft_ms"] = wait, wait, wait*choice(r, 1.1, 1.3, 1.3, 1.9)
	row["mean_tpot_ms"], row["p50_tpot_ms"], row["p95_tpot_ms"] = step, step, step*1.2
	row["p50_user_tok_s"], row["mean_e2e_ms"], row["p95_e2e_ms"] = 1000/step, wait+127*step, 1.3*(wait+127*step)
	if usd, ok := row["usd_per_hour"].(float64); ok {
		row["usd_per_1m_output_tokens"] = usd / 3600 / rate * 1e6
	}
}

// of makes the run that the report would have read from a directory.
func (e *experiment) of() *report.Run {
	run := &report.Run{Dir: "DIR", State: &rundir.State{Manifest: rundir.Manifest{Plan: "grid"}}}
	run.Resolved = report.Resolved{Plan: json.RawMessage(`{"load":{"requests":200}}`), Repeats: e.repeats, RecordStarts: e.record}
	run.Resolved.Columns = []result.Column{{Name: "cell_id", Type: result.String}}
	for _, name := range []string{"throughput_tok_s", "request_throughput", "p95_ttft_ms", "p95_tpot_ms", "usd_per_1m_output_tokens"} {
		run.Resolved.Columns = append(run.Resolved.Columns, result.Column{Name: name, Type: result.Float, Nullable: true})
	}
	for _, c := range e.cells {
		rc := report.Cell{ID: c.id, Deployment: "d", Label: c.label()}
		for i, a := range e.axes {
			rc.Settings = append(rc.Settings, report.Setting{
				Column: a.name, Server: a.server, Amount: isAmount(a.name),
				Text: c.text(func(b axis) bool { return b == a }), Value: c.values[i],
			})
		}
		run.Resolved.Cells = append(run.Resolved.Cells, rc)
		for i, row := range c.trials {
			t := report.Trial{Key: rundir.Key{Cell: c.id, Trial: i + 1}, Cell: rc}
			if row != nil {
				t.Outcome = e.outcome(c, i+1, row)
			}
			run.Trials = append(run.Trials, t)
		}
	}
	return run
}

// codeOf returns any text as the code of a finding, as a recorded run may have it.
func codeOf(text string) (c finding.Code) {
	if err := c.UnmarshalText([]byte(text)); err != nil {
		panic(err)
	}
	return c
}

func (e *experiment) outcome(c *cell, trial int, row result.Row) *result.Outcome {
	o := &result.Outcome{CellID: c.id, Trial: trial, Attempt: 1, Row: row}
	o.StartFailure = row["status"] == "failed" && row["start_up_s"] == nil
	if reasons, ok := row["invalid_reasons"].(string); ok {
		o.Invalid = []result.Finding{{Code: codeOf(reasons), Text: "as it is"}}
	}
	if row["status"] != "ok" && row["status"] != "invalid" {
		return o
	}
	if code, ok := row["findings"].(string); ok {
		o.Findings = []result.Finding{{Code: codeOf(code), Text: "as it is"}}
	}
	for _, name := range e.order {
		s := result.SLOResult{Name: name, Expr: name + " < 1", Severity: "fail", Values: result.Row{name: 1.0}}
		if !e.objectives[name] {
			s.Severity = "warn"
		}
		if s.Verdict, _ = row["slo_"+name].(string); s.Verdict == "" {
			s.Error = "not measured: " + name
		}
		o.SLOs = append(o.SLOs, s)
	}
	return o
}

// String returns the experiment for a person who looks for what went wrong.
func (e *experiment) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "repeats %d, record %v, objectives %v\n", e.repeats, e.record, e.objectives)
	for _, c := range e.cells {
		fmt.Fprintf(&b, "%s %s: %s\n", c.id, c.label(), c.verdict())
		for _, row := range c.trials {
			fmt.Fprintf(&b, "    %s tok=%.4v ttft=%.4v usd=%v simulated=%v\n", e.kind(row), row["throughput_tok_s"], row["p95_ttft_ms"], row["usd_per_hour"], row["simulated"])
		}
	}
	return b.String()
}
