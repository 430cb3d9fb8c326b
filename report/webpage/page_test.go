package webpage

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
	"testing"
	"time"

	"sweep.dev/sweep/report"
	"sweep.dev/sweep/report/conclude"
	"sweep.dev/sweep/report/reporttest"
	"sweep.dev/sweep/result"
)

// grid is a run with a cell of every verdict that a heat map can have.
const grid = `
plan chat
axes engine! gpu! concurrency max_tokens
cell vllm h100 1 128
  ok tok=185 ttft=14/15 tpot=5/5.4 n=200 usd=2.1 simulated gpu_count=1 usd_per_hour=2 p50_user_tok_s=200 p99_ttft_ms=19 p95_ttft_ms_low=14 p95_ttft_ms_high=17
cell vllm h100 8 128
  ok tok=907 ttft=80/110 tpot=6/6.4 n=200 usd=0.9 simulated gpu_count=1 usd_per_hour=2 p50_user_tok_s=166 p99_ttft_ms=140
cell vllm h100 32 128
  ok tok=1650 ttft=300/433 tpot=9/9.6 n=200 usd=0.5 simulated gpu_count=1 usd_per_hour=2 p50_user_tok_s=111 p99_ttft_ms=600 miss="responsive|p95_ttft_ms < 300|p95_ttft_ms=433"
cell sglang h100 1 128
  ok tok=184 ttft=14/16 tpot=5/5.3 n=200 usd=2.0 simulated gpu_count=1 usd_per_hour=2 p50_user_tok_s=198 p99_ttft_ms=19
cell sglang h100 8 128
  invalid tok=905 ttft=90/128 tpot=6/6.3 n=200 simulated gpu_count=1 p50_user_tok_s=165 p99_ttft_ms=150 reason="coalesced|the client shared 2 cores"
cell sglang h100 32 128
  pending
`

// write returns the page about runs.
func write(t *testing.T, runs ...*report.Run) string {
	t.Helper()
	var b bytes.Buffer
	if err := Write(&b, runs); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

var (
	styles  = regexp.MustCompile(`(?s)<style>(.*?)</style>`)
	scripts = regexp.MustCompile(`(?s)<script>(.*?)</script>`)
	blocks  = regexp.MustCompile(`(?s)<(style|script)[^>]*>.*?</(style|script)>`)
)

// TestWrite_policy holds that the one style sheet and the one script are those that the
// policy lets in, and that nothing else could run.
func TestWrite_policy(t *testing.T) {
	t.Parallel()
	html := write(t, reporttest.MadeUp(t, grid))
	css, js := styles.FindAllStringSubmatch(html, -1), scripts.FindAllStringSubmatch(html, -1)
	if len(css) != 1 || len(js) != 1 {
		t.Fatalf("%d style sheets and %d scripts, want one of each", len(css), len(js))
	}
	policy := strings.ReplaceAll(strings.ReplaceAll(policy(css[0][1], js[0][1]), "'", "&#39;"), "+", "&#43;")
	if !strings.Contains(html, `content="`+policy+`"`) {
		t.Errorf("the policy does not name the hashes of what is in the page; want %s", policy)
	}
	for what, re := range map[string]string{
		"an inline style": `(?i)\sstyle\s*=`, "an inline handler": `(?i)\son[a-z]+\s*=`, "a thing from elsewhere": `(?i)\s(src|srcset|xlink:href|action)\s*=`, "a link that leaves": `(?i)href\s*=\s*"[^#]`,
	} {
		if found := regexp.MustCompile(re).FindString(blocks.ReplaceAllString(html, "")); found != "" {
			t.Errorf("%s: %q", what, found)
		}
	}
}

// TestWrite_next holds that a page says what is left to do, and that it is not to make the page.
func TestWrite_next(t *testing.T) {
	t.Parallel()
	if html := write(t, reporttest.MadeUp(t, grid)); !strings.Contains(html, "Next: <code>sweep resume --retry invalid,failed ") {
		t.Error("the page of a run with an INVALID cell does not say what is next")
	}
	done := "plan chat\naxes engine! concurrency\ncell vllm 8\n  ok tok=907 ttft=80/110 n=200\n"
	if html := write(t, reporttest.MadeUp(t, done)); strings.Contains(html, "Next:") {
		t.Error("the page of a run that is complete names a next command")
	}
}

// TestWrite_wellFormed holds that the page is well-formed XML too, but for what scripts
// and style sheets hold.
func TestWrite_wellFormed(t *testing.T) {
	t.Parallel()
	checkWellFormed(t, write(t, reporttest.MadeUp(t, grid)))
}

func checkWellFormed(t *testing.T, html string) {
	t.Helper()
	body := strings.TrimPrefix(blocks.ReplaceAllString(html, ""), "<!DOCTYPE html>")
	d := xml.NewDecoder(strings.NewReader(body))
	for {
		_, err := d.Token()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			at := d.InputOffset()
			t.Fatalf("%v near %q", err, body[max(0, at-200):min(int64(len(body)), at+50)])
		}
	}
}

