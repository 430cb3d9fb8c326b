package planfile

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"sweep.dev/sweep/plan"
)

// bombs returns files that cost little to write and, without limits, much to read.
func bombs() map[string]string {
	var laughs strings.Builder
	laughs.WriteString("a0: &a0 [x, x, x, x, x, x, x, x, x]\n")
	for i := 1; i < 20; i++ {
		fmt.Fprintf(&laughs, "a%d: &a%d [%s]\n", i, i, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*a%d, ", i-1), 9), ", "))
	}
	var keys strings.Builder
	for i := range 100_000 {
		fmt.Fprintf(&keys, "k%d: 1\n", i)
	}
	var axes strings.Builder
	axes.WriteString("version: 1\nname: b\nmodel: m\nbackend: sim\nload: {requests: 1, concurrency: 1, max_tokens: 1, prompts: {input_tokens: 1}}\nmatrix:\n  engine: vllm\n")
	for i := range 40 {
		fmt.Fprintf(&axes, "  args.a%d: {from: 1, to: 9999, step: 1}\n", i)
	}
	return map[string]string{
		"billion laughs":   laughs.String(),
		"many aliases":     "a: &a 1\nb: [" + strings.Repeat("*a, ", 1000) + "1]\n",
		"too many bytes":   strings.Repeat("# hello\n", 1<<18),
		"flow nesting":     strings.Repeat("[", 1<<19),
		"map nesting":      strings.Repeat("{a: ", 1<<17),
		"dashes":           strings.Repeat("- ", 1<<17),
		"questions":        strings.Repeat("? ", 1<<17),
		"indentation":      nested(1000),
		"anchors":          strings.Repeat("&a ", 1<<16) + "x",
		"tags":             strings.Repeat("!a ", 1<<16) + "x",
		"items":            "a: [" + strings.Repeat("a,", 1<<18) + "a]",
		"lines":            strings.Repeat("- a\n", 1<<17),
		"keys":             keys.String(),
		"quotes":           strings.Repeat(`"a" `, 1<<17),
		"matrix":           axes.String(),
		"merge chain":      "a: &a {x: 1}\n" + strings.Repeat("b: &a {<<: *a}\n", 300),
		"long expression":  simple + "  b: " + strings.Repeat("(", 100_000) + "\n",
		"unary expression": simple + "  b: " + strings.Repeat("!", 1900) + "simulated\n",
		"one long text":    "name: " + strings.Repeat("x ", 1<<18),
	}
}

func nested(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "%sa:\n", strings.Repeat(" ", i))
	}
	return b.String()
}

// TestBombs bounds the work that each of them makes, by what it allocates in all. What is
// in memory at once is no more.
func TestBombs(t *testing.T) {
	const bytes, allocations = 200 << 20, 1_500_000
	_, _ = Parse("p", ".", []byte(simple), testOptions()) // makes what a process makes once
	dir := t.TempDir()
	for name, text := range bombs() {
		file := filepath.Join(dir, strings.ReplaceAll(name, " ", "_"))
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := Open(file, testOptions())
		runtime.ReadMemStats(&after)
		d, ok := plan.IsDiagnostics(err)
		if !ok {
			t.Fatalf("%s: error = %v, want diagnostics", name, err)
		}
		if len(d.List) > 100 {
			t.Errorf("%s: %d diagnostics", name, len(d.List))
		}
		if n := after.TotalAlloc - before.TotalAlloc; n > bytes {
			t.Errorf("%s: it allocated %d MB in all, want %d at most", name, n>>20, bytes>>20)
		}
		if n := after.Mallocs - before.Mallocs; n > allocations {
			t.Errorf("%s: it allocated %d times, want %d at most", name, n, allocations)
		}
	}
}

func TestMaxCells(t *testing.T) {
	src := strings.Replace(simple, "concurrency: [1, 4]", "concurrency: {from: 1, to: 8, step: 1}", 1)
	opts := testOptions()
	for limit, ok := range map[int]bool{48: true, 47: false, 0: true} {
		opts.MaxCells = limit
		if _, err := Parse("p", ".", []byte(src), opts); (err == nil) != ok {
			t.Errorf("48 cells with a limit of %d: %v", limit, err)
		}
	}
}
