package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// residentVar makes this test binary a resident.
const residentVar = "SWEEP_TEST_RESIDENT"

// readers are the commands that only read, so that nothing but their output differs from
// a process of their own. A command that starts servers, rents, is killed or gets signals is
// a process.
var readers = []string{
	"cells", "compare", "completion", "export", "help", "judge", "list", "logs", "night trend", "plan", "probe metrics", "report", "runs",
	"validate", "version", "--help", "--version",
}

// A resident is a process of sweep that carries out command lines one after another:
// starting one for each of them is most of what they cost. It has its own working folder
// and environment, which a test's own process cannot have beside other tests.
type resident struct {
	cmd  *exec.Cmd
	in   io.WriteCloser
	send *json.Encoder
	hear *json.Decoder
	errs bytes.Buffer // of a crash
}

// A lineAsked is what a resident is asked to carry out.
type lineAsked struct {
	Dir   string
	Env   []string
	Args  []string
	Stdin string
}

// A carriedOut is its answer.
type carriedOut struct {
	Code           int
	Stdout, Stderr string
}

// residents are those that wait for a command.
type residents struct {
	mu   sync.Mutex
	idle []*resident
}

// resting is the pool of this process. It grows with the tests that run side by side.
var resting residents

// carryOut has one command line carried out by a resident.
func (p *residents) carryOut(self string, line lineAsked) (carriedOut, error) {
	p.mu.Lock()
	var r *resident
	if n := len(p.idle); n > 0 {
		r, p.idle = p.idle[n-1], p.idle[:n-1]
	}
	p.mu.Unlock()
	if r == nil {
		var err error
		if r, err = startResident(self); err != nil {
			return carriedOut{}, err
		}
	}
	// The time is a bound for a hang, not a measure.
	hang := time.AfterFunc(3*time.Minute, func() { _ = r.cmd.Process.Kill() })
	defer hang.Stop()
	var answer carriedOut
	err := r.send.Encode(line)
	if err == nil {
		err = r.hear.Decode(&answer)
	}
	if err != nil {
		_ = r.cmd.Process.Kill()
		return carriedOut{}, fmt.Errorf("sweep %s: %w\n%s", strings.Join(line.Args, " "), errors.Join(err, r.cmd.Wait()), r.errs.String())
	}
	p.mu.Lock()
	p.idle = append(p.idle, r)
	p.mu.Unlock()
	return answer, nil
}

// close ends all residents.
func (p *residents) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, r := range p.idle {
		r.in.Close()
		_ = r.cmd.Wait() // a resident has no result of its own
	}
	p.idle = nil
}

func startResident(self string) (*resident, error) {
	r := &resident{cmd: exec.Command(self)}
	r.cmd.Env = append(os.Environ(), residentVar+"=1")
	r.cmd.Stderr = &r.errs
	in, err := r.cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := r.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	r.in, r.send, r.hear = in, json.NewEncoder(in), json.NewDecoder(out)
	return r, r.cmd.Start()
}

// residentMain carries out command lines until its stdin ends.
func residentMain() int {
	hear, send := json.NewDecoder(os.Stdin), json.NewEncoder(os.Stdout)
	for {
		var line lineAsked
		if err := hear.Decode(&line); errors.Is(err, io.EOF) {
			return 0
		} else if err != nil {
			fmt.Fprintln(os.Stderr, "resident:", err)
			return 2
		}
		answer, err := line.carryOut()
		if err == nil {
			err = send.Encode(answer)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, "resident:", err)
			return 2
		}
	}
}

