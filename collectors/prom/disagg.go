package prom

import (
	"slices"

	"sweep.dev/sweep/engine"
	"sweep.dev/sweep/internal/disagg"
	"sweep.dev/sweep/internal/quantities"
	"sweep.dev/sweep/result"
	"sweep.dev/sweep/result/finding"
)

// The roles of an engine that prefills and decodes apart.
const (
	prefillRole = "prefill"
	decodeRole  = "decode"
)

// disaggregated judges whether an engine with these two roles prefilled and decoded
// apart; false of any other engine.
func disaggregated(p *engine.Profile, sources []*quantities.Source) (disagg.Proof, bool) {
	names := roleNames(p)
	if !slices.Contains(names, prefillRole) || !slices.Contains(names, decodeRole) {
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
		Prefilled: gained(prefillRole, engine.RequestsFinished), Decoded: gained(decodeRole, engine.RequestsFinished),
		Tokens: gained(decodeRole, engine.KVReceived), Bytes: gained(decodeRole, engine.KVTransferred), Failures: gained(decodeRole, engine.KVFailures),
	}
	for _, r := range p.Roles {
		if n := gained(r.Name, engine.PDDecisions); n != nil && r.Tier != engine.TierEngine {
			c.Decisions, c.Split = n, gained(r.Name, engine.PDSplit)
		}
	}
	return disagg.Of(c), true
}

// proof notes that the servers did not prefill and decode apart.
func (s *session) proof(servers []*server) {
	var sources []*quantities.Source
	for _, one := range servers {
		sources = append(sources, &one.Source)
	}
	p, ok := disaggregated(s.trial.Profile, sources)
	if !ok {
		return
	}
	for verdict, code := range map[string]finding.Code{result.PDAbsent: finding.PDAbsent, result.PDPartial: finding.PDPartial} {
		if p.Verdict == verdict {
			s.sink.Note(result.Finding{Code: code, Text: p.Why})
		}
	}
}
