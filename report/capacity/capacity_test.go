package capacity

import (
	"slices"
	"strings"
	"testing"

	"sweep.dev/sweep/judge/search"
	"sweep.dev/sweep/report"
	"sweep.dev/sweep/report/reporttest"
	"sweep.dev/sweep/result"
	"sweep.dev/sweep/rundir"
)

// run returns the run of a search among 1, 2, 3, 4, 6 and 8 requests at once, whose server keeps
// a p95 of 200 ms below edge. It stops after so many trials.
func run(edge float64, most int) *report.Run { return runOn([]string{""}, []float64{edge}, most) }

// runOn returns one on as many devices, each with its edge.
func runOn(cards []string, edges []float64, most int) *report.Run {
	return reporttest.Searched{
		Axis: "concurrency", GPU: "l4", Levels: search.Levels{1, 2, 3, 4, 6, 8}, MaxProbes: 80, Edges: edges[:len(cards)], Most: most,
		Row: func(level float64, device int, kept bool) result.Row {
			row := result.Row{
				"cost_usd": 0.01, "throughput_tok_s": 100 * level, "usd_per_1m_output_tokens": 0.5,
				"mean_requests_running": 3.0, "max_requests_running": 3.0, "mean_requests_waiting": 0.0, "max_kv_cache_usage": 0.3,
				"mean_server_prefill_ms": 15.0, "request_throughput": 20.0,
			}
			if cards[device] != "" {
				row["gpu_uuid"] = cards[device]
			}
			if !kept {
				row["mean_requests_waiting"] = 4.5
			}
			return row
		},
	}.Run()
}

func said(r *report.Run) string {
	var lines []string
	for _, item := range Items(Of(r)) {
		lines = append(append(lines, item.Text), item.Below...)
	}
	return strings.Join(lines, "\n")
}

func TestItems(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		run  *report.Run
		want []string
	}{
		{"an edge", run(4, 100), []string{
			"vllm l4, fast (p95_ttft_ms < 200): 3 at once certified",
			"300 tok/s, 20 req/s, $0.50 per 1M output tokens",
			"4 at once fails p95_ttft_ms < 200 (25.0 % of 400 over it, 5 % allowed); point estimate 3 at once; limited by queue (mean_requests_waiting 4.50 of mean_requests_running 3, mean_requests_running 3 of max_requests_running 3, mean_server_prefill_ms 15 at request_throughput 20, max_kv_cache_usage 0.3)",
			"tried 1+ 2+ 4- 3+; then afresh 3 3 of 3 kept",
			"7 probes, 2800 requests, $0.07",
		}},
		{"below", run(1, 100), []string{"none: it misses at 1 at once, the least load"}},
		{"above", run(100, 100), []string{"8 at once certified, the greatest load that the plan tries"}},
		{"not finished", run(4, 5), []string{"fast (p95_ttft_ms < 200): not finished", "5 probes"}},
	} {
		got := said(c.run)
		for _, want := range c.want {
			if !strings.Contains(got, want) {
				t.Errorf("%s: %q is not in\n%s", c.name, want, got)
			}
		}
	}
	over := run(4, 5)
	over.State.Ending = &rundir.Ending{Class: rundir.ClassBudget}
	if got := said(over); !strings.Contains(got, "not decided: the budget has ended the search") {
		t.Error(got)
	}
}

// What the latencies are at lighter loads stands beside the answer, of loads that were tried.
func TestItems_lighter(t *testing.T) {
	t.Parallel()
	r := reporttest.Searched{
		Axis: "request_rate", GPU: "l4", Levels: search.Levels{8, 9, 10, 11}, MaxProbes: 80, Edges: []float64{11},
		Row: func(level float64, _ int, _ bool) result.Row {
			return result.Row{"p95_ttft_ms": 10 * level, "p95_tpot_ms": 2 * level}
		},
	}.Run()
	a := Of(r)[0]
	want := "at 8 req/s (80 % of it) p95 TTFT 80 ms, p95 TPOT 16 ms; at 9 req/s (90 % of it) p95 TTFT 90 ms, p95 TPOT 18 ms"
	if got := a.lighter(); got != want {
		t.Errorf("%q, want %q, after %v", got, want, a.Levels())
	}
	*a.Capacity = 100
	if got := a.lighter(); got != "" {
		t.Errorf("of loads far away: %q", got)
	}
}

