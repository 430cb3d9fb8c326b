package attempt

import (
	"errors"
	"strings"
	"testing"

	"sweep.dev/sweep/load/source"
	"sweep.dev/sweep/load/tokens"
	"sweep.dev/sweep/result"
	"sweep.dev/sweep/result/finding"
)

// TestCounted: what could not be learned, or not exactly, is a finding.
func TestCounted(t *testing.T) {
	var none *counted
	if none.tokens() != nil || none.note() != nil {
		t.Error("given prompts need no count")
	}
	known := source.Tokens{PerWord: 1}
	got := &counted{Learned: tokens.Learned{Tokens: known, Exact: true}}
	if got.tokens() == nil || got.note() != nil {
		t.Errorf("exact: %+v", got)
	}
	got = &counted{Learned: tokens.Learned{Tokens: known, Spread: 0.031, Why: "it merges words"}}
	if note := got.note(); got.tokens() == nil || note == nil || note.Code != finding.PromptLengthInexact || !strings.Contains(note.Text, "it merges words; one of 100 tokens is off by about 3.1 %") {
		t.Errorf("inexact: %+v", note)
	}
	got = &counted{err: errors.New("no usage")}
	if note := got.note(); got.tokens() != nil || note == nil || note.Code != finding.PromptLengthUnknown || !strings.HasSuffix(note.Text, "no usage") {
		t.Errorf("unknown: %+v", note)
	}
}

// A warm-up teaches how the server counts while its records are still being kept.
func TestLearnFromWarmup(t *testing.T) {
	a := New(&Config{}, &Subject{}, Trial{}, 1, nil)
	a.counted = &counted{Learned: tokens.Learned{Tokens: source.Tokens{PerWord: 1}, Exact: true}}
	for range 3 {
		a.keep(result.Request{Phase: result.Warmup, Status: result.Completed, TargetTokens: 24, PromptTokens: 31})
	}
	a.learnFromWarmup(&counting{})
	plain := a.counted.tokens().Plain
	if plain == nil || plain.First != 7 || !a.counted.warmed {
		t.Errorf("%+v", a.counted)
	}
}
