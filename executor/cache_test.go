package executor

import (
	"math"
	"testing"

	"sweep.dev/sweep/load/source"
	"sweep.dev/sweep/load/trace"
)

func TestSharedOf(t *testing.T) {
	counted := &source.Tokens{Plain: &source.Overhead{First: 20}, System: &source.Overhead{First: 100}}
	entries := source.InlinePrompts([]string{"a"})
	for name, c := range map[string]struct {
		c    source.Config
		want float64 // below 0: not known
	}{
		"nothing":              {source.Config{Prompts: source.Prompts{InputTokens: 100}}, 0},
		"a prefix":             {source.Config{Prompts: source.Prompts{InputTokens: 100, SharedPrefix: 0.25}}, 0.25},
		"and a template":       {source.Config{Prompts: source.Prompts{InputTokens: 100, SharedPrefix: 0.25, Tokens: counted}}, 45.0 / 120},
		"a system message":     {source.Config{Prompts: source.Prompts{InputTokens: 100, System: "s", Tokens: counted}}, 0.5},
		"one of unknown size":  {source.Config{Prompts: source.Prompts{InputTokens: 100, System: "s"}}, -1},
		"given prompts":        {source.Config{Prompts: source.Prompts{Entries: entries}}, -1},
		"with markers":         {source.Config{Prompts: source.Prompts{Entries: entries, CacheBust: true, System: "s"}}, 0},
		"a conversation":       {source.Config{Conversation: source.Conversation{Turns: 2}, Prompts: source.Prompts{InputTokens: 100}}, -1},
		"a trace":              {source.Config{Trace: make([]trace.Row, 1), Prompts: source.Prompts{InputTokens: 100}}, -1},
		"pairs":                {source.Config{Prompts: source.Prompts{Distribution: source.Empirical}}, 0},
		"pairs after a prefix": {source.Config{Prompts: source.Prompts{Distribution: source.Empirical, SharedPrefix: 0.1}}, -1},
	} {
		got := sharedOf(c.c)
		switch {
		case (got == nil) != (c.want < 0):
			t.Errorf("%s: %v", name, got)
		case got != nil && math.Abs(*got-c.want) > 1e-9:
			t.Errorf("%s: %g, want %g", name, *got, c.want)
		}
	}
}
