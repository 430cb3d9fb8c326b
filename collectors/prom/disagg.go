package prom

import (
	"sweep.dev/sweep/collectors/disagg"
	"sweep.dev/sweep/collectors/quantities"
	"sweep.dev/sweep/engine"
	"sweep.dev/sweep/result"
	"sweep.dev/sweep/result/col"
	"sweep.dev/sweep/result/finding"
)

// disaggregated judges whether an engine that has servers for both prefilled and decoded
// apart, but for what may be decoded alone; false of any other engine.
func disaggregated(p *engine.Profile, sources []*quantities.Source, allowed disagg.Allowed) (disagg.Proof, bool) {
	if !p.Disaggregated() {
		return disagg.Proof{}, false
	}
	gained := func(role, quantity string) *float64 {
		v, ok := quantities.Only(role, sources)(quantity).Gained(quantity)
		if !ok {
			return nil
		}
		return &v
	}
	c := disagg.Counters{
		Prefilled: gained(engine.RolePrefill, engine.RequestsFinished), Decoded: gained(engine.RoleDecode, engine.RequestsFinished),
		Tokens: gained(engine.RoleDecode, engine.KVReceived), Prompts: gained(engine.RoleDecode, engine.PromptTokens), Cached: gained(engine.RoleDecode, engine.PrefixHits),
		Bytes: gained(engine.RoleDecode, engine.KVTransferred), Failures: gained(engine.RoleDecode, engine.KVFailures),
	}
	for _, r := range p.Roles {
		if n := gained(r.Name, engine.PDDecisions); n != nil && r.Tier != engine.TierEngine {
			c.Decisions, c.Split = n, gained(r.Name, engine.PDSplit)
		}
	}
	return disagg.Of(c, allowed), true
}

// prove fills in whether the servers prefilled and decoded apart, and finds that they did
// not, or that nothing tells it.
func prove(row result.Row, p *engine.Profile, servers []*server, allowed disagg.Allowed) (all []result.Finding) {
	var sources []*quantities.Source
	for _, one := range servers {
		sources = append(sources, &one.Source)
	}
	proof, ok := disaggregated(p, sources, allowed)
	if !ok {
		return nil
	}
	row[col.PD] = proof.Verdict
	if proof.Share != nil {
		row[col.PDShare] = *proof.Share
	}
	if proof.Left != nil {
		row[col.PDLeft] = int64(*proof.Left)
	}
	for verdict, code := range map[string]finding.Code{result.PDAbsent: finding.PDAbsent, result.PDPartial: finding.PDPartial, result.PDUnknown: finding.PDUnknown} {
		if proof.Verdict == verdict {
			all = append(all, result.Finding{Code: code, Text: proof.Why})
		}
	}
	return all
}
