package export

import (
	"bytes"
	"fmt"
	"path"
	"time"

	"github.com/goccy/go-yaml"

	"sweep.dev/sweep/internal/layout"
	"sweep.dev/sweep/report/conclude"
	"sweep.dev/sweep/result"
	"sweep.dev/sweep/result/col"
)

// llmdVersion is the form of the reports: later 0.2.x only add to it.
const llmdVersion = "0.2.1"

// llmdName is what the readers of llm-d look for in a folder.
const llmdName = "benchmark_report_v0.2.yaml"

const llmdHead = `# Written by sweep export --format llmd: one trial as a Benchmark Report ` + llmdVersion + `.
# scope: the whole trial, ramp and tail with it; latencies of completed requests alone
#   (the columns with _whole of cells.csv), in seconds. TTFT ends with the first text; in an
#   open loop every latency counts from the scheduled send.
# interactivity: the report has no field for it; 1 / time_per_output_token.
# throughput per GPU: the report has none; output_token_rate / accelerator.count is of
#   output tokens, total_token_rate / accelerator.count of input and output.
`

// tree is a part of a report; null values are left out by put.
type tree = yaml.MapSlice

func put(t *tree, key string, value any) {
	switch v := value.(type) {
	case nil:
		return
	case string:
		if v == "" {
			return
		}
	case tree:
		if len(v) == 0 {
			return
		}
	}
	*t = append(*t, yaml.MapItem{Key: key, Value: value})
}

func llmd(e *export) error {
	for t := range e.trials() {
		row := t.Outcome.Row
		if e.roles() {
			e.note("servers of several roles: their reports have no stack, as the run has no GPUs of each role")
		} else if text(row, col.Model) == "" || text(row, col.Engine) == "" || text(row, col.GPU) == "" || row[col.GPUCount] == nil {
			e.note("model, engine, gpu or gpu_count is not known for every trial: its report has no stack")
		}
		body, err := yaml.MarshalWithOptions(e.report(t), yaml.IndentSequence(true))
		if err != nil {
			return fmt.Errorf("report of %s: %w", t.Key, err)
		}
		var b bytes.Buffer
		b.WriteString(llmdHead)
		if row[col.Valid] != true {
			fmt.Fprintf(&b, "# INVALID (%s): these numbers must not be used.\n", text(row, col.InvalidReasons))
		}
		b.Write(body)
		e.file(path.Join(t.Cell.ID, layout.Trial(t.Trial), llmdName), b.Bytes())
		e.Trials++
	}
	return nil
}

// report returns one trial.
func (e *export) report(t conclude.Trial) tree {
	row := t.Outcome.Row
	var out tree
	put(&out, "version", llmdVersion)
	put(&out, "run", e.llmdRun(t))
	put(&out, "scenario", e.scenario(t))
	var results, performance tree
	put(&performance, "aggregate", aggregate(row))
	put(&results, "request_performance", performance)
	put(&results, "observability", observability(row))
	put(&results, "profiling", tree{
		{Key: "sweep", Value: verdictOf(row)},
	})
	put(&out, "results", results)
	return out
}

// verdictOf returns our own word on the numbers: any key is allowed there.
func verdictOf(row result.Row) tree {
	var v tree
	put(&v, "valid", row[col.Valid])
	put(&v, "invalid_reasons", row[col.InvalidReasons])
	put(&v, "low_confidence", row[col.LowConfidence])
	put(&v, "simulated", row[col.Simulated])
	put(&v, "error_rate", row[col.ErrorRate])
	return v
}

func (e *export) llmdRun(t conclude.Trial) tree {
	row := t.Outcome.Row
	var run, times tree
	put(&run, "uid", fmt.Sprintf("%s-%s-%s", text(row, col.RunID), t.Cell.ID, layout.Trial(t.Trial)))
	put(&run, "eid", text(row, col.RunID))
	put(&run, "description", e.run.Label(t))
	from, began := row[col.StartedAt].(time.Time)
	to, ended := row[col.FinishedAt].(time.Time)
	if began && ended {
		put(&times, "start", from.UTC().Format(time.RFC3339Nano))
		put(&times, "end", to.UTC().Format(time.RFC3339Nano))
		put(&times, "duration", fmt.Sprintf("PT%gS", to.Sub(from).Seconds()))
	}
	put(&run, "time", times)
	return run
}

