package nightly_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/xml"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"sweep.dev/sweep/internal/schematest"
	"sweep.dev/sweep/nightly"
	"sweep.dev/sweep/nightly/gate"
	"sweep.dev/sweep/nightly/history"
	"sweep.dev/sweep/result/metric"
	"sweep.dev/sweep/schemas"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// A made history has nights of four cells; change is what happens to the values of the
// last nights: by cell and night, counted from 0.
func made(nights int, change func(cell, night int, n *history.Night)) *history.File {
	f := &history.File{Settings: map[string]map[string]string{}}
	for i := range nights {
		for cell := range 4 {
			scatter := 1 + 0.01*[]float64{0.5, -1.2, 1.1, -0.4, 0.9, -0.9, 0.2}[(i+3*cell)%7]
			rate, ttft := 900*scatter, 120/scatter
			n := history.Night{
				Date: time.Date(2026, 1, 1+i, 2, 0, 0, 0, time.UTC), Run: fmt.Sprintf("run%02d", i), Plan: "chat", Label: fmt.Sprintf("vllm h100 concurrency %d", 8<<cell),
				Key:     history.Key{Cell: fmt.Sprintf("cell%d", cell), Conditions: "c", Machine: "runpod h100 x1 direct", Method: 2},
				Subject: history.Subject{Digest: "s1", Engine: "vllm", EngineVersion: "0.32.0", ImageDigest: "sha256:0123456789abcdef0123"},
				Trials:  3, Valid: 3,
				Figures: map[string]history.Figure{"throughput_tok_s": {Mean: &rate, N: 3}, "p95_ttft_ms": {Mean: &ttft, N: 3}},
			}
			if change != nil {
				change(cell, i, &n)
			}
			f.Nights = append(f.Nights, n)
		}
	}
	return f
}

func newRelease(n *history.Night) {
	n.Subject.Digest, n.Subject.EngineVersion, n.Subject.ImageDigest = "s2", "0.33.0", "sha256:fedcba98765432100000"
}

func scaled(n *history.Night, column string, by float64) {
	f := n.Figures[column]
	v := *f.Mean * by
	f.Mean = &v
	n.Figures[column] = f
}

func metrics(t *testing.T) (list []metric.Metric) {
	t.Helper()
	for _, name := range []string{"throughput_tok_s", "p95_ttft_ms", "p95_tpot_ms"} {
		m, ok := metric.Of(name)
		if !ok || !m.Kept {
			t.Fatal(name)
		}
		list = append(list, m)
	}
	return list
}

func TestBoard(t *testing.T) {
	t.Parallel()
	schema := schematest.Compile(t, schemas.Gate)
	for name, c := range map[string]struct {
		nights int
		change func(cell, night int, n *history.Night)
		rule   gate.Rule
		holes  []string
	}{
		"quiet": {nights: 25},
		"release": {nights: 24, change: func(cell, night int, n *history.Night) {
			if night >= 22 {
				newRelease(n)
				switch cell {
				case 1:
					scaled(n, "throughput_tok_s", 0.9)
				case 2:
					scaled(n, "p95_ttft_ms", 0.8)
				}
			}
			if cell == 3 && night == 23 {
				n.Figures["p95_ttft_ms"] = history.Figure{N: 3, Infinite: 1}
			}
		}},
		"learning":  {nights: 4, holes: []string{"vllm h100 concurrency 128: none of 3 trials is valid"}},
		"too-noisy": {nights: 22, rule: gate.Rule{Threshold: 0.01}},
		"conditions": {nights: 22, change: func(_, night int, n *history.Night) {
			if night == 21 {
				n.Conditions = "d"
			}
		}},
		"absent": {nights: 22, change: func(cell, night int, n *history.Night) {
			if night == 21 && cell == 0 {
				delete(n.Figures, "p95_ttft_ms")
			}
		}},
		"settings": {nights: 24, change: func(cell, night int, n *history.Night) {
			if night >= 22 {
				n.Subject.Digest = "s2"
				scaled(n, "throughput_tok_s", 0.9)
			}
		}},
	} {
		f := made(c.nights, c.change)
		for i := range c.nights {
			if name == "settings" {
				f.Settings[fmt.Sprintf("run%02d", i)] = map[string]string{"engines.vllm.args.max-num-seqs": fmt.Sprint(64 + 64*(i/22)), "seed": "1"}
			}
		}
		b, err := nightly.Ask(f, nightly.Question{Run: fmt.Sprintf("run%02d", c.nights-1), Metrics: metrics(t), Rule: c.rule})
		if err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		if err := b.Write(&out, c.holes); err != nil {
			t.Fatal(err)
		}
		golden(t, name+".txt", out.Bytes())
		schematest.Holds(t, schema, b.Document(c.holes))
		for line := range strings.Lines(out.String()) {
			if n := utf8.RuneCountInString(line) - 1; n > 100 {
				t.Errorf("%s: %d columns: %s", name, n, line)
			}
		}
	}
}

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s is\n%s\nwant\n%s", name, got, want)
	}
}

