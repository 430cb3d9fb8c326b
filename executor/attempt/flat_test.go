package attempt

import (
	"math"
	"strings"
	"testing"

	"sweep.dev/sweep/plan/plantest"
)

func TestFlat(t *testing.T) {
	t.Parallel()
	unknown := math.NaN()
	for name, c := range map[string]struct {
		rounds []cacheLook
		want   bool
	}{
		"none":                   {nil, false},
		"two are too few":        {[]cacheLook{{0.7, 0.2}, {0.7, 0.2}}, false},
		"three alike":            {[]cacheLook{{0.7, 0.2}, {0.72, 0.2}, {0.71, 0.22}}, true},
		"the hit rate rises":     {[]cacheLook{{0.1, 0.2}, {0.4, 0.2}, {0.7, 0.2}}, false},
		"the occupancy rises":    {[]cacheLook{{0.7, 0.2}, {0.7, 0.3}, {0.7, 0.4}}, false},
		"it has risen before":    {[]cacheLook{{0, 0.1}, {0.7, 0.2}, {0.7, 0.2}, {0.7, 0.2}}, true},
		"slowly, by 4 points":    {[]cacheLook{{0.64, 0.2}, {0.66, 0.2}, {0.68, 0.2}}, true},
		"by 6 points":            {[]cacheLook{{0.64, 0.2}, {0.67, 0.2}, {0.70, 0.2}}, false},
		"one is not known":       {[]cacheLook{{unknown, 0.2}, {unknown, 0.2}, {unknown, 0.2}}, true},
		"the other is not known": {[]cacheLook{{0.1, unknown}, {0.4, unknown}, {0.7, unknown}}, false},
	} {
		if got := flat(c.rounds); got != c.want {
			t.Errorf("%s: flat is %v", name, got)
		}
	}
}

func TestUnsettled(t *testing.T) {
	t.Parallel()
	rising := []cacheLook{{0, 0.1}, {0.1, 0.1}, {0.4, 0.15}, {0.6, math.NaN()}}
	for want, got := range map[string]string{
		"after 80 further requests of the warm-up the caches still changed over 3 rounds: the prefix cache's hit rate from 10 % to 60 %": unsettled(rising, 80, 1).Text,
		"over 2 rounds: the prefix cache's hit rate from 0 % to 10 %, the KV occupancy from 10 % to 10 %":                                unsettled(rising[:2], 80, 1).Text,
		"the prompts begin with 3000 prefixes, and the warm-up ended after 80 further requests":                                          unsettled(rising, 80, 3000).Text,
	} {
		if !strings.Contains(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// Only a server of ours that shows its caches is warmed so, by a load whose prompts
// have a beginning that they share, and only if the plan leaves the warm-up to sweep.
func TestWarmsUntilFlat(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		load, collect string
		given, want   bool
	}{
		"a prefix":         {load: `prompts: {input_tokens: 100, shared_prefix: 50%}`, want: true},
		"a system message": {load: `prompts: {input_tokens: 100, system: You answer.}`, want: true},
		"asked again":      {load: `prompts: {kind: inline, texts: [a, b], reuse: allowed}`, want: true},
		"nothing shared":   {load: `prompts: {input_tokens: 100}`},
		"behind a marker":  {load: `prompts: {kind: inline, texts: [a, b], reuse: allowed, cache_bust: true}`},
		"given once":       {load: `prompts: {kind: inline, texts: [a, b, c, d, e, f, g, h, i, j, k, l], system: You answer.}`},
		"its own warm-up":  {load: `warmup: {requests: 4}, prompts: {input_tokens: 100, shared_prefix: 50%}`},
		"none":             {load: `warmup: {requests: 0}, prompts: {input_tokens: 100, shared_prefix: 50%}`},
		"a given server":   {load: `prompts: {input_tokens: 100, shared_prefix: 50%}`, given: true},
		"no metrics":       {load: `prompts: {input_tokens: 100, shared_prefix: 50%}`, collect: `collect: [gpu]`},
	} {
		lines := []string{`matrix: {engine: vllm, concurrency: [2]}`, `load: {requests: 4, max_tokens: 4, ` + c.load + `}`}
		if c.collect != "" {
			lines = append(lines, c.collect)
		}
		p := plantest.Parse(t, lines...)
		cell := p.Cells()[0]
		profile, ok := p.Profile(cell.Server.Profile)
		if !ok {
			t.Fatal("no profile")
		}
		if got := WarmsUntilFlat(p, profile, c.given, cell.Load); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
