// Package reporttest makes run directories from descriptions, for tests of reports.
package reporttest

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"sweep.dev/sweep/backends"
	"sweep.dev/sweep/internal/effect"
	"sweep.dev/sweep/report"
	"sweep.dev/sweep/report/conclude"
	"sweep.dev/sweep/result"
	"sweep.dev/sweep/result/finding"
	"sweep.dev/sweep/rundir"
)

// MadeUp returns a run directory from a description. Its lines are:
//
//	plan NAME
//	repeats N
//	record                            servers that do not start are results
//	compare AXIS BASELINE             by turns
//	load COLUMN=NUMBER                what the plan fixes of the load
//	axes NAME...                      a server axis ends in !
//	cell VALUE...                     one for each axis
//	  STATUS KEY=VALUE...             one line for each of its trials; pending is a status
//	skipped VALUE...                  a cell that was predicted not to fit
//	predicted KEY=VALUE...            of the cell above: starts, kv, class
//	owed POD ID
//	ended "REASON"                    run_finished
//
// The keys of a trial are: tok (output tokens/s), req (requests/s), ttft, tpot
// and e2e (p50/p95 in ms), n (completed requests, all on the plateau; fewer than a
// p95 needs are low confidence), usd (per 1M tokens), error="CLASS|TEXT", start (it never
// became ready), log="LINE", reason and finding="CODE|TEXT",
// scrape=ROLE-REPLICA (a file of scrapes), spread=SHARE (the 95 % intervals within the
// trial reach so far to both sides, 1 % if it is not said; 0 for none), the name of any
// other column, and for
// objectives meet, miss, thin (met, on too few requests), warn="NAME|EXPR|COLUMN=NUMBER" unchecked="NAME|EXPR|TEXT",
// and undecided="NAME|EXPR|COLUMN=NUMBER|MORE REQUESTS".
func MadeUp(t *testing.T, text string) *report.Run {
	t.Helper()
	d := parseMadeUp(t, text)
	dir := filepath.Join(t.TempDir(), "run")
	resolved, err := json.Marshal(d.resolved)
	if err != nil {
		t.Fatal(err)
	}
	fx, err := effect.New("")
	if err != nil {
		t.Fatal(err)
	}
	rd, err := rundir.Create(fx, dir, rundir.Manifest{RunID: "3f2a", Plan: d.plan, Method: result.Method}, nil, resolved)
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range d.outcomes {
		a, err := rd.Begin(t.Context(), rundir.Key{Cell: o.CellID, Trial: o.Trial}, 1)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range o.Files {
			w, err := a.Create(f.Name)
			if err != nil {
				t.Fatal(err)
			}
			if err := w.Close(); err != nil {
				t.Fatal(err)
			}
		}
		if err := a.Commit(t.Context(), o, "digest"); err != nil {
			t.Fatal(err)
		}
	}
	for pod, id := range d.owed {
		if err := rd.Ledger().Record(t.Context(), backends.Transition{Pod: pod, State: backends.Intended, Kind: "process"}); err != nil {
			t.Fatal(err)
		}
		if err := rd.Ledger().Record(t.Context(), backends.Transition{Pod: pod, State: backends.Created, Ref: &backends.Ref{Kind: "process", ID: id, Pod: pod}}); err != nil {
			t.Fatal(err)
		}
	}
	if d.ended != "" {
		if err := rd.Append(t.Context(), "run_finished", map[string]any{"error": d.ended}); err != nil {
			t.Fatal(err)
		}
	}
	if err := rd.Close(); err != nil {
		t.Fatal(err)
	}
	r, err := report.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// Large returns the run of a description without its directory: one of thousands of cells
// takes a while to write.
func Large(t *testing.T, text string) *report.Run {
	t.Helper()
	d := parseMadeUp(t, text)
	of := map[rundir.Key]*result.Outcome{}
	for _, o := range d.outcomes {
		of[rundir.Key{Cell: o.CellID, Trial: o.Trial}] = o
	}
	r := &report.Run{State: &rundir.State{Manifest: rundir.Manifest{RunID: "3f2a", Plan: d.plan, Method: result.Method}}, Resolved: d.resolved}
	for _, c := range d.resolved.Cells {
		for n := 1; n <= d.resolved.Repeats; n++ {
			key := rundir.Key{Cell: c.ID, Trial: n}
			r.Trials = append(r.Trials, conclude.Trial{Key: key, Cell: c, Outcome: of[key]})
		}
	}
	return r
}

type description struct {
	plan     string
	resolved report.Resolved
	outcomes []*result.Outcome
	owed     map[string]string
	ended    string
}

func parseMadeUp(t *testing.T, text string) *description {
	t.Helper()
	d := &description{plan: "made-up", owed: map[string]string{}}
	d.resolved.Repeats = 1
	d.resolved.Columns = result.Columns(result.Extra{})
	fixed := map[string]any{}
	plan := map[string]any{"load": fixed}
	var axes []string
	trial, skipped := 0, false
	for line := range strings.Lines(text) {
		words := split(t, line)
		if len(words) == 0 {
			continue
		}
		switch args := words[1:]; words[0] {
		case "plan":
			d.plan = args[0]
		case "repeats":
			d.resolved.Repeats, _ = strconv.Atoi(args[0])
		case "record":
			d.resolved.RecordStarts = true
		case "compare":
			plan["compare"] = map[string]any{"axis": args[0], "baseline": args[1]}
		case "load":
			name, value, _ := strings.Cut(args[0], "=")
			fixed[name] = plainValue(value)
		case "axes":
			axes = args
		case "owed":
			d.owed[args[0]] = args[1]
		case "ended":
			d.ended = args[0]
		case "predicted":
			cells := &d.resolved.Cells
			if skipped {
				cells = &d.resolved.Skipped
			}
			p := &conclude.Prediction{}
			for _, arg := range args {
				switch key, value, _ := strings.Cut(arg, "="); key {
				case "starts":
					p.Starts = true
				case "kv":
					p.KVTokens, _ = strconv.ParseInt(value, 10, 64)
				case "class":
					p.Class = value
				}
			}
			(*cells)[len(*cells)-1].Predicted = p
		case "cell", "skipped":
			skipped = words[0] == "skipped"
			c := conclude.Cell{ID: fmt.Sprintf("c%03d", len(d.resolved.Cells)+len(d.resolved.Skipped)), Deployment: "d"}
			var label []string
			for i, axis := range axes {
				if args[i] == "-" { // the cell's load does not take it
					continue
				}
				name, server := strings.CutSuffix(axis, "!")
				s := conclude.Setting{Column: name, Server: server, Amount: name == "concurrency" || name == "request_rate", Value: plainValue(args[i])}
				s.Text = fmt.Sprintf("%s=%v", name, s.Value)
				if name == "engine" || name == "gpu" || name == "model" || name == result.LoadAxis {
					s.Text = fmt.Sprint(s.Value)
				}
				c.Settings = append(c.Settings, s)
				label = append(label, s.Text)
			}
			c.Label = strings.Join(label, " ")
			trial = 0
			if skipped {
				d.resolved.Skipped = append(d.resolved.Skipped, c)
			} else {
				d.resolved.Cells = append(d.resolved.Cells, c)
			}
		case "pending":
			trial++
		default:
			trial++
			cell := d.resolved.Cells[len(d.resolved.Cells)-1]
			d.outcomes = append(d.outcomes, madeUpOutcome(t, d.resolved.Columns, cell, trial, words[0], args))
		}
	}
	d.resolved.Plan, _ = json.Marshal(plan)
	return d
}

func madeUpOutcome(t *testing.T, columns []result.Column, c conclude.Cell, trial int, status string, args []string) *result.Outcome {
	t.Helper()
	o := &result.Outcome{CellID: c.ID, Trial: trial, Row: result.Row{
		"status": status, "cell_id": c.ID, "trial": int64(trial), "simulated": false, "method": int64(result.Method),
		"started_at": time.Unix(1790000000, 0).UTC(),
	}}
	if status != result.StatusFailed {
		o.Row["valid"] = status == result.StatusOK
	}
	spread := 0.01
	for _, arg := range args {
		key, value, _ := strings.Cut(arg, "=")
		code, text, _ := strings.Cut(value, "|")
		expr, last, _ := strings.Cut(text, "|")
		slo := result.SLOResult{Name: code, Expr: expr, Severity: "fail"}
		switch key {
		case "tok", "req", "usd":
			names := map[string]string{"tok": "throughput_tok_s", "req": "request_throughput", "usd": "usd_per_1m_output_tokens"}
			o.Row[names[key]] = plainValue(value)
		case "ttft", "tpot", "e2e":
			p50, p95, _ := strings.Cut(value, "/")
			o.Row["p50_"+key+"_ms"], o.Row["p95_"+key+"_ms"] = plainValue(p50), plainValue(p95)
		case "n":
			n, _ := strconv.Atoi(value)
			o.Row["completed"], o.Row["plateau_requests"] = int64(n), int64(n)
			if n < conclude.P95Samples {
				o.Row["low_confidence"] = "p95_ttft_ms,p99_ttft_ms,p95_e2e_ms"
			}
		case "simulated":
			o.Row["simulated"] = true
		case "spread":
			spread, _ = plainValue(value).(float64)
		case "start":
			o.StartFailure = true
		case "error":
			o.Row["error_class"], o.Row["error"] = code, text
		case "log":
			o.LogTail = append(o.LogTail, value)
		case "reason":
			o.Invalid = append(o.Invalid, result.Finding{Code: codeOf(code), Text: text})
			codes := make([]string, len(o.Invalid))
			for i, f := range o.Invalid {
				codes[i] = f.Code.String()
			}
			o.Row["invalid_reasons"] = strings.Join(codes, ",")
		case "finding":
			o.Findings = append(o.Findings, result.Finding{Code: codeOf(code), Text: text})
		case "meet", "miss", "warn", "thin":
			if key == "warn" {
				slo.Severity = "warn"
			}
			if key == "thin" {
				slo.LowConfidence = []string{strings.Fields(expr)[0]}
			}
			if slo.Verdict = result.SLOFail; key == "thin" || key == "meet" {
				slo.Verdict = result.SLOPass
			}
			name, v, _ := strings.Cut(last, "=")
			slo.Values = result.Row{name: plainValue(v)}
			o.SLOs = append(o.SLOs, slo)
		case "undecided":
			last, more, _ := strings.Cut(last, "|")
			name, v, _ := strings.Cut(last, "=")
			n, _ := strconv.Atoi(more)
			slo.Verdict, slo.Values = result.SLOUndecided, result.Row{name: plainValue(v)}
			slo.Parts = []result.SLOPart{{Expr: expr, Rule: result.RuleShare, Column: name, Verdict: result.SLOUndecided, Requests: 100, MoreRequests: n}}
			o.SLOs = append(o.SLOs, slo)
		case "unchecked":
			slo.Error = last
			o.SLOs = append(o.SLOs, slo)
		case "scrape":
			o.Files = append(o.Files, result.File{Name: "scrapes/" + value + ".prom.zst"}) // Commit counts them again
		default:
			c, ok := result.Lookup(columns, key)
			if !ok {
				t.Fatalf("what is %q?", arg)
			}
			o.Row[key] = plainValue(value)
			if n, err := strconv.ParseInt(value, 10, 64); err == nil && c.Type == result.Int {
				o.Row[key] = n
			}
		}
	}
	for _, c := range columns {
		column, ok := strings.CutSuffix(c.Name, "_low")
		if v, has := o.Row.Number(column); ok && has && spread > 0 {
			o.Row[c.Name], o.Row[column+"_high"] = v*(1-spread), v*(1+spread)
		}
	}
	return o
}

// plainValue returns a number where the text is one.
func plainValue(text string) any {
	if f, err := strconv.ParseFloat(text, 64); err == nil {
		return f
	}
	return text
}

// split cuts a line into words. A word may end in a text in Go's quotes.
func split(t *testing.T, line string) []string {
	t.Helper()
	var words []string
	for line = strings.TrimSpace(line); line != ""; line = strings.TrimSpace(line) {
		end := strings.IndexAny(line, " \"")
		if end < 0 {
			end = len(line)
		}
		word, rest := line[:end], line[end:]
		if strings.HasPrefix(rest, `"`) {
			quoted, err := strconv.QuotedPrefix(rest)
			if err != nil {
				t.Fatalf("%s: %v", rest, err)
			}
			text, _ := strconv.Unquote(quoted)
			word, rest = word+text, rest[len(quoted):]
		}
		words, line = append(words, word), rest
	}
	return words
}

// codeOf returns any text as the code of a finding, as a recorded run may have it.
func codeOf(text string) (c finding.Code) {
	if err := c.UnmarshalText([]byte(text)); err != nil {
		panic(err)
	}
	return c
}
