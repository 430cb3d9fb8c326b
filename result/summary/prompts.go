package summary

import (
	"math"

	"sweep.dev/sweep/result"
)

// prompts are the lengths that were achieved, of prompts and of answers.
type prompts struct {
	tokens           []int64
	unknown          bool // a prompt that the server did not count
	cached           tally
	targets          int     // prompts that were made for a length
	off              float64 // sum of |achieved - target| / target
	outputs, wrong   int
	outputsUncounted bool
}

// add takes a completed request in.
func (p *prompts) add(r *result.Request) {
	p.cached.add(r.CachedTokens)
	if r.PromptTokens < 0 {
		p.unknown = true
	} else {
		p.tokens = append(p.tokens, int64(r.PromptTokens))
		if r.TargetTokens > 0 {
			p.targets++
			p.off += math.Abs(float64(r.PromptTokens-r.TargetTokens)) / float64(r.TargetTokens)
		}
	}
	if r.MaxTokens <= 0 {
		return
	}
	p.outputs++
	switch {
	case r.TokenSource != "usage" || r.CompletionTokens < 0:
		p.outputsUncounted = true
	case r.CompletionTokens != r.MaxTokens:
		p.wrong++
	}
}

// columns makes the columns of the lengths.
func (p *prompts) columns(row result.Row) {
	n := float64(len(p.tokens))
	if p.outputs > 0 && !p.outputsUncounted {
		row["output_length_error"] = float64(p.wrong) / float64(p.outputs)
	}
	if n == 0 || p.unknown {
		return
	}
	sortRadix(p.tokens, make([]int64, len(p.tokens)))
	var sum, squares float64
	for _, v := range p.tokens {
		sum += float64(v)
	}
	for _, v := range p.tokens {
		squares += (float64(v) - sum/n) * (float64(v) - sum/n)
	}
	row["mean_prompt_tokens"] = sum / n
	row["std_prompt_tokens"] = math.Sqrt(squares / n)
	row["min_prompt_tokens"] = float64(p.tokens[0])
	row["p50_prompt_tokens"] = result.Quantile(p.tokens, 0.50)
	row["p95_prompt_tokens"] = result.Quantile(p.tokens, 0.95)
	row["max_prompt_tokens"] = float64(p.tokens[len(p.tokens)-1])
	if p.targets > 0 {
		row["prompt_length_error"] = p.off / float64(p.targets)
	}
	if !p.cached.unknown {
		row["cached_tokens"] = p.cached.sum
	}
}
