package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/urfave/cli/v3"

	"sweep.dev/sweep/backends/local"
	"sweep.dev/sweep/backends/runpod/runpodtest"
	"sweep.dev/sweep/internal/guard"
	"sweep.dev/sweep/internal/polltest"
)

// asSweep makes this test binary the program itself, for its children too: a
// run starts itself again as guards and as simulated engines.
const asSweep = "SWEEP_TEST_AS_SWEEP"

func TestMain(m *testing.M) {
	if filepath.Base(os.Args[0]) == "curl" {
		os.Exit(curlMain())
	}
	cli.HelpPrinter = printHelp
	if os.Getenv(residentVar) != "" {
		os.Exit(residentMain())
	}
	guard.Main() // in the tests' own process too: they emulate providers whose pods are processes
	if filepath.Base(os.Args[0]) == "runpod-emulator" {
		os.Exit(emulatorMain())
	}
	// A server is known by its mark, and one in an emulated pod by the pod's: it gets
	// no variable that its plan does not name.
	if os.Getenv(asSweep) != "" || os.Getenv(workerVar) != "" || os.Getenv(local.MarkBackend) != "" || os.Getenv("RUNPOD_POD_ID") != "" {
		os.Exit(asSweepMain())
	}
	if signal.Ignored(syscall.SIGHUP) {
		// Under nohup; what a script starts is to hear of a terminal that hangs
		// up. A signal that is caught here is one that a child has by default.
		signal.Notify(make(chan os.Signal, 1), syscall.SIGHUP)
	}
	polltest.Parallel(8) // of most tests, simulated servers compute half of the time
	os.Exit(withLedger(m.Run))
}

// seldom is the garbage collector's percentage in processes that tests start. Their heaps are
// so small that it takes a tenth of their time otherwise.
const seldom = "400"

// withLedger keeps tests away from the ledger, the settings and the calibrations of the user
// who runs them.
func withLedger(run func() int) int {
	dir, err := os.MkdirTemp("", "sweep-ledger")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	// A calibration takes seconds; the test of it turns it on again.
	for name, value := range map[string]string{"SWEEP_STATE_DIR": dir, "XDG_CONFIG_HOME": dir, "XDG_CACHE_HOME": dir, "SWEEP_CALIBRATE": "never", "GOGC": seldom} {
		if err := os.Setenv(name, value); err != nil {
			panic(err)
		}
	}
	defer resting.close()
	return run()
}

// TestScripts runs every testdata/script/*.txtar: what a person types, and
// what must come back.
func TestScripts(t *testing.T) {
	t.Parallel()
	runScripts(t, "testdata/script")
}

// runScripts runs the scripts of a folder.
func runScripts(t *testing.T, dir string) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	plans, err := filepath.Abs("../../plans")
	if err != nil {
		t.Fatal(err)
	}
	testscript.Run(t, testscript.Params{
		Dir: dir,
		Setup: func(env *testscript.Env) error {
			bin := filepath.Join(env.WorkDir, ".bin")
			if err := os.Mkdir(bin, 0o755); err != nil {
				return err
			}
			for _, name := range []string{"sweep", "curl", "runpod-emulator"} {
				if err := os.Symlink(self, filepath.Join(bin, name)); err != nil {
					return err
				}
			}
			env.Setenv("PATH", bin+string(os.PathListSeparator)+env.Getenv("PATH"))
			env.Setenv(asSweep, "1")
			env.Setenv("PLANS", plans)
			env.Setenv("SWEEP_STATE_DIR", filepath.Join(env.WorkDir, ".state"))
			env.Setenv("XDG_CACHE_HOME", filepath.Join(env.WorkDir, ".cache"))
			env.Setenv("SWEEP_CALIBRATE", "never")
			env.Setenv("GOGC", seldom)
			env.Values[scriptEnv{}] = scriptVars(t, dir, env.Vars)
			return nil
		},
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){
			"wait-for": waitFor, "next-second": nextSecond, "rent": rent, "mkrun": mkrun, "nights": nights, "sweep": sweepScript,
		},
		UpdateScripts: os.Getenv("UPDATE_SCRIPTS") != "",
	})
}