// TestWrite_latencies holds that a field of the grid has the p95 of E2E below that of TTFT,
// and a run without it that of TTFT alone.
func TestWrite_latencies(t *testing.T) {
	t.Parallel()
	const fields = "plan chat\naxes engine! concurrency\ncell vllm 8\n  ok tok=907 ttft=80/110 tpot=6/7%s n=200\n"
	html := write(t, reporttest.MadeUp(t, fmt.Sprintf(fields, " e2e=840/873")))
	if !regexp.MustCompile(`>TTFT 110 ms</text><text[^>]*>E2E 873 ms</text>`).MatchString(html) {
		t.Error("a field of the grid does not show both latencies, one below the other")
	}
	if !strings.Contains(html, "and below p95 TTFT and p95 E2E in ms (p95_ttft_ms, p95_e2e_ms)") {
		t.Error("the legend does not name both latencies")
	}
	if html := write(t, reporttest.MadeUp(t, fmt.Sprintf(fields, ""))); strings.Contains(html, ">E2E ") || !strings.Contains(html, "TTFT 110 ms") {
		t.Error("a grid of a run that did not measure E2E shows one")
	}
}

// TestInterval holds that no interval of a figure has an end below 0, also in a table of cells
// of an older version.
func TestInterval(t *testing.T) {
	t.Parallel()
	p := &conclude.Point{Valid: 2, Group: result.Row{"p95_ttft_ms_ci95_low": -12.5, "p95_ttft_ms_ci95_high": 40.0, "p50_ttft_ms_ci95_low": 3.0, "p50_ttft_ms_ci95_high": 5.0}}
	for column, want := range map[string][2]float64{"p95_ttft_ms": {0, 40}, "p50_ttft_ms": {3, 5}} {
		if low, high := interval(p, column); low != want[0] || high != want[1] {
			t.Errorf("%s: %v to %v, want %v", column, low, high, want)
		}
	}
}

// The end of a run on another day has its date.
func TestWhen(t *testing.T) {
	t.Parallel()
	run := reporttest.MadeUp(t, grid)
	begun := time.Date(2026, 11, 21, 22, 30, 0, 0, time.UTC)
	run.State.Manifest.CreatedAt = begun
	for took, want := range map[time.Duration]string{
		20 * time.Minute: "2026-11-21 22:30 to 22:50 UTC, ", 2 * time.Hour: "2026-11-21 22:30 to 2026-11-22 00:30 UTC, ",
		-time.Hour: "2026-11-21 22:30 UTC",
	} {
		for _, trial := range run.Trials {
			if trial.Outcome != nil {
				trial.Outcome.FinishedAt = begun.Add(took)
			}
		}
		if got := when(run); !strings.HasPrefix(got, want) {
			t.Errorf("%v: %q, want %q", took, got, want)
		}
	}
}

