package compare

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"sweep.dev/sweep/internal/schematest"
	"sweep.dev/sweep/report/conclude"
	"sweep.dev/sweep/report/reporttest"
	"sweep.dev/sweep/result"
	"sweep.dev/sweep/result/col"
	"sweep.dev/sweep/result/noise"
	"sweep.dev/sweep/schemas"
)

// cells returns a run of made-up rows: a line for each cell with its tokens a second in each of
// its trials, which all have the conditions cond.
func cells(cond string, rates ...[]float64) string {
	var b strings.Builder
	fmt.Fprintf(&b, "axes engine! concurrency\nrepeats %d\n", len(rates[0]))
	for i, c := range rates {
		fmt.Fprintf(&b, "cell vllm %d\n", i+1)
		for _, tok := range c {
			fmt.Fprintf(&b, "  ok tok=%g n=200 failed=0 conditions_digest=%s engine_version=1\n", tok, cond)
		}
	}
	return b.String()
}

func side(t *testing.T, text string) Side { return Of(reporttest.MadeUp(t, text)) }

func compared(t *testing.T, base, head string, o Options) *Comparison {
	t.Helper()
	return Compare(side(t, base), side(t, head), o)
}

// figure returns that of tokens a second in a cell.
func figure(t *testing.T, c *Comparison, cell int) Figure {
	t.Helper()
	for _, f := range c.Cells[cell].Figures {
		if f.Metric == col.ThroughputTokS {
			return f
		}
	}
	t.Fatal("no figure of tokens a second")
	return Figure{}
}

var steady = []float64{1000, 1002, 998, 1001}

func times(v []float64, by float64) []float64 {
	out := make([]float64, len(v))
	for i, x := range v {
		out[i] = x * by * (1 + 0.001*float64(i%2)) // not the same noise
	}
	return out
}

// TestCompare_verdicts holds the verdict and the regression of a cell's tokens a second.
func TestCompare_verdicts(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		head       []float64
		verdict    Verdict
		regression bool
	}{
		"equal":           {times(steady, 1), Same, false},
		"faster":          {times(steady, 1.05), Faster, false},
		"a little slower": {times(steady, 0.96), Slower, false},
		"much slower":     {times(steady, 0.9), Slower, true},
		"noise":           {[]float64{900, 1120, 1000, 960}, CannotTell, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := compared(t, cells("a", steady), cells("a", c.head), Options{MaxRegression: 0.05})
			f := figure(t, got, 0)
			if f.Verdict != c.verdict || f.Regression != c.regression || got.Regressions > 0 != c.regression {
				t.Errorf("%s, regression %v, %d regressions: want %s, %v", f.Verdict, f.Regression, got.Regressions, c.verdict, c.regression)
			}
			if !f.Paired {
				t.Error("trials of equal conditions are not paired")
			}
		})
	}
}

// TestCompare_directions holds that each metric knows which way is better.
func TestCompare_directions(t *testing.T) {
	t.Parallel()
	row := func(v float64) string {
		text := "axes engine! concurrency\nrepeats 3\ncell vllm 1\n"
		for i := range 3 {
			w := v * (1 + 0.001*float64(i))
			text += fmt.Sprintf("  ok tok=%g ttft=%g/%g tpot=%g/%g e2e=%g/%g usd=%g n=200 failed=%d\n", w, w, w, w, w, w, w, w, int(v/100))
		}
		return text
	}
	got := compared(t, row(1000), row(10000), Options{})
	for _, f := range got.Cells[0].Figures {
		want := Slower
		if f.Metric == col.ThroughputTokS {
			want = Faster
		}
		if f.Verdict != want {
			t.Errorf("%s of ten times as much: %s, want %s", f.Metric, f.Verdict, want)
		}
	}
	if v := got.Cells[0].Verdict; v != Slower {
		t.Errorf("a cell that is faster in one figure and slower in others: %s", v)
	}
}

