package export

import (
	"bytes"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"sweep.dev/sweep/report/conclude"
	"sweep.dev/sweep/result"
	"sweep.dev/sweep/result/col"
)

const inferencexReadme = `Written by sweep export --format inferencex.

  agg/agg_NAME.json   a row each; for collect_results.py DIR, which reads every .json
                      below it: nothing else may lie there
  raw/NAME.json       the result as vllm bench serve writes it
  raw/NAME.env        the environment with which process_result.py makes the row of it

Definitions (those of InferenceX):
  scope            the whole trial, ramp and tail with it; completed requests alone.
                   The figures of cells.csv are of the plateau, failures as infinite.
  <stat>_intvty    (interactivity) 1000 / <stat>_tpot_ms, tokens/s of a user while it
                   is answered: waiting for the first token is no part of it
  tput_per_gpu     (throughput per GPU) input AND output tokens/s / GPUs;
                   output_tput_per_gpu counts the output alone
  latencies        seconds
What was not measured has no key, and neither has a standard deviation of zero, by which
process_result.py divides. sweep_valid is 0 in rows that were exported with --invalid:
their numbers must not be used.
`

// A fact is what a row of InferenceX says of the deployment.
type fact struct {
	name string // of the environment
	key  string // of the row
	// of is what a run knows of it; "" if nothing.
	of func(e *export, row result.Row) string
}

func nobody(*export, result.Row) string { return "" }

// single returns a value if the server has one GPU, where it can be no other.
func single(value string) func(*export, result.Row) string {
	return func(_ *export, row result.Row) string {
		if n, ok := row.Number(col.GPUCount); ok && n == 1 {
			return value
		}
		return ""
	}
}

func column(name string) func(*export, result.Row) string {
	return func(_ *export, row result.Row) string {
		if row[name] == nil {
			return ""
		}
		return fmt.Sprint(row[name])
	}
}

// facts returns what process_result.py wants in its environment for a single node.
func facts() []fact {
	return []fact{
		{"RUNNER_TYPE", "hw", column(col.GPU)},
		{"IMAGE", "image", column(col.ImageDigest)},
		{"MODEL_PREFIX", "infmax_model_prefix", nobody},
		{"FRAMEWORK", "framework", column(col.Engine)},
		{"PRECISION", "precision", nobody},
		{"SPEC_DECODING", "spec_decoding", nobody},
		{"DISAGG", "disagg", func(e *export, _ result.Row) string {
			if e.roles() {
				return ""
			}
			return "false"
		}},
		{"ISL", "isl", column(col.TargetInputTokens)},
		{"OSL", "osl", column(col.MaxTokens)},
		{"TP", "tp", single("1")},
		{"EP_SIZE", "ep", single("1")},
		{"DP_ATTENTION", "dp_attention", single("false")},
	}
}

// roles reports whether the run has columns of single roles: servers of several.
func (e *export) roles() bool {
	return slices.ContainsFunc(e.run.Resolved.Columns, func(c result.Column) bool {
		return strings.HasSuffix(c.Name, "_"+col.MeanRequestsRunning)
	})
}

// A MissingError names what a format wants that neither the run nor the user says.
type MissingError struct{ Names []string }

func (e *MissingError) Error() string {
	return "InferenceX wants " + strings.Join(e.Names, ", ") + ", which the run does not know"
}

// Hint says how to go on.
func (e *MissingError) Hint() string {
	var b strings.Builder
	b.WriteString("say it with")
	for _, name := range e.Names {
		fmt.Fprintf(&b, " --fact %s=...", name)
	}
	return b.String()
}

func inferencex(e *export) error {
	known := []string{"PP_SIZE"}
	for _, f := range facts() {
		known = append(known, f.name)
	}
	for name, value := range e.opts.Facts {
		if !slices.Contains(known, name) {
			return &FactError{fmt.Errorf("--fact %s: want one of %s", name, strings.Join(known, ", "))}
		}
		if value == "" || strings.ContainsAny(value, "\n\r\x00'") {
			return &FactError{fmt.Errorf("--fact %s: want a value without quotes and line ends", name)}
		}
	}
	used := map[string]bool{}
	for t := range e.trials() {
		if row := t.Outcome.Row; row[col.Concurrency] == nil {
			e.leave("an open loop: a row of InferenceX has a number of requests in flight")
			continue
		}
		o, err := e.benchServe(t)
		if err != nil {
			return err
		}
		if o == nil {
			continue
		}
		env, err := e.environment(t.Outcome.Row)
		if err != nil {
			return err
		}
		raw := o.readable()
		row, err := inferencexRow(raw, env)
		if err != nil {
			return fmt.Errorf("%s: %w", t.Cell.Label, err)
		}
		for _, mark := range []struct{ key, column string }{{"sweep_valid", col.Valid}, {"sweep_simulated", col.Simulated}} {
			v, _ := boolean(mark.column)(t.Outcome.Row)
			row.set(mark.key, int(v)) // its readers store numbers alone
		}
		name := resultName(t)
		if used[name] {
			return fmt.Errorf("two trials have the name %s", name)
		}
		used[name] = true
		e.file(path.Join("agg", "agg_"+name+".json"), row.line())
		e.file(path.Join("raw", name+".json"), raw.line())
		e.file(path.Join("raw", name+".env"), envFile(name, env))
		e.Trials++
	}
	if e.Trials > 0 {
		e.file("README.txt", []byte(inferencexReadme))
	}
	return nil
}

