// Package webpage writes a report as one HTML file that needs nothing else: no network, no
// script to be read, no font. Its charts are drawn here; a script of ours adds what needs
// a hand: opening a cell, filtering the table of all cells, and timelines.
//
// The page concludes nothing: what it says is of [view], in its words. It has no text of a prompt or an answer.
package webpage

import (
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"fmt"
	"html/template"
	"io"
	"strings"

	"golang.org/x/sync/errgroup"

	"sweep.dev/sweep/internal/plaintext"
	"sweep.dev/sweep/report"
	"sweep.dev/sweep/report/chart"
	"sweep.dev/sweep/report/conclude"
	"sweep.dev/sweep/report/webpage/pack"
)

//go:embed page.tmpl
var markup string

//go:embed page.css
var pageStyle string

//go:embed page.js
var pageScript string

// uPlot 1.6.32 (MIT) draws the timelines: uPlot.iife.min.js, uPlot.min.css and LICENSE of
// its npm package, as they are.
var (
	//go:embed uplot/uPlot.iife.min.js
	uplotScript string
	//go:embed uplot/uPlot.min.css
	uplotStyle string
	//go:embed uplot/LICENSE
	uplotLicence string
)

// assets returns the style sheet and the script of every page.
func assets() (css, js string) {
	return chart.Theme + chart.Style + uplotStyle + pageStyle, "/*! uPlot:\n" + uplotLicence + "*/\n" + uplotScript + "\n" + pageScript
}

// A document is the whole page.
type document struct {
	Title  string
	Policy string
	Style  template.CSS
	Script template.JS
	Runs   []*runView
	Sides  []sideTable // the runs against the first
	Rules  []string
}

// Write writes a page about runs. Nothing in it depends on when it is written.
func Write(w io.Writer, runs []*report.Run) error {
	css, js := assets()
	d := document{
		Policy: policy(css, js),
		Style:  template.CSS(css), // a constant of this program
		Script: template.JS(js),   // "
		Rules:  conclude.Rules,
	}
	var titles []string
	for i, run := range runs {
		prefix, data := fmt.Sprintf("r%d-", i+1), ""
		var packing errgroup.Group // beside the view: both take seconds of a large run
		packing.Go(func() (err error) {
			data, err = pack.Run(run, prefix)
			return err
		})
		v := viewOf(run, prefix)
		v.Many = len(runs) > 1
		if err := packing.Wait(); err != nil {
			return err
		}
		v.Data = template.HTML(data) // base64, of which HTML knows no character
		d.Runs = append(d.Runs, v)
		titles = append(titles, v.Plan)
	}
	d.Sides = between(runs, d.Runs)
	d.Title = strings.Join(some(titles, 4), ", ")
	t, err := template.New("page").Funcs(template.FuncMap{"line": plaintext.Line, "kind": pack.Kind, "words": func(s string) []string { return strings.SplitAfter(plaintext.Line(s), "_") }}).Parse(markup)
	if err != nil {
		return err
	}
	return t.Execute(w, d)
}

// Style returns the style sheet of pages without a script, and Policy their content security
// policy: nothing is loaded and nothing runs.
func Style() (css, policy string) {
	css = chart.Theme + chart.Style + pageStyle
	return css, fmt.Sprintf("default-src 'none'; style-src '%s'; base-uri 'none'; form-action 'none'", digest(css))
}

// policy returns the content security policy of a page with one style sheet and one script.
func policy(css, js string) string {
	return fmt.Sprintf("default-src 'none'; style-src '%s'; script-src '%s'; base-uri 'none'; form-action 'none'", digest(css), digest(js))
}

func digest(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "sha256-" + base64.StdEncoding.EncodeToString(sum[:])
}

// A Drawing is a chart of a report as a file.
type Drawing struct {
	Name string // of the file, without an extension
	SVG  string
}

// Drawings returns all charts of runs, each as an SVG that stands alone: those of each run, and
// those of each run but the first against the first.
func Drawings(runs []*report.Run) []Drawing {
	var all []Drawing
	add := func(prefix string, figures []figure) {
		for n, f := range figures {
			all = append(all, Drawing{fmt.Sprintf("%s%s-%d", prefix, f.File, n+1), chart.Standalone(f.chart)})
		}
	}
	var views []*runView
	for i, run := range runs {
		v := viewOf(run, "")
		views = append(views, v)
		prefix := ""
		if len(runs) > 1 {
			prefix = fmt.Sprintf("run%d-", i+1)
		}
		var search []figure
		for _, s := range v.Searched {
			search = append(search, s.Figures...)
		}
		var ratios []figure
		for _, h := range v.Sides {
			ratios = append(ratios, h.Figures...)
		}
		for _, figures := range [][]figure{search, v.Heat, v.Throughput, v.Frontier, v.Latency, v.Cost, ratios} {
			add(prefix, figures)
		}
	}
	for i, h := range between(runs, views) {
		add(fmt.Sprintf("run%d-over-run1-", i+2), h.Figures)
	}
	return all
}