// TestCompare_pairs holds that trials are held against each other only if they had the
// same arrivals.
func TestCompare_pairs(t *testing.T) {
	t.Parallel()
	a, b := []float64{1000, 1300, 700}, []float64{1050, 1365, 735}
	if f := figure(t, compared(t, cells("a", a), cells("a", b), Options{}), 0); !f.Paired || f.Verdict != Faster {
		t.Errorf("of the same conditions: paired %v, %s", f.Paired, f.Verdict)
	}
	if f := figure(t, compared(t, cells("a", a), cells("b", b), Options{}), 0); f.Paired || f.Verdict != CannotTell {
		t.Errorf("of other conditions: paired %v, %s", f.Paired, f.Verdict)
	}
}

// TestCompare_left holds that what has no valid trial on both sides is listed and never
// compared.
func TestCompare_left(t *testing.T) {
	t.Parallel()
	base := "axes engine! concurrency\ncell vllm 1\n ok tok=1 n=200\ncell vllm 2\n ok tok=1 n=200\ncell vllm 3\n ok tok=1 n=200 simulated\ncell vllm 4\n pending\n"
	head := "axes engine! concurrency\ncell vllm 1\n invalid tok=9 n=200 reason=\"coalesced|shared\"\ncell vllm 2\n ok tok=1 n=200 method=1\ncell vllm 3\n ok tok=1 n=200\ncell vllm 4\n ok tok=1 n=200\ncell vllm 5\n ok tok=1 n=200\n"
	got := compared(t, base, head, Options{MaxRegression: 0.05})
	if len(got.Cells) != 0 {
		t.Errorf("%d cells are compared", len(got.Cells))
	}
	var all []string
	for _, l := range got.Left {
		all = append(all, l.Why)
	}
	for _, want := range []string{"INVALID (coalesced) in head", "methods", "simulated", "pending in base", "only in head"} {
		if !strings.Contains(strings.Join(all, "\n"), want) {
			t.Errorf("%q is not in %q", want, all)
		}
	}
	if n := got.Holes(); n != 4 { // all but the one of head alone
		t.Errorf("%d holes", n)
	}
	var b bytes.Buffer
	if err := got.Write(&b, false); err != nil || !strings.Contains(b.String(), "nothing can be compared") {
		t.Errorf("%v: %s", err, b.String())
	}
}

// TestCompare_holes holds which cells of both plans count as not compared, beside one that is.
func TestCompare_holes(t *testing.T) {
	t.Parallel()
	for sides, want := range map[[2]string]int{
		{" ok tok=1 n=200", " ok tok=1 n=200"}:                                   0,
		{" ok tok=1 n=200", " invalid tok=9 n=200 reason=\"coalesced|shared\""}:  1,
		{" ok tok=1 n=200", " failed error=\"signal|killed\""}:                   1,
		{" ok tok=1 n=200", " failed start error=\"oom.kv|no memory\""}:          1,
		{" pending", " pending"}:                                                 1,
		{" failed start error=\"oom.kv|x\"", " failed start error=\"oom.kv|x\""}: 0,
	} {
		text := func(of string) string {
			return "axes engine! concurrency\ncell vllm 1\n ok tok=1 n=200\ncell vllm 2\n" + of + "\n"
		}
		got := compared(t, text(sides[0]), text(sides[1]), Options{MaxRegression: 0.05})
		if n := got.Holes(); n != want || strings.Contains(got.Summary(), "could not be compared") != (want > 0) {
			t.Errorf("%q: %d holes, want %d: %s", sides, n, want, got.Summary())
		}
	}
}

// TestCompare_methods holds that two methods are named before all else, in the summary
// too, and that noise of another method is not used.
func TestCompare_methods(t *testing.T) {
	t.Parallel()
	const text = "axes engine! concurrency\ncell vllm 1\n ok tok=1 n=200%s\n"
	got := compared(t, fmt.Sprintf(text, " method=2"), fmt.Sprintf(text, ""), Options{})
	if want := (Difference{"method", "2", "3"}); len(got.Cells) != 0 || len(got.Differs) == 0 || got.Differs[0] != want {
		t.Errorf("%d cells, %v", len(got.Cells), got.Differs)
	}
	if got := got.Summary(); !strings.Contains(got, "methods 2 and 3") {
		t.Error(got)
	}
	same := compared(t, fmt.Sprintf(text, ""), fmt.Sprintf(text, ""), Options{})
	if len(same.Cells) != 1 || len(same.Differs) > 0 && same.Differs[0].What == "method" {
		t.Errorf("%d cells, %v", len(same.Cells), same.Differs)
	}
	o := Options{Noise: &noise.File{Method: 2}}
	for method, known := range map[int64]bool{2: true, 3: false} {
		trial := conclude.Trial{Outcome: &result.Outcome{Row: result.Row{"status": result.StatusOK, "method": method}}}
		if got := o.noiseOf(&conclude.Point{Trials: []conclude.Trial{trial}, Valid: 1}); (got != nil) != known {
			t.Errorf("noise of method 2 for method %d: %v", method, got)
		}
	}
}

