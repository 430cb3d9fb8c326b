//go:build e2e

package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"sweep.dev/sweep/internal/polltest"
)

// nightly is a plan that takes a second.
const nightly = `version: 1
name: nightly
model: sweep/tiny
matrix: {engine: vllm, gpu: h100, concurrency: [1, 2], max_tokens: 3}
backend: {kind: sim}
load: {requests: 4, prompts: {kind: synthetic, input_tokens: 20}}
`

// scheduled makes the files of a night in a folder whose name needs quoting, and
// returns where.
func scheduled(t *testing.T, args ...string) (dir string) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "a folder of 100% 'nights'")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "nightly.yaml"), []byte(nightly), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(program, append(append([]string{"night", "schedule"}, args...), "-o", "files", "nightly.yaml")...)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return dir
}

// TestScheduleSystemd asks systemd of the units (apt-get install systemd).
func TestScheduleSystemd(t *testing.T) {
	dir := scheduled(t, "--target", "systemd", "--max-cost", "3")
	units, err := filepath.Glob(filepath.Join(dir, "files", "*.[st]*[er]*"))
	if err != nil {
		t.Fatal(err)
	}
	var args []string
	for _, u := range units {
		if ext := filepath.Ext(u); ext == ".service" || ext == ".timer" {
			args = append(args, u)
		}
	}
	if len(args) != 4 {
		t.Fatalf("%q", units)
	}
	// It takes a path with a space as it is, and no quotes.
	if out, err := exec.Command("systemd-analyze", append([]string{"verify", "--man=no"}, args...)...).CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("systemd-analyze verify: %v\n%s", err, out)
	}
	if out, err := exec.Command("systemd-analyze", "calendar", "*-*-* 02:00:00", "*-*-* *:23:00").CombinedOutput(); err != nil {
		t.Errorf("systemd-analyze calendar: %v\n%s", err, out)
	}
}

// TestScheduleGitHub asks actionlint of the workflow.
func TestScheduleGitHub(t *testing.T) {
	dir := scheduled(t, "--target", "github", "--max-cost", "3", "--set", "load.requests=5")
	config := filepath.Join(dir, "actionlint.yaml")
	if err := os.WriteFile(config, []byte("self-hosted-runner: {labels: [sweep]}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("go", "tool", "-modfile=tools/actionlint/go.mod", "actionlint", "-config-file", config, filepath.Join(dir, "files", "sweep-nightly.yml"))
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("actionlint: %v\n%s", err, out)
	}
}

// TestScheduleCron has a real cron run a night (apt-get install cron). It waits for the
// next minute but one at most.
func TestScheduleCron(t *testing.T) {
	t.Parallel()
	at := time.Now().Add(75 * time.Second)
	dir := scheduled(t, "--target", "cron", "--at", at.Format("15:04"))
	before, err := exec.Command("crontab", "-l").Output()
	restore := exec.Command("crontab", "-r")
	if err == nil {
		restore = exec.Command("crontab", "-")
		restore.Stdin = strings.NewReader(string(before))
	}
	install := exec.Command("crontab", filepath.Join(dir, "files", "sweep-nightly.crontab"))
	if out, err := install.CombinedOutput(); err != nil {
		t.Fatalf("crontab: %v\n%s", err, out)
	}
	t.Cleanup(func() {
		if out, err := restore.CombinedOutput(); err != nil {
			t.Errorf("crontab: %v\n%s", err, out)
		}
	})
	cron := exec.Command("cron", "-f")
	if err := cron.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cron.Process.Signal(syscall.SIGTERM)
		_ = cron.Wait() // by the signal
	})
	report := func() bool {
		found, _ := filepath.Glob(filepath.Join(dir, "runs", "nightly-*", "report.html"))
		return len(found) == 1
	}
	if !polltest.Within(4*time.Minute, report) {
		entries, _ := exec.Command("find", dir).Output()
		t.Fatalf("cron measured nothing until %s\n%s", time.Now().Format(time.TimeOnly), entries)
	}
	if _, err := os.Stat(filepath.Join(dir, "nightly.jsonl")); err != nil {
		t.Error(err)
	}
}