// A certified rate is so many people; what is certified at a concurrency is none.
func TestItems_people(t *testing.T) {
	t.Parallel()
	a := Of(run(4, 100))[0]
	for rate, want := range map[float64]string{
		12.1: "12.1 req/s is about 360 people who each send a message every 30 s",
		0.3:  "0.3 req/s is about 9 people who each send a message every 30 s",
		0.1:  "0.1 req/s is about 3 people who each send a message every 30 s",
		0.05: "",
	} {
		a.Of.Axis, *a.Capacity = "request_rate", rate
		if got := a.people(); got != want {
			t.Errorf("%v: %q, want %q", rate, got, want)
		}
	}
	a.Of.Axis = "concurrency"
	if got := a.people(); got != "" {
		t.Error(got)
	}
}

// A search that has not decided all loads says between which it has, also if it has not ended.
func TestItems_open(t *testing.T) {
	t.Parallel()
	a := Of(run(4, 100))[0]
	a.OpenFrom, a.OpenTo, a.FailsAt = new(4.0), new(6.0), new(8.0)
	a.MoreRequests, a.MoreSeconds = 1200, 300
	want := "at least 3 at once (certified), below 8 at once (failed), 4 to 6 not decided: about 1200 requests more at 4 at once, 5 min"
	for _, reason := range []string{search.Certified, search.Budget, ""} {
		a.Reason = reason
		if got := a.below(); !slices.Contains(got, want) {
			t.Errorf("%q: %q is not in\n%s", reason, want, strings.Join(got, "\n"))
		}
	}
	if got := strings.Join(Of(run(4, 6))[0].below(), "\n"); !strings.Contains(got, "below 4 at once (failed), 1 to 3 not decided") {
		t.Errorf("a search that has not ended:\n%s", got)
	}
}

// A load that is certified for another objective says for which, also where the search for
// its own went no further.
func TestText_implied(t *testing.T) {
	t.Parallel()
	load := 3.0
	for reason, want := range map[string]string{
		search.Certified:   "3 at once certified",
		search.NotMeasured: "3 at once certified; then three trials in a row were INVALID, at a load that the search needs",
		search.Budget:      "3 at once certified before the budget ended the search, so the server may carry more",
		"":                 "3 at once certified so far; not finished",
	} {
		a := Of(run(4, 100))[0]
		a.Answer = search.Answer{Objective: "fast", Reason: reason, Capacity: &load, By: "faster"}
		if got := a.said(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
		if got := strings.Join(a.below(), "\n"); !strings.Contains(got, "certified for faster, which keeps it too") {
			t.Error(got)
		}
	}
}

// Several devices stand beside the answer, which is that of the slowest.
func TestItems_devices(t *testing.T) {
	t.Parallel()
	cards, edges := []string{"GPU-a", "GPU-b", "GPU-c"}, []float64{6, 4, 8}
	r := runOn(cards, edges, 100)
	got := said(r)
	for _, want := range []string{"fast (p95_ttft_ms < 200): 3 at once certified", "on 3 devices: 4 on GPU-a, 3 on GPU-b, 6 on GPU-c", "4 at once fails p95_ttft_ms < 200 (25.0 %"} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is not in\n%s", want, got)
		}
	}
	row := slices.Collect(Rows(r))[0]
	for name, want := range map[string]any{
		"devices": int64(3), "device_uuids": "GPU-a; GPU-b; GPU-c", "certified_min": 3.0, "certified_max": 6.0, "decided_on": "GPU-b", "capacity": 3.0, "fails_at": 4.0,
	} {
		if row[name] != want {
			t.Errorf("%s: %v, want %v", name, row[name], want)
		}
	}
	if got := said(runOn([]string{"GPU-a"}, edges, 100)); !strings.Contains(got, "on this device alone: GPU-a") {
		t.Error(got)
	}
	over := runOn(cards, edges, 11)
	over.State.Ending = &rundir.Ending{Class: rundir.ClassBudget}
	if got := said(over); !strings.Contains(got, "4 at once certified on 1 of 3 devices before the budget ended the search") {
		t.Error(got)
	}
	if one := slices.Collect(Rows(run(4, 100)))[0]; one["devices"] != nil || one["certified_max"] != nil {
		t.Errorf("unknown devices: %v", one)
	}
}

