//go:build e2e

package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sweep.dev/sweep/internal/effect"
	"sweep.dev/sweep/nightly/history"
)

// TestReport opens a report in a real browser that has no network: nothing is asked for,
// nothing is complained of, and axe finds no fault, in light and dark, at three widths.
// SHOTS names a folder for what it looks like.
func TestReport(t *testing.T) {
	t.Parallel()
	axe := readAxe(t)
	dirs := strings.Fields(os.Getenv("RUN")) // of runs that are there already
	if len(dirs) == 0 {
		dir := filepath.Join(t.TempDir(), "run")
		if out, err := exec.Command(program, "run", "-o", dir, "test/e2e/testdata/report.yaml").CombinedOutput(); err != nil && !strings.Contains(err.Error(), "exit status 99") && !strings.Contains(err.Error(), "exit status 3") {
			t.Fatalf("%v\n%s", err, out)
		}
		dirs = []string{dir}
	}
	file := filepath.Join(t.TempDir(), "report.html")
	if out, err := exec.Command(program, append([]string{"report", "-o", file}, dirs...)...).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	b := browse(t)
	for _, scheme := range []string{"light", "dark"} {
		for _, width := range []int{360, 1024, 1600} {
			name := fmt.Sprintf("%s-%d", scheme, width)
			b.show(file, width, scheme, true)
			b.wait(`document.documentElement.classList.contains("js")`)
			b.shot(name)
			b.sound(name, width, axe)
			b.eval(`document.querySelector("g[data-cell]").dispatchEvent(new MouseEvent("click", {bubbles: true}));0`)
			if n := b.number(`document.querySelectorAll("dialog[open] .uplot canvas").length`); n < 3 {
				t.Errorf("%s: an opened cell has %v timelines, want at least 3", name, n)
			}
			b.shot(name + "-cell")
		}
	}
	b.eval(`document.querySelector("dialog").close();const i=document.querySelector("input[type=search]");i.value="concurrency=1";i.dispatchEvent(new Event("input"));0`)
	if n := b.number(`[...document.querySelectorAll("#r1-rows tbody tr")].filter(r => !r.textContent.includes("concurrency=1")).length`); n > 0 {
		t.Errorf("%v rows do not fit the filter", n)
	}
	b.show(file, 1024, "light", false)
	if n := b.number(`document.querySelectorAll("svg.chart").length`); n < 5 {
		t.Errorf("without JavaScript there are %v charts, want at least 5", n)
	}
	b.shot("no-js")
	for _, s := range b.complaints {
		t.Error(s)
	}
}

// chartTexts are the texts of charts that are less than 9 pixels high as shown, or reach
// over the edge of their chart by more than a pixel: at most five.
const chartTexts = `[...document.querySelectorAll("svg.chart text")].map(t => {
	const m = t.getScreenCTM(), px = parseFloat(getComputedStyle(t).fontSize) * Math.hypot(m.a, m.b);
	const a = t.getBoundingClientRect(), c = t.ownerSVGElement.getBoundingClientRect();
	if (a.width === 0) return "";
	if (px < 9) return t.textContent + " has " + px.toFixed(1) + " px";
	if (a.left < c.left - 1 || a.right > c.right + 1 || a.top < c.top - 1 || a.bottom > c.bottom + 1) return t.textContent + " is cut off";
	return "";
}).filter(s => s !== "").slice(0, 5).join("; ")`

func readAxe(t *testing.T) string {
	t.Helper()
	need(t, "engines:report", ".engines/report/axe.min.js")
	axe, err := os.ReadFile(".engines/report/axe.min.js")
	if err != nil {
		t.Fatal(err)
	}
	return string(axe)
}

// sound holds that the page that is shown is no wider than the window, that the texts of its
// charts can be read and lie within them, and that axe finds no fault in it.
func (b *browser) sound(name string, width int, axe string) {
	b.t.Helper()
	if wide := b.number(`document.documentElement.scrollWidth`); wide > float64(width) {
		b.t.Errorf("%s: the page is %v pixels wide, of %d", name, wide, width)
	}
	if found := b.text(chartTexts); found != "" {
		b.t.Errorf("%s: texts of charts: %s", name, found)
	}
	b.eval(axe + ";0")
	if found := b.text(`axe.run(document, {resultTypes: ["violations"]}).then(r => r.violations.map(v => v.id + ": " + v.nodes.slice(0, 3).map(n => n.html.slice(0, 200) + " " + n.failureSummary).join(" | ")).join("\n"))`); found != "" {
		b.t.Errorf("%s: axe: %s", name, found)
	}
}

// TestReport_trend opens the page of sweep night trend as [TestReport] opens a report. Its nights
// are made up: a release that is slower, one that is faster, and a night without end.
func TestReport_trend(t *testing.T) {
	t.Parallel()
	axe := readAxe(t)
	dir := t.TempDir()
	path, file := filepath.Join(dir, "history.jsonl"), filepath.Join(dir, "trend.html")
	fx, err := effect.New("")
	if err != nil {
		t.Fatal(err)
	}
	for i := range 60 {
		version := fmt.Sprintf("0.%d.0", 32+i/20)
		var nights []history.Night
		for cell := range 3 {
			scatter := 1 + 0.01*[]float64{0.5, -1.2, 1.1, -0.4, 0.9, -0.9, 0.2}[(i+3*cell)%7]
			rate, ttft := 900*float64(cell+1)*scatter, 120*float64(cell+1)/scatter
			switch {
			case i >= 40 && cell == 1:
				rate *= 1.15
			case i >= 20 && cell == 0:
				rate, ttft = rate*0.9, ttft*1.2
			}
			figures := map[string]history.Figure{"throughput_tok_s": {Mean: &rate, N: 3}, "p95_ttft_ms": {Mean: &ttft, N: 3}}
			if i == 50 && cell == 2 {
				figures["p95_ttft_ms"] = history.Figure{N: 3, Infinite: 3}
			}
			nights = append(nights, history.Night{
				Date: time.Date(2026, 1, 1+i, 2, 0, 0, 0, time.UTC), Run: fmt.Sprintf("nightly-2026-%03d", i+1), Plan: "chat", Label: fmt.Sprintf("vllm h100 concurrency=%d", 8<<cell),
				Key:     history.Key{Cell: fmt.Sprintf("cell%d", cell), Conditions: "c", Machine: "runpod h100 x1 direct", Method: 2},
				Subject: history.Subject{Digest: "v" + version, Engine: "vllm", EngineVersion: version, ImageDigest: "sha256:0123456789abcdef0123"},
				Trials:  3, Valid: 3, Figures: figures,
			})
		}
		if _, err := history.Add(t.Context(), fx, path, nights, nil); err != nil {
			t.Fatal(err)
		}
	}
	if out, err := exec.Command(program, "night", "trend", "--history", path, "-o", file).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	b := browse(t)
	for _, scheme := range []string{"light", "dark"} {
		for _, width := range []int{360, 1024, 1600} {
			name := fmt.Sprintf("trend-%s-%d", scheme, width)
			b.show(file, width, scheme, true)
			b.shot(name)
			b.sound(name, width, axe)
			b.eval(`for (const d of document.querySelectorAll("details")) d.open = true;0`)
			b.sound(name+" with its tables", width, axe)
		}
	}
	if n := b.number(`document.querySelectorAll("svg.chart").length`); n != 6 {
		t.Errorf("there are %v charts, want 6", n)
	}
	for _, s := range b.complaints {
		t.Error(s)
	}
}