func (l lineAsked) carryOut() (carriedOut, error) {
	if err := os.Chdir(l.Dir); err != nil {
		return carriedOut{}, err
	}
	os.Clearenv()
	for _, v := range l.Env {
		name, value, _ := strings.Cut(v, "=")
		if err := os.Setenv(name, value); err != nil {
			return carriedOut{}, err
		}
	}
	var out, errs bytes.Buffer
	a := newTestApp()
	a.in, a.out, a.err = strings.NewReader(l.Stdin), &out, &errs
	a.inTTY, a.outTTY, a.errTTY = false, false, false
	code := a.main(append([]string{"sweep"}, l.Args...))
	return carriedOut{Code: code, Stdout: out.String(), Stderr: errs.String()}, nil
}

// reads reports whether a command line may be carried out by a resident.
func reads(env, args []string) bool {
	of := func(commands ...string) bool {
		return slices.ContainsFunc(commands, func(name string) bool { return isOf(args, name) })
	}
	return (of(readers...) && !of("runs prune", "runs merge", "compare noise") || slices.Contains(args, "--help")) &&
		!slices.ContainsFunc(env, func(v string) bool { return strings.HasPrefix(v, "SWEEP_FAULT=") })
}

// isOf reports whether a command line is of a command, which may stand below another.
func isOf(args []string, command string) bool {
	return strings.HasPrefix(strings.Join(args, " ")+" ", command+" ")
}

// scriptEnv is the key of the names of a script's variables.
type scriptEnv struct{}

// sweepScript is the command sweep of scripts: sweep [=STATUS] ARGS. Where exec sweep starts
// a process, this one asks a resident.
func sweepScript(ts *testscript.TestScript, neg bool, args []string) {
	status := -1
	if len(args) > 0 && strings.HasPrefix(args[0], "=") {
		var err error
		status, err = strconv.Atoi(args[0][1:])
		ts.Check(err)
		args = args[1:]
	}
	line := lineAsked{Dir: ts.MkAbs("."), Args: args}
	for _, name := range ts.Value(scriptEnv{}).([]string) {
		if v := ts.Getenv(name); v != "" {
			line.Env = append(line.Env, name+"="+v)
		}
	}
	if !reads(line.Env, args) {
		ts.Fatalf("sweep %s does more than read: exec it", strings.Join(args, " "))
	}
	self, err := os.Executable()
	ts.Check(err)
	got, err := resting.carryOut(self, line)
	ts.Check(err)
	fmt.Fprint(ts.Stdout(), got.Stdout)
	fmt.Fprint(ts.Stderr(), got.Stderr)
	if status >= 0 && got.Code != status || status < 0 && (got.Code != 0) != neg {
		ts.Fatalf("exit status %d", got.Code)
	}
}

// scriptSets finds the variables that scripts set.
var scriptSets = regexp.MustCompile(`(?m)^env (\w+)=`)

// scriptVars returns the names of the variables that a script may have: those that it begins
// with, and those that any script sets.
func scriptVars(t *testing.T, dir string, vars []string) []string {
	t.Helper()
	names := map[string]bool{}
	for _, v := range vars {
		name, _, _ := strings.Cut(v, "=")
		names[name] = true
	}
	scripts, err := filepath.Glob(filepath.Join(dir, "*.txtar"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range scripts {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, set := range scriptSets.FindAllSubmatch(text, -1) {
			names[string(set[1])] = true
		}
	}
	return slices.Sorted(maps.Keys(names))
}

// A resident prints what a process of its own prints, and ends with the same status.
func TestResident(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "crash.yaml"), crashPlan)
	write(t, filepath.Join(dir, "wrong.yaml"), "version: 1\nnam: x\n")
	for _, args := range [][]string{
		{"plan", "crash.yaml"}, {"validate", "wrong.yaml"}, {"cells", "nowhere"}, {"plan", "--nonsense"}, {"version"}, {"--help"}, {"help", "run"},
	} {
		for range 2 { // the second time by one that knows what the first has read
			got, want := sweep(t, dir, nil, args...), sweepProcess(t, dir, nil, args...)
			if got != want {
				t.Errorf("sweep %s: %+v, and as a process %+v", strings.Join(args, " "), got, want)
			}
		}
	}
}
