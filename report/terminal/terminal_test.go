package terminal_test

import (
	"errors"
	"flag"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"golang.org/x/tools/txtar"

	"sweep.dev/sweep/report"
	"sweep.dev/sweep/report/conclude"
	"sweep.dev/sweep/report/draw"
	"sweep.dev/sweep/report/reporttest"
	"sweep.dev/sweep/report/terminal"
)

var update = flag.Bool("update", false, "write the golden files anew")

// maxLines is how many lines an ending has at 80 columns, whatever the run is. Each list
// has its bound; this is above what all of them together come to.
const maxLines = 90

// runDir stands in golden files: lines are broken by its length.
const runDir = "runs/made-up"

// styles are the files of a golden archive: of terminals, of a pipe, and of a terminal
// with colours, which stand between braces.
var styles = map[string]draw.Style{
	"80.txt":    {Width: 80},
	"120.txt":   {Width: 120},
	"piped.txt": {},
	"colour.txt": {
		Width: 80,
		Paint: func(v conclude.Verdict, s string) string { return fmt.Sprintf("{%s:%s}", v, s) },
		Dim:   func(s string) string { return "{dim:" + s + "}" },
	},
}

// TestWrite holds each testdata/*.txtar: the run that it describes, or that is made up
// by its size, and what is said of it.
func TestWrite(t *testing.T) {
	t.Parallel()
	open := func(t *testing.T, f txtar.File) *report.Run {
		var run *report.Run
		if f.Name == "size" {
			run = reporttest.Large(t, sized(t, string(f.Data)))
		} else {
			run = reporttest.Described(t, f)
		}
		run.Dir = runDir
		return run
	}
	reporttest.Golden(t, "testdata/*.txtar", *update, open, func(t *testing.T, name string, run *report.Run) string {
		style, ok := styles[name]
		if !ok {
			t.Fatalf("there is no style %s", name)
		}
		var b strings.Builder
		if err := terminal.Write(&b, run, style); err != nil {
			t.Fatal(err)
		}
		got := b.String()
		if n := strings.Count(got, "\n"); style.Width > 0 && n > maxLines {
			t.Errorf("%s: %d lines, want %d at most", name, n, maxLines)
		}
		for line := range strings.Lines(got) {
			line = strings.TrimSuffix(line, "\n")
			if n := utf8.RuneCountInString(line); style.Width > 0 && style.Paint == nil && n > style.Width && !strings.Contains(line, "runs/") {
				t.Errorf("%s: a line of %d columns: %s", name, n, line)
			}
			if style.Paint == nil && strings.ContainsAny(line, "\x1b\x00") {
				t.Errorf("%s: a control character: %q", name, line)
			}
		}
		return got
	})
}

// sized describes a run of so many engines, GPUs, lengths and loads. Every 7th cell
// misses its objective, every 11th is INVALID, every 13th undecided, and the last
// hundredth pending.
func sized(t *testing.T, text string) string {
	t.Helper()
	var engines, gpus, lengths, loads int
	if _, err := fmt.Sscanf(text, "%d engines, %d gpus, %d lengths, %d loads", &engines, &gpus, &lengths, &loads); err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	b.WriteString("plan large\naxes engine! gpu! max_tokens concurrency\n")
	n, all := 0, engines*gpus*lengths*loads
	for e := range engines {
		for g := range gpus {
			for l := range lengths {
				for c := range loads {
					n++
					fmt.Fprintf(&b, "cell engine-%d gpu-%d %d %d\n", e+1, g+1, 16<<l, 1<<c)
					figures := fmt.Sprintf("tok=%d ttft=%d/%d tpot=5/6 n=200", 100*(c+1)*(g+1), 20*(c+1), 30*(c+1))
					const met = ` meet="responsive|p95_ttft_ms < 400|p95_ttft_ms=30"`
					switch {
					case n > all-all/100:
						b.WriteString("  pending\n")
					case n%7 == 0:
						fmt.Fprintf(&b, "  ok %s miss=\"responsive|p95_ttft_ms < 400|p95_ttft_ms=430\"\n", figures)
					case n%11 == 0:
						fmt.Fprintf(&b, "  invalid %s reason=\"client_cpu|the client used 97 %% of the CPU\"\n", figures)
					case n%13 == 0:
						fmt.Fprintf(&b, "  ok %s unchecked=\"cool|max_gpu_temp_c < 80|not measured: max_gpu_temp_c\"\n", figures+met)
					default:
						fmt.Fprintf(&b, "  ok %s finding=\"server_stalled|a stall\"\n", figures+met)
					}
				}
			}
		}
	}
	return b.String()
}

// TestWrite_bounded holds that what is printed does not grow with the run.
func TestWrite_bounded(t *testing.T) {
	t.Parallel()
	lines := func(size string) int {
		var b strings.Builder
		if err := terminal.Write(&b, reporttest.Large(t, sized(t, size)), draw.Style{Width: 80}); err != nil {
			t.Fatal(err)
		}
		return strings.Count(b.String(), "\n")
	}
	if some, more := lines("4 engines, 5 gpus, 2 lengths, 10 loads"), lines("4 engines, 5 gpus, 10 lengths, 10 loads"); more > some+5 {
		t.Errorf("400 cells have %d lines, 2,000 have %d", some, more)
	}
}

func TestWrite_error(t *testing.T) {
	t.Parallel()
	full := errors.New("no space left on device")
	run := reporttest.MadeUp(t, "axes engine! concurrency\ncell vllm 1\n  ok tok=1")
	if err := terminal.Write(failing{full}, run, draw.Style{}); !errors.Is(err, full) {
		t.Errorf("error %v, want %v", err, full)
	}
}

type failing struct{ err error }

func (f failing) Write([]byte) (int, error) { return 0, f.err }
