package disagg

import (
	"strings"
	"testing"

	"sweep.dev/sweep/result"
)

func TestOf(t *testing.T) {
	t.Parallel()
	n := func(v float64) *float64 { return &v }
	for name, tt := range map[string]struct {
		c       Counters
		verdict string
		share   float64 // -1: unknown
		why     string
	}{
		"proven":                {Counters{Prefilled: n(100), Decoded: n(100), Tokens: n(190_000), Failures: n(0)}, result.PDProven, 1, "100 %"},
		"most caches were lost": {Counters{Prefilled: n(100), Decoded: n(100), Tokens: n(7_235), Prompts: n(145_305), Bytes: n(1e9)}, result.PDPartial, 7_235. / (145_305 - 1600), "the KV caches of 5 % of their prompt tokens were moved"},
		"most are cached":       {Counters{Prefilled: n(100), Decoded: n(100), Tokens: n(7_235), Prompts: n(145_305), Cached: n(138_000)}, result.PDProven, 1, "100 % of their prompt tokens"},
		"whole blocks":          {Counters{Prefilled: n(100), Decoded: n(100), Tokens: n(6_400), Prompts: n(7_900)}, result.PDProven, 1, ""},
		"a tenth was lost":      {Counters{Prefilled: n(100), Decoded: n(100), Tokens: n(90_000), Prompts: n(101_600)}, result.PDPartial, 0.9, "90 %"},
		"prompts unknown":       {Counters{Prefilled: n(100), Decoded: n(100), Tokens: n(90_000)}, result.PDProven, 1, "of how many tokens is not known"},
		"by bytes":              {Counters{Prefilled: n(96), Decoded: n(100), Bytes: n(1e9)}, result.PDProven, 0.96, ""},
		"more than all":         {Counters{Prefilled: n(103), Decoded: n(100), Bytes: n(1e9)}, result.PDProven, 1, ""},
		"short prompts":         {Counters{Prefilled: n(40), Decoded: n(100), Tokens: n(80_000)}, result.PDPartial, 0.4, "40 %"},
		"just enough":           {Counters{Prefilled: n(95), Decoded: n(100), Bytes: n(1e9)}, result.PDProven, 0.95, ""},
		"not enough":            {Counters{Prefilled: n(94), Decoded: n(100), Bytes: n(1e9)}, result.PDPartial, 0.94, "94 %"},
		"failed transfers":      {Counters{Prefilled: n(100), Decoded: n(100), Tokens: n(80_000), Failures: n(3)}, result.PDPartial, 1, "3 transfers"},
		"a silent prefill":      {Counters{Prefilled: n(0), Decoded: n(100), Tokens: n(0)}, result.PDAbsent, 0, "no request ended at a prefill server, and 100 at decode"},
		"the router lied":       {Counters{Decisions: n(100), Split: n(100), Prefilled: n(0), Decoded: n(100)}, result.PDAbsent, 0, "themselves"},
		"caches did not come":   {Counters{Prefilled: n(100), Decoded: n(100), Tokens: n(0), Bytes: n(0)}, result.PDAbsent, 1, "no KV cache"},
		"decisions alone":       {Counters{Decisions: n(10), Split: n(9)}, result.PDUnknown, 0.9, "no counter"},
		"decided and moved":     {Counters{Decisions: n(10), Split: n(10), Bytes: n(5)}, result.PDProven, 1, ""},
		"moved, share unknown":  {Counters{Bytes: n(5)}, result.PDUnknown, -1, "which share"},
		"idle":                  {Counters{Prefilled: n(0), Decoded: n(0), Tokens: n(0)}, result.PDUnknown, -1, "no request"},
		"nothing":               {Counters{}, result.PDUnknown, -1, "no counter"},
		"prefill alone":         {Counters{Prefilled: n(5)}, result.PDUnknown, -1, "no counter"},
	} {
		p := Of(tt.c, Allowed{Share: 0.05})
		share := -1.0
		if p.Share != nil {
			share = *p.Share
		}
		if p.Verdict != tt.verdict || share != tt.share || !strings.Contains(p.Why, tt.why) || p.Why == "" {
			t.Errorf("%s: %s, %v, %s", name, p.Verdict, share, p.Why)
		}
	}
}

// A router leaves short prompts to decode servers on purpose: they are counted apart, and
// the others are held to the same bounds as of any stack.
func TestOf_left(t *testing.T) {
	t.Parallel()
	n := func(v float64) *float64 { return &v }
	// Of 100 requests 60 had at most 50 tokens that no cache knew, the others 2,000 each.
	made := func(change func(c *Counters)) Counters {
		c := Counters{
			Decisions: n(100), Split: n(40), Prefilled: n(40), Decoded: n(100),
			Tokens: n(80_000), Prompts: n(83_000), Failures: n(0),
		}
		change(&c)
		return c
	}
	for name, tt := range map[string]struct {
		c       Counters
		verdict string
		share   float64 // -1: unknown
		left    int     // -1: unknown
		why     string
	}{
		"as it should be":      {made(func(*Counters) {}), result.PDProven, 1, 60, "100 % of the requests"},
		"a half was not moved": {made(func(c *Counters) { c.Tokens = n(40_000) }), result.PDPartial, 40_000. / (83_000 - 60*64 - 40*block), 60, "were moved"},
		"prefill was silent":   {made(func(c *Counters) { c.Prefilled, c.Tokens = n(0), n(0) }), result.PDAbsent, 0, 60, "themselves"},
		"a decision was lost":  {made(func(c *Counters) { c.Prefilled = n(30) }), result.PDPartial, 0.75, 60, "75 %"},
		"none was split":       {made(func(c *Counters) { c.Split, c.Prefilled, c.Tokens = n(0), n(0), n(0) }), result.PDUnknown, -1, 100, "left all of 100"},
		"no router is read":    {made(func(c *Counters) { c.Decisions, c.Split = nil, nil }), result.PDUnknown, -1, -1, "does not tell"},
	} {
		p := Of(tt.c, Allowed{Share: 0.05, Below: 64})
		share, left := -1.0, -1
		if p.Share != nil {
			share = *p.Share
		}
		if p.Left != nil {
			left = *p.Left
		}
		if p.Verdict != tt.verdict || share != tt.share || left != tt.left || !strings.Contains(p.Why, tt.why) {
			t.Errorf("%s: %s, %v, left %d, %s", name, p.Verdict, share, left, p.Why)
		}
	}
	if p := Of(made(func(*Counters) {}), Allowed{Share: 0.05}); p.Verdict != result.PDPartial || p.Left != nil {
		t.Errorf("no threshold is given: %s, %s", p.Verdict, p.Why)
	}
}
