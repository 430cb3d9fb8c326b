package main

import (
	"bufio"
	"bytes"
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
)

// count is a number of lines of Go without blank lines and lines of comments.
type count struct {
	program int // in files that cmd/sweep is built of
	rest    int // in tests, in what they are made with, and in tools
}

// bounds are the greatest numbers of lines: of the program 120,000, 2,050 for verdicts of single
// figures and for searches that measure what is undecided, and 1,800 for servers and files as
// they are. The rest may grow by what a new capability needs of tests.
var bounds = count{program: 123_740, rest: 114_400}

// capabilities are what somebody would miss, with the folders and files that exist for
// nothing else. The longest path counts; what no path covers is the core.
var capabilities = map[string][]string{
	"bench and probe":     {"cmd/sweep/bench", "cmd/sweep/probe", "cmd/sweep/metrics.go", "report/bench", "executor/serving/ask"},
	"calibration":         {"cmd/sweep/calibrate", "load/calibrate", "load/nullserver"},
	"client":              {"load"},
	"comparing":           {"cmd/sweep/compare.go", "cmd/sweep/noise.go", "report/compare", "report/paired", "result/noise", "result/ratio"},
	"containers":          {"backends/docker"},
	"engines":             {"engine", "cmd/sweep/engines.go", "cmd/sweep/gpus.go"},
	"export":              {"cmd/sweep/export.go", "report/export"},
	"files of others":     {"cmd/sweep/judge.go", "judge/published"},
	"fitting":             {"cmd/sweep/fit.go", "sim/fit", "sim/fitted", "sim/predict"},
	"Kubernetes":          {"backends/kubernetes", "internal/kube", "cmd/sweep/logs_kube.go", "cmd/sweep/probe_kube.go"},
	"nights":              {"nightly", "cmd/sweep/night.go", "cmd/sweep/gate", "cmd/sweep/trend.go", "cmd/sweep/schedule", "cmd/sweep/fetch.go"},
	"other providers":     {"backends/command"},
	"pods' life":          {"backends/provision", "backends/bootstrap", "backends/ending", "executor/rented", "rundir/podledger", "cmd/sweep/pod", "cmd/sweep/gc.go"},
	"quality":             {"judge/quality", "executor/answering"},
	"rehearsal":           {"executor/rehearse", "cmd/sweep/rehearse.go"},
	"report":              {"report", "cmd/sweep/report.go"},
	"reuse":               {"executor/reuse", "cmd/sweep/reuse.go"},
	"RunPod":              {"backends/runpod", "backends/runpodapi"},
	"search":              {"judge/search", "report/capacity", "cmd/sweep/find.go"},
	"servers' logs":       {"engine/failure", "engine/loglines", "executor/serverlog", "cmd/sweep/logs.go", "cmd/sweep/logs_timeline.go"},
	"several clients":     {"load/worker", "cmd/sweep/worker.go", "cmd/sweep/crew.go"},
	"simulated engine":    {"sim", "backends/sim", "cmd/sweep/sim.go"},
	"ssh":                 {"backends/ssh"},
	"tables of a run":     {"sinks", "report/derive", "result/store"},
	"validity of figures": {"judge/validity", "judge/agreement", "result/finding", "result/bounds"},
	"where keys may go":   {"cmd/sweep/internal/outbound", "cmd/sweep/sends.go", "internal/netguard", "internal/secret"},
}

// capabilityOf returns the capability that a file exists for.
func capabilityOf(file string) string {
	best, name := "", "core"
	for capability, paths := range capabilities {
		for _, p := range paths {
			if strings.HasPrefix(file, p) && len(p) > len(best) {
				best, name = p, capability
			}
		}
	}
	return name
}

// codeLines counts the lines of Go that are neither blank nor a comment alone.
func codeLines(source []byte) int {
	n, block := 0, false
	for s := bufio.NewScanner(bytes.NewReader(source)); s.Scan(); {
		line := strings.TrimSpace(s.Text())
		switch {
		case block:
			block = !strings.Contains(line, "*/")
		case line == "" || strings.HasPrefix(line, "//"):
		case strings.HasPrefix(line, "/*") && !strings.Contains(line, "*/"):
			block = true
		default:
			n++
		}
	}
	return n
}

// sum adds the lines of each file up under the name that of gives it.
func sum(files map[string]count, of func(file string) string) map[string]count {
	out := map[string]count{}
	for file, lines := range files {
		c := out[of(file)]
		out[of(file)] = count{c.program + lines.program, c.rest + lines.rest}
	}
	return out
}

// drawSize prints the lines by room and by capability.
func drawSize(w io.Writer, files map[string]count) {
	all := sum(files, func(string) string { return "" })[""]
	fmt.Fprintf(w, "%d lines of the program, of at most %d, and %d of all else, of at most %d\n", all.program, bounds.program, all.rest, bounds.rest)
	for _, table := range []struct {
		name string
		of   func(string) string
	}{{"room", roomOf}, {"capability", capabilityOf}} {
		by := sum(files, table.of)
		fmt.Fprintf(w, "\n%-20s %8s %8s\n", table.name, "program", "rest")
		for _, name := range slices.SortedFunc(maps.Keys(by), func(a, b string) int {
			return cmp.Or(cmp.Compare(by[b].program, by[a].program), cmp.Compare(by[b].rest, by[a].rest), strings.Compare(a, b))
		}) {
			fmt.Fprintf(w, "%-20s %8d %8d\n", name, by[name].program, by[name].rest)
		}
	}
}
