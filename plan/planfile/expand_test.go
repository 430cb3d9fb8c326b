package planfile

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"sweep.dev/sweep/plan"
	"sweep.dev/sweep/result"
)

func parse(t testing.TB, src string, set ...string) *plan.Plan {
	t.Helper()
	opts := testOptions()
	opts.Set = set
	p, err := Parse("p.yaml", "testdata/ok", []byte(src), opts)
	if d, ok := plan.IsDiagnostics(err); ok {
		t.Fatalf("%s\n%s", d.Pretty(), src)
	}
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func ids(p *plan.Plan) []string {
	var out []string
	for _, c := range p.Cells() {
		out = append(out, c.ID)
	}
	return out
}

// TestCellID_stable holds what a cell's id does not depend on.
func TestCellID_stable(t *testing.T) {
	want := ids(parse(t, simple))
	sorted := func(s []string) []string { return slices.Sorted(slices.Values(s)) }

	reordered := `version: 1
backend: {kind: process}
load: {prompts: {input_tokens: 200}, requests: 8}
matrix:
  max_tokens: [256, 128, 64]
  concurrency: [4, 1]
  gpu: [t4, l4]
  engine: [vllm]
model: m
name: another-name
engines: {vllm: {args: {dtype: float16}}}
seed: 99
repeats: 3
order: shuffled
slo: {other: error_rate == 0}
`
	if got := ids(parse(t, reordered)); !cmp.Equal(sorted(want), sorted(got)) {
		t.Errorf("another order, backend, seed and server give other cells:\n%s", cmp.Diff(sorted(want), sorted(got)))
	}
	for _, set := range []string{"model=other", "load.requests=16", "load.prompts.input_tokens=201", "load.warmup.requests=0", "load.sampling.temperature=0", "load.endpoint=completions"} {
		if got := ids(parse(t, simple, set)); slices.Contains(want, got[0]) {
			t.Errorf("--set %s does not change the cells", set)
		}
	}
	if got := ids(parse(t, simple, "load.sampling.seed=4")); !cmp.Equal(want, got) {
		t.Error("a sampling seed changes the cells")
	}
}

// TestSpecDigest holds what else counts, and what does not.
func TestSpecDigest(t *testing.T) {
	spec := func(src string, set ...string) string {
		p := parse(t, src, set...)
		return p.SpecDigest(p.Cells()[0])
	}
	base := spec(simple)
	for _, change := range []string{
		"seed: 2", "engines: {vllm: {args: {dtype: half}}}", "engines: {vllm: {image: x}}",
		"engines: {vllm: {env: {A: b}}}", "engines: {vllm: {cpus: [0]}}", "engines: {vllm: {profile: sglang}}",
		"engines: {vllm: {command: [x]}}", "model_revision: abc", "collect: [proc]", "timeouts: {request: 1m}",
	} {
		if spec(simple+change+"\n") == base {
			t.Errorf("%s does not change the digest", change)
		}
	}
	for set, same := range map[string]bool{"load.sampling.seed=4": false, "matrix.concurrency=[1]": true, "repeats=3": true} {
		if (spec(simple, set) == base) != same {
			t.Errorf("--set %s: the same digest is %t", set, !same)
		}
	}
	for _, same := range []string{"description: other words", "sinks: [csv]", "repeats: 4", "retries: 0", "order: shuffled", "validity: {max_moved: 3%}"} {
		if spec(simple+same+"\n") != base {
			t.Errorf("%s changes the digest", same)
		}
	}
}

// TestDigests holds what of a change is of the conditions and what of the subject:
// the spec digest is both.
func TestDigests(t *testing.T) {
	digests := func(src string) (conditions, subject, spec string) {
		p := parse(t, src)
		c := p.Cells()[0]
		return p.ConditionsDigest(c, ""), p.SubjectDigest(c, nil), p.SpecDigest(c)
	}
	conditions, subject, spec := digests(simple)
	for change, of := range map[string]string{
		"seed: 2": "conditions", "collect: [proc]": "conditions", "timeouts: {request: 1m}": "conditions",
		"engines: {vllm: {args: {dtype: half}}}": "subject", "engines: {vllm: {image: x}}": "subject",
		"engines: {vllm: {env: {A: b}}}": "subject", "model_revision: abc": "subject",
		"repeats: 4": "", "order: shuffled": "",
	} {
		c, s, both := digests(simple + change + "\n")
		if (c != conditions) != (of == "conditions") || (s != subject) != (of == "subject") || (both != spec) != (of != "") {
			t.Errorf("%s: conditions %s and %s, subject %s and %s, spec %s and %s", change, conditions, c, subject, s, spec, both)
		}
	}
	for _, change := range []string{"load:\n  client: std\n", "load:\n  stop: {error_rate: 50%}\n", "load:\n  probe: {}\n"} {
		if c, s, _ := digests(strings.Replace(simple, "load:\n", change, 1)); c == conditions || s != subject {
			t.Errorf("%s: conditions %s and %s, subject %s and %s", change, conditions, c, subject, s)
		}
	}

	p := parse(t, simple)
	cell := p.Cells()[0]
	std := parse(t, strings.Replace(simple, "load:\n", "load:\n  client: std\n", 1))
	if p.ConditionsDigest(cell, "std") != std.ConditionsDigest(cell, "") || std.ConditionsDigest(cell, "auto") != conditions {
		t.Error("--client is not the same as load.client")
	}
	seen := map[string]bool{subject: true}
	for _, row := range []result.Row{{"engine_version": "1"}, {"engine_version": "2"}, {"image_digest": "1"}, {"model_revision": "1"}} {
		seen[p.SubjectDigest(cell, row)] = true
	}
	if len(seen) != 5 {
		t.Errorf("what was recorded of a server makes %d subjects, want 5", len(seen))
	}
	if got := p.SubjectDigest(cell, result.Row{"engine_version": nil, "p50_ttft_ms": 1.0}); got != subject {
		t.Error("what was not recorded makes another subject")
	}
}

// TestVariables holds that what a plan reads of the environment is known, and
// secrets are not.
func TestVariables(t *testing.T) {
	variables := func(model, token string) string {
		opts := testOptions()
		opts.LookupEnv = func(name string) (string, bool) {
			v, ok := map[string]string{"SWEEP_MODEL": model, "HF_TOKEN": token}[name]
			return v, ok
		}
		src := strings.Replace(simple, "model: m", "model: ${SWEEP_MODEL}", 1) + "engines: {vllm: {env: {HF_TOKEN: \"${HF_TOKEN}\"}}}\n"
		p, err := Parse("p.yaml", t.TempDir(), []byte(src), opts)
		if err != nil {
			t.Fatal(err)
		}
		return p.Variables()
	}
	if a, b := variables("a", "x"), variables("b", "x"); a == b || a == "" {
		t.Errorf("two models have %q and %q", a, b)
	}
	if variables("a", "x") != variables("a", "y") {
		t.Error("a secret is in it")
	}
	if got := parse(t, simple).Variables(); got != "" {
		t.Errorf("a plan without variables has %q", got)
	}
}

// TestIdentity_load holds which keys of the load make another cell, and which
// only another way to measure the same one.
func TestIdentity_load(t *testing.T) {
	identity := func(set ...string) (cell, spec string) {
		src := simple
		for _, s := range set {
			src = strings.Replace(src, "load:\n", "load:\n  "+s+"\n", 1)
		}
		p := parse(t, src)
		return p.Cells()[0].ID, p.SpecDigest(p.Cells()[0])
	}
	cell, spec := identity()
	for _, other := range []string{
		"conversation: {turns: 2}", "cancel: {share: 0.1, after: 1s}", "probe: {}", "until: {metric: e2e_ms, within: 5%, min_requests: 4}",
		`request_headers: {X-N: "{n}"}`,
	} {
		if c, s := identity(other); c == cell || s == spec {
			t.Errorf("%s: another cell %t, another digest %t", other, c != cell, s != spec)
		}
	}
	for _, other := range []string{"client: std", "client: fast", "stop: {error_rate: 50%}"} {
		if c, s := identity(other); c != cell || s == spec {
			t.Errorf("%s: another cell %t, another digest %t", other, c != cell, s != spec)
		}
	}
	if c, s := identity("client: auto"); c != cell || s != spec {
		t.Errorf("client: auto, which is the default: another cell %t, another digest %t", c != cell, s != spec)
	}
}

// TestIdentity_files holds that a file's content is part of the spec digest, and its
// path is not.
func TestIdentity_files(t *testing.T) {
	read := func(name, trace, pairs string) *plan.Plan {
		dir := t.TempDir()
		for file, text := range map[string]string{"t.txt": trace, "p.csv": pairs} {
			if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		p, err := Parse(name, dir, []byte(`
version: 1
name: p
model: m
backend: sim
matrix: {engine: vllm, gpu: l4}
load:
  trace: {file: t.txt, format: timestamps}
  prompts: {distribution: empirical, pairs_file: p.csv}
`), testOptions())
		if err != nil {
			t.Fatal(err)
		}
		if got := p.Load.Trace.File; got != filepath.Join(dir, "t.txt") || p.Load.Prompts.PairsFile != filepath.Join(dir, "p.csv") {
			t.Errorf("the files are %s and %s, in %s", got, p.Load.Prompts.PairsFile, dir)
		}
		return p
	}
	base := read("a", "0\n1\n", "1,2\n")
	cell := base.Cells()[0]
	for name, tt := range map[string]struct {
		p    *plan.Plan
		same bool
	}{
		"another folder": {read("b", "0\n1\n", "1,2\n"), true},
		"another trace":  {read("a", "0\n2\n", "1,2\n"), false},
		"other pairs":    {read("a", "0\n1\n", "1,3\n"), false},
	} {
		c := tt.p.Cells()[0]
		if c.ID != cell.ID || (tt.p.SpecDigest(c) == base.SpecDigest(cell)) != tt.same || (tt.p.Digest() == base.Digest()) != tt.same {
			t.Errorf("%s: cell %s and %s, spec %s and %s", name, c.ID, cell.ID, tt.p.SpecDigest(c), base.SpecDigest(cell))
		}
	}
}

func TestOrder_shuffled(t *testing.T) {
	src := strings.Replace(simple, "gpu: [l4, t4]", "gpu: [l4, t4, rtx-2000-ada, a100-80gb]", 1) + "order: shuffled\n"
	order := func(p *plan.Plan) (out []string) {
		for _, d := range p.Deployments() {
			for _, c := range d.Cells {
				out = append(out, c.ID)
			}
		}
		return out
	}
	a, b, c := order(parse(t, src)), order(parse(t, src)), order(parse(t, src+"seed: 2\n"))
	if !cmp.Equal(a, b) {
		t.Error("the same seed gives another order")
	}
	if cmp.Equal(a, c) {
		t.Error("another seed gives the same order")
	}
	if declared := ids(parse(t, src)); cmp.Equal(a, declared) || len(a) != len(declared) {
		t.Errorf("not shuffled: %v", a)
	}
}

// TestExpand_properties holds, for matrices of all shapes, that the cells are
// the product without what is excluded and with what is included, that ids are
// unique, and that the order of keys changes neither ids nor digests.
func TestExpand_properties(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		type axis struct {
			name   string
			values []int
		}
		all := []string{"concurrency", "max_tokens", "input_tokens", "gpu_count", "args.max-num-seqs", "args.block-size"}
		names := rapid.SliceOfNDistinct(rapid.SampledFrom(all), 1, len(all), rapid.ID[string]).Draw(rt, "axes")
		var axes []axis
		product, pivot := 1, -1
		for i, name := range names {
			values := rapid.SliceOfNDistinct(rapid.IntRange(1, 30), 1, 4, rapid.ID[int]).Draw(rt, name)
			axes = append(axes, axis{name, values})
			product *= len(values)
			if name == "concurrency" {
				pivot = i
			}
		}
		exclude, excluded := "", 0
		if pivot >= 0 && len(axes[pivot].values) > 1 {
			v := axes[pivot].values[0]
			exclude = fmt.Sprintf("  exclude: ['concurrency == %d']\n", v)
			excluded = product / len(axes[pivot].values)
		}
		source := func(axes []axis) string {
			var b strings.Builder
			b.WriteString("version: 1\nname: p\nmodel: m\nbackend: sim\nmatrix:\n  engine: vllm\n")
			given := make(map[string]bool)
			for _, a := range axes {
				given[a.name] = true
				fmt.Fprintf(&b, "  %s: %s\n", a.name, strings.ReplaceAll(fmt.Sprint(a.values), " ", ", "))
			}
			b.WriteString(exclude)
			b.WriteString("load:\n  requests_per_worker: 1\n")
			if !given["concurrency"] {
				b.WriteString("  concurrency: 2\n")
			}
			if !given["max_tokens"] {
				b.WriteString("  max_tokens: 2\n")
			}
			if !given["input_tokens"] {
				b.WriteString("  prompts: {input_tokens: 2}\n")
			}
			return b.String()
		}
		p := parse(t, source(axes))
		if got, want := len(p.Cells()), product-excluded; got != want {
			rt.Fatalf("%d cells, want %d", got, want)
		}
		got := make(map[string]string)
		for _, d := range p.Deployments() {
			for _, c := range d.Cells {
				if other, ok := got[c.ID]; ok {
					rt.Fatalf("two cells %s: %s and %v", c.ID, other, c.Settings)
				}
				got[c.ID] = d.ID + p.SpecDigest(c)
			}
		}
		if len(got) != len(p.Cells()) {
			rt.Fatalf("%d cells in deployments, %d in the plan", len(got), len(p.Cells()))
		}
		r := rand.New(rand.NewPCG(1, uint64(product)))
		for i := range axes {
			r.Shuffle(len(axes[i].values), func(a, b int) {
				axes[i].values[a], axes[i].values[b] = axes[i].values[b], axes[i].values[a]
			})
		}
		r.Shuffle(len(axes), func(a, b int) { axes[a], axes[b] = axes[b], axes[a] })
		q := parse(t, source(axes))
		again := make(map[string]string)
		for _, d := range q.Deployments() {
			for _, c := range d.Cells {
				again[c.ID] = d.ID + q.SpecDigest(c)
			}
		}
		if diff := cmp.Diff(got, again); diff != "" {
			rt.Fatalf("another order of keys and values gives other cells:\n%s", diff)
		}
	})
}