// A run of the past is judged by the nights before it alone.
func TestAsk_past(t *testing.T) {
	t.Parallel()
	f := made(24, func(cell, night int, n *history.Night) {
		if night >= 22 {
			scaled(n, "throughput_tok_s", 0.8)
		}
	})
	b, err := nightly.Ask(f, nightly.Question{Run: "run21", Metrics: metrics(t)})
	if err != nil {
		t.Fatal(err)
	}
	if n := b.Count(); n[gate.OK] != 8 || len(b.Nights) != 22 || len(b.Series) != 8 {
		t.Errorf("%v, %d nights", n, len(b.Nights))
	}
	if _, err := nightly.Ask(f, nightly.Question{Run: "nosuch", Metrics: metrics(t)}); err == nil {
		t.Error("a run that is not there has a board")
	}
}

// An accepted level begins with the first night outside the band.
func TestAsk_accepted(t *testing.T) {
	t.Parallel()
	f := made(26, func(cell, night int, n *history.Night) {
		if night >= 22 {
			scaled(n, "throughput_tok_s", 0.8)
		}
	})
	count := func(run string) map[gate.State]int {
		b, err := nightly.Ask(f, nightly.Question{Run: run, Metrics: metrics(t)[:1]})
		if err != nil {
			t.Fatal(err)
		}
		return b.Count()
	}
	if n := count("run25"); n[gate.Regression] != 4 {
		t.Errorf("%v", n)
	}
	f.Accepts = []history.Accept{{Run: "run23", Cell: "cell0"}}
	if n := count("run25"); n[gate.Regression] != 3 || n[gate.OK] != 1 {
		t.Errorf("one cell accepted: %v", n)
	}
	f.Accepts = []history.Accept{{Run: "run23"}}
	if n := count("run23"); n[gate.Accepted] != 4 {
		t.Errorf("the accepted night: %v", n)
	}
	if n := count("run25"); n[gate.OK] != 4 {
		t.Errorf("after it: %v", n)
	}
}

// The page shows lines that a board prints.
func TestDocs(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../docs/nightly.md")
	if err != nil {
		t.Fatal(err)
	}
	printed, err := os.ReadFile("testdata/release.txt")
	if err != nil {
		t.Fatal(err)
	}
	_, block, _ := strings.Cut(string(page), "<!-- checked: nightly.TestDocs -->\n```text\n")
	block, _, ok := strings.Cut(block, "```")
	if !ok {
		t.Fatal("the block is not there")
	}
	for line := range strings.Lines(block) {
		if !strings.Contains(string(printed), line) {
			t.Errorf("%q is not printed", line)
		}
	}
}

