package backendtest

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
	"testing"

	"sweep.dev/sweep/backends"
	"sweep.dev/sweep/internal/effect"
)

// launchVar makes a test binary a process that launches a deployment and is killed
// on the way; see [Killed].
const launchVar = "BACKENDTEST_LAUNCH"

// An order is what such a process is told.
type order struct {
	Config, Fault, Owner, Run, Dir string
}

// A Maker makes a backend and a spec of one server in a process of its own, of what
// [Killed] has for it.
type Maker func(config, dir string, fx *effect.Effects) (backends.Backend, backends.Spec, error)

// Killed has two roles of two replicas launched by processes that are killed with
// SIGKILL before and after each of these operations, every time that one is done.
// The pods that are left are then ended from the ledger. [Main] has to know the
// Maker. Without the build tag slow a process is killed after the first of each
// operation, when something exists that the ledger lacks, and before the second of the
// last one, when something is missing. TestCrash of backends/provision kills everywhere.
func Killed(config string, points ...effect.Point) Option {
	return func(s *suite) { s.config, s.points = config, points }
}

// launchKilled runs the process of an order.
func launchKilled(text string, make Maker) error {
	var o order
	if err := json.Unmarshal([]byte(text), &o); err != nil {
		return err
	}
	_ = os.Unsetenv(launchVar) // no server is to have it
	fx, err := effect.New(o.Fault)
	if err != nil {
		return err
	}
	b, spec, err := make(o.Config, o.Dir, fx)
	if err != nil {
		return err
	}
	spec.Owner, spec.RunID = o.Owner, o.Run
	twoRoles(&spec, o.Dir)
	if _, err := b.Launch(context.Background(), spec, printed{json.NewEncoder(os.Stdout)}); err != nil {
		return err
	}
	if err := json.NewEncoder(os.Stdout).Encode(backends.Transition{State: backends.Ready}); err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, os.Stdin) // until it is killed, or its parent has ended
	return err
}

// printed is a ledger whose disk is the reader of stdout.
type printed struct{ *json.Encoder }

func (p printed) Record(_ context.Context, a backends.Transition) error { return p.Encode(a) }

func (s *suite) killed(tt *testing.T) {
	for i, point := range s.points {
		for _, phase := range []effect.Phase{effect.Before, effect.After} {
			if phase == effect.Before && i < len(s.points)-1 && !s.full {
				continue
			}
			tt.Run(fmt.Sprintf("%s %s", phase, point), func(tt *testing.T) {
				tt.Parallel()
				first, last := s.kills(phase)
				for n, up := first, false; !up && n <= last; n++ {
					fault := fmt.Sprintf("%s:%s:kill@%d", point, phase, n)
					tt.Run(fault, func(tt *testing.T) { up = s.killedAt(tt, fault) })
					if up && n == 1 {
						tt.Errorf("no launch comes to %s", point)
					}
				}
			})
		}
	}
}

// kills returns at which times of an operation a launch is killed.
func (s *suite) kills(phase effect.Phase) (first, last int) {
	switch {
	case s.full:
		return 1, mostKills
	case phase == effect.After:
		return 1, 1
	default:
		return 2, 2
	}
}

// mostKills bounds the launches that are killed at one side of a point.
const mostKills = 8

// killedAt kills one launch. It reports whether that came to its end before the fault.
func (s *suite) killedAt(tt *testing.T, fault string) (up bool) {
	t := s.try(tt)
	text, err := json.Marshal(order{s.config, fault, t.spec.Owner, t.spec.RunID, t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), launchVar+"="+string(text))
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var transitions []backends.Transition
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 1<<20)
	for !up && lines.Scan() {
		var a backends.Transition
		if err := json.Unmarshal(lines.Bytes(), &a); err != nil {
			continue // the last one may be half
		}
		if up = a.State == backends.Ready; !up {
			transitions = append(transitions, a)
		}
	}
	if up {
		_ = cmd.Process.Kill()
	}
	err = cmd.Wait()
	status, _ := cmd.ProcessState.Sys().(syscall.WaitStatus)
	if status.Signal() != syscall.SIGKILL || len(transitions) > 0 && transitions[len(transitions)-1].State == backends.Gone {
		t.Fatalf("it was not killed on the way: %v, recorded %+v", err, transitions)
	}
	if len(transitions) == 0 {
		return false // nothing was to be made yet, and nothing was
	}
	ref := backends.Ref{Kind: transitions[0].Kind, RunID: t.spec.RunID, Pod: transitions[0].Pod, Name: transitions[0].Name, Details: transitions[0].At}
	if last := transitions[len(transitions)-1].Ref; last != nil {
		ref = *last
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := t.Terminate(ctx, ref); err != nil {
		t.Errorf("Terminate of %+v: %v", ref, err)
	}
	return up
}
