package summary

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

// TestMarkdown_large holds that the summary of 10,000 cells, some of them INVALID or failed,
// fits into that of a CI step.
func TestMarkdown_large(t *testing.T) {
	t.Parallel()
	var text strings.Builder
	text.WriteString("axes engine! gpu! concurrency max_tokens\n")
	for i := range 10_000 {
		fmt.Fprintf(&text, "cell vllm gpu%d %d %d\n", i/400, 1<<(i%10), 64<<(i/10%40))
		switch {
		case i%97 == 96:
			text.WriteString("  failed error=\"oom|CUDA out of memory. Tried to allocate 2.00 GiB\"\n")
		case i%50 == 49:
			text.WriteString("  invalid tok=905 ttft=90/128 tpot=6/6.3 n=200 reason=\"coalesced|4.3 % of the chunks came out of the same read\"\n")
		default:
			fmt.Fprintf(&text, "  ok tok=%d ttft=80/110 tpot=6/6.4 n=200 miss=\"responsive|p95_ttft_ms < 100|p95_ttft_ms=110\"\n", 100+i)
		}
	}
	var b bytes.Buffer
	if err := Markdown(&b, []*report.Run{reporttest.Large(t, text.String())}); err != nil {
		t.Fatal(err)
	}
	if n := b.Len(); n > MaxMarkdown || n < 1000 {
		t.Errorf("%d bytes, want at most %d", n, MaxMarkdown)
	}
}