// A FactError is a fact that cannot be taken.
type FactError struct{ err error }

func (e *FactError) Error() string { return e.err.Error() }
func (e *FactError) Unwrap() error { return e.err }

func resultName(t conclude.Trial) string { return fmt.Sprintf("%s_t%02d", t.Cell.ID, t.Trial) }

// environment returns what the script needs to know of a row, by the names of the facts.
func (e *export) environment(row result.Row) (map[string]string, error) {
	env := map[string]string{}
	var missing []string
	for _, f := range facts() {
		value := e.opts.Facts[f.name]
		if value == "" {
			value = f.of(e, row)
		}
		if value == "" {
			missing = append(missing, f.name)
		}
		env[f.name] = value
	}
	if pp := e.opts.Facts["PP_SIZE"]; pp != "" {
		env["PP_SIZE"] = pp
	}
	if len(missing) > 0 {
		return nil, &MissingError{missing}
	}
	if env["DISAGG"] != "false" {
		return nil, &FactError{fmt.Errorf("DISAGG=%s: a row of several nodes or roles needs the GPUs of each, which sweep does not export", env["DISAGG"])}
	}
	gpus, err := gpusOf(env)
	if err != nil {
		return nil, &FactError{err}
	}
	if n, ok := row.Number(col.GPUCount); ok && n != float64(gpus) {
		return nil, &FactError{fmt.Errorf("TP x PP_SIZE is %d GPUs and the trial's gpu_count is %v", gpus, n)}
	}
	return env, nil
}

// gpusOf returns the number of GPUs by which throughput is divided.
func gpusOf(env map[string]string) (int, error) {
	gpus := 1
	for _, name := range []string{"TP", "PP_SIZE"} {
		if env[name] == "" {
			continue
		}
		n, err := strconv.Atoi(env[name])
		if err != nil || n < 1 {
			return 0, fmt.Errorf("%s=%s: want a whole number from 1 on", name, env[name])
		}
		gpus *= n
	}
	return gpus, nil
}

// readable returns the object without what process_result.py stumbles over: nulls, a zero
// by which it divides, and texts under names that it takes for latencies.
func (o object) readable() object {
	return slices.DeleteFunc(slices.Clone(o), func(f field) bool {
		latency := strings.HasSuffix(f.key, "ms") || strings.Contains(f.key, "tpot")
		number, ok := f.value.(float64)
		return f.value == nil || latency && !ok || latency && strings.Contains(f.key, "tpot") && number == 0
	})
}

// inferencexRow returns the row that process_result.py makes of a result of one node.
func inferencexRow(o object, env map[string]string) (object, error) {
	number := func(key string) float64 {
		if f := o.find(key); f != nil {
			v, _ := f.value.(float64)
			return v
		}
		return 0
	}
	gpus, err := gpusOf(env)
	if err != nil {
		return nil, err
	}
	var row object
	row.set("hw", env["RUNNER_TYPE"])
	row.set("conc", o.find("max_concurrency").value)
	row.set("image", env["IMAGE"])
	row.set("model", o.find("model_id").value)
	for _, f := range facts() {
		switch f.key {
		case "hw", "image":
		case "isl", "osl", "tp", "ep":
			n, err := strconv.Atoi(env[f.name])
			if err != nil {
				return nil, fmt.Errorf("%s=%s: want a whole number", f.name, env[f.name])
			}
			row.set(f.key, n)
		case "disagg":
			row.set(f.key, false)
		default: // dp_attention is a text there too
			row.set(f.key, env[f.name])
		}
	}
	pp := 1
	if env["PP_SIZE"] != "" {
		pp, _ = strconv.Atoi(env["PP_SIZE"]) // gpusOf has read it
	}
	row.set("is_multinode", false)
	row.set("pp", pp)
	row.set("dcp_size", 1)
	row.set("pcp_size", 1)
	total, output := number("total_token_throughput"), number("output_throughput")
	row.set("tput_per_gpu", total/float64(gpus))
	row.set("output_tput_per_gpu", output/float64(gpus))
	row.set("input_tput_per_gpu", (total-output)/float64(gpus))
	for _, f := range o {
		v, ok := f.value.(float64)
		if name, is := strings.CutSuffix(f.key, "_ms"); is && ok {
			row.set(name, v/1000)
		}
		if strings.Contains(f.key, "tpot") && ok {
			row.set(strings.TrimSuffix(strings.ReplaceAll(f.key, "tpot", "intvty"), "_ms"), 1000/v)
		}
	}
	row.set("power_metric_schema_version", 2)
	row.set("power_valid", 0) // the samples of a run are no CSV of nvidia-smi
	return row, nil
}

// envFile sets the environment of the script, to be sourced by a shell.
func envFile(name string, env map[string]string) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "export RESULT_FILENAME='%s'\n", name)
	for _, f := range facts() {
		fmt.Fprintf(&b, "export %s='%s'\n", f.name, strings.ReplaceAll(env[f.name], "'", "_"))
	}
	if pp := env["PP_SIZE"]; pp != "" {
		fmt.Fprintf(&b, "export PP_SIZE='%s'\n", pp)
	}
	return b.Bytes()
}