// A ran is one call of sweep as a process of its own.
type ran struct {
	code           int
	stdout, stderr string
}

// sweep carries out a command line in a folder with further environment: in a process of
// its own unless it only reads.
func sweep(t *testing.T, dir string, env []string, args ...string) ran {
	t.Helper()
	if !reads(env, args) {
		return sweepProcess(t, dir, env, args...)
	}
	abs, err := filepath.Abs(dir)
	if err != nil {
		t.Fatal(err)
	}
	got, err := resting.carryOut(executable(t), lineAsked{Dir: abs, Env: slices.Concat(os.Environ(), env), Args: args})
	if err != nil {
		t.Fatal(err)
	}
	return ran{code: got.Code, stdout: got.Stdout, stderr: got.Stderr}
}

// sweepProcess runs the program as a process. The time is a bound for a hang, not a
// measure.
func sweepProcess(t *testing.T, dir string, env []string, args ...string) ran {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, self, args...)
	cmd.Dir = dir
	cmd.Env = append(append(os.Environ(), asSweep+"=1"), env...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	// A crash leaves guards that still hold the pipes until their servers are gone.
	cmd.WaitDelay = 20 * time.Second
	err = cmd.Run()
	if ctx.Err() != nil {
		t.Fatalf("sweep %s did not end: %v\n%s", strings.Join(args, " "), err, errs.String())
	}
	return ran{code: cmd.ProcessState.ExitCode(), stdout: out.String(), stderr: errs.String()}
}

// emulatorMain is backends/runpod/runpodtest/cmd, whose pods start this binary as sweep.
func emulatorMain() int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	return runpodtest.Main(ctx, os.Args[1:], os.Stdout, os.Stderr)
}

// curlMain is as much of curl as the commands need that sweep prints: curl [-sS]
// [-H @-] URL. It prints the status before the body.
func curlMain() int {
	args := os.Args[1:]
	header := http.Header{}
	if len(args) > 0 && args[0] == "-sS" {
		args = args[1:]
	}
	if len(args) > 1 && args[0] == "-H" && args[1] == "@-" {
		lines := bufio.NewScanner(os.Stdin)
		for lines.Scan() {
			name, value, _ := strings.Cut(lines.Text(), ": ")
			header.Add(name, value)
		}
		args = args[2:]
	}
	if len(args) != 1 {
		fmt.Fprintf(os.Stderr, "curl: not known: %q\n", os.Args[1:])
		return 2
	}
	req, err := http.NewRequest(http.MethodGet, args[0], http.NoBody)
	if err == nil {
		req.Header = header
		var resp *http.Response
		if resp, err = http.DefaultClient.Do(req); err == nil {
			defer resp.Body.Close()
			fmt.Println("HTTP", resp.StatusCode)
			_, err = io.Copy(os.Stdout, resp.Body)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "curl:", err)
		return 7
	}
	return 0
}

// nextSecond waits for the next second: the folder of a night is named by it.
func nextSecond(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 0 {
		ts.Fatalf("usage: next-second")
	}
	now := time.Now().Unix()
	if !polltest.Within(polltest.Patience, func() bool { return time.Now().Unix() > now }) {
		ts.Fatalf("the clock stands still")
	}
}

// waitFor waits until a file contains a text: wait-for FILE TEXT.
func waitFor(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: wait-for FILE TEXT")
	}
	path := ts.MkAbs(args[0])
	if !polltest.Within(polltest.Patience, func() bool {
		b, err := os.ReadFile(path)
		return err == nil && bytes.Contains(b, []byte(args[1]))
	}) {
		ts.Fatalf("%s never contained %q", path, args[1])
	}
}
