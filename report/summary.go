package report

import (
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"sweep.dev/sweep/result"
)

// A Style says how a summary is written.
type Style struct {
	Markdown bool
	// Paint colours a text by its verdict; nil leaves it as it is.
	Paint func(Verdict, string) string
}

// Summary writes what the run found: the grids, the cells worth using, every
// objective that was missed with the value that missed it, every INVALID and
// failed trial with its reason, and the files.
func (r *Run) Summary(w io.Writer, s Style) error {
	p := &printer{w: w, Style: s}
	verdicts := r.Verdicts()
	p.title(fmt.Sprintf("%s: %s", r.State.Manifest.Plan, r.count(verdicts)))
	if r.simulated() {
		p.line("All numbers are simulated: they rehearse a plan, they do not measure a GPU.")
		p.line("")
	}
	r.grids(p, verdicts)
	p.section("How cells are judged", Rules)
	p.section("Sweet spots", r.spots(verdicts))
	p.section("Objectives that were not met", r.missed())
	p.section("INVALID: these numbers must not be used", r.invalid())
	p.section("Failed", r.failed())
	p.section("Findings", r.findings())
	p.section("Files", r.files())
	return p.err
}

func (r *Run) count(verdicts []Verdict) string {
	var parts []string
	for _, v := range []Verdict{SweetSpot, Acceptable, Unstable, Missed, Invalid, FailedRun, Pending} {
		n := 0
		for _, x := range verdicts {
			if x == v {
				n++
			}
		}
		if n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, v))
		}
	}
	return strings.Join(parts, ", ")
}

func (r *Run) simulated() bool {
	rows := r.Rows()
	for _, row := range rows {
		if row["simulated"] != true {
			return false
		}
	}
	return len(rows) > 0
}

func (r *Run) spots(verdicts []Verdict) []string {
	var lines []string
	for i, t := range r.Trials {
		if verdicts[i] != SweetSpot {
			continue
		}
		row := t.Outcome.Row
		line := fmt.Sprintf("%s: %s tok/s, p95 TTFT %s ms, p95 TPOT %s ms", t.Cell.Label,
			Figure(row["throughput_tok_s"]), Figure(row["p95_ttft_ms"]), Figure(row["p95_tpot_ms"]))
		if usd, ok := row["usd_per_1m_output_tokens"].(float64); ok {
			line += fmt.Sprintf(", $%.2f per 1M output tokens", usd)
		}
		lines = append(lines, line)
	}
	return lines
}

func (r *Run) missed() []string {
	var lines []string
	for _, t := range r.Trials {
		if t.Outcome == nil {
			continue
		}
		for _, s := range t.Outcome.SLOs {
			if s.Pass {
				continue
			}
			line := fmt.Sprintf("%s: %s (%s)", r.trialLabel(t), s.Name, s.Expr)
			if s.Error != "" {
				line += ": could not be checked: " + s.Error
			} else {
				line += ": " + values(s.Values)
			}
			if s.Severity == "warn" {
				line += " [warning only]"
			}
			lines = append(lines, line)
		}
	}
	return lines
}

func values(v map[string]any) string {
	names := make([]string, 0, len(v))
	for name := range v {
		names = append(names, name)
	}
	slices.Sort(names)
	for i, name := range names {
		names[i] = name + " = " + Figure(v[name])
	}
	return strings.Join(names, ", ")
}

func (r *Run) invalid() []string {
	return r.each(result.StatusInvalid, func(o *result.Outcome) []string { return texts(o.Invalid) })
}

func (r *Run) failed() []string {
	return r.each(result.StatusFailed, func(o *result.Outcome) []string {
		return []string{fmt.Sprintf("%v: %v", o.Row["error_class"], o.Row["error"])}
	})
}

// findings are one line each with the number of trials that have them: a
// missing nvidia-smi is one fact, not one for every cell.
func (r *Run) findings() []string {
	var order []string
	count := map[string]int{}
	for _, t := range r.Trials {
		if t.Outcome == nil {
			continue
		}
		for _, f := range t.Outcome.Findings {
			text := f.Code + ": " + f.Text
			if count[text] == 0 {
				order = append(order, text)
			}
			count[text]++
		}
	}
	for i, text := range order {
		if n := count[text]; n > 1 {
			order[i] = fmt.Sprintf("%s (%d trials)", text, n)
		}
	}
	return order
}

func (r *Run) each(status string, f func(*result.Outcome) []string) []string {
	var lines []string
	for _, t := range r.Trials {
		if t.Outcome != nil && t.Outcome.Row["status"] == status {
			for _, text := range f(t.Outcome) {
				lines = append(lines, r.trialLabel(t)+": "+text)
			}
		}
	}
	return lines
}

func texts(findings []result.Finding) []string {
	list := make([]string, len(findings))
	for i, f := range findings {
		list[i] = f.Text
	}
	return list
}

func (r *Run) trialLabel(t Trial) string {
	if r.Resolved.Repeats > 1 {
		return fmt.Sprintf("%s, trial %d", t.Cell.Label, t.Trial)
	}
	return t.Cell.Label
}

// DerivedFiles are the tables that a run may have, in the order in which they
// are named to people.
var DerivedFiles = []string{"cells.csv", "cells.parquet", "groups.csv", "groups.parquet", "requests.parquet", "samples.parquet", "summary.md"}

func (r *Run) files() []string {
	var lines []string
	for _, name := range DerivedFiles {
		if path := filepath.Join(r.Dir, name); exists(path) || name == "summary.md" {
			lines = append(lines, path)
		}
	}
	return lines
}