// scenario returns the server and the load. A part with a required field that is not
// known is left out whole.
func (e *export) scenario(t conclude.Trial) tree {
	row := t.Outcome.Row
	var scenario tree
	gpus, counted := row.Number(col.GPUCount)
	if !e.roles() && text(row, col.Model) != "" && text(row, col.Engine) != "" && text(row, col.GPU) != "" && counted {
		version := text(row, col.EngineVersion)
		if version == "" {
			version = "unknown"
		}
		standardized := tree{
			{Key: "kind", Value: "inference_engine"},
			{Key: "tool", Value: text(row, col.Engine)},
			{Key: "tool_version", Value: version},
			{Key: "role", Value: "replica"},
			{Key: "replicas", Value: 1},
			{Key: "model", Value: tree{{Key: "name", Value: text(row, col.Model)}}},
			// How the GPUs are divided is not in the row: the product is what counts.
			{Key: "accelerator", Value: tree{
				{Key: "model", Value: text(row, col.GPU)},
				{Key: "count", Value: int(gpus)},
				{Key: "parallelism", Value: tree{{Key: "tp", Value: max(1, int(gpus))}}},
			}},
		}
		put(&scenario, "stack", []tree{{
			{Key: "metadata", Value: tree{{Key: "label", Value: text(row, col.Engine)}, {Key: "cfg_id", Value: t.Cell.Deployment}}},
			{Key: "standardized", Value: standardized},
			{Key: "native", Value: tree{{Key: "config", Value: settings(t, true)}}},
		}})
	}
	input, ok := row.Number(col.TargetInputTokens)
	distribution := "fixed"
	if !ok {
		input, ok = row.Number(col.MeanPromptTokens)
		distribution = "other"
	}
	if !ok {
		return scenario
	}
	standardized := tree{
		{Key: "tool", Value: "sweep"},
		{Key: "tool_version", Value: e.run.Resolved.Sweep},
		{Key: "source", Value: "unknown"},
		{Key: "input_seq_len", Value: tree{{Key: "distribution", Value: distribution}, {Key: "value", Value: input}}},
	}
	if output, ok := row.Number(col.MaxTokens); ok {
		put(&standardized, "output_seq_len", tree{{Key: "distribution", Value: "fixed"}, {Key: "value", Value: output}})
	}
	put(&standardized, "rate_qps", row[col.RequestRate])
	put(&standardized, "concurrency", row[col.Concurrency])
	var load tree
	put(&load, "metadata", tree{{Key: "cfg_id", Value: t.Cell.ID}})
	put(&load, "standardized", standardized)
	put(&load, "native", tree{{Key: "config", Value: settings(t, false)}})
	put(&scenario, "load", load)
	return scenario
}

// settings returns the axes of the server, or those of the load.
func settings(t conclude.Trial, server bool) tree {
	out := tree{}
	for _, s := range t.Cell.Settings {
		if s.Server == server {
			put(&out, s.Column, s.Value)
		}
	}
	return out
}

// A measure is a field of the report.
type measure struct {
	name, units, latency string // of the columns
}

// aggregate returns what was measured over the whole trial.
func aggregate(row result.Row) tree {
	var requests, latency, throughput, out tree
	put(&requests, "total", row[col.Requests])
	put(&requests, "failures", row[col.Failed])
	put(&requests, "incomplete", row[col.Cancelled])
	put(&requests, "input_length", perRequest(row, col.InputTokens))
	put(&requests, "output_length", perRequest(row, col.OutputTokens))
	for _, m := range []measure{
		{"time_to_first_token", "s", "ttft"},
		{"request_latency", "s", "e2e"},
		{"time_per_output_token", "s/token", "tpot"},
		{"inter_token_latency", "s/token", "itl"},
	} {
		put(&latency, m.name, m.statistics(row))
	}
	for _, m := range []struct{ name, units, column string }{
		{"output_token_rate", "tokens/s", col.ThroughputTokSWhole},
		{"total_token_rate", "tokens/s", col.TotalThroughputTokSWhole},
		{"request_rate", "queries/s", col.RequestThroughputWhole},
	} {
		if v, ok := row.Number(m.column); ok {
			put(&throughput, m.name, tree{{Key: "units", Value: m.units}, {Key: "mean", Value: v}})
		}
	}
	put(&out, "requests", requests)
	put(&out, "latency", latency)
	put(&out, "throughput", throughput)
	return out
}

// perRequest returns the mean of a sum of the completed requests.
func perRequest(row result.Row, column string) tree {
	sum, ok := row.Number(column)
	n, completed := row.Number(col.Completed)
	if !ok || !completed || n == 0 {
		return nil
	}
	return tree{{Key: "units", Value: "count"}, {Key: "mean", Value: sum / n}}
}

// statistics returns those of a latency, in seconds; nil without a mean, which the form
// requires.
func (m measure) statistics(row result.Row) tree {
	out := tree{{Key: "units", Value: m.units}}
	for _, s := range []struct{ name, column string }{
		{"mean", "mean"}, {"stddev", "std"}, {"min", "min"}, {"p50", "p50"}, {"p90", "p90"}, {"p95", "p95"}, {"p99", "p99"}, {"max", "max"},
	} {
		v, ok := row.Number(col.Latency(s.column, m.latency) + col.WholeSuffix)
		switch {
		case ok:
			put(&out, s.name, v/1000)
		case s.name == "mean":
			return nil
		}
	}
	return out
}

// observability returns what the server and its GPUs said of themselves.
func observability(row result.Row) tree {
	var all tree
	for _, m := range []struct {
		name, units, mean, most string
	}{
		{"kv_cache_usage", "fraction", col.MeanKVCacheUsage, col.MaxKVCacheUsage},
		{"gpu_utilization", "percent", col.MeanGPUUtil, col.MaxGPUUtil},
		{"power_consumption", "Watts", col.MeanGPUPowerW, ""},
		{"running_requests", "count", col.MeanRequestsRunning, col.MaxRequestsRunning},
		{"waiting_requests", "count", col.MeanRequestsWaiting, col.MaxRequestsWaiting},
	} {
		mean, ok := row.Number(m.mean)
		if !ok {
			continue
		}
		s := tree{{Key: "units", Value: m.units}, {Key: "mean", Value: mean}}
		if most, ok := row.Number(m.most); ok {
			put(&s, "max", most)
		}
		put(&all, m.name, s)
	}
	if len(all) == 0 {
		return nil
	}
	return tree{{Key: "components", Value: []tree{{{Key: "component_label", Value: text(row, col.Engine)}, {Key: "aggregate", Value: all}}}}}
}
