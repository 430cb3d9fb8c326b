// Package disagg says from counters whether a stack that is made to prefill and decode on
// different servers did so. It is arithmetic alone: no log line and no answer proves it,
// since a router may let the decode servers do all work and answer 200.
package disagg

import (
	"fmt"

	"sweep.dev/sweep/result"
	"sweep.dev/sweep/result/bounds"
)

// Counters are how far each counter went during the load. Nil is one that is not known,
// for whatever reason.
type Counters struct {
	Decisions *float64 // of the router, about requests
	Split     *float64 // those for a prefill server

	Prefilled *float64 // requests that ended at prefill servers
	Decoded   *float64 // requests that ended at decode servers

	Tokens   *float64 // prompt tokens whose cache decode servers got from elsewhere
	Prompts  *float64 // prompt tokens of decode servers, wherever their cache came from
	Cached   *float64 // those of Prompts that decode servers had in their own cache; nil is none
	Bytes    *float64 // of caches that were moved
	Failures *float64 // transfers that failed
}

// A Proof is what the counters say.
type Proof struct {
	Verdict string // as the column pd has it: [result.PDProven] and the others
	// Share is the part of the work that prefill did: of the requests, by the servers that
	// finished them or else by the router's decisions, or of the prompt tokens that were in
	// no cache of the decode servers, whichever is less. Nil if neither share of the requests
	// is known.
	Share *float64
	// Left are the requests that the router left to decode servers on purpose, which Share
	// is not of. Nil if it is not said that it may.
	Left *int
	Why  string // the verdict in a clause, with its figures
}

// Allowed is what decode servers may compute themselves in a stack that is as it should be.
type Allowed struct {
	Share float64 // of the requests, and of the prompt tokens
	// Below is the router's threshold in tokens: prompts with fewer of them outside of every
	// cache are left to decode servers on purpose. They are counted apart, by the router's
	// decisions, with at most so many computed tokens each. 0 stands for a router that leaves
	// none to them.
	Below int
}

// AllowedBy returns what the bounds of a plan allow.
func AllowedBy(b bounds.Bounds) Allowed {
	a := Allowed{Share: b.DecodeOnly}
	if b.DecodeOnlyBelow != nil {
		a.Below = *b.DecodeOnlyBelow
	}
	return a
}

// Of judges counters.
func Of(c Counters, allowed Allowed) Proof {
	var p Proof
	if allowed.Below > 0 {
		if c.Decisions == nil || c.Split == nil {
			return Proof{Verdict: result.PDUnknown, Why: "the router does not tell how many requests it left to decode servers on purpose"}
		}
		left := max(0, *c.Decisions-*c.Split)
		p.Left = new(int(left))
		if left > 0 && c.Decoded != nil && *c.Decoded <= left {
			p.Verdict, p.Why = result.PDUnknown, fmt.Sprintf("the router left all of %.0f requests to decode servers", *c.Decoded)
			return p
		}
		c = c.without(left, float64(allowed.Below))
	}
	p.Share = share(c)
	tokens := tokenShare(c)
	moved := positive(c.Tokens) || positive(c.Bytes)
	told := c.Tokens != nil || c.Bytes != nil
	say := func(verdict, format string, args ...any) Proof {
		p.Verdict, p.Why = verdict, fmt.Sprintf(format, args...)
		return p
	}
	switch {
	case c.Decoded != nil && *c.Decoded <= 0:
		return say(result.PDUnknown, "no request ended at a decode server")
	case c.Prefilled != nil && *c.Prefilled <= 0:
		return say(result.PDAbsent, "no request ended at a prefill server%s: the decode servers computed the prompts themselves", of(c.Decoded))
	case told && !moved:
		return say(result.PDAbsent, "the decode servers got no KV cache from elsewhere%s: they computed the prompts themselves", of(c.Decoded))
	case !told:
		return say(result.PDUnknown, "no counter of the decode servers tells whether KV caches came from elsewhere")
	case p.Share == nil:
		return say(result.PDUnknown, "KV caches were moved, and for which share of the requests is not known")
	case positive(c.Failures):
		return say(result.PDPartial, "%.0f transfers of KV caches failed, and %.0f %% of the requests went through prefill", *c.Failures, 100**p.Share)
	case *p.Share < 1-allowed.Share-rounding:
		return say(result.PDPartial, "%.0f %% of the requests went through prefill", 100**p.Share)
	case tokens == nil:
		return say(result.PDProven, "%.0f %% of the requests went through prefill, and KV caches were moved, of how many tokens is not known", 100**p.Share)
	}
	requests := *p.Share
	p.Share = new(min(requests, *tokens))
	if *tokens < 1-allowed.Share-rounding {
		return say(result.PDPartial, "%.0f %% of the requests went through prefill, and the KV caches of %.0f %% of their prompt tokens were moved: the decode servers computed the others", 100*requests, 100**tokens)
	}
	return say(result.PDProven, "%.0f %% of the requests went through prefill, and the KV caches of %.0f %% of their prompt tokens were moved", 100*requests, 100**tokens)
}

// without returns c of all requests but those that the router left to decode servers, which
// computed up to a number of tokens each.
func (c Counters) without(left, tokens float64) Counters {
	fewer := func(v *float64, n float64) *float64 {
		if v == nil {
			return nil
		}
		return new(max(0, *v-n))
	}
	c.Decoded, c.Decisions = fewer(c.Decoded, left), c.Split
	c.Prompts = fewer(c.Prompts, left*tokens)
	return c
}

// block is how many tokens of a prompt a decode server may compute though its cache was moved:
// whole blocks are moved, of 16 tokens by default in vLLM, and the last token is computed.
const block = 16

// tokenShare returns the part of the prompt tokens that the decode servers did not have in their
// own cache and got from elsewhere; nil if that is not known, as of no prompt.
func tokenShare(c Counters) *float64 {
	if c.Tokens == nil || c.Prompts == nil || c.Decoded == nil || *c.Tokens <= 0 {
		return nil
	}
	computed := *c.Prompts - *c.Tokens
	if c.Cached != nil {
		computed -= *c.Cached
	}
	computed = max(0, computed-block**c.Decoded)
	return new(*c.Tokens / (*c.Tokens + computed))
}

// rounding is far below one request of any load.
const rounding = 1e-9

// share returns the part of the requests that went through prefill.
func share(c Counters) *float64 {
	part := func(of, all *float64) *float64 {
		if of == nil || all == nil || *all <= 0 {
			return nil
		}
		return new(min(1, *of / *all))
	}
	if s := part(c.Prefilled, c.Decoded); s != nil {
		return s
	}
	return part(c.Split, c.Decisions)
}

func of(decoded *float64) string {
	if decoded == nil {
		return ""
	}
	return fmt.Sprintf(", and %.0f at decode servers", *decoded)
}

func positive(v *float64) bool { return v != nil && *v > 0 }
