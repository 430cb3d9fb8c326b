package details

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"sweep.dev/sweep/report"
	"sweep.dev/sweep/report/reporttest"
)

// TestMarkdown_cut holds that a large summary is cut with a note.
func TestMarkdown_cut(t *testing.T) {
	t.Parallel()
	var text strings.Builder
	text.WriteString("axes engine! concurrency\n")
	for i := range 300 {
		fmt.Fprintf(&text, "cell vllm %d\n  invalid tok=1 n=3 reason=\"coalesced|%s\"\n", i+1, strings.Repeat("long ", 1000))
	}
	var b bytes.Buffer
	if err := Markdown(&b, []*report.Run{reporttest.MadeUp(t, text.String())}); err != nil {
		t.Fatal(err)
	}
	if n := b.Len(); n > MaxMarkdown || n < MaxMarkdown/2 || !strings.Contains(b.String(), "\nCut at ") {
		t.Errorf("%d bytes, want at most %d with a note", n, MaxMarkdown)
	}
}