func TestRange(t *testing.T) {
	for _, tt := range []struct {
		axis, spec string
		want       []plan.Value
	}{
		{"concurrency", "{from: 1, to: 64, factor: 2}", []plan.Value{int64(1), int64(2), int64(4), int64(8), int64(16), int64(32), int64(64)}},
		{"concurrency", "{from: 1, to: 100, factor: 10}", []plan.Value{int64(1), int64(10), int64(100)}},
		{"concurrency", "{from: 3, to: 3, factor: 2}", []plan.Value{int64(3)}},
		{"concurrency", "{from: 8, to: 30, step: 8}", []plan.Value{int64(8), int64(16), int64(24)}}, // the end need not be met
		{"max_tokens", "{from: 1k, to: 4k, factor: 2}", []plan.Value{int64(1000), int64(2000), int64(4000)}},
		{"request_rate", "{from: 0.1, to: 0.5, step: 0.1}", []plan.Value{0.1, 0.2, 0.3, 0.4, 0.5}}, // no 0.30000000000000004
		{"request_rate", "{from: 1, to: 4, factor: 2}", []plan.Value{1.0, 2.0, 4.0}},
		{"shared_prefix", "{from: 0, to: 100%, step: 0.5}", []plan.Value{0.0, 0.5, 1.0}},
		{"args.swap-space", "{from: 0.5, to: 2, factor: 2}", []plan.Value{0.5, 1.0, 2.0}},
		{"args.swap-space", "{from: -0.3, to: 0, step: 0.1}", []plan.Value{-0.3, -0.2, -0.1, 0.0}}, // an end that rounding passes
		{"args.swap-space", "{from: -0.7, to: -0.1, step: 0.2}", []plan.Value{-0.7, -0.5, -0.3, -0.1}},
		{"args.max-num-seqs", "{from: 1, to: 3, step: 1}", []plan.Value{int64(1), int64(2), int64(3)}},
	} {
		loop := "concurrency: 1"
		if tt.axis == "concurrency" || tt.axis == "request_rate" {
			loop = "max_tokens: 4"
		}
		src := fmt.Sprintf("version: 1\nname: p\nmodel: m\nbackend: sim\nmatrix:\n  engine: vllm\n  %s: %s\nload:\n  requests: 100\n  %s\n", tt.axis, tt.spec, loop)
		if tt.axis != "max_tokens" && loop != "max_tokens: 4" {
			src += "  max_tokens: 4\n"
		}
		src += "  prompts: {input_tokens: 4}\n"
		if got := parse(t, src).Matrix.Axis(tt.axis).Values; !cmp.Equal(got, tt.want) {
			t.Errorf("%s %s = %v, want %v", tt.axis, tt.spec, got, tt.want)
		}
	}
}