func TestTrend(t *testing.T) {
	t.Parallel()
	f := made(40, func(cell, night int, n *history.Night) {
		if night >= 30 {
			newRelease(n)
			if cell == 1 {
				scaled(n, "throughput_tok_s", 0.9)
			}
		}
		if cell == 0 && night == 5 {
			n.Figures["p95_ttft_ms"] = history.Figure{N: 3, Infinite: 3}
		}
	})
	b, err := nightly.Ask(f, nightly.Question{Plan: "chat", Metrics: metrics(t)})
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := b.WriteTrend(&out); err != nil {
		t.Fatal(err)
	}
	golden(t, "trend.txt", out.Bytes())
	if n := strings.Count(out.String(), "vllm 0.32.0 -> 0.33.0"); n != 1 {
		t.Errorf("%d steps are named, want 1", n)
	}
	if _, err := nightly.Ask(f, nightly.Question{Plan: "nosuch", Metrics: metrics(t)}); err == nil {
		t.Error("a plan that is not there has a trend")
	}

	doc := b.Trend()
	schematest.Holds(t, schematest.Compile(t, schemas.Trend), doc)
	steps := 0
	for _, s := range doc.Series {
		if len(s.Points) != 40 {
			t.Errorf("%s, %s has %d points", s.Label, s.Metric, len(s.Points))
		}
		for _, step := range s.Steps {
			steps++
			if step.Run != "run30" || *step.Was != "s1" || *step.Subject != "s2" || step.Change > -0.05 || !strings.Contains(step.Changed, "0.33.0") {
				t.Errorf("the step is %+v", step)
			}
		}
	}
	if steps != 1 {
		t.Errorf("%d steps, want 1", steps)
	}

	// The page needs nothing else: one style sheet, which its policy lets in, and no script.
	f.Nights[0].Label = `</figcaption><script>alert(1)</script>`
	for i := range f.Nights {
		if f.Nights[i].Cell == "cell0" {
			f.Nights[i].Label = f.Nights[0].Label
		}
	}
	if b, err = nightly.Ask(f, nightly.Question{Plan: "chat", Metrics: metrics(t)}); err != nil {
		t.Fatal(err)
	}
	var page bytes.Buffer
	if err := b.Page(&page); err != nil {
		t.Fatal(err)
	}
	html := page.String()
	_, rest, _ := strings.Cut(html, "<style>")
	css, _, _ := strings.Cut(rest, "</style>")
	sum := sha256.Sum256([]byte(css))
	policy := "style-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
	if !strings.Contains(strings.NewReplacer("&#39;", "'", "&#43;", "+").Replace(html), policy) {
		t.Error("the policy does not let in the style sheet")
	}
	for _, never := range []string{"<script", "style=", "src=", "http-equiv=\"refresh", "onload"} {
		if strings.Contains(html, never) {
			t.Errorf("the page has %s", never)
		}
	}
	if n := strings.Count(html, "<svg "); n != 8 {
		t.Errorf("%d charts, want 8", n)
	}
	for _, want := range []string{`class="area"`, `class="limit"`, ">2026-01-31</text>", "vllm 0.32.0 -&gt; 0.33.0", "Not drawn, as the value is infinite: 1 night", "<td>infinite</td>"} {
		if !strings.Contains(html, want) {
			t.Errorf("the page lacks %s", want)
		}
	}
	dec := xml.NewDecoder(strings.NewReader(html))
	dec.Strict, dec.Entity = true, xml.HTMLEntity
	for {
		if _, err := dec.Token(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
}

// A night that was measured again is judged by both, and is one night.
func TestAsk_again(t *testing.T) {
	t.Parallel()
	f := made(21, func(cell, night int, n *history.Night) {
		if night == 20 && cell < 3 {
			scaled(n, "throughput_tok_s", 0.95)
		}
	})
	ask := func() *nightly.Board {
		b, err := nightly.Ask(f, nightly.Question{Run: "run20", Metrics: metrics(t)[:1]})
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	if b := ask(); b.Count()[gate.Suspect] != 3 || strings.Join(b.Fresh(), " ") != "cell0 cell1 cell2" {
		t.Fatalf("%v, fresh %v", b.Count(), b.Fresh())
	}
	second := made(21, nil).Nights[80:83] // cell0 is worse again, cell1 is not, cell2 has no valid trial
	for i := range second {
		second[i].Run, second[i].Again, second[i].Date = "again", "run20", second[i].Date.Add(time.Hour)
	}
	scaled(&second[0], "throughput_tok_s", 0.93)
	second[2].Figures = nil
	f.Nights = append(f.Nights, second...)
	b := ask()
	if n := b.Count(); n[gate.Regression] != 1 || n[gate.Withdrawn] != 1 || n[gate.Suspect] != 1 || n[gate.OK] != 1 || len(b.Nights) != 21 {
		t.Errorf("%v, %d nights", n, len(b.Nights))
	}
	if strings.Join(b.Fresh(), " ") != "cell2" {
		t.Errorf("fresh: %v", b.Fresh())
	}
	var out bytes.Buffer
	if err := b.Write(&out, nil); err != nil {
		t.Fatal(err)
	}
	golden(t, "again.txt", out.Bytes())
	schematest.Holds(t, schematest.Compile(t, schemas.Gate), b.Document(nil))
}

// A page on which no level changed for good says which series are off in the last night.
func TestBoard_PageLastNight(t *testing.T) {
	t.Parallel()
	f := made(21, func(cell, night int, n *history.Night) {
		if night == 20 && cell == 0 {
			scaled(n, "throughput_tok_s", 0.8)
		}
	})
	b, err := nightly.Ask(f, nightly.Question{Run: "run20", Metrics: metrics(t)[:1]})
	if err != nil {
		t.Fatal(err)
	}
	var page bytes.Buffer
	if err := b.Page(&page); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"No level changed for good", `<li><a href="#s1">vllm h100 concurrency 8, throughput_tok_s</a>: regression</li>`} {
		if !strings.Contains(page.String(), want) {
			t.Errorf("the page lacks %s", want)
		}
	}
	if n := strings.Count(page.String(), "<li>"); n != 1 {
		t.Errorf("%d series are off, want 1", n)
	}
}
