package rundir_test

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"go.uber.org/goleak"

	"sweep.dev/sweep/internal/effect"
	"sweep.dev/sweep/rundir"
	"sweep.dev/sweep/rundir/rundirtest"
)

// roles are what this test binary plays as a child process.
var roles = map[string]func(dir string) error{
	"scenario": playScenario,
	"racer":    playRacer,
	"fulldisk": playFullDisk,
}

const roleEnv = "RUNDIR_TEST_ROLE"

func TestMain(m *testing.M) {
	if role := roles[os.Getenv(roleEnv)]; role != nil {
		if err := role(os.Args[1]); err != nil {
			fmt.Println("error:", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	rundirtest.InMemory()
	goleak.VerifyTestMain(m)
}

func child(role, spec, dir string) *exec.Cmd {
	cmd := exec.Command(os.Args[0], dir)
	cmd.Env = append(os.Environ(), roleEnv+"="+role, "SWEEP_FAULT="+spec)
	return cmd
}

// playScenario runs the scenario and reports each trial that was acknowledged.
func playScenario(dir string) error {
	fx, err := effect.New(os.Getenv("SWEEP_FAULT"))
	if err != nil {
		return err
	}
	return scenario{fx, dir, func(k rundir.Key) { fmt.Printf("acked %s %d\n", k.Cell, k.Trial) }}.run(noContext())
}

// runScenario plays the scenario in a child with a fault.
func runScenario(t *testing.T, spec, dir string) (killed bool, acked []rundir.Key) {
	t.Helper()
	cmd := child("scenario", spec, dir)
	out, err := cmd.Output()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		killed = exit.Sys().(syscall.WaitStatus).Signal() == syscall.SIGKILL
	}
	if err != nil && !killed {
		t.Errorf("%s: the child ended by itself: %v\n%s", spec, err, out)
	}
	lines := bufio.NewScanner(strings.NewReader(string(out)))
	for lines.Scan() {
		var k rundir.Key
		if _, err := fmt.Sscanf(lines.Text(), "acked %s %d", &k.Cell, &k.Trial); err == nil {
			acked = append(acked, k)
		}
	}
	return killed, acked
}

func attempt(e rundir.Event) (a rundir.AttemptKey) {
	_ = json.Unmarshal(e.Data, &a)
	return a
}

func key(t *testing.T, e rundir.Event) rundir.Key {
	t.Helper()
	var k rundir.Key
	if err := json.Unmarshal(e.Data, &k); err != nil {
		t.Fatal(err)
	}
	return k
}

func must[T any](t *testing.T) func(T, error) T {
	t.Helper()
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func copyTree(t *testing.T, from, to string) {
	t.Helper()
	if err := os.CopyFS(to, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
}

func appendTo(t *testing.T, path, text string) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(f, text); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}
