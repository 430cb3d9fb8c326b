package planfile

import (
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"strings"
	"testing"

	"sweep.dev/sweep/plan"
)

// bombs are files that cost little to write and, without limits, much to read.
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

// TestBombs reads each of them in a child whose heap may hold 200 MB: the
// runtime's own limit is soft, so the child watches it.
func TestBombs(t *testing.T) {
	if os.Getenv("PLAN_TEST_BOMB") != "" {
		bombChild(t)
		return
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for name, text := range bombs() {
		file := filepath.Join(dir, strings.ReplaceAll(name, " ", "_"))
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		cmd := exec.CommandContext(t.Context(), exe, "-test.run=^TestBombs$")
		cmd.Env = append(os.Environ(), "PLAN_TEST_BOMB="+file, "GOMEMLIMIT=150MiB")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%.2000s", name, err, out)
		}
	}
}

func bombChild(t *testing.T) {
	// There is no portable way to ask how much of an address space of 200 MB the
	// program leaves. A limit on the most memory allocated at once is near enough,
	// and exact to read.
	if debug.SetMemoryLimit(-1) == math.MaxInt64 {
		t.Fatal("GOMEMLIMIT is not set")
	}
	_, err := Open(os.Getenv("PLAN_TEST_BOMB"), testOptions())
	d, ok := plan.IsDiagnostics(err)
	if !ok {
		t.Fatalf("error = %v, want diagnostics", err)
	}
	if len(d.List) > 100 {
		t.Errorf("%d diagnostics", len(d.List))
	}
	if peak := peakBytes(t); peak > 200<<20 {
		t.Errorf("the process needed %d MB", peak>>20)
	}
}

// peakBytes is the most memory that this process ever had, by the kernel.
func peakBytes(t *testing.T) int64 {
	t.Helper()
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0 // no such file here: the limit of the heap is all there is
	}
	for line := range strings.Lines(string(status)) {
		var kb int64
		if n, _ := fmt.Sscanf(line, "VmHWM: %d kB", &kb); n == 1 {
			return kb << 10
		}
	}
	return 0
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