// The table has a row for each objective, whose columns are all known.
func TestRows(t *testing.T) {
	t.Parallel()
	r := run(4, 100)
	rows := slices.Collect(Rows(r))
	if len(rows) != 1 {
		t.Fatalf("%d rows", len(rows))
	}
	columns := Columns(r)
	for name := range rows[0] {
		if _, ok := result.Lookup(columns, name); !ok {
			t.Errorf("the table has no column %s", name)
		}
	}
	for name, want := range map[string]any{
		"gpu": "l4", "max_tokens": int64(8), "axis": "concurrency", "objective": "fast", "capacity": 3.0, "capacity_point": 3.0, "fails_at": 4.0,
		"missed": "p95_ttft_ms < 200", "reason": "certified", "throughput_tok_s": 300.0, "probes": int64(7), "requests": int64(2800), "limited_by": "queue",
	} {
		if rows[0][name] != want {
			t.Errorf("%s: %v, want %v", name, rows[0][name], want)
		}
	}
	if len(Of(r)[0].Rows()) != 4 {
		t.Errorf("the answer rests on %v", Of(r)[0].Rows())
	}
}

// What was predicted stands beside the answer, and in its row.
func TestItems_predicted(t *testing.T) {
	t.Parallel()
	certified, above := search.Certified, search.AboveRange
	for _, c := range []struct {
		name      string
		predicted report.Predicted
		want      string
	}{
		{"both", report.Predicted{Reason: &certified, Capacity: new(4.0)}, "the simulator predicted 4 at once; the server carries 75 % of that"},
		{"more", report.Predicted{Reason: &above, Capacity: new(8.0)}, "the simulator predicted 8 at once or more"},
		{"none", report.Predicted{Reason: new(search.BelowRange)}, "the simulator predicted no capacity (below_range)"},
		{"cut", report.Predicted{}, "the simulator did not get to the end of this search"},
	} {
		r := run(4, 100)
		c.predicted.About, c.predicted.Objective = "vllm l4", "fast"
		r.Rehearsal = &report.Rehearsal{Searches: []report.Predicted{{About: "sglang l4", Objective: "fast"}, c.predicted}}
		if got := said(r); !strings.Contains(got, c.want) {
			t.Errorf("%s: %q is not in\n%s", c.name, c.want, got)
		}
		row := slices.Collect(Rows(r))[0]
		if got, there := row["predicted_capacity"]; there != (c.predicted.Capacity != nil) || there && got != *c.predicted.Capacity {
			t.Errorf("%s: predicted_capacity %v", c.name, got)
		}
	}
}

// TestDrawn holds the strip of a search in a terminal, and its words where it is too wide.
func TestDrawn(t *testing.T) {
	t.Parallel()
	answers := Of(run(4, 100))
	items := Drawn(answers, 80)
	want := []string{
		"concurrency  1  2  4  3 |    3",
		"             +  +  -  + |  3/3  certified at 99 %",
	}
	if !slices.Equal(items[0].Drawn, want) {
		t.Errorf("the strip is\n%s\nwant\n%s", strings.Join(items[0].Drawn, "\n"), strings.Join(want, "\n"))
	}
	if below := strings.Join(items[0].Below, "\n"); strings.Contains(below, "tried") {
		t.Errorf("the words stand beside the strip:\n%s", below)
	}
	if narrow := Drawn(answers, 50)[0]; narrow.Drawn != nil || !strings.Contains(strings.Join(narrow.Below, "\n"), "tried 1+ 2+ 4- 3+") {
		t.Errorf("at 50 columns: %+v", narrow)
	}
}

// TestLevels holds that a load counts its fresh trials where it has some, and that INVALID
// ones are neither.
func TestLevels(t *testing.T) {
	t.Parallel()
	a := Of(run(4, 100))[0]
	got := a.Levels()
	want := []Level{{Load: 1, Kept: 1}, {Load: 2, Kept: 1}, {Load: 3, Fresh: true, Kept: 3}, {Load: 4, Missed: 1}}
	if !slices.Equal(got, want) {
		t.Errorf("levels %+v, want %+v", got, want)
	}
	a.Of.Outcomes[2].State = search.Invalid
	a.Of.Outcomes[0].State = search.Failed
	if p := a.Probes(); p[2].Mark != Invalid || p[0].Mark != Failed || p[1].Mark != Kept {
		t.Errorf("marks %q %q %q", p[0].Mark, p[1].Mark, p[2].Mark)
	}
}
