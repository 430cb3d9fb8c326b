package export

import (
	"bytes"
	"encoding/json"
	"fmt"
	"iter"
	"math"
	"path"
	"slices"
	"strings"
	"time"

	"sweep.dev/sweep/report/conclude"
	"sweep.dev/sweep/result"
	"sweep.dev/sweep/result/col"
)

// vllmReadme stands in the folder, as plotters read every summary.json below it and
// nothing else.
const vllmReadme = `Written by sweep export --format vllm: the trials of one run as vllm bench sweep
leaves them, for

    vllm bench sweep plot .
    vllm bench sweep plot_pareto . --gpu-count-var gpu_count

Definitions (those of vllm bench serve 0.32):
  scope            the whole trial, ramp and tail with it; completed requests alone.
                   The figures of cells.csv are of the plateau, failures as infinite.
  TTFT             send to the first chunk that has a choice, also one without text
  ITL              gaps between chunks, not between tokens
  tokens_per_user  (interactivity) output_throughput / users; users are max_concurrency,
                   or in an open loop max_concurrent_requests, the most requests that
                   touched one second
  tokens_per_gpu   (throughput per GPU) output_throughput / gpu_count: output tokens alone
  failed           requests that sweep calls failed; vllm bench itself takes a stream
                   that broke after its first chunk for a completed one
What was not measured has no key. sweep_valid is false in trials that were exported with
--invalid: their numbers must not be used.
`

// reserved are keys that plotters take the number of GPUs and of users from.
var reserved = [...]string{"tensor_parallel_size", "tp", "pipeline_parallel_size", "pp", "data_parallel_size", "dp"}

func vllm(e *export) error {
	var order []string
	runs := map[string][]object{}
	names := map[string]string{} // of folders, by cells
	for t := range e.trials() {
		o, err := e.benchServe(t)
		if err != nil {
			return err
		}
		if o == nil {
			continue
		}
		name, ok := names[t.Cell.ID]
		if !ok {
			name = folder(t.Cell)
			if runs[name] != nil {
				name += "-" + t.Cell.ID
			}
			names[t.Cell.ID], order = name, append(order, name)
		}
		n := len(runs[name])
		o.set("run_number", n)
		runs[name] = append(runs[name], o)
		e.file(path.Join(name, fmt.Sprintf("run=%d.json", n)), o.line())
		e.Trials++
	}
	for _, name := range order {
		var b bytes.Buffer
		for i, o := range runs[name] {
			b.WriteString([]string{"[\n", ",\n"}[min(i, 1)])
			b.Write(bytes.TrimSuffix(o.line(), []byte("\n")))
		}
		b.WriteString("\n]\n")
		e.file(path.Join(name, "summary.json"), b.Bytes())
	}
	if e.Trials > 0 {
		e.file("README.txt", []byte(vllmReadme))
	}
	return nil
}

// folder returns the name of a cell's folder as vllm bench sweep makes it from the
// parameters.
func folder(c conclude.Cell) string {
	var server, load []string
	for _, s := range c.Settings {
		word := fmt.Sprintf("%s=%v", s.Column, s.Value)
		if s.Server {
			server = append(server, word)
		} else {
			load = append(load, word)
		}
	}
	var parts []string
	if len(server) > 0 {
		parts = append(parts, "SERVE--"+strings.Join(server, "-"))
	}
	if len(load) > 0 {
		parts = append(parts, "BENCH--"+strings.Join(load, "-"))
	}
	clean := func(r rune) rune {
		if r < ' ' || strings.ContainsRune(`/\:*?"<>|`, r) {
			return '_'
		}
		return r
	}
	name := strings.ReplaceAll(strings.Map(clean, strings.Join(parts, "-")), "..", "__")
	if name == "" || len(name) > 200 {
		return "BENCH--cell=" + c.ID
	}
	return name
}

