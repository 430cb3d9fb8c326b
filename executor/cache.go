package executor

import "sweep.dev/sweep/load/source"

// sharedOf is the largest share of the prompts' tokens that a prefix cache can
// know by what the load itself shares: the prefix of made-up prompts, and the
// template and system message before each, where their length is known. Nil
// where prompts share what nobody has counted: those of a list or of a trace
// with blocks, and the history of a conversation.
func sharedOf(c source.Config) *float64 {
	p := c.Prompts
	switch {
	case c.Conversation.Turns > 1, len(c.Trace) > 0, p.Distribution == source.Empirical && p.SharedPrefix > 0:
		return nil
	case len(p.Entries) > 0 && !p.CacheBust:
		return nil
	}
	before := 0.0
	if p.Tokens != nil && p.Tokens.Plain != nil {
		before = float64(p.Tokens.Plain.First)
	}
	if p.System != "" && !p.CacheBust {
		if p.Tokens == nil || p.Tokens.System == nil {
			return nil
		}
		before = float64(p.Tokens.System.First)
	}
	share := p.SharedPrefix
	if text := float64(p.InputTokens); text > 0 {
		share = (share*text + before) / (text + before)
	}
	return &share
}
