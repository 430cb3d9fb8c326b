// Package export writes the trials of a run as the files of other tools.
//
// An export is a pure function of a run directory: the same directory gives the same
// bytes. Each format has a file of its own here, and says which definition its figures
// follow: where the other tool defines them over the whole trial and over successes
// alone, so do they.
package export

import (
	"errors"
	"fmt"
	"iter"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"sweep.dev/sweep/internal/humanize"
	"sweep.dev/sweep/internal/layout"
	"sweep.dev/sweep/report"
	"sweep.dev/sweep/report/conclude"
	"sweep.dev/sweep/result"
	"sweep.dev/sweep/result/col"
	"sweep.dev/sweep/result/store"
	"sweep.dev/sweep/rundir"
)

// A Format is a tool's form.
type Format struct {
	Name string
	Doc  string // for the help: what it is for
	// Single: the export is one file, and can go to the standard output.
	Single bool

	make func(*export) error
}

// Formats returns all that there are.
func Formats() []Format {
	return []Format{
		{Name: "vllm", Doc: "result folders of vllm bench sweep, for its plot and plot_pareto", make: vllm},
		{Name: "inferencex", Doc: "rows of InferenceX, with the files that its script makes them from", make: inferencex},
		{Name: "llmd", Doc: "llm-d benchmark reports 0.2.1, one for each trial", make: llmd},
		{Name: "prometheus", Doc: "Prometheus' text format, for node_exporter's textfile collector or a Pushgateway", Single: true, make: prometheus},
		{Name: "openmetrics", Doc: "OpenMetrics text with the times of the trials, for promtool's backfill", Single: true, make: openmetrics},
	}
}

// Options say what is exported.
type Options struct {
	Invalid bool // INVALID trials too, marked
	// Facts are what a format wants and a run does not know, by name.
	Facts map[string]string
}

// A File is one file of an export.
type File struct {
	Name string // below the export's folder; slashes
	Data []byte
}

// An Export is what was made of a run.
type Export struct {
	Files  []File
	Trials int // that are in it
	// Notes say what is not in it, and what a reader has to know, a line each.
	Notes []string
}

// Of makes the export of a run in a format.
func Of(run *report.Run, f Format, o Options) (*Export, error) {
	e := &export{run: run, opts: o, left: map[string]int{}, made: map[string]bool{}}
	if err := f.make(e); err != nil {
		return nil, err
	}
	for _, why := range slices.Sorted(maps.Keys(e.left)) {
		e.Notes = append(e.Notes, fmt.Sprintf("%s left out: %s", humanize.Plural(e.left[why], "trial"), why))
	}
	if len(e.Files) == 0 {
		return nil, &EmptyError{e.Notes}
	}
	return &e.Export, nil
}

// An EmptyError says that no trial of a run can be exported, and why.
type EmptyError struct{ Notes []string }

func (e *EmptyError) Error() string {
	text := "there is no trial to export"
	if len(e.Notes) > 0 {
		text += ": " + strings.Join(e.Notes, "; ")
	}
	return text
}

// An export is one in the making.
type export struct {
	Export
	run  *report.Run
	opts Options
	left map[string]int // trials that are not in it, by the reason
	made map[string]bool
}

// file adds a file.
func (e *export) file(name string, data []byte) {
	e.Files = append(e.Files, File{name, data})
}

// leave counts a trial that is not exported.
func (e *export) leave(why string) { e.left[why]++ }

// note adds a line for people, once.
func (e *export) note(line string) {
	if !e.made[line] {
		e.made[line] = true
		e.Notes = append(e.Notes, line)
	}
}

// trials returns those with numbers that may be exported, in the plan's order.
func (e *export) trials() iter.Seq[conclude.Trial] {
	return func(yield func(conclude.Trial) bool) {
		for _, t := range e.run.Trials {
			t = t.Trusted()
			switch {
			case t.Outcome == nil:
				e.leave("not measured yet")
			case t.Outcome.Row[col.Valid] == nil:
				e.leave("nothing was measured (failed or skipped)")
			case t.Outcome.Row[col.Valid] != true && !e.opts.Invalid:
				e.leave("INVALID; --invalid takes them, marked")
			default:
				if !yield(t) {
					return
				}
			}
		}
	}
}

// requests yields those of a trial, the warm-up and probes left out. A batch of them is in
// memory at a time: a trial may have more than fit.
func (e *export) requests(t conclude.Trial) iter.Seq2[*result.Request, error] {
	name := filepath.Join(rundir.AttemptDir(e.run.Dir, t.Commit), layout.Requests)
	return func(yield func(*result.Request, error) bool) {
		none := true
		for r, err := range store.RequestsOf(name) {
			if err != nil {
				yield(nil, fmt.Errorf("requests of %s: %w", t.Key, err))
				return
			}
			if r.Measured() {
				none = false
				if !yield(&r.Request, nil) {
					return
				}
			}
		}
		if none {
			yield(nil, fmt.Errorf("requests of %s: %w", t.Key, errors.New("the trial has none")))
		}
	}
}

// text returns a column of a row that holds a text; "" for null.
func text(row result.Row, column string) string {
	s, _ := row[column].(string)
	return s
}
