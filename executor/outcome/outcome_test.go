package outcome

import (
	"slices"
	"strings"
	"testing"
	"time"

	"sweep.dev/sweep/backends"
	"sweep.dev/sweep/load"
	"sweep.dev/sweep/plan"
	"sweep.dev/sweep/plan/plantest"
	"sweep.dev/sweep/result"
	"sweep.dev/sweep/result/col"
	"sweep.dev/sweep/result/finding"
	"sweep.dev/sweep/result/objective"
	"sweep.dev/sweep/result/timeline"
)

func TestMoved(t *testing.T) {
	cell := plan.Cell{Server: plan.Server{GPU: "l4"}}
	want := []result.Finding{{Code: finding.GPUMoved, Text: "it ran on a40, the cell asks for l4"}}
	if got := moved(cell, backends.Terms{GPU: "a40"}); !slices.Equal(got, want) {
		t.Errorf("got %v", got)
	}
	for _, gpu := range []string{"", "l4"} {
		if got := moved(cell, backends.Terms{GPU: gpu}); got != nil {
			t.Errorf("%q: got %v", gpu, got)
		}
	}
}

// A trial whose client is lost before any request is done is INVALID: nothing says that the
// server failed.
func TestOf_clientLost(t *testing.T) {
	t.Parallel()
	trial, m, _ := judged(t, `slo: {quick: p95_ttft_ms < 60}`)
	m.Requests = nil
	for lost, want := range map[string]string{"": result.StatusFailed, "its process ended": result.StatusInvalid} {
		m.Health.Shards = []load.ShardHealth{{}, {Shard: 1, Lost: lost}}
		o, err := Of(*trial, nil, *m, End{})
		if err != nil {
			t.Fatal(err)
		}
		reasons, _ := o.Row["invalid_reasons"].(string)
		if o.Row["status"] != want || (lost != "") != slices.Contains(strings.Split(reasons, ","), "client_lost") {
			t.Errorf("lost %q: %v, %v", lost, o.Row["status"], reasons)
		}
		if o.Row["slo_quick"] == "pass" {
			t.Errorf("lost %q: the objective passes", lost)
		}
		if o.Row["clients"] != int64(2) || len(o.Clients) != 2 || o.Clients[1].Lost != lost {
			t.Errorf("lost %q: clients %v, %+v", lost, o.Row["clients"], o.Clients)
		}
		if lost != "" && (o.Row["limiting_client"] != int64(1) || o.Row["client_skew_ms"] != nil) {
			t.Errorf("client %v limits, and their skew is %v", o.Row["limiting_client"], o.Row["client_skew_ms"])
		}
	}
}

// A trial of a search whose requests take longer than its load has no plateau. The figures
// of all its requests decide an objective that even they miss, and no other.
func TestOf_overloaded(t *testing.T) {
	t.Parallel()
	p := plantest.Parse(t, `matrix: {engine: sim}`, `load: {requests: 100, max_tokens: 2, prompts: {input_tokens: 24}}`,
		`find: {axis: request_rate, from: 10, to: 10.5, objectives: {fast: p95_ttft_ms < 1000, slow: p95_ttft_ms < 60000}}`)
	var requests []result.Request
	for n := range 100 { // ten a second, each 0.3 s later than the one before
		at := time.Duration(n) * 100 * time.Millisecond
		first := at + time.Duration(n)*300*time.Millisecond
		requests = append(requests, result.Request{
			N: n, Scheduled: at, Sent: at, FirstByte: first, FirstToken: first, FirstOutput: first, LastToken: first + time.Millisecond, End: first + time.Millisecond,
			ChunkUS: []int32{int32((first - at).Microseconds()), 1000}, CompletionTokens: 2, PromptTokens: 24, TargetTokens: 24, MaxTokens: 2,
			TokenSource: "usage", Status: result.Completed, FinishReason: "length",
		})
	}
	m := Measured{Requests: requests, Span: timeline.Assign(requests, 0)}
	if m.Span.Steady {
		t.Fatal("the trial has a plateau")
	}
	o, err := Of(Trial{Plan: p, Cell: p.Cells()[0], Number: 1, Attempt: 1}, nil, m, End{})
	if err != nil {
		t.Fatal(err)
	}
	fast, slow := o.SLOs[0], o.SLOs[1]
	if kept, ok := objective.Kept(fast); kept || !ok || fast.Parts[0].Over < 90 || o.Row["slo_fast"] != fast.Verdict {
		t.Errorf("an objective that nearly all requests miss: %+v", fast)
	}
	if slow.Error == "" || o.Row["slo_slow"] != nil {
		t.Errorf("an objective that the whole trial keeps is not decided: %+v", slow)
	}
}

// What a deployment says of itself is a reason for INVALID as what was seen beside the
// trial is, and stands at the row once.
func TestOf_terms(t *testing.T) {
	t.Parallel()
	trial, m, _ := judged(t, `slo: {quick: p95_ttft_ms < 60}`)
	server := &Server{Terms: backends.Terms{Findings: []result.Finding{{Code: finding.Tunnelled, Text: "by way of the API server"}}}}
	o, err := Of(*trial, server, *m, End{})
	if err != nil {
		t.Fatal(err)
	}
	reasons, _ := o.Row["invalid_reasons"].(string)
	if o.Row["status"] != result.StatusInvalid || !slices.Contains(strings.Split(reasons, ","), "tunnelled") {
		t.Errorf("%v, %v", o.Row["status"], reasons)
	}
	if slices.ContainsFunc(o.Findings, func(f result.Finding) bool { return f.Code == finding.Tunnelled }) {
		t.Errorf("it is a finding too: %v", o.Findings)
	}
}

// Cached tokens of an engine that decodes apart may have come from another server, unless
// the counters say that none did.
func TestMoves(t *testing.T) {
	t.Parallel()
	for name, pd := range map[string]map[any]bool{"llm-d": {nil: true, result.PDProven: true, result.PDUnknown: true, result.PDAbsent: false}, "vllm": {nil: false}} {
		p := plantest.Parse(t, "matrix: {engine: "+name+", concurrency: [1]}")
		trial := &Trial{Plan: p, Cell: p.Deployments()[0].Cells[0]}
		for verdict, want := range pd {
			if got := moves(trial, result.Row{col.PD: verdict}); got != want {
				t.Errorf("%s, pd %v: %v", name, verdict, got)
			}
		}
	}
}
