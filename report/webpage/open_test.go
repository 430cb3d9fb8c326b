package webpage

import (
	"strings"
	"testing"

	"sweep.dev/sweep/report/reporttest"
)

// TestOpen holds that a server is not the best because another one is not decided, and that
// the table and the chart of costs have both.
func TestOpen(t *testing.T) {
	t.Parallel()
	const price = " usd_per_hour=2 gpu_count=1"
	v := viewOf(reporttest.MadeUp(t, `axes engine! concurrency
cell vllm 1
  ok tok=100 n=200 usd=2.5`+price+`
cell vllm 8
  ok tok=263 n=200 usd=1.1`+price+`
cell vllm 16
  invalid tok=240 n=200 reason="coalesced|shared"`+price+`
cell sglang 1
  ok tok=90 n=200 usd=2.7`+price+`
cell sglang 8
  ok tok=141 n=200 usd=1.9`+price+`
cell sglang 16
  ok tok=120 n=200 usd=2.1`+price+"\n"), "")
	want := "Best server: not decided between vllm (263 tok/s; concurrency 16 INVALID) and sglang (141 tok/s)"
	if len(v.Answer) != 1 || v.Answer[0] != want {
		t.Errorf("%q, want %q", v.Answer, want)
	}
	var cells []string
	for _, row := range v.Cost[0].Table.Rows {
		cells = append(cells, row[0].Text)
	}
	if got := strings.Join(cells, "; "); got != "* sglang concurrency=8; + vllm concurrency=8 (not decided)" {
		t.Errorf("costs of %q", got)
	}
}

// TestCost_work holds that cells of different work are in charts of their own, in which no
// other is cheaper.
func TestCost_work(t *testing.T) {
	t.Parallel()
	v := viewOf(reporttest.MadeUp(t, `axes engine! max_tokens concurrency
cell vllm 64 1
  ok tok=100 n=200 usd=2.5
cell vllm 64 8
  ok tok=263 n=200 usd=1.1
cell vllm 1024 1
  ok tok=200 n=200 usd=1.2
cell vllm 1024 8
  ok tok=900 n=200 usd=0.3
`), "")
	for i, want := range []string{"max_tokens=64", "max_tokens=1024"} {
		if len(v.Cost) != 2 || v.Cost[i].Title != "Cost of a million output tokens: "+want || len(v.Cost[i].Table.Rows) != 1 {
			t.Fatalf("%d charts: %+v", len(v.Cost), v.Cost)
		}
	}
}
