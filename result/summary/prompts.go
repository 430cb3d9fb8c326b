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
	if p.outputs > 0 && !p.outputsUncounted {
		row["output_length_error"] = float64(p.wrong) / float64(p.outputs)
	}
	if len(p.tokens) == 0 || p.unknown {
		return
	}
	m := momentsOf(p.tokens)
	q := quantiles(p.tokens, m, 0, 0.50, 0.95)
	row["mean_prompt_tokens"] = m.mean
	row["std_prompt_tokens"] = m.std
	row["min_prompt_tokens"] = float64(m.min)
	row["p50_prompt_tokens"] = q[0]
	row["p95_prompt_tokens"] = q[1]
	row["max_prompt_tokens"] = float64(m.max)
	if p.targets > 0 {
		row["prompt_length_error"] = p.off / float64(p.targets)
	}
	if !p.cached.unknown {
		row["cached_tokens"] = p.cached.sum
	}
}
