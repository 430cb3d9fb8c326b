package plan

import (
	"fmt"
	"slices"
)

// Quality is a set of prompts that each deployment answers outside of the measured
// time, see package quality.
type Quality struct {
	File        string         `yaml:"file,omitempty" doc:"The prompts: JSON lines with prompt or messages, and with expected, or choices and answer, or neither (docs/quality.md). Relative to the plan's folder; at most 5,000 items and 16 MiB." example:"short-answers.jsonl"`
	LMEval      *LMEval        `yaml:"lm_eval,omitempty" doc:"In place of file: what lm-evaluation-harness logged of each deployment with --log_samples. sweep sends no prompt." example:"{metric: exact_match, files: [{of: {engine: vllm}, file: vllm/samples_gsm8k.jsonl}]}"`
	Items       int            `yaml:"items,omitempty" doc:"Number of items to take from the beginning of the file." default:"all" min:"1" max:"5000" unit:"items" example:"100"`
	Baseline    map[string]any `yaml:"baseline,omitempty" doc:"Values of server axes: each deployment is compared with the one that has these and its own other values." default:"none: nothing is compared" example:"{engine: vllm}"`
	MaxTokens   int            `yaml:"max_tokens,omitempty" doc:"Most tokens of one answer." default:"64" min:"1" max:"4096" unit:"tokens" example:"256"`
	Concurrency int            `yaml:"concurrency,omitempty" doc:"Prompts in flight at once." default:"4" min:"1" max:"64" unit:"requests" example:"16"`
	Endpoint    string         `yaml:"endpoint,omitempty" doc:"API to send the prompts to. completions is for a model without a chat template." default:"chat" enum:"chat,completions" example:"completions"`
	Body        map[string]any `yaml:"body,omitempty" doc:"Further fields of the JSON body of each of these requests." example:"{chat_template_kwargs: {enable_thinking: false}}"`

	// FileRef is File as written; File is resolved against the plan's folder.
	FileRef string `yaml:"-"`
	// FileSHA256 is the digest of the file's content when the plan was read, and Count
	// the number of items that are asked.
	FileSHA256 string `yaml:"-"`
	Count      int    `yaml:"-"`
}

// LMEval is files of samples of EleutherAI's lm-evaluation-harness, see [quality.Samples].
type LMEval struct {
	Metric string   `yaml:"metric,omitempty" doc:"Key of the task's metric in each sample: one that is 0 or 1 for each item." example:"exact_match"`
	Filter string   `yaml:"filter,omitempty" doc:"The task's filter whose samples count; of a task with several it must be named." default:"the task's only one" example:"strict-match"`
	Files  []LMFile `yaml:"files,omitempty" doc:"A file for each deployment whose score is known; of another one it is null." example:"[{of: {engine: vllm}, file: vllm/samples_gsm8k.jsonl}]"`
}

// An LMFile is the file of the deployments that have some values.
type LMFile struct {
	Of   map[string]any `yaml:"of,omitempty" doc:"Values of server axes: the file is of each deployment that has all of them." example:"{engine: vllm}"`
	File string         `yaml:"file,omitempty" doc:"The samples_TASK_DATE.jsonl of lm-eval, relative to the plan's folder; at most 5,000 items and 256 MiB." example:"vllm/samples_gsm8k.jsonl"`

	// FileRef is File as written, and SHA256 the digest of its content when the plan was
	// read.
	FileRef string `yaml:"-"`
	SHA256  string `yaml:"-"`
}

// Has reports whether a file is of the deployment of a cell.
func (f *LMFile) Has(c Cell) bool {
	for axis, v := range f.Of {
		at := slices.IndexFunc(c.Settings, func(s Setting) bool { return s.Axis.Server && s.Axis.Name == axis })
		if at < 0 || fmt.Sprint(c.Settings[at].Value) != fmt.Sprint(v) {
			return false
		}
	}
	return true
}

// FileOf returns the file of the deployment of a cell; nil for none.
func (l *LMEval) FileOf(c Cell) *LMFile {
	for i := range l.Files {
		if l.Files[i].Has(c) {
			return &l.Files[i]
		}
	}
	return nil
}

// Sums returns the digests of the contents of all files that are read.
func (q *Quality) Sums() any {
	if q.LMEval == nil {
		return q.FileSHA256
	}
	sums := make([]string, len(q.LMEval.Files))
	for i := range sums {
		sums[i] = q.LMEval.Files[i].SHA256
	}
	return sums
}

// Refs returns those files, as they are written.
func (q *Quality) Refs() []string {
	refs := []string{q.FileRef}
	if q.LMEval != nil {
		for i := range q.LMEval.Files {
			refs = append(refs, q.LMEval.Files[i].FileRef)
		}
	}
	return refs
}

// Asked returns how many requests a deployment gets: each item is answered twice.
func (q *Quality) Asked() int { return 2 * q.Count }

// Axes returns the baseline's values as texts, by axis.
func (q *Quality) Axes() map[string]string {
	if q.Baseline == nil {
		return nil
	}
	out := make(map[string]string, len(q.Baseline))
	for name, v := range q.Baseline {
		out[name] = fmt.Sprint(v)
	}
	return out
}

// Digest is of all that decides what is asked, and how: not of what it is compared with.
func (q *Quality) Digest() string {
	one := *q
	one.Baseline, one.File, one.FileRef = nil, "", ""
	if l := q.LMEval; l != nil { // not of where the files are
		parts := []any{l.Metric, l.Filter, q.Sums()}
		for i := range l.Files {
			parts = append(parts, tree(l.Files[i].Of))
		}
		return digest(parts, 12)
	}
	return digest([]any{tree(one), q.FileSHA256}, 12)
}
