package planfile

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"sweep.dev/sweep/plan"
	"sweep.dev/sweep/result"
	"sweep.dev/sweep/result/objective"
	"sweep.dev/sweep/result/summary"
	"sweep.dev/sweep/result/timeline"
)

func TestSLO_Evaluate(t *testing.T) {
	for _, tt := range []struct {
		name, expr string
		row        result.Row
		want       result.SLOResult
	}{
		{
			"pass", "p95_ttft_ms < 200",
			result.Row{"p95_ttft_ms": 199.9, "p95_tpot_ms": 1.0},
			result.SLOResult{Verdict: result.SLOPass, Values: result.Row{"p95_ttft_ms": 199.9}},
		},
		{
			"fail", "p95_ttft_ms < 200",
			result.Row{"p95_ttft_ms": 200.0},
			result.SLOResult{Verdict: result.SLOFail, Values: result.Row{"p95_ttft_ms": 200.0}},
		},
		{ // whole numbers are compared as numbers, and told as they were measured
			"whole numbers", "failed == 0 && completed >= 0.5 * requests",
			result.Row{"failed": int64(0), "completed": int64(8), "requests": int64(8)},
			result.SLOResult{Verdict: result.SLOPass, Values: result.Row{"failed": int64(0), "completed": int64(8), "requests": int64(8)}},
		},
		{ // never a pass, not even if the other side would do
			"not measured", "error_rate == 0 || p95_ttft_ms < 200",
			result.Row{"error_rate": 0.0, "p95_ttft_ms": nil},
			result.SLOResult{Error: "not measured: p95_ttft_ms", Values: result.Row{"error_rate": 0.0, "p95_ttft_ms": nil}},
		},
		{
			"absent", "p95_ttft_ms < 200", nil,
			result.SLOResult{Error: "not measured: p95_ttft_ms", Values: result.Row{"p95_ttft_ms": nil}},
		},
		{
			"text and functions", `gpu in ["l4", "t4"] and round(min(p50_ttft_ms, 3)) == 3 and not simulated`,
			result.Row{"gpu": "l4", "p50_ttft_ms": 7.0, "simulated": false},
			result.SLOResult{Verdict: result.SLOPass, Values: result.Row{"gpu": "l4", "p50_ttft_ms": 7.0, "simulated": false}},
		},
		{
			"list of numbers", "concurrency in [1, 4] ? p95_ttft_ms < 200 : p95_ttft_ms < 400",
			result.Row{"concurrency": int64(4), "p95_ttft_ms": 300.0},
			result.SLOResult{Verdict: result.SLOFail, Values: result.Row{"concurrency": int64(4), "p95_ttft_ms": 300.0}},
		},
		{
			"wrong type in the row", "p95_ttft_ms < 200",
			result.Row{"p95_ttft_ms": "fast"},
			result.SLOResult{Error: "x", Values: result.Row{"p95_ttft_ms": "fast"}},
		},
		{
			"an instant", "p95_ttft_ms < 200",
			result.Row{"p95_ttft_ms": time.Unix(0, 0)},
			result.SLOResult{Error: "not measured: p95_ttft_ms", Values: result.Row{"p95_ttft_ms": time.Unix(0, 0)}},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := parse(t, strings.Replace(simple, "responsive: p95_ttft_ms < 200", "responsive: '"+tt.expr+"'", 1))
			got := p.SLO[0].Evaluate(tt.row, nil, 0.95)
			got.Parts = nil
			tt.want.Name, tt.want.Expr, tt.want.Severity = "responsive", tt.expr, "fail"
			if tt.want.Error == "x" && got.Error != "" {
				got.Error = "x"
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
	if r := (plan.SLO{Name: "x"}).Evaluate(result.Row{}, nil, 0.95); r.Verdict != "" || r.Error == "" {
		t.Errorf("an objective that nobody compiled: %+v", r)
	}
}

func TestColumns(t *testing.T) {
	p := open(t, "testdata/ok/closed.yaml")
	for name, typ := range map[string]result.Type{
		"arg_max_num_seqs": result.Int, "env_omp_num_threads": result.String, "shared_prefix": result.Float,
		"target_input_tokens": result.Int, "slo_smooth": result.String, "gpu_count": result.Int,
	} {
		c, ok := result.Lookup(p.Columns(), name)
		if !ok || c.Type != typ {
			t.Errorf("column %s = %+v, %v; want type %s", name, c, ok, typ)
		}
	}
	seen := make(map[string]bool)
	for _, c := range p.Columns() {
		if seen[c.Name] {
			t.Errorf("column %s twice", c.Name)
		}
		seen[c.Name] = true
	}
}

// A figure that failed requests make infinite misses every upper bound. A trial
// without a plateau has no figure to compare with an objective.
func TestSLO_infinite(t *testing.T) {
	at := func(expr string, row result.Row) result.SLOResult {
		return parse(t, strings.Replace(simple, "responsive: p95_ttft_ms < 200", "responsive: "+expr, 1)).SLO[0].Evaluate(row, nil, 0.95)
	}
	row := result.Row{"p95_ttft_ms": nil, "infinite": "p95_ttft_ms,p99_ttft_ms", "error_rate": 0.0, "p95_ttft_ms_whole": 100.0, "plateau_s": 9.0}
	for expr, want := range map[string]bool{
		"p95_ttft_ms < 200": false, "not (p95_ttft_ms > 200)": false, "p95_ttft_ms_whole < 200": true,
		"p95_ttft_ms < 200 && error_rate == 0": false, "p95_ttft_ms < 200 || error_rate == 0": true,
	} {
		if got := at(expr, row); (got.Verdict == result.SLOPass) != want || got.Error != "" {
			t.Errorf("%s: %+v, want %v", expr, got, want)
		}
	}
	if got := at("p95_ttft_ms < 200", row).Values["p95_ttft_ms"]; got != math.Inf(1) {
		t.Errorf("it was held against %v", got)
	}
	row["infinite"], row["plateau_s"] = nil, nil
	if got, want := at("p95_ttft_ms < 200", row), "not measured: p95_ttft_ms (the trial had no plateau; p95_ttft_ms_whole is of all of it)"; got.Verdict != "" || got.Error != want {
		t.Errorf("without a plateau: %+v, want %s", got, want)
	}
}

// An objective over a column that was not measured is an error, never a pass;
// warnings do not fail a trial.
func TestObjectives(t *testing.T) {
	t.Parallel()
	without, _, _ := strings.Cut(simple, "slo:")
	for name, tt := range map[string]struct {
		slo  string
		pass any
		cols map[string]any
		err  bool
	}{
		"met":                      {`{quick: p95_ttft_ms < 200}`, true, map[string]any{"slo_quick": "pass"}, false},
		"missed":                   {`{quick: p95_ttft_ms < 100}`, false, map[string]any{"slo_quick": "fail"}, false},
		"warned":                   {`{quick: {expr: p95_ttft_ms < 100, severity: warn}}`, true, map[string]any{"slo_quick": "fail"}, false},
		"one of two":               {`{quick: p95_ttft_ms < 200, clean: error_rate == 0}`, false, map[string]any{"slo_quick": "pass", "slo_clean": "fail"}, false},
		"not measured":             {`{cool: max_gpu_temp_c < 80}`, nil, map[string]any{"slo_cool": nil}, true},
		"a warning not measured":   {`{cool: {expr: max_gpu_temp_c < 80, severity: warn}}`, true, map[string]any{"slo_cool": nil}, true},
		"not measured, either way": {`{cool: not (max_gpu_temp_c > 80)}`, nil, map[string]any{"slo_cool": nil}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := parse(t, without+"slo: "+tt.slo+"\n")
			row := result.Row{"p95_ttft_ms": 150.0, "error_rate": 0.05}
			results := p.Objectives(row, nil)
			if row["slo_pass"] != tt.pass {
				t.Errorf("slo_pass is %v, want %v", row["slo_pass"], tt.pass)
			}
			for name, v := range tt.cols {
				if row[name] != v {
					t.Errorf("%s is %v, want %v", name, row[name], v)
				}
			}
			for _, r := range results {
				if (r.Error != "") != tt.err || tt.err == (r.Verdict != "") {
					t.Errorf("%+v", r)
				}
			}
		})
	}
	// A miss is one, whatever else could not be checked.
	p := parse(t, without+"slo: {cool: max_gpu_temp_c < 80, clean: error_rate == 0}\n")
	row := result.Row{"error_rate": 0.05}
	p.Objectives(row, nil)
	if row["slo_pass"] != false {
		t.Errorf("slo_pass is %v", row["slo_pass"])
	}

	p = parse(t, without)
	row = result.Row{}
	if got := p.Objectives(row, nil); got != nil || row["slo_pass"] != nil {
		t.Errorf("without objectives: %v, %v", got, row)
	}
}

// An objective over several columns is decided part by part: by the requests where they
// can decide it, by its value where they cannot.
func TestSLO_Evaluate_parts(t *testing.T) {
	t.Parallel()
	without, _, _ := strings.Cut(simple, "slo:")
	requests := make([]result.Request, 100)
	for i := range requests {
		sent := time.Duration(i) * time.Millisecond
		requests[i] = result.Request{Phase: result.Plateau, Status: result.Completed, Scheduled: sent, Sent: sent, FirstToken: sent + 50*time.Millisecond, LastToken: sent + 50*time.Millisecond}
		if i%20 == 10 {
			requests[i].FirstToken += time.Second
		}
	}
	trial := objective.Of(requests, summary.Options{Span: timeline.Span{To: time.Second, Steady: true}})
	row := func() result.Row {
		return result.Row{"p50_ttft_ms": 50.0, "p95_ttft_ms": 50.0, "max_ttft_ms": 1050.0, "error_rate": 0.0}
	}
	for name, tt := range map[string]struct {
		expr       string
		rules      []string
		verdict    string
		pass       any
		confidence float64 // of each bound
	}{
		"decided":        {"p50_ttft_ms < 200", []string{"share"}, "pass", true, 0.95},
		"undecided":      {"p95_ttft_ms < 200", []string{"share"}, "undecided", nil, 0.95},
		"shared":         {"p50_ttft_ms < 200 and p95_ttft_ms < 200 and error_rate == 0", []string{"share", "share", "point"}, "undecided", nil, 0.975},
		"a point missed": {"p95_ttft_ms < 200 and max_ttft_ms < 1000", []string{"share", "point"}, "fail", false, 0.95},
		"missed at all":  {"p95_ttft_ms < 200 and p50_ttft_ms < 20", []string{"share", "share"}, "fail", false, 0.975},
		"not measured":   {"p95_ttft_ms < 200 and max_gpu_temp_c < 80", []string{"share", "point"}, "", nil, 0.95},
		"without and":    {"p50_ttft_ms < 200 or error_rate == 0", []string{"point"}, "pass", true, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := parse(t, without+"slo: {quick: '"+tt.expr+"'}\n")
			row := row()
			got := p.Objectives(row, trial)[0]
			var rules []string
			for _, part := range got.Parts {
				rules = append(rules, part.Rule)
				if part.Rule != result.RulePoint && math.Abs(part.Confidence-tt.confidence) > 1e-12 {
					t.Errorf("%s has a confidence of %v", part.Expr, part.Confidence)
				}
			}
			if !slices.Equal(rules, tt.rules) || got.Verdict != tt.verdict || row["slo_pass"] != tt.pass || (got.Error != "") != (tt.verdict == "") {
				t.Errorf("%v, %q, slo_pass %v: %+v", rules, got.Verdict, row["slo_pass"], got)
			}
		})
	}
	// If the requests leave a verdict open, a plan may decide by the value or ask for
	// less certainty.
	p := parse(t, without+"slo: {quick: p95_ttft_ms < 200}\n")
	if got := p.Objectives(row(), nil)[0]; got.Verdict != result.SLOPass {
		t.Errorf("by its value: %+v", got)
	}
	p = parse(t, without+"slo: {quick: p50_ttft_ms < 200}\nconfidence: 99.9%\n")
	if got := p.Objectives(row(), trial)[0]; math.Abs(got.Parts[0].Confidence-0.999) > 1e-12 {
		t.Errorf("the plan's confidence: %+v", got)
	}
}
