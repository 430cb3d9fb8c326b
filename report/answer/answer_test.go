package answer

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"sweep.dev/sweep/internal/schematest"
	"sweep.dev/sweep/report"
	"sweep.dev/sweep/report/reporttest"
	"sweep.dev/sweep/schemas"
)

const decided = `
axes engine! concurrency
cell vllm 1
  ok tok=185 ttft=14/15 n=200 usd=2 usd_per_hour=2
cell vllm 8
  ok tok=900 ttft=80/110 n=200 usd=0.9 usd_per_hour=2
cell vllm 16
  ok tok=905 ttft=80/310 n=200 usd=0.9 usd_per_hour=2 miss="fast|p95_ttft_ms < 300|p95_ttft_ms=310"
`

const open = decided + `
cell sglang 1
  ok tok=180 ttft=14/16 n=200
cell sglang 8
  invalid tok=905 ttft=90/128 n=200 reason="coalesced|the client shared 2 cores"
cell sglang 16
  pending
`

// byTurns compares two engines: one cell can be told, and one has no VALID trial.
const byTurns = `
compare engine vllm
repeats 2
axes engine! concurrency
cell vllm 1
  ok tok=185 ttft=14/15 n=200 conditions_digest=a
  ok tok=186 ttft=14/15 n=200 conditions_digest=a
cell vllm 8
  ok tok=900 ttft=80/110 n=200
  ok tok=901 ttft=80/110 n=200
cell sglang 1
  ok tok=240 ttft=14/15.4 n=200 conditions_digest=a
  ok tok=241 ttft=14/15.8 n=200 conditions_digest=a
cell sglang 8
  invalid tok=905 ttft=90/128 n=200 reason="coalesced|the client shared 2 cores"
  pending
`

// scattered compares two engines by turns that scatter more than they differ.
const scattered = `
compare engine vllm
repeats 3
axes engine! concurrency
cell vllm 8
  ok tok=190 ttft=14/15 n=200 conditions_digest=a
  ok tok=185 ttft=14/15 n=200 conditions_digest=b
  ok tok=182 ttft=14/15 n=200 conditions_digest=c
cell sglang 8
  ok tok=195 ttft=14/15 n=200 conditions_digest=a
  ok tok=183 ttft=14/15 n=200 conditions_digest=b
  ok tok=196 ttft=14/15 n=200 conditions_digest=c
`

// TestWrite_schema holds that an answer is what the schema says, with and without
// conclusions.
func TestWrite_schema(t *testing.T) {
	t.Parallel()
	schema := schematest.Compile(t, schemas.Answer)
	for name, text := range map[string]string{"decided": decided, "open": open, "turns": byTurns, "scattered": scattered, "nothing": "axes engine!\ncell vllm\n  pending"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var b bytes.Buffer
			if err := Write(&b, reporttest.MadeUp(t, text)); err != nil {
				t.Fatal(err)
			}
			schematest.Holds(t, schema, json.RawMessage(b.Bytes()))
		})
	}
}

// TestOf holds that a decided claim names the rows that it rests on, and that an open one
// names the cells that are why and the command that decides it.
func TestOf(t *testing.T) {
	t.Parallel()
	run := reporttest.MadeUp(t, open)
	a := Of(run)
	i := slices.IndexFunc(a.Claims, func(c Claim) bool { return c.Question == "sweet spot" && c.Answer == "decided" })
	if i < 0 {
		t.Fatalf("no sweet spot is decided: %+v", a.Claims)
	}
	if p := a.Claims[i].Places[0]; p.Label != "vllm concurrency=8" || len(p.Rows) != 1 || p.Rows[0].Cell != p.Cell || p.Value == nil || *p.Value != 900 {
		t.Errorf("the sweet spot is %+v", p)
	}
	if len(a.Open) == 0 || len(a.Open[0].Cells) == 0 || !strings.Contains(a.Open[0].Why, "INVALID") {
		t.Errorf("not decided: %+v", a.Open)
	}
	if len(a.ToDecide) != 1 || !strings.HasPrefix(a.ToDecide[0], "sweep resume") {
		t.Errorf("to decide: %q", a.ToDecide)
	}
	if a.Trials["ok"] != 4 || a.Trials["invalid"] != 1 || a.Trials["pending"] != 1 || a.Cells["SLO failed"] != 1 {
		t.Errorf("counts: %v %v", a.Trials, a.Cells)
	}
}