// TestCompare_shares holds that errors are judged by the difference of their shares.
func TestCompare_shares(t *testing.T) {
	t.Parallel()
	row := func(failed int) string {
		return fmt.Sprintf("axes engine! concurrency\ncell vllm 1\n ok tok=1000 n=1000 failed=%d\n", failed)
	}
	for _, c := range []struct {
		base, head int
		want       Verdict
		regression bool
	}{{0, 0, Same, false}, {0, 40, Slower, false}, {0, 200, Slower, true}, {40, 0, Faster, false}, {3, 2, Same, false}} {
		got := compared(t, row(c.base), row(c.head), Options{MaxRegression: 0.05})
		for _, f := range got.Cells[0].Figures {
			if f.Metric == col.ErrorRate && (f.Verdict != c.want || f.Regression != c.regression) {
				t.Errorf("%d and %d of 1000 failed: %s, regression %v, want %s, %v", c.base, c.head, f.Verdict, f.Regression, c.want, c.regression)
			}
		}
	}
}

// TestCompare_noneFailed holds that shares of which no request failed are the same only if the
// requests of each side are enough to say so, and that the cell is not the same without it.
func TestCompare_noneFailed(t *testing.T) {
	t.Parallel()
	row := func(n int) string {
		return fmt.Sprintf("axes engine! concurrency\nrepeats 2\ncell vllm 1\n ok tok=1000 n=%d failed=0 spread=0.001\n", n)
	}
	for _, c := range []struct {
		base, head int
		want       Verdict
		why        string
	}{
		{20, 20, CannotTell, "no request failed on either side, of 20 and 20: a share of up to 16.8 % would not show"},
		{184, 184, CannotTell, "no request failed on either side, of 184 and 184: a share of up to 2 % would not show"},
		{185, 185, Same, "no request failed on either side"},
		{20, 1000, CannotTell, "no request failed on either side, of 20 and 1000: a share of up to 16.8 % would not show"},
		{1000, 1000, Same, "no request failed on either side"},
	} {
		got := compared(t, row(c.base), row(c.head), Options{MaxRegression: 0.05})
		for _, f := range got.Cells[0].Figures {
			want, why := Same, ""
			if f.Metric == col.ErrorRate {
				want, why = c.want, c.why
			}
			if f.of.Judged && f.Said() && (f.Verdict != want || f.Why != why) {
				t.Errorf("%s of %d and %d requests: %s (%s), want %s (%s)", f.Metric, c.base, c.head, f.Verdict, f.Why, want, why)
			}
			if f.Metric == col.ErrorRate && (f.judged || f.Ratio != nil || f.Base == nil || *f.Base != 0) {
				t.Errorf("a share of none: %+v", f)
			}
		}
		if v := got.Cells[0].Verdict; v != c.want {
			t.Errorf("the cell of %d and %d requests: %s, want %s", c.base, c.head, v, c.want)
		}
	}
}

// TestCompare_noise holds that a known noise between runs widens the interval of a few
// steady trials, and that what it hides is too noisy and no regression.
func TestCompare_noise(t *testing.T) {
	t.Parallel()
	base, head := cells("a", steady), cells("a", times(steady, 0.9))
	file := func(between float64) *noise.File {
		sd := 0.001
		spread := noise.Spread{Runs: 10, Trials: 40, PerRun: 4, Between: between, BetweenDF: 9, Within: &sd, WithinDF: 30}
		return &noise.File{Cells: []noise.Cell{{ID: "c000", Spreads: map[string]noise.Spread{col.ThroughputTokS: spread}}}}
	}
	for _, c := range []struct {
		between    float64
		want       Verdict
		regression bool
	}{{0.001, Slower, true}, {0.025, Slower, false}, {0.10, TooNoisy, false}} {
		got := compared(t, base, head, Options{MaxRegression: 0.05, Noise: file(c.between)})
		f := figure(t, got, 0)
		if f.Verdict != c.want || f.Regression != c.regression || f.Scope != "between runs" || !got.NoiseKnown || got.TooNoisy() != (c.want == TooNoisy) {
			t.Errorf("noise %g: %s, regression %v, %s, floor %g", c.between, f.Verdict, f.Regression, f.Scope, *f.Floor)
		}
	}
	if got := compared(t, base, head, Options{}); got.NoiseKnown {
		t.Error("the noise is known without a file")
	}
}

