package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/urfave/cli/v3"

	"sweep.dev/sweep/executor/rented"
	"sweep.dev/sweep/internal/humanize"
	"sweep.dev/sweep/internal/plaintext"
)

// A podAct is something that a person does to a pod by hand.
type podAct struct {
	name, usage, done string
	warn              string // what it means; for the question
	then              string // the next command, but for the pod's name; "" for none
	do                func(inv *rented.Inventory, ctx context.Context, p rented.Pod) error
}

// ends reports whether the act gives the pod back.
func (p podAct) ends() bool { return p.name == "terminate" }

func podActs() []podAct {
	return []podAct{
		{
			name: "stop", usage: "stops pods: their disk stays, and is billed on", done: "stopped",
			warn: "a stopped pod keeps its disk, which is billed on", do: (*rented.Inventory).Stop,
		},
		{
			name: "start", usage: "starts pods that were stopped", done: "started",
			warn: "they are billed in full again", do: (*rented.Inventory).Start, then: "sweep pods show",
		},
		{
			name: "terminate", usage: "ends pods and waits until they are seen to be gone", done: "gone",
			warn: "what is on their disks is lost", do: (*rented.Inventory).Terminate,
		},
	}
}

func (a *app) podCommand(act podAct) *cli.Command {
	return &cli.Command{
		Name:      act.name,
		Usage:     act.usage,
		ArgsUsage: "ID...",
		Description: fmt.Sprintf(`ID is a pod's name or its id at the provider, or the beginning of one of
them that no other pod has. Every step is written to the ledger of this
machine first.

  $ sweep pods %s 7h9k2m4n6p`, act.name) + exitHelp(exitOK, exitInternal, exitUsage, exitCleanup, exitProvider, exitInt, exitTerm),
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "yes", Aliases: []string{"y"}, Usage: "do not ask"},
			&cli.BoolFlag{Name: "force", Usage: "also a pod that is not provably yours: another owner's, or one whose marks contradict its name"},
		},
		OnUsageError: usageError,
		Action: func(ctx context.Context, c *cli.Command) error {
			if c.Args().Len() == 0 {
				return &usage{fmt.Errorf("%s needs the ids of pods (see: sweep pods)", c.FullName())}
			}
			return a.act(ctx, c, act)
		},
	}
}

// act does something to every pod that was named, or to none where one of them
// is not there, is not ours, or is not agreed to.
func (a *app) act(ctx context.Context, c *cli.Command, act podAct) error {
	looking, _, stop := signals(ctx, a.say)
	defer stop()
	inv, err := a.rented(looking, c.StringSlice("backend"))
	if err != nil {
		return err
	}
	list, err := inv.Named(c.Args().Slice(), owner(), c.Bool("force"))
	if why := context.Cause(looking); why != nil { // what was named may be there
		code := exitCode(why)
		if act.ends() {
			code = exitCleanup
		}
		return &statusError{code, fmt.Errorf("nothing was done: %w", why)}
	}
	if !c.Bool("yes") {
		stop() // the question can be interrupted
	}
	if err != nil {
		a.unasked(inv)
		return misnamed(err)
	}
	now := time.Now()
	var what strings.Builder
	for _, p := range list {
		r := rowOf(p, now)
		fmt.Fprintf(&what, "%s  %s  %s, %s old, %s/h%s\n", plaintext.Line(r.Name), r.Backend, plaintext.Line(r.standing()), since(now, r.Since), humanize.Dollars(r.USDPerHour), inUse(p))
	}
	show := func() { a.say("%s", strings.TrimSuffix(what.String(), "\n")) }
	// As gc does: a person reads it to answer, and --yes does not wait for a reader.
	if !c.Bool("yes") {
		show()
	}
	yes, err := a.ask(c.Bool("yes"), fmt.Sprintf("%s %s? %s", act.name, humanize.Plural(len(list), "pod"), act.warn))
	if err != nil {
		return &usage{&hinted{fmt.Errorf("%w: nothing was done", err), "--yes answers"}}
	}
	if !yes {
		return &usage{errors.New("not agreed: nothing was done")}
	}
	ctx = looking
	if !c.Bool("yes") {
		running, _, stop := signals(context.WithoutCancel(ctx), a.say)
		defer stop()
		ctx = running
	}
	var (
		mu   sync.Mutex
		errs []error
		done []string
		all  sync.WaitGroup
	)
	for _, p := range list { // all at once: each is money
		all.Go(func() {
			err := act.do(inv, ctx, p)
			mu.Lock()
			defer mu.Unlock() // nothing is printed meanwhile
			if errors.Is(err, rented.ErrExpired) {
				err = &hinted{err, "sweep pods terminate " + p.Name}
			}
			if err != nil {
				errs = append(errs, fmt.Errorf("%s %s: %w", act.name, p.Name, err))
				return
			}
			done = append(done, fmt.Sprintf("%s  %s\n", p.Name, act.done))
		})
	}
	all.Wait()
	if c.Bool("yes") {
		show()
	}
	_, _ = io.WriteString(a.out, strings.Join(done, "")) // main tells what is not written
	err = errors.Join(errs...)
	switch {
	case err != nil && act.ends():
		err = &statusError{exitCleanup, err}
	case err == nil && act.then != "" && len(list) == 1:
		a.next(act.then + " " + list[0].Label())
	}
	return err
}

func inUse(p rented.Pod) string {
	if p.Run == rented.RunLive {
		return "; ITS RUN IS AT WORK" + p.Holder
	}
	return ""
}
