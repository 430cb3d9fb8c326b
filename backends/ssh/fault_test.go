package ssh_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"sweep.dev/sweep/backends"
	"sweep.dev/sweep/backends/backendtest"
	"sweep.dev/sweep/backends/ssh"
	"sweep.dev/sweep/internal/effect"
	"sweep.dev/sweep/internal/slow"
)

// Whatever call to the host fails, or is done and reported as failed: what is
// left is owed by the ledger, and the ledger is enough to end it. TestLaunch_fails of
// backends/provision holds it for every call to a provider.
func TestFaults(t *testing.T) {
	t.Parallel()
	var c ssh.Config
	clean := configure(t, server(t), func(made *ssh.Config) { c = *made })
	rules := []string{"ssh.read:after:err=EIO@2", "ssh.start:after:err=EIO", "ssh.stop:after:err=EIO", "log.create:before:err=ENOSPC"}
	if slow.Tests {
		rules = append(rules,
			"ssh.dial:before:err=EIO", "ssh.dial:after:err=EIO",
			"ssh.read:before:err=EIO", "ssh.read:after:err=EIO", "ssh.read:before:err=EIO@3",
			"ssh.start:before:err=EIO", "ssh.stop:before:err=EIO", "ssh.stop:after:err=EIO@2")
	}
	for _, rule := range rules {
		t.Run(rule, func(t *testing.T) {
			fx, err := effect.New(rule)
			if err != nil {
				t.Fatal(err)
			}
			b, err := ssh.New(fx, c)
			if err != nil {
				t.Fatal(err)
			}
			sp := spec(t)
			sp.RunID = fmt.Sprintf("run%d", time.Now().UnixNano()%1e9)
			var l backendtest.Ledger
			d, err := b.Launch(t.Context(), sp, &l)
			stopped := false
			if err == nil {
				stopped = d.Stop(t.Context()) == nil
			}
			transitions := l.Transitions()
			owed := len(transitions) > 0 && !stopped && !slices.ContainsFunc(transitions, func(a backends.Transition) bool { return a.State == backends.Gone })
			left := marked(sp.RunID)
			if len(left) > 0 && !owed {
				t.Errorf("left, and nobody owes it: %v (%v)", left, err)
			}
			if !owed {
				return
			}
			ref := backends.Ref{Kind: transitions[0].Kind, RunID: sp.RunID, Pod: sp.Pod, Name: transitions[0].Name, Details: transitions[0].At}
			if err := clean.Terminate(context.WithoutCancel(t.Context()), ref); err != nil {
				t.Errorf("Terminate from the ledger: %v", err)
			}
			if left := marked(sp.RunID); len(left) > 0 {
				t.Errorf("left: %v", left)
			}
		})
	}
}

func marked(run string) []string {
	var left []string
	for _, p := range withRun(run) {
		left = append(left, fmt.Sprint(p.PID, cmdline(p.PID)))
	}
	return left
}