// TestCompare_identity holds that a difference is told, with its values.
func TestCompare_identity(t *testing.T) {
	t.Parallel()
	base, head := side(t, cells("a", steady)), side(t, strings.ReplaceAll(cells("b", steady), "engine_version=1", "engine_version=2"))
	base.Plan = json.RawMessage(`{"seed": 1, "engines": {"vllm": {"args": {"max-num-seqs": 128}}}, "repeats": 3}`)
	head.Plan = json.RawMessage(`{"seed": 1, "engines": {"vllm": {"args": {"max-num-seqs": 64}}}, "repeats": 5}`)
	got := Compare(base, head, Options{})
	text := fmt.Sprint(got.Differs)
	for _, want := range []string{"{engine_version 1 2}", "{engines.vllm.args.max-num-seqs 128 64}"} {
		if !strings.Contains(text, want) {
			t.Errorf("%s is not in %s", want, text)
		}
	}
	if strings.Contains(text, "repeats") || strings.Contains(fmt.Sprint(got.Same), "arguments") || !strings.Contains(fmt.Sprint(got.Same), "seed") {
		t.Errorf("differs %s, same %v", text, got.Same)
	}
	head.Plan = base.Plan
	if text := fmt.Sprint(Compare(base, head, Options{}).Differs); !strings.Contains(text, "{conditions_digest a b}") {
		t.Errorf("what no key shows is not told: %s", text)
	}
}

// TestCompare_forms holds that JSON is what its schema says, and that each figure of the CSV
// names the rows of both sides.
func TestCompare_forms(t *testing.T) {
	t.Parallel()
	schema := schematest.Compile(t, schemas.Compare)
	for _, got := range []*Comparison{
		compared(t, cells("a", steady, steady), cells("a", times(steady, 0.9)), Options{MaxRegression: 0.05}),
		compared(t, cells("a", steady[:1]), "axes engine! concurrency\ncell vllm 1\n pending\n", Options{}),
	} {
		schematest.Holds(t, schema, got)
	}
	var all []string
	for row := range compared(t, cells("a", steady), cells("a", times(steady, 0.9)), Options{}).Rows() {
		row, err := row.Conform(Columns())
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, fmt.Sprint(row["metric"], row["verdict"], row["base_rows"]))
	}
	if want := col.ThroughputTokS + "slower" + "c000/t01 c000/t02 c000/t03 c000/t04"; len(all) == 0 || all[0] != want {
		t.Errorf("the rows are %q, want %q first", all, want)
	}
}