// benchServe returns a trial as vllm bench serve --save-result writes it; nil if its tokens
// are not known, without which no reader takes it.
func (e *export) benchServe(t conclude.Trial) (object, error) {
	row := t.Outcome.Row
	w, err := wholeOf(e.requests(t))
	if err != nil {
		return nil, err
	}
	switch {
	case w.completed == 0:
		e.leave("no request was completed")
		return nil, nil
	case w.input == result.Unknown || w.output == result.Unknown:
		e.leave("the server did not count its tokens")
		return nil, nil
	}
	var o object
	if at, ok := row[col.StartedAt].(time.Time); ok {
		o.set("date", at.UTC().Format("20060102-150405"))
	}
	o.set("endpoint_type", text(row, col.Engine))
	o.set("backend", text(row, col.Engine))
	o.set("label", nil)
	o.set("model_id", text(row, col.Model))
	o.set("tokenizer_id", text(row, col.Model))
	o.set("num_prompts", w.completed+w.failed+w.cancelled)
	rate, open := row.Number(col.RequestRate)
	if open {
		o.set("request_rate", rate)
		o.set("max_concurrency", nil)
	} else {
		o.set("request_rate", "inf")
		o.set("max_concurrency", row[col.Concurrency])
	}
	seconds := w.duration.Seconds()
	o.set("duration", seconds)
	o.set("completed", w.completed)
	o.set("failed", w.failed)
	o.set("total_input_tokens", w.input)
	o.set("total_output_tokens", w.output)
	o.set("request_throughput", float64(w.completed)/seconds)
	o.set("output_throughput", float64(w.output)/seconds)
	o.set("total_token_throughput", float64(w.input+w.output)/seconds)
	o.set("max_output_tokens_per_s", float64(w.maxChunks))
	o.set("max_concurrent_requests", w.maxConcurrent)
	w.statistics(&o)
	if gpus, ok := row.Number(col.GPUCount); ok {
		o.set("tensor_parallel_size", gpus)
		o.set("gpu_count", gpus)
	} else {
		e.note("gpu_count is not known for every trial: plot_pareto takes 1 GPU there")
	}
	e.axes(&o, t)
	o.set("sweep_cell", t.Cell.ID)
	o.set("sweep_trial", t.Trial)
	o.set("sweep_simulated", row[col.Simulated])
	o.set("sweep_valid", row[col.Valid])
	o.set("sweep_invalid_reasons", text(row, col.InvalidReasons))
	o.set("sweep_cancelled", w.cancelled)
	o.set("sweep_run", text(row, col.RunID))
	return o, nil
}

// axes are the values of a cell, under names that no reader takes for something else.
func (e *export) axes(o *object, t conclude.Trial) {
	for _, s := range t.Cell.Settings {
		name := s.Column
		if o.has(name) && !o.same(name, s.Value) || slices.Contains(reserved[:], strings.ReplaceAll(name, "-", "_")) {
			name = "axis_" + name
		}
		if !o.has(name) {
			o.set(name, s.Value)
		}
	}
}

// percentiles are those that are written: what readers ask for by name.
var percentiles = [...]struct {
	name  string
	p     float64
	least int // values; fewer have no such percentile
}{
	{"p50", 0.5, 1}, {"p90", 0.9, 1}, {"p95", 0.95, 1}, {"p99", 0.99, 1}, {"p99.9", 0.999, 1000},
}

func (w *whole) statistics(o *object) {
	for _, l := range []struct {
		name   string
		values iter.Seq[float64]
	}{{"ttft", slices.Values(w.ttft)}, {"tpot", slices.Values(w.tpot)}, {"itl", w.itl.all()}, {"e2el", slices.Values(w.e2e)}} {
		n, mean, std := moments(l.values)
		if n == 0 {
			continue // not measured: no key
		}
		o.set("mean_"+l.name+"_ms", mean)
		o.set("median_"+l.name+"_ms", quantile(l.values, n, 0.5))
		o.set("std_"+l.name+"_ms", std)
		for _, q := range percentiles {
			if n >= q.least {
				o.set(q.name+"_"+l.name+"_ms", quantile(l.values, n, q.p))
			}
		}
	}
}

// An object is a JSON object whose keys keep their order.
type object []field

type field struct {
	key   string
	value any
}

// set adds a key; a float that is no number of JSON is left out.
func (o *object) set(key string, value any) {
	if f, ok := value.(float64); ok && (math.IsNaN(f) || math.IsInf(f, 0)) {
		return
	}
	*o = append(*o, field{key, value})
}

func (o *object) has(key string) bool { return o.find(key) != nil }

// same reports whether a key has a value already, as any type of number.
func (o *object) same(key string, value any) bool {
	f := o.find(key)
	return f != nil && fmt.Sprint(f.value) == fmt.Sprint(value)
}

func (o *object) find(key string) *field {
	for i := range *o {
		if (*o)[i].key == key {
			return &(*o)[i]
		}
	}
	return nil
}

// line returns the object on a line of its own.
func (o object) line() []byte {
	b, err := o.MarshalJSON()
	if err != nil {
		panic(err) // its values are texts, numbers and booleans of a committed row
	}
	return append(b, '\n')
}

// MarshalJSON keeps the order of the keys.
func (o object) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	b.WriteByte('{')
	for i, f := range o {
		if i > 0 {
			b.WriteString(", ")
		}
		key, err := json.Marshal(f.key)
		if err != nil {
			return nil, err
		}
		value, err := json.Marshal(f.value)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", f.key, err)
		}
		b.Write(key)
		b.WriteString(": ")
		b.Write(value)
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}
