package main

import (
	"math"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"sweep.dev/sweep/result"
	"sweep.dev/sweep/rundir/rundirtest"
)

// rentFindPlan is [rentPlan] with a search, each of whose trials takes 2 s at most.
var rentFindPlan = strings.NewReplacer(
	"name: rent", "name: hunt", "concurrency: [1, 2], ", "", "requests: 4,", "requests: 40,",
).Replace(rentPlan) + "find: {axis: request_rate, from: 20, to: 40, within: 50%, confidence: 90%, objectives: {always: p50_ttft_ms < 60000}}\n"

// leftQuote returns what a command says before it rents: the dollars of its quote, and those and the
// seconds that the table of its searches has in all.
func leftQuote(t *testing.T, r ran) (usd, rows, seconds float64) {
	t.Helper()
	number := func(text string) float64 {
		v, err := strconv.ParseFloat(text, 64)
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	quote := regexp.MustCompile(`rents 1 pod, at up to \$0\.24/h: about \$([0-9.e-]+)`).FindStringSubmatch(r.stderr)
	if quote == nil {
		t.Fatalf("exit %d, no quote\n%s", r.code, r.stderr)
	}
	for _, row := range regexp.MustCompile(`(?m)^  .* \d+ +(\d+) s +([0-9.e-]+) +\d+ +\d+ (?:s|min) +[0-9.e-]+$`).FindAllStringSubmatch(r.stderr, -1) {
		seconds, rows = seconds+number(row[1]), rows+number(row[2])
	}
	return number(quote[1]), rows, seconds
}

// TestFind_quoteLeft kills a search on a rented GPU: its resume quotes what is left alone,
// with the start and the fingerprint of the pod that it has to rent, and rents nothing until
// that is agreed to. Once the search has its answer there is nothing to quote.
func TestFind_quoteLeft(t *testing.T) {
	t.Parallel()
	a := renting(t)
	write(t, filepath.Join(a.dir, "hunt.yaml"), rentFindPlan)
	whole := a.sweep("run", "-o", "second", "hunt.yaml") // nobody agrees
	if whole.code != exitUsage || len(a.Audit().Pods) != 0 {
		t.Fatalf("exit %d, %d pods\n%s", whole.code, len(a.Audit().Pods), whole.stderr)
	}
	all, _, _ := leftQuote(t, whole)
	killed := sweep(t, a.dir, append([]string{"SWEEP_FAULT=op:kill@260"}, a.env...), "run", "-o", "out", "--yes", "hunt.yaml")
	before, err := rundirtest.Trials(filepath.Join(a.dir, "out"))
	if killed.code != -1 || err != nil || len(before) == 0 {
		t.Fatalf("it ended with %d after %d trials: %v\n%s", killed.code, len(before), err, killed.stderr)
	}
	resumed := a.sweep("resume", "out")
	left, rows, seconds := leftQuote(t, resumed)
	t.Logf("$%g in all, $%g left after %d trials", all, left, len(before))
	if resumed.code != exitUsage || !strings.Contains(resumed.stderr, " more, $") || len(a.Audit().Pods) != 1 || len(a.Audit().Alive()) != 0 {
		t.Errorf("exit %d, pods %v\n%s", resumed.code, a.Audit().Pods, resumed.stderr)
	}
	// A trial that a busy machine left INVALID or undecided is asked for again.
	decided := !slices.ContainsFunc(rowsOf(t, filepath.Join(a.dir, "out")), func(row result.Row) bool {
		return row["status"] != result.StatusOK || row["slo_always"] != "pass"
	})
	if decided && left >= 2*all || math.Abs(left-rows) > 0.01*left || math.Abs(left-0.24*seconds/3600) > 0.24*2/3600 {
		t.Errorf("$%g are quoted of $%g: $%g and %g s by lines\n%s", left, all, rows, seconds, resumed.stderr)
	}
	if r := a.sweep("resume", "--yes", "out"); r.code != exitOK || len(a.Audit().Pods) != 2 {
		t.Errorf("exit %d, %d pods\n%s%s", r.code, len(a.Audit().Pods), r.stdout, r.stderr)
	}
	if r := a.sweep("resume", "out"); r.code != exitOK || strings.Contains(r.stderr, "rents") || strings.Contains(r.stderr, "left of each") {
		t.Errorf("exit %d\n%s", r.code, r.stderr)
	}
}
