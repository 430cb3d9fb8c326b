package processes

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"sweep.dev/sweep/internal/polltest"
	"sweep.dev/sweep/load"
	"sweep.dev/sweep/load/loadtest"
	"sweep.dev/sweep/load/wire"
	"sweep.dev/sweep/load/worker"
	"sweep.dev/sweep/result"
)

// coordinatorEnv makes this test a coordinator of three clients whose load has no end; its
// value is the URL of the server.
const coordinatorEnv = "SWEEP_TEST_COORDINATOR"

func coordinate(url string) {
	ctx := context.Background()
	p, err := Start(ctx, nil, 3, command)
	if err != nil {
		panic(err)
	}
	t, err := worker.NewTarget(wire.Config{BaseURL: url, Model: "m", Chat: true, Stream: true}, "std")
	if err != nil {
		panic(err)
	}
	g, err := worker.Join(ctx, t, p.Addresses())
	if err != nil {
		panic(err)
	}
	fmt.Println(strings.Trim(fmt.Sprint(p.PIDs()), "[]"))
	_, err = g.Run(ctx, worker.Load{Source: closed(6, 5_000_000)}, &loadtest.Kept{}, load.Options{Anchor: result.NewAnchor()})
	panic(err)
}

// killCoordinator kills a coordinator at work, with one of its clients stopped if that is
// wanted, and returns the clients.
func killCoordinator(t *testing.T, stopped bool) (pids []int) {
	t.Helper()
	e := loadtest.New(nil)
	t.Cleanup(e.Close)
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = []string{coordinatorEnv + "=" + e.URL}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Error(err)
	}
	for field := range strings.FieldsSeq(line) {
		pid, err := strconv.Atoi(field)
		if err != nil {
			t.Error(err)
		}
		pids = append(pids, pid)
	}
	if len(pids) != 3 {
		t.Errorf("clients %q", line)
	}
	polltest.Until(t, "the load runs", func() bool { return e.Stats().Requests > 10 })
	if stopped {
		_ = syscall.Kill(pids[1], syscall.SIGSTOP)
		// All its threads: before that the kernel does not take it for stopped, and would
		// not wake it as an orphan.
		polltest.Until(t, "a client is stopped", func() bool {
			threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pids[1]))
			return err == nil && len(threads) > 0 && !slices.ContainsFunc(threads, func(file string) bool {
				b, err := os.ReadFile(file)
				return err == nil && !strings.Contains(string(b), ") T ")
			})
		})
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Error(err)
	}
	_ = cmd.Wait() // killed
	return pids
}

// readProc returns a file that the kernel has of a process.
func readProc(pid int, file string) (string, error) {
	b, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), file))
	return string(b), err
}
