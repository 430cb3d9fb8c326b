package compare

import (
	"bytes"
	"encoding/json"
	"os"
	"strings"
	"testing"
	"unicode/utf8"

	"sweep.dev/sweep/internal/schematest"
	"sweep.dev/sweep/judge/quality"
	"sweep.dev/sweep/report/paired"
	"sweep.dev/sweep/report/reporttest"
	"sweep.dev/sweep/result"
	"sweep.dev/sweep/result/col"
	"sweep.dev/sweep/schemas"
)

// answering returns a side of two cells of one deployment each, whose plan has the objectives slo. A
// deployment answered as its pattern says to prompts with the digest; "" is none.
func answering(t *testing.T, digest, slo, first, second string) Side {
	t.Helper()
	s := side(t, "axes engine! concurrency\ncell vllm 1\n ok tok=1 n=200\ncell sglang 1\n ok tok=1 n=200\n")
	s.Plan = json.RawMessage(`{"slo": {` + slo + `}}`)
	dir := t.TempDir()
	for i, pattern := range []string{first, second} {
		id := []string{"d1", "d2"}[i]
		s.Points[i].Cell.Deployment = id
		if pattern != "" {
			reporttest.Answers(t, dir, 1, quality.Answers{
				Header: quality.Header{Deployment: id, Label: s.Points[i].Cell.ServerText(), Digest: digest}, List: reporttest.Answered(pattern),
			})
		}
	}
	var err error
	if s.Answers, err = paired.Read(dir); err != nil {
		t.Fatal(err)
	}
	return s
}

var (
	all200 = strings.Repeat("r", 200)
	worse  = strings.Repeat("r", 180) + strings.Repeat("w", 20)
)

// text returns a comparison as it is printed. No line of it has over 80 columns.
func text(t *testing.T, c *Comparison, verbose bool) string {
	t.Helper()
	var b bytes.Buffer
	if err := c.Write(&b, verbose); err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(b.String()) {
		if utf8.RuneCountInString(strings.TrimSuffix(line, "\n")) > 80 && strings.Contains(line, "quality") {
			t.Errorf("over 80 columns: %s", line)
		}
	}
	return b.String()
}

// A deployment that answers worse is a regression if an objective of head reads a column of
// quality, and if there is a bound of regressions: not otherwise.
func TestCompare_qualityRegression(t *testing.T) {
	t.Parallel()
	const reads, other = `"right": {"expr": "error_rate == 0 && quality_score_low > 0.2", "severity": "fail"}`, `"fast": {"expr": "p95_ttft_ms < 9", "severity": "fail"}`
	const warns = `"told": {"expr": "quality_score > 0.9", "severity": "warn"}`
	for name, c := range map[string]struct {
		base, head string // objectives
		bound      float64
		answers    string
		want       int
	}{
		"asked for":           {"", other + "," + reads, 0.05, worse, 1},
		"no objective":        {reads, other, 0.05, worse, 0},
		"only reported":       {reads, warns, 0.05, worse, 0},
		"one of each":         {"", warns + "," + reads, 0.05, worse, 1},
		"no bound":            {reads, reads, 0, worse, 0},
		"cannot tell":         {reads, reads, 0.05, "w" + all200[1:], 0},
		"better":              {reads, reads, 0.05, all200, 0},
		"a word that has one": {"", `"x": {"expr": "arg_no_quality_score == 1"}`, 0.05, worse, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := Compare(answering(t, "s", c.base, all200, all200), answering(t, "s", c.head, all200, c.answers), Options{MaxRegression: c.bound})
			if got.Quality.Regressions != c.want || got.Worse() != (c.want > 0) || got.Regressions != 0 {
				t.Errorf("%d regressions of quality, worse %v, %d of figures", got.Quality.Regressions, got.Worse(), got.Regressions)
			}
			printed := strings.Join(strings.Fields(text(t, got, false)), " ")
			for part, want := range map[string]bool{
				"certainly worse answers of 1 of 2 deployments, read by right": c.want > 0,
				"a worse answer is no regression here":                         c.answers == worse && !strings.Contains(c.head, reads),
				"only those of severity warn read a column of quality: told":   c.head == warns,
			} {
				if strings.Contains(printed, part) != want {
					t.Errorf("%q is there: %v, want %v:\n%s", part, !want, want, printed)
				}
			}
		})
	}
}