// TestOf_money holds that what is left is what the plan bounds, and null without a bound.
func TestOf_money(t *testing.T) {
	t.Parallel()
	run := reporttest.MadeUp(t, decided)
	run.State.SpentUSD = 0.25
	if m := Of(run).Money; m.Budget != nil || m.Left != nil || m.Spent != 0.25 {
		t.Errorf("without a budget: %+v", m)
	}
	bounded := *run
	bounded.Resolved = report.Resolved{Plan: json.RawMessage(`{"budget": {"max_cost": 1}}`), Cells: run.Resolved.Cells}
	if m := Of(&bounded).Money; m.Left == nil || *m.Left != 0.75 {
		t.Errorf("of a dollar: %+v", m)
	}
}

// TestOf_turns holds that each claim of a plan's own comparison names the rows of both
// sides, and that what is not compared says why.
func TestOf_turns(t *testing.T) {
	t.Parallel()
	got := Of(reporttest.MadeUp(t, byTurns)).Turns
	if got == nil || got.Axis != "engine" || got.Baseline != "vllm" || len(got.Sides) != 1 || got.Sides[0].Value != "sglang" {
		t.Fatalf("the comparison is %+v", got)
	}
	side := got.Sides[0]
	if len(side.Cells) != 1 || len(side.Cells[0].Base) != 2 || side.Cells[0].Head[1].String() != "c002/t02" {
		t.Fatalf("the cells are %+v", side.Cells)
	}
	f := side.Cells[0].Figures[0]
	if f.Metric != "throughput_tok_s" || f.Ratio == nil || math.Abs(*f.Ratio-1.296) > 0.001 || f.Low == nil || f.High == nil || f.Verdict != "faster" || !f.Paired {
		t.Errorf("the first figure is %+v", f)
	}
	if len(side.Left) != 1 || !strings.Contains(side.Left[0].Why, "INVALID") {
		t.Errorf("not compared: %+v", side.Left)
	}
	if other := Of(reporttest.MadeUp(t, decided)).Turns; other != nil {
		t.Errorf("a plan without compare: %+v", other)
	}
}

// TestOf_untold holds that a figure of the comparison that cannot be told is not decided,
// with both cells and the trials that would tell, and that one that is told is not there.
func TestOf_untold(t *testing.T) {
	t.Parallel()
	untold := func(text string) (all []Open) {
		for _, o := range Of(reporttest.MadeUp(t, text)).Open {
			if o.Question == Comparison {
				all = append(all, o)
			}
		}
		return all
	}
	got := untold(scattered)
	i := slices.IndexFunc(got, func(o Open) bool { return o.Metric == "throughput_tok_s" })
	if i < 0 {
		t.Fatalf("the throughput can be told: %+v", got)
	}
	o := got[i]
	if o.Repeats == nil || *o.Repeats <= 3 || !strings.Contains(o.Why, fmt.Sprintf("cannot tell, %d trials would tell", *o.Repeats)) {
		t.Errorf("what would tell: %+v", o)
	}
	if !slices.Equal(o.Cells, []string{"c000", "c001"}) || !strings.HasPrefix(o.About, "engine sglang against vllm, by turns") {
		t.Errorf("what it is about: %+v", o)
	}
	if slices.ContainsFunc(got, func(o Open) bool { return o.Metric == "p95_ttft_ms" }) {
		t.Errorf("equal latencies are not decided: %+v", got)
	}
	for _, o := range untold(byTurns) {
		if o.Metric == "throughput_tok_s" {
			t.Errorf("a difference that is certain is not decided: %+v", o)
		}
	}
	if all := untold(decided); len(all) > 0 {
		t.Errorf("of a plan without compare: %+v", all)
	}
}
