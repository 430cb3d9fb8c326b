package summary

import (
	"math"

	"sweep.dev/sweep/result"
	"sweep.dev/sweep/result/col"
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
	case r.TokenSource != result.FromUsage || r.CompletionTokens < 0:
		p.outputsUncounted = true
	case r.CompletionTokens != r.MaxTokens:
		p.wrong++
	}
}

// columns makes the columns of the lengths.
func (p *prompts) columns(row result.Row) {
	if p.outputs > 0 && !p.outputsUncounted {
		row[col.OutputLengthError] = float64(p.wrong) / float64(p.outputs)
	}
	if len(p.tokens) == 0 || p.unknown {
		return
	}
	m := momentsOf(p.tokens)
	q := quantiles(p.tokens, m, 0, 0.50, 0.95)
	row[col.MeanPromptTokens] = m.mean
	row[col.StdPromptTokens] = m.std
	row[col.MinPromptTokens] = float64(m.min)
	row[col.P50PromptTokens] = q[0]
	row[col.P95PromptTokens] = q[1]
	row[col.MaxPromptTokens] = float64(m.max)
	if p.targets > 0 {
		row[col.PromptLengthError] = p.off / float64(p.targets)
	}
	if !p.cached.unknown {
		row[col.CachedTokens] = p.cached.sum
	}
}
