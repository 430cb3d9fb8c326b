package executor

import (
	"errors"
	"strings"
	"testing"

	"sweep.dev/sweep/load/source"
	"sweep.dev/sweep/load/tokens"
)

// TestCountedOf: what could not be learned, or not exactly, is a finding.
func TestCountedOf(t *testing.T) {
	known := source.Tokens{PerWord: 1}
	if got := countedOf(tokens.Learned{Tokens: known, Exact: true}, nil); got.tokens == nil || got.note != nil {
		t.Errorf("exact: %+v", got)
	}
	got := countedOf(tokens.Learned{Tokens: known, Spread: 0.031, Why: "it merges words"}, nil)
	if got.tokens == nil || got.note == nil || got.note.Code != PromptLengthInexact || !strings.Contains(got.note.Text, "it merges words; one of 100 tokens is off by about 3.1 %") {
		t.Errorf("inexact: %+v", got)
	}
	got = countedOf(tokens.Learned{}, errors.New("no usage"))
	if got.tokens != nil || got.note == nil || got.note.Code != PromptLengthUnknown || !strings.HasSuffix(got.note.Text, "no usage") {
		t.Errorf("unknown: %+v", got)
	}
}
