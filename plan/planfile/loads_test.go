package planfile

import (
	"slices"
	"strings"
	"testing"

	"sweep.dev/sweep/plan"
	"sweep.dev/sweep/result"
	"sweep.dev/sweep/result/col"
)

const twoLoads = `
version: 1
name: two-loads
model: org/model
matrix: {engine: vllm, gpu: l4, request_rate: [1, 2], concurrency: [8, 32], max_tokens: 64}
backend: sim
loads:
  - {name: chat, loop: open, requests: 100, prompts: {input_tokens: 200}, until: {metric: ttft_ms, within: 5%, objectives: true}}
  - {name: batch, loop: closed, requests: 100, prompts: {input_tokens: 1k}, until: {metric: ttft_ms, within: 5%, objectives: true}}
slo:
  quick: {expr: p95_ttft_ms < 200, loads: [chat]}
  clean: error_rate == 0
`

func labels(cells []plan.Cell) []string {
	var out []string
	for _, c := range cells {
		var parts []string
		for _, s := range c.Settings[2:] {
			parts = append(parts, s.String())
		}
		out = append(out, strings.Join(parts, " "))
	}
	return out
}

// Each load has the axes that it takes, in one matrix and one order.
func TestLoads_axes(t *testing.T) {
	p := parse(t, twoLoads)
	want := []string{
		"chat request_rate=1 max_tokens=64", "chat request_rate=2 max_tokens=64",
		"batch concurrency=8 max_tokens=64", "batch concurrency=32 max_tokens=64",
	}
	cells := p.Cells()
	if got := labels(cells); !slices.Equal(got, want) {
		t.Errorf("the cells are %q, want %q", got, want)
	}
	for i, c := range cells {
		if c.Index != i || c.Load.Open() != (c.LoadName() == "chat") || len(p.Deployments()) != 1 {
			t.Errorf("cell %d has the index %d, the load %s, open %v, in %d deployments", i, c.Index, c.LoadName(), c.Load.Open(), len(p.Deployments()))
		}
		if o := cells[(i+2)%4]; c.ID == o.ID || p.SpecDigest(c) == p.SpecDigest(o) {
			t.Errorf("%s and %s share an id or a spec digest", labels(cells)[i], labels(cells)[(i+2)%4])
		}
	}
}

// A load keeps its cells whatever stands beside it, and has others under another name.
// The word loop chooses axes and is no part of the load.
func TestLoads_ids(t *testing.T) {
	ids := func(src, load string) (all []string) {
		t.Helper()
		p := parse(t, src)
		for _, c := range p.Cells() {
			if c.LoadName() == load {
				all = append(all, c.ID+" "+p.SpecDigest(c))
			}
		}
		return all
	}
	chat := ids(twoLoads, "chat")
	alone := strings.Join(slices.DeleteFunc(strings.Split(twoLoads, "\n"), func(line string) bool { return strings.Contains(line, "name: batch") }), "\n")
	alone = strings.Replace(alone, "concurrency: [8, 32], ", "", 1)
	for what, src := range map[string]string{
		"alone":           alone,
		"without loop":    strings.Replace(alone, "loop: open, ", "", 1),
		"another order":   strings.Replace(twoLoads, "request_rate: [1, 2], concurrency: [8, 32]", "concurrency: [8, 32], request_rate: [1, 2]", 1),
		"a changed batch": strings.Replace(twoLoads, "input_tokens: 1k", "input_tokens: 2k", 1),
	} {
		if got := ids(src, "chat"); !slices.Equal(got, chat) {
			t.Errorf("%s: the cells of chat are %v, want %v", what, got, chat)
		}
	}
	for _, id := range ids(strings.ReplaceAll(twoLoads, "chat", "talk"), "talk") {
		if slices.ContainsFunc(chat, func(c string) bool { return strings.Fields(c)[0] == strings.Fields(id)[0] }) {
			t.Errorf("the cell %s is the same under another name of its load", id)
		}
	}
}