// TestComparison_Nothing holds that the reason is that of a cell which both sides have.
func TestComparison_Nothing(t *testing.T) {
	t.Parallel()
	pending := "axes engine! concurrency\ncell vllm 1\n pending\ncell vllm 2\n pending\n"
	for want, base := range map[string]string{
		"nothing can be compared: vllm concurrency=1: pending in head; and 1 more cell": cells("a", steady[:1], steady[:1]),
		"nothing can be compared: the two sides have no cell in common":                 "axes engine! concurrency\n",
	} {
		if got := compared(t, base, pending, Options{}).Nothing(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// TestDiscover holds the example of Benjamini and Hochberg (1995): of 15 chances the
// first four are discoveries at 5 %.
func TestDiscover(t *testing.T) {
	t.Parallel()
	p := []float64{0.0001, 0.0004, 0.0019, 0.0095, 0.0201, 0.0278, 0.0298, 0.0344, 0.0459, 0.3240, 0.4262, 0.5719, 0.6528, 0.7590, 1}
	if got := Discover(p, 0.05); got != 0.0095 {
		t.Errorf("the bound is %g, want 0.0095", got)
	}
	if got := Discover(p[9:], 0.05); got >= 0 {
		t.Errorf("of none the bound is %g", got)
	}
}

var update = flag.Bool("update", false, "rewrite the block of docs/compare.md")

// TestPage holds the block of docs/compare.md to what is printed of two such runs.
func TestPage(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(1, 2))
	run := func(version string, tok, ttft map[int]float64) Side {
		text := "axes engine! gpu! concurrency\nrepeats 5\n"
		for _, gpu := range []string{"l4", "h100"} {
			for _, c := range []int{1, 2, 4, 8, 16, 32} {
				text += fmt.Sprintf("cell vllm %s %d\n", gpu, c)
				for range 5 {
					rate, first := 60*float64(c)*(1+0.005*rng.NormFloat64()), (20+6*float64(c))*(1+0.02*rng.NormFloat64())
					if gpu == "h100" {
						rate, first = 3*rate*(1+tok[c]), first/2*(1+ttft[c])
					}
					text += fmt.Sprintf("  ok tok=%.4g ttft=10/%.4g n=600 failed=0 engine_version=%s client_host=load-1 conditions_digest=a model=qwen gpu_uuid=GPU-%s driver_version=d\n", rate, first, version, gpu)
				}
			}
		}
		s := side(t, text)
		s.Plan = json.RawMessage(`{"seed": 1}`)
		return s
	}
	old, fresh := run("v0.31.2", nil, nil), run("v0.32.0", map[int]float64{8: 0.05, 32: -0.08}, map[int]float64{32: 0.09})
	var b strings.Builder
	if err := Compare(old, fresh, Options{MaxRegression: 0.05}).Write(&b, false); err != nil {
		t.Fatal(err)
	}
	const page = "../../docs/compare.md"
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	_, rest, ok := strings.Cut(string(text), "<!-- checked: report/compare.TestPage -->\n```text\n")
	block, _, _ := strings.Cut(rest, "```\n")
	if !ok {
		t.Fatal("the page has no block of this test")
	}
	if *update {
		if err := os.WriteFile(page, []byte(strings.Replace(string(text), "text\n"+block+"```", "text\n"+b.String()+"```", 1)), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if block != b.String() {
		t.Errorf("docs/compare.md shows\n%s\nand printed is (-update writes it)\n%s", block, b.String())
	}
}

// TestNoiseOf holds that a noise file of runs is what its schema says, and is found by the
// comparison of two more.
func TestNoiseOf(t *testing.T) {
	t.Parallel()
	var runs []Side
	for i := range 4 {
		runs = append(runs, side(t, cells("a", times(steady, 1+0.03*float64(i%2)))))
	}
	f := noise.File{Version: noise.Version, Runs: []string{"1", "2", "3", "4"}, Cells: NoiseOf(runs)}
	if s, ok := f.Find("c000", col.ThroughputTokS); !ok || s.Between < 0.015 || s.Between > 0.02 || *s.Within > 0.003 || s.BetweenDF != 3 {
		t.Errorf("the noise is %+v", s)
	}
	schematest.Holds(t, schematest.Compile(t, schemas.Noise), f)
	if got := figure(t, Compare(runs[0], runs[1], Options{MaxRegression: 0.05, Noise: &f}), 0); got.Verdict != TooNoisy {
		t.Errorf("two runs as far apart as all others: %s", got.Verdict)
	}
	if other := NoiseOf([]Side{runs[0], side(t, cells("b", steady))}); len(other) > 0 {
		t.Errorf("runs of other conditions have a noise: %+v", other)
	}
}

// TestCompare_far holds that a ratio far beyond its noise has a verdict, or says how much
// there is too little of: more trials, and as many decide it.
func TestCompare_far(t *testing.T) {
	t.Parallel()
	scatter := []float64{1, 1.25, 0.9, 1.1, 0.97, 1.05, 0.94, 1.02, 1.12, 0.99, 1.01, 0.95}
	rates := func(mean float64, n, from int) (all []float64) {
		for i := range n {
			all = append(all, mean*scatter[(from+i)%len(scatter)])
		}
		return all
	}
	for name, c := range map[string]struct {
		low, high float64
		other     string // the conditions of head
		far       bool
	}{
		"pairs":            {161, 918, "a", true},
		"unpaired":         {161, 918, "b", true},
		"lost":             {918, 161, "a", true},
		"within noise":     {161, 170, "a", false},
		"within, no pairs": {161, 190, "b", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			of := func(n int) *Comparison {
				return compared(t, cells("a", rates(c.low, n, 0)), cells(c.other, rates(c.high, n, 3)), Options{MaxRegression: 0.05})
			}
			two := of(2)
			f := figure(t, two, 0)
			var b bytes.Buffer
			if err := two.Write(&b, false); err != nil {
				t.Fatal(err)
			}
			if !c.far {
				if f.Verdict != CannotTell || strings.Contains(b.String(), "too few") || two.TooNoisy() {
					t.Errorf("%+v, %s", f, &b)
				}
				return
			}
			if f.Verdict != CannotTell {
				return
			}
			more := 0
			if n, err := fmt.Sscanf(f.Word(), "too few trials: %d more", &more); n != 1 {
				t.Fatalf("%q, %v: %+v", f.Word(), err, f)
			}
			if f.Repeats == nil || *f.Repeats != 2+more || !two.TooNoisy() {
				t.Errorf("%d more of two: %v", more, f.Repeats)
			}
			for _, want := range []string{f.values() + "  " + f.Word(), "too few trials to tell in 1 cell"} {
				if text := b.String(); !strings.Contains(text, want) || strings.Contains(text, "~") {
					t.Errorf("%s has no %q, or a ~", text, want)
				}
			}
			if f := figure(t, of(2+more), 0); f.Verdict != Faster && f.Verdict != Slower || f.tooFew != "" {
				t.Errorf("of %d trials: %s, %q", 2+more, f.Verdict, f.tooFew)
			}
		})
	}
}

// TestCompare_farFamily holds the same of a figure that is certain by itself, but not among
// those of many cells.
func TestCompare_farFamily(t *testing.T) {
	t.Parallel()
	alike := []float64{1000, 1150, 900}
	base, head := [][]float64{{161, 166, 150}}, [][]float64{{380, 300, 350}}
	for range 30 {
		base, head = append(base, alike), append(head, []float64{1100, 950, 1010})
	}
	got := compared(t, cells("a", base...), cells("b", head...), Options{})
	f := figure(t, got, 0)
	if f.change > Level || f.Verdict == CannotTell && f.tooFew == "" {
		t.Errorf("chance %g: %s, %q", f.change, f.Verdict, f.tooFew)
	}
}

// TestCompare_inPart holds that a cell which is INVALID in some figures is compared by the others,
// and still counts as one that could not be compared.
func TestCompare_inPart(t *testing.T) {
	t.Parallel()
	const head = `axes engine! concurrency
repeats 4
cell vllm 1
  invalid tok=500 ttft=900/1900 n=200 reason=client_lag invalid_figures=p50_ttft_ms,p95_ttft_ms
  invalid tok=502 ttft=900/1900 n=200 reason=client_lag invalid_figures=p50_ttft_ms,p95_ttft_ms
  invalid tok=499 ttft=900/1900 n=200 reason=client_lag invalid_figures=p50_ttft_ms,p95_ttft_ms
  invalid tok=50 ttft=900/1900 n=200 reason=engine_restarted
`
	base := strings.ReplaceAll(cells("c", steady), "tok=", "ttft=100/200 tok=")
	got := compared(t, base, head, Options{MaxRegression: 0.05})
	if f := figure(t, got, 0); f.Head == nil || *f.Head < 500 || !f.Regression {
		t.Errorf("tokens a second: %+v", f)
	}
	for _, f := range got.Cells[0].Figures {
		if strings.Contains(f.Metric, "ttft") && (f.Head != nil || f.Regression) {
			t.Errorf("an INVALID figure is compared: %+v", f)
		}
	}
	if n := got.Holes(); n != 1 || !strings.Contains(strings.Join(got.LeftOut(false), ""), "INVALID (client_lag) in head, but for the figures that are VALID") {
		t.Errorf("%d holes: %q", n, got.LeftOut(false))
	}
}
