package executor

import (
	"errors"
	"strings"
	"testing"

	"sweep.dev/sweep/load/source"
	"sweep.dev/sweep/load/tokens"
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
	if note := got.note(); got.tokens() == nil || note == nil || note.Code != PromptLengthInexact || !strings.Contains(note.Text, "it merges words; one of 100 tokens is off by about 3.1 %") {
		t.Errorf("inexact: %+v", note)
	}
	got = &counted{err: errors.New("no usage")}
	if note := got.note(); got.tokens() != nil || note == nil || note.Code != PromptLengthUnknown || !strings.HasSuffix(note.Text, "no usage") {
		t.Errorf("unknown: %+v", note)
	}
}
