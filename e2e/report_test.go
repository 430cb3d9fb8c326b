//go:build e2e

package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestReport opens a report in a real browser that has no network: nothing is asked for,
// nothing is complained of, and axe finds no fault, in light and dark, at three widths.
// SHOTS names a folder for what it looks like.
func TestReport(t *testing.T) {
	need(t, "engines:report", ".engines/report/axe.min.js")
	axe, err := os.ReadFile(".engines/report/axe.min.js")
	if err != nil {
		t.Fatal(err)
	}
	dirs := strings.Fields(os.Getenv("RUN")) // of runs that are there already
	if len(dirs) == 0 {
		dir := filepath.Join(t.TempDir(), "run")
		if out, err := exec.Command(program, "run", "-o", dir, "e2e/testdata/report.yaml").CombinedOutput(); err != nil && !strings.Contains(err.Error(), "exit status 99") && !strings.Contains(err.Error(), "exit status 3") {
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
			if wide := b.number(`document.documentElement.scrollWidth`); wide > float64(width) {
				t.Errorf("%s: the page is %v pixels wide, of %d", name, wide, width)
			}
			b.eval(string(axe) + ";0")
			if found := b.text(`axe.run(document, {resultTypes: ["violations"]}).then(r => r.violations.map(v => v.id + ": " + v.nodes.slice(0, 3).map(n => n.html.slice(0, 200) + " " + n.failureSummary).join(" | ")).join("\n"))`); found != "" {
				t.Errorf("%s: axe: %s", name, found)
			}
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