// --set names an entry of loads by its name or by its place.
func TestLoads_set(t *testing.T) {
	for _, set := range []string{"loads.batch.requests=7", "loads[1].requests=7"} {
		opts := testOptions()
		opts.Set = []string{set}
		_, err := Parse("p.yaml", ".", []byte(twoLoads), opts)
		if d, ok := plan.IsDiagnostics(err); !ok || !strings.Contains(d.Error(), "7 requests are fewer than 32 workers") {
			t.Errorf("%s: %v", set, err)
		}
		opts.Set = append(opts.Set, "loads.batch.requests=70")
		p, err := Parse("p.yaml", ".", []byte(twoLoads), opts)
		if err != nil {
			t.Fatalf("%s: %v", set, err)
		}
		for _, c := range p.Cells() {
			if want := map[string]int{"chat": 100, "batch": 70}[c.LoadName()]; c.Load.Requests != want {
				t.Errorf("%s: a cell of %s has %d requests, want %d", opts.Set, c.LoadName(), c.Load.Requests, want)
			}
		}
	}
}

// An axis that a cell's load does not take equals nothing, and is neither above nor
// below anything.
func TestLoads_filter(t *testing.T) {
	p := parse(t, twoLoads)
	for only, want := range map[string][]string{
		`load == "chat"`:                        {"chat request_rate=1 max_tokens=64", "chat request_rate=2 max_tokens=64"},
		`concurrency > 8`:                       {"batch concurrency=32 max_tokens=64"},
		`concurrency <= 8`:                      {"batch concurrency=8 max_tokens=64"},
		`request_rate in [2] or load in ["x"]`:  {"chat request_rate=2 max_tokens=64"},
		`concurrency == 8 or request_rate == 1`: {"chat request_rate=1 max_tokens=64", "batch concurrency=8 max_tokens=64"},
	} {
		holds, err := p.Filter(only)
		if err != nil {
			t.Fatal(err)
		}
		got := slices.DeleteFunc(p.Cells(), func(c plan.Cell) bool {
			ok, err := holds(c)
			if err != nil {
				t.Errorf("%s: %v", only, err)
			}
			return !ok
		})
		if !slices.Equal(labels(got), want) {
			t.Errorf("%s holds for %q, want %q", only, labels(got), want)
		}
	}
}

// An objective is held against the rows of the loads that it is for.
func TestLoads_objectives(t *testing.T) {
	p := parse(t, twoLoads)
	for load, want := range map[string]string{"chat": "quick fail, clean pass: false", "batch": "clean pass: true"} {
		row := result.Row{"load": load, col.P95TTFTMs: 300.0, col.ErrorRate: 0.0}
		var got []string
		for _, o := range p.Objectives(row, nil) {
			got = append(got, o.Name+" "+o.Verdict)
		}
		text := strings.Join(got, ", ") + ": false"
		if row[col.SLOPass] == true {
			text = strings.Join(got, ", ") + ": true"
		}
		if text != want {
			t.Errorf("%s: %s, want %s", load, text, want)
		}
		if _, ok := row["slo_quick"]; ok != (load == "chat") {
			t.Errorf("the row of %s has the column slo_quick: %v", load, ok)
		}
	}
	only := strings.NewReplacer("  clean: error_rate == 0\n", "", ", until: {metric: ttft_ms, within: 5%, objectives: true}", "").Replace(twoLoads)
	row := result.Row{"load": "batch", col.P95TTFTMs: 300.0}
	if got := parse(t, only).Objectives(row, nil); got != nil || row[col.SLOPass] != nil {
		t.Errorf("a load without objectives has %v and slo_pass %v", got, row[col.SLOPass])
	}
	for _, c := range p.Cells() { // error_rate == 0 needs no number of requests
		if watched := p.Watch(c) != nil; watched != (c.LoadName() == "chat") {
			t.Errorf("%s is watched: %v", c.LoadName(), watched)
		}
	}
}
