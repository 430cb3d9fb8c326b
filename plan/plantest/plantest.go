// Package plantest makes plans for the tests of packages that run them.
package plantest

import (
	"slices"
	"strings"
	"testing"

	"sweep.dev/sweep/plan"
	"sweep.dev/sweep/plan/planfile"
)

// base has two cells on one server, two requests each. Its bounds on the
// client are wide: tests share their CPUs with everything.
var base = []string{
	`version: 1`,
	`name: t`,
	`model: m`,
	`backend: fake`,
	`matrix: {engine: sim, concurrency: [1, 2]}`,
	`load: {requests: 2, warmup: {requests: 1}, max_tokens: 4, prompts: {input_tokens: 24, length: words}}`,
	`validity: {max_moved: 1000, max_steal: 1, max_drift: 100}`,
	`timeouts: {launch: 20s, ready: 20s, request: 20s, trial: 30s, stop: 5s}`,
}

// Parse returns a small plan for tests: the base plan with some of its lines replaced, or more added.
func Parse(t testing.TB, lines ...string) *plan.Plan {
	t.Helper()
	all := slices.Clone(base)
	for _, line := range lines {
		key, _, _ := strings.Cut(line, ":")
		i := slices.IndexFunc(all, func(s string) bool { return strings.HasPrefix(s, key+":") })
		if i < 0 {
			all = append(all, line)
		} else {
			all[i] = line
		}
	}
	docs := func(kinds ...string) (list []plan.PluginDoc) {
		for _, kind := range kinds {
			list = append(list, plan.PluginDoc{Kind: kind, FreeGPU: true})
		}
		return list
	}
	p, err := planfile.Parse("plan.yaml", t.TempDir(), []byte(strings.Join(all, "\n")+"\n"), planfile.Options{
		Vocabulary: plan.Vocabulary{
			Backends: append(docs("fake"), plan.PluginDoc{Kind: "given", FreeGPU: true, Given: true}), Collectors: docs("prom", "gpu", "proc"), Sinks: docs("csv", "parquet"),
		},
	})
	if d, ok := plan.IsDiagnostics(err); ok {
		t.Fatal(d.Pretty())
	}
	if err != nil {
		t.Fatal(err)
	}
	return p
}