// TestLoad_output holds when an output is expected to be exact.
func TestLoad_output(t *testing.T) {
	for _, tt := range []struct{ engine, set, want string }{
		{"vllm", "load.endpoint=chat", "exact"},
		{"generic-openai", "load.endpoint=chat", "natural"}, // knows no ignore_eos
		{"vllm", "load.output=natural", "natural"},
		{"vllm", "load.sampling.ignore_eos=false", "natural"},
		{"vllm", "load.sampling.stop=[x]", "natural"},
	} {
		p := parse(t, strings.Replace(simple, "engine: vllm", "engine: "+tt.engine, 1), tt.set)
		ld := p.Cells()[0].Load
		if ld.Output != tt.want {
			t.Errorf("%s %s: output = %s, want %s", tt.engine, tt.set, ld.Output, tt.want)
		}
		if exact := ld.Sampling.IgnoreEOS != nil && *ld.Sampling.IgnoreEOS; exact != (tt.want == "exact") {
			t.Errorf("%s %s: ignore_eos = %v with output %s", tt.engine, tt.set, exact, ld.Output)
		}
	}
}

func TestServer_argsAndEnv(t *testing.T) {
	p := open(t, "testdata/ok/closed.yaml")
	for _, c := range p.Cells() {
		if c.Server.Engine != "vllm" {
			continue
		}
		var names []string
		for _, a := range c.Server.Args {
			names = append(names, a.Name)
		}
		want := []string{"dtype", "enable-prefix-caching", "gpu-memory-utilization", "lora-modules", "max-num-seqs", "tensor-parallel-size"}
		if !cmp.Equal(names, want) {
			t.Fatalf("args = %v, want %v", names, want)
		}
		if c.Server.Served != "chat" || c.Server.Env["HF_TOKEN"].Reveal() != "canary-hf" || c.Server.Env["OMP_NUM_THREADS"].Ref() == "" {
			t.Fatalf("server = %+v", c.Server)
		}
	}
}

func TestFilter(t *testing.T) {
	p := open(t, "testdata/ok/closed.yaml")
	for _, wrong := range []string{"", "concurrency", "concurency > 3", "p95_ttft_ms > 3", "gpu == 3", "all([1], true)", "true"} {
		_, err := p.Filter(wrong)
		d, ok := plan.IsDiagnostics(err)
		if !ok {
			t.Errorf("--only %q: error = %v, want diagnostics", wrong, err)
			continue
		}
		if d.List[0].File != "--only" || d.List[0].Line != 1 {
			t.Errorf("--only %q: %s", wrong, d.List[0])
		}
	}
	// The axis input_tokens goes by its own name and by its column's.
	f, err := p.Filter(`input_tokens == 100 && target_input_tokens == 100 && engine != "mine" && arg_max_num_seqs > 200`)
	if err != nil {
		t.Fatal(err)
	}
	var kept []plan.Cell
	for _, c := range p.Cells() {
		ok, err := f(c)
		if err != nil {
			t.Fatal(err)
		}
		if ok {
			kept = append(kept, c)
		}
	}
	if len(kept) != 1 || kept[0].Load.Concurrency != 64 {
		t.Errorf("kept %d cells, want the included one: %+v", len(kept), kept)
	}
}
