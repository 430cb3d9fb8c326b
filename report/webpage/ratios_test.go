package webpage

import (
	"encoding/xml"
	"fmt"
	"strings"
	"testing"

	"sweep.dev/sweep/judge/quality"
	"sweep.dev/sweep/report"
	"sweep.dev/sweep/report/reporttest"
)

// turnsRun returns a run that compares two engines by turns: the other gives by times as many
// tokens a second.
func turnsRun(other string, by float64) string {
	var b strings.Builder
	b.WriteString("plan turns\nrepeats 4\ncompare engine vllm\naxes engine! gpu! concurrency\n")
	for i, engine := range []string{"vllm", other} {
		for _, load := range []int{8, 32, 64} {
			fmt.Fprintf(&b, "cell %q h100 %d\n", engine, load)
			for n := range 4 {
				if load == 64 && i == 1 {
					fmt.Fprintf(&b, "  invalid tok=1 n=200 reason=\"coalesced|the client shared 2 cores\"\n")
					continue
				}
				f := 1 + float64(i)*(by-1) + 0.002*float64((n*3+i)%4)
				fmt.Fprintf(&b, "  ok tok=%g ttft=%g/%g tpot=5/6 e2e=400/500 n=200 failed=0 conditions_digest=a spread=0.01 simulated gpu_count=1\n",
					900*f*float64(load)/8, 80/f, 110*(1+0.1*float64((n*7+3*i)%5)))
			}
		}
	}
	return b.String()
}

// TestWrite_turns holds that the comparison of a plan is a section with a forest and a
// table, which names its columns, and that what is not compared is said.
func TestWrite_turns(t *testing.T) {
	t.Parallel()
	run := reporttest.MadeUp(t, turnsRun("sglang", 1.1))
	html := write(t, run)
	checkWellFormed(t, html)
	section := html[strings.Index(html, ">Comparison</h2>"):]
	section = section[:strings.Index(section, "</section>")]
	for _, want := range []string{
		"engine sglang against vllm, by turns", `class="area"`, "throughput_tok_s [tokens/s]", "1.100 faster", "cannot tell",
		"throughput_tok_s, sglang / vllm: above 1 is faster", "p95_ttft_ms, sglang / vllm: below 1 is faster",
		`title="ratio: head / base`, `title="repeats: How many trials`, "not compared: INVALID (coalesced", `data-cell="r1-c003"`,
	} {
		if !strings.Contains(section, want) {
			t.Errorf("the section lacks %q", want)
		}
	}
	var names []string
	for _, d := range Drawings([]*report.Run{run}) {
		names = append(names, d.Name)
	}
	if !strings.Contains(strings.Join(names, " "), "ratio-throughput-tok-s-") {
		t.Errorf("--charts draws no ratios: %q", names)
	}
}

// TestWrite_between holds that a page about two runs compares them, or says why it cannot.
func TestWrite_between(t *testing.T) {
	t.Parallel()
	html := write(t, reporttest.MadeUp(t, turnsRun("sglang", 1.1)), reporttest.MadeUp(t, turnsRun("sglang", 0.9)))
	checkWellFormed(t, html)
	section := html[strings.Index(html, ">Comparison of the runs</h2>"):]
	for _, want := range []string{"SIMULATED", "differs: ", "0.819 slower", `data-cell="r2-c003"`, "the noise between runs is not known"} {
		if !strings.Contains(section, want) {
			t.Errorf("the section lacks %q", want)
		}
	}
	runs := []*report.Run{reporttest.MadeUp(t, turnsRun("sglang", 1.1)), reporttest.MadeUp(t, turnsRun("sglang", 0.9)), reporttest.MadeUp(t, turnsRun("sglang", 1))}
	drawings := map[string]string{}
	for _, d := range Drawings(runs) {
		if _, twice := drawings[d.Name]; twice {
			t.Errorf("two charts are called %s", d.Name)
		}
		drawings[d.Name] = d.SVG
	}
	for name, want := range map[string]string{"run2-over-run1-ratio-throughput-tok-s-1": "0.819 slower", "run3-over-run1-ratio-throughput-tok-s-1": "0.909 slower"} {
		if svg := drawings[name]; !strings.HasPrefix(svg, "<?xml") || !strings.Contains(svg, want) {
			t.Errorf("--charts: %s lacks %q", name, want)
		}
	}
	html = write(t, reporttest.MadeUp(t, turnsRun("sglang", 1.1)), reporttest.MadeUp(t, "axes engine!\ncell vllm\n  pending"))
	for _, want := range []string{`href="#between"`, "nothing can be compared: vllm: "} {
		if !strings.Contains(html, want) {
			t.Errorf("of runs that cannot be compared the page lacks %q", want)
		}
	}
	if html := write(t, reporttest.MadeUp(t, grid)); strings.Contains(html, "Comparison of the runs") {
		t.Error("one run is compared with others")
	}
}

// TestWrite_hostileTurns holds that the value of an axis is text wherever a comparison
// says it.
func TestWrite_hostileTurns(t *testing.T) {
	t.Parallel()
	evil := `=HYPERLINK(1)</script><script>alert(1)</script><img src=x onerror=alert(2)>` + "\x1b[31m]]>"
	run := reporttest.MadeUp(t, turnsRun(evil, 1.1))
	html := write(t, run, run)
	checkWellFormed(t, html)
	if n := strings.Count(html, "<script"); n != 3 {
		t.Errorf("%d elements script, want that of the page and one of the data of each run", n)
	}
	for _, bad := range []string{"<img", "\x1b", "<script>alert"} {
		if strings.Contains(html, bad) {
			t.Errorf("the page has %q", bad)
		}
	}
	for _, d := range Drawings([]*report.Run{run}) {
		if err := xml.Unmarshal([]byte(d.SVG), new(struct{})); err != nil || strings.Contains(d.SVG, "<img") || strings.Contains(d.SVG, "<script") {
			t.Errorf("%s is not harmless: %v", d.Name, err)
		}
	}
}

// TestWrite_betweenQuality holds that a page about two runs compares the answers of their
// deployments, and that a run of other prompts has no figure there.
func TestWrite_betweenQuality(t *testing.T) {
	t.Parallel()
	run := func(digest, pattern string) *report.Run {
		r := reporttest.MadeUp(t, turnsRun("sglang", 1.1))
		reporttest.Answers(t, r.Dir, 1, quality.Answers{
			Header: quality.Header{Deployment: r.Resolved.Cells[0].Deployment, Label: "vllm h100", Digest: digest}, List: reporttest.Answered(pattern),
		})
		return r
	}
	good := strings.Repeat("r", 60)
	between := func(runs ...*report.Run) string {
		html := write(t, runs...)
		checkWellFormed(t, html)
		return html[strings.Index(html, ">Comparison of the runs</h2>"):]
	}
	section := between(run("s", good), run("s", good[:40]+strings.Repeat("w", 20)))
	for _, want := range []string{"Quality: right answers", ">100.0 %<", ">66.7 %<", "-33.3 points (95 % interval ", ">12.9 points<", ">worse<"} {
		if !strings.Contains(section, want) {
			t.Errorf("the section lacks %q", want)
		}
	}
	section = between(run("s", good), run("other", good))
	if !strings.Contains(section, "quality not compared: the runs asked other prompts") || strings.Contains(section, ">100.0 %<") {
		t.Error("runs of other prompts are compared")
	}
}