// TestWrite_order holds the order of the sections, and that each cell of the run is there.
func TestWrite_order(t *testing.T) {
	t.Parallel()
	html := write(t, reporttest.MadeUp(t, grid))
	at := 0
	for _, want := range []string{
		"<h1", "SIMULATED", `class="answer"`, "Not decided", ">The grid<", ">Throughput against latency<", ">Pareto frontier<", ">Latency against load<",
		">Cost<", ">Comparison<", ">What to trust<", ">All trials<", ">Reproduce<", "How cells are judged",
	} {
		i := strings.Index(html[at:], want)
		if i < 0 {
			t.Fatalf("%q does not stand after what is before it", want)
		}
		at += i
	}
	for _, want := range []string{"responsive: p95_ttft_ms &lt; 300", "class=\"cross\"", "coalesced", "sweep resume"} {
		if !strings.Contains(html, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
}

// TestWrite_hostile holds that what a plan, an engine or a log says is text and nothing
// else.
func TestWrite_hostile(t *testing.T) {
	t.Parallel()
	const evil = `</script><script>alert(1)</script><img src=x onerror=alert(2)>\x1b[31m]]>{{.}}`
	run := reporttest.MadeUp(t, `
plan "</title><script>alert(0)</script>"
axes engine! concurrency
cell "`+evil+`" 1
  ok tok=185 ttft=14/15 tpot=5/5.4 n=200
cell "=HYPERLINK(1)" 2
  invalid tok=1 ttft=1/2 tpot=1/2 n=3 reason="coalesced|`+evil+`" finding="no_prom|`+evil+`"
cell "onload=x" 3
  failed error="spec|`+evil+`" log="`+evil+`"
`)
	html := write(t, run)
	checkWellFormed(t, html)
	if n := strings.Count(html, "<script"); n != 2 {
		t.Errorf("%d elements script, want that of the page and that of its data", n)
	}
	for _, bad := range []string{"<img", "\x1b", "<script>alert"} {
		if strings.Contains(html, bad) {
			t.Errorf("the page has %q", bad)
		}
	}
	for _, d := range Drawings([]*report.Run{run}) {
		if err := xml.Unmarshal([]byte(d.SVG), new(struct{})); err != nil {
			t.Errorf("%s: %v", d.Name, err)
		}
		if strings.Contains(d.SVG, "<img") || strings.Contains(d.SVG, "<script") {
			t.Errorf("%s has an element that no chart draws", d.Name)
		}
	}
}

// TestWrite_several holds that the anchors of two runs do not meet.
func TestWrite_several(t *testing.T) {
	t.Parallel()
	html := write(t, reporttest.MadeUp(t, grid), reporttest.MadeUp(t, grid))
	seen := map[string]bool{}
	for _, m := range regexp.MustCompile(`\sid="([^"]*)"`).FindAllStringSubmatch(blocks.ReplaceAllString(html, ""), -1) {
		if seen[m[1]] {
			t.Errorf("two elements have the id %s", m[1])
		}
		seen[m[1]] = true
	}
	for _, m := range regexp.MustCompile(`href="#([^"]*)"`).FindAllStringSubmatch(html, -1) {
		if !seen[m[1]] {
			t.Errorf("a link leads to %s, which is nowhere", m[1])
		}
	}
}

// TestWrite_many holds that servers which are not drawn still count: the one that gives
// the most is on the frontier, and what is left out is said.
func TestWrite_many(t *testing.T) {
	t.Parallel()
	var text strings.Builder
	text.WriteString("plan many\naxes gpu! concurrency\n")
	for i := range 10 {
		fmt.Fprintf(&text, "cell gpu%d 8\n  ok tok=%d ttft=80/110 tpot=6/6.4 n=200 gpu_count=1 p50_user_tok_s=%d\n", i, 900+i, 160+i)
	}
	html := write(t, reporttest.MadeUp(t, text.String()))
	frontier := html[strings.Index(html, "<h3>Pareto frontier</h3>"):]
	frontier = frontier[:strings.Index(frontier, "</section>")]
	if !strings.Contains(html, "2 servers more: see the table.") {
		t.Error("the page does not say that two servers are not drawn")
	}
	yes := regexp.MustCompile(`(?s)<tr[^>]*>(?:[^<]|<[^/]|</[^t]|</t[^r])*?>yes<`).FindAllString(frontier, -1)
	if len(yes) != 1 || !strings.Contains(yes[0], "gpu9") {
		t.Errorf("on the frontier: %q, want gpu9 alone", yes)
	}
}
