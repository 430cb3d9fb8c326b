//go:build bench

package e2e

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"sweep.dev/sweep/internal/effect"
	"sweep.dev/sweep/report/derive"
	"sweep.dev/sweep/report/reporttest/large"
	"sweep.dev/sweep/rundir"
	"sweep.dev/sweep/sinks"
	"sweep.dev/sweep/sinks/csv"
	"sweep.dev/sweep/sinks/parquet"
)

// TestLarge prints what a run of CELLS cells and POINTS points costs: its derived tables,
// its report, and the report in a browser. TMPDIR on a disk in memory saves the fsyncs of
// its making. RUN names a run that is there already, and DERIVE a run that a process of its own is to derive.
func TestLarge(t *testing.T) {
	if dir := os.Getenv("DERIVE"); dir != "" {
		deriveOnly(t, dir)
		return
	}
	need(t, "engines:report", ".engines/report/axe.min.js")
	s := large.Run{Cells: number(t, "CELLS", 10_000), Points: number(t, "POINTS", 1_000_000)}
	dir, file := os.Getenv("RUN"), filepath.Join(t.TempDir(), "report.html")
	if dir == "" {
		dir = filepath.Join(t.TempDir(), "run")
		start := time.Now()
		s.Make(t, dir)
		t.Logf("%d cells, %d points, made in %s", s.Cells, s.Points, time.Since(start).Round(time.Millisecond))
	}
	for _, about := range []string{"derived tables", "derived again"} {
		again := exec.Command(os.Args[0], "-test.run", "^TestLarge$")
		again.Dir, again.Env = "e2e", append(os.Environ(), "DERIVE="+dir, programVar+"="+program)
		cost(t, about, again)
	}
	cost(t, "report", exec.Command(program, "report", "-o", file, dir))
	info, err := os.Stat(file)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("report: %.1f MB", float64(info.Size())/1e6)
	b := browse(t)
	b.show(file, 1280, "light", true)
	b.wait(`performance.getEntriesByName("first-contentful-paint").length > 0`)
	t.Logf("first paint: %.0f ms", b.number(`performance.getEntriesByName("first-contentful-paint")[0].startTime`))
	b.wait(`document.documentElement.classList.contains("js")`)
	t.Logf("ready: %.0f ms", b.number(`performance.now()`))
	for _, words := range []string{"h100 concurrency=8", "sglang INVALID", ""} {
		ms := b.number(`(async () => { const i = document.querySelector("input[type=search]"), t = performance.now(); i.value = ` + strconv.Quote(words) + `; i.dispatchEvent(new Event("input")); document.body.offsetHeight; return performance.now() - t })()`)
		t.Logf("filter %q: %.0f ms: %s", words, ms, b.text(`document.querySelector("[role=status]").textContent`))
	}
	for _, s := range b.complaints {
		t.Error(s)
	}
}

func number(t *testing.T, name string, usual int) int {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return usual
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		t.Fatalf("%s is %q, want a number above 0", name, text)
	}
	return n
}

// cost runs a command and prints its time and the most memory it had, which is looked at
// while it runs: what the kernel says after its end covers this process, too.
func cost(t *testing.T, about string, cmd *exec.Cmd) {
	t.Helper()
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	start := time.Now()
	if err := cmd.Start(); err != nil {
		t.Fatalf("%s: %v", about, err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	look := time.NewTicker(10 * time.Millisecond)
	defer look.Stop()
	for peak := 0; ; {
		select {
		case <-look.C:
			peak = max(peak, residentMB(cmd.Process.Pid))
		case err := <-ended:
			if err != nil {
				t.Fatalf("%s: %v\n%s", about, err, &out)
			}
			used := cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
			said, _, _ := strings.Cut(out.String(), "\n")
			t.Logf("%s: %.1f s (%.1f s of processor), peak %d MB; %s", about, time.Since(start).Seconds(), used.Seconds(), peak, said)
			return
		}
	}
}

// residentMB returns the most memory that a process has had in use so far, in 10^6 bytes; 0 if it
// has ended.
func residentMB(pid int) int {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0
	}
	_, rest, _ := strings.Cut(string(status), "VmHWM:")
	kib, _, _ := strings.Cut(strings.TrimSpace(rest), " ")
	n, err := strconv.Atoi(kib)
	if err != nil {
		return 0
	}
	return n << 10 / 1e6
}

func deriveOnly(t *testing.T, dir string) {
	fx, err := effect.New("")
	if err != nil {
		t.Fatal(err)
	}
	d, _, err := rundir.Open(fx, dir)
	if err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	table, err := csv.New(csv.Config{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := derive.All(t.Context(), d, dir, []sinks.Sink{table, parquet.Sink{}}, nil); err != nil {
		t.Fatal(err)
	}
	fmt.Printf("%.1f s of it without opening and verifying the directory\n", time.Since(start).Seconds())
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
}