// What is said, and the forms for programs: never that two answer the same.
func TestCompare_quality(t *testing.T) {
	t.Parallel()
	schema := schematest.Compile(t, schemas.Compare)
	got := Compare(answering(t, "s", "", all200, all200), answering(t, "s", "", all200, worse), Options{})
	schematest.Holds(t, schema, got)
	printed := text(t, got, true)
	for _, want := range []string{
		"  quality of sglang: worse\n    score 100.0 % -> 90.0 %: -10.0 points (97.5 % interval ",
		"  quality of vllm: cannot tell: with 200 prompts a loss of ", "100.0 % of the answers are the same text",
	} {
		if !strings.Contains(printed, want) {
			t.Errorf("%q is not in\n%s", want, printed)
		}
	}
	var rows []result.Row
	for row := range got.Rows() {
		row, err := row.Conform(Columns())
		if err != nil {
			t.Fatal(err)
		}
		if row["metric"] == col.QualityScore {
			rows = append(rows, row)
		}
	}
	if len(rows) != 2 {
		t.Fatalf("%d rows of quality", len(rows))
	}
	for name, want := range map[string]any{
		"base": 1.0, "head": 0.9, "ratio": -0.1, "verdict": "worse", "regression": false, "paired": true, "scope": nil, "repeats": nil,
		"base_rows": "c001/t01", "head_rows": "c001/t01", "why": "sglang: worse",
	} {
		if rows[1][name] != want {
			t.Errorf("%s is %v, want %v", name, rows[1][name], want)
		}
	}
	if low, _ := rows[1]["low"].(float64); low >= -0.1 || low < -0.2 {
		t.Errorf("the interval begins at %v", low)
	}
	if rows[0]["verdict"] != "cannot tell" || !strings.Contains(rows[0]["why"].(string), "would show") {
		t.Errorf("%v", rows[0])
	}
}

// Answers to other prompts, and those that only one run has, are said in a sentence without a
// figure; runs without any say nothing.
func TestCompare_qualityLeft(t *testing.T) {
	t.Parallel()
	schema := schematest.Compile(t, schemas.Compare)
	with := func(digest string) Side { return answering(t, digest, "", all200, all200) }
	none := answering(t, "", "", "", "")
	for want, sides := range map[string][2]Side{
		"  quality not compared: the runs asked other prompts, or in another way\n": {with("s"), with("o")},
		"  quality not compared: base has no readable answers to quality prompts\n": {none, with("s")},
		"": {none, none},
	} {
		got := Compare(sides[0], sides[1], Options{})
		schematest.Holds(t, schema, got)
		printed := text(t, got, false)
		if !strings.Contains(printed, want) || strings.Count(printed, "quality") != strings.Count(want, "quality") {
			t.Errorf("want %q in\n%s", want, printed)
		}
		if got.Worse() || got.Quality != nil && len(got.Quality.Deployments) > 0 || (got.Quality == nil) != (want == "") {
			t.Errorf("%+v", got.Quality)
		}
		for row := range got.Rows() {
			if row["metric"] == col.QualityScore {
				t.Error("a row of quality")
			}
		}
	}
	half := Compare(with("s"), answering(t, "s", "", all200, ""), Options{})
	if printed := text(t, half, false); !strings.Contains(printed, "  quality not compared: head has no readable answers to quality prompts: sglang\n") {
		t.Error(printed)
	}
}

// TestPage_quality holds the block of docs/compare.md to what is printed of two such runs.
func TestPage_quality(t *testing.T) {
	t.Parallel()
	const wrong = "wwwwwwwwww"
	base := answering(t, "s", "", wrong+all200[10:], wrong+all200[10:])
	head := answering(t, "s", "", "rwwwwwwwww"+all200[10:188]+strings.Repeat("w", 12), wrong[:9]+"r"+all200[10:198]+"ww")
	var b strings.Builder
	for _, line := range Compare(base, head, Options{}).Quality.lines(false) {
		b.WriteString(line + "\n")
	}
	const page = "../../docs/compare.md"
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	_, rest, ok := strings.Cut(string(text), "<!-- checked: report/compare.TestPage_quality -->\n```text\n")
	block, _, _ := strings.Cut(rest, "```\n")
	if !ok {
		t.Fatal("the page has no block of this test")
	}
	if *update {
		const mark = "TestPage_quality -->\n```text\n"
		if err := os.WriteFile(page, []byte(strings.Replace(string(text), mark+block+"```", mark+b.String()+"```", 1)), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if block != b.String() {
		t.Errorf("docs/compare.md shows\n%s\nand printed is (-update writes it)\n%s", block, b.String())
	}
}
