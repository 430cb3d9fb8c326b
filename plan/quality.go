package plan

import "fmt"

// Quality is a set of prompts that each deployment answers outside of the measured
// time, see package quality.
type Quality struct {
	File        string         `yaml:"file,omitempty" doc:"The prompts: JSON lines with prompt or messages, and with expected, or choices and answer, or neither (docs/quality.md). Relative to the plan's folder; at most 5,000 items and 16 MiB." example:"short-answers.jsonl"`
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

// Asked is how many requests a deployment gets: each item is answered twice.
func (q *Quality) Asked() int { return 2 * q.Count }

// Axes are the baseline's values as texts, by axis.
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
	return digest([]any{tree(one), q.FileSHA256}, 12)
}
