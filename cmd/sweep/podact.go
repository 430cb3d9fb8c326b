package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/urfave/cli/v3"

	"sweep.dev/sweep/backends"
	"sweep.dev/sweep/internal/plaintext"
	"sweep.dev/sweep/rundir/book"
)

// A podAct is something that a person does to a pod by hand.
type podAct struct {
	name, usage, done string
	warn              string // what it means; for the question
	then              string // the next command, but for the pod's name; "" for none
	do                func(ctx context.Context, inv *inventory, f found) error
}

// ends says whether the act gives the pod back.
func (p podAct) ends() bool { return p.name == "terminate" }

func podActs() []podAct {
	return []podAct{
		{
			name: "stop", usage: "stops pods: their disk stays, and is billed on", done: "stopped",
			warn: "a stopped pod keeps its disk, which is billed on", do: stop,
		},
		{
			name: "start", usage: "starts pods that were stopped", done: "started",
			warn: "they are billed in full again", do: start, then: "sweep pods show",
		},
		{
			name: "terminate", usage: "ends pods and waits until they are seen to be gone", done: "gone",
			warn: "what is on their disks is lost", do: terminate,
		},
	}
}

func (a *app) podCommand(act podAct) *cli.Command {
	return &cli.Command{
		Name:      act.name,
		Usage:     act.usage,
		ArgsUsage: "ID...",
		Description: fmt.Sprintf(`ID is a pod's name or its id at the provider, or the beginning of one of them
that no other pod has. Every step is written to the ledger of this machine first.

  $ sweep pods %s 7h9k2m4n6p`, act.name) + exitHelp(exitOK, exitUsage, exitCleanup, exitProvider),
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "yes", Aliases: []string{"y"}, Usage: "do not ask"},
			&cli.BoolFlag{Name: "force", Usage: "also a pod that is not provably yours: another owner's, or one whose marks contradict its name"},
		},
		OnUsageError: usageError,
		Action: func(ctx context.Context, c *cli.Command) error {
			if c.Args().Len() == 0 {
				return &usage{fmt.Errorf("%s wants the ids of pods (see: sweep pods)", c.FullName())}
			}
			return a.act(ctx, c, act)
		},
	}
}

// act does something to every pod that was named, or to none where one of them
// is not there, is not ours, or is not agreed to.
func (a *app) act(ctx context.Context, c *cli.Command, act podAct) error {
	inv, err := a.take(ctx, c.StringSlice("backend"))
	if err != nil {
		return err
	}
	pods, err := inv.named(c.Args().Slice(), c.Bool("force"))
	if err != nil {
		a.unasked(inv)
		return &usage{err}
	}
	now := time.Now()
	for _, f := range pods {
		r := f.row(now)
		a.say("%s  %s  %s, %s old, %s/h%s", plaintext.Line(r.Name), r.Backend, plaintext.Line(r.standing()), since(now, r.Since), dollars(r.USDPerHour), inUse(f))
	}
	yes, err := a.ask(c.Bool("yes"), fmt.Sprintf("%s %s? %s", act.name, plural(len(pods), "pod"), act.warn))
	if err != nil {
		return &usage{&hinted{fmt.Errorf("%w: nothing was done", err), "--yes answers"}}
	}
	if !yes {
		return &usage{errors.New("not agreed: nothing was done")}
	}
	ctx, _, stop := signals(ctx, a.say)
	defer stop()
	var (
		mu   sync.Mutex
		errs []error
		all  sync.WaitGroup
	)
	for _, f := range pods { // all at once: each is money
		all.Go(func() {
			err := act.do(ctx, inv, f)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				errs = append(errs, fmt.Errorf("%s %s: %w", act.name, f.Name, err))
				return
			}
			fmt.Fprintf(a.out, "%s  %s\n", f.Name, act.done)
		})
	}
	all.Wait()
	err = errors.Join(errs...)
	switch {
	case err != nil && act.ends():
		err = &statusError{exitCleanup, err}
	case err == nil && act.then != "" && len(pods) == 1:
		a.next(act.then + " " + cmp.Or(pods[0].Name, pods[0].ID))
	}
	return err
}

func inUse(f found) string {
	if f.run == runLive {
		return "; ITS RUN IS AT WORK" + f.holder
	}
	return ""
}

// find finds the pod that a person means: by its name or its id at the provider,
// or by the beginning of one of them.
func (inv *inventory) find(id string) (found, error) {
	var hits []found
	for _, f := range inv.pods {
		if f.Name == id || f.ID == id {
			return f, nil
		}
		if id != "" && (strings.HasPrefix(f.Name, id) || strings.HasPrefix(f.ID, id)) {
			hits = append(hits, f)
		}
	}
	switch len(hits) {
	case 0:
		return found{}, inv.unknown(id)
	case 1:
		return hits[0], nil
	}
	return found{}, fmt.Errorf("%q is the beginning of %d pods: %s and %s among them", id, len(hits), cmp.Or(hits[0].Name, hits[0].ID), cmp.Or(hits[1].Name, hits[1].ID))
}

// named finds the pods that a person means to change.
func (inv *inventory) named(ids []string, force bool) ([]found, error) {
	var list []found
	for _, id := range ids {
		f, err := inv.find(id)
		if err != nil {
			return nil, err
		}
		if _, why := ours(f.Listed, owner()); why != "" && !force {
			return nil, &hinted{fmt.Errorf("pod %s is not provably yours: %s", id, why), "--force does it all the same: be sure that nobody needs it"}
		}
		if f.by == nil || f.by.backend == nil {
			return nil, fmt.Errorf("pod %s: no %s could be asked", id, f.Kind)
		}
		if !slices.ContainsFunc(list, func(g found) bool { return g.Name == f.Name && g.ID == f.ID }) {
			list = append(list, f)
		}
	}
	return once(list), nil
}

// stop stops a pod. It is written down first: a stopped pod that the ledger
// takes for a running one would be ended by sweep gc, and what is on its disk
// would be lost.
func stop(ctx context.Context, inv *inventory, f found) error {
	p, err := pauser(f)
	if err != nil {
		return err
	}
	return inv.journaled(f, backends.Stopped, func() error { return p.Pause(ctx, f.ref()) })
}

// start starts a stopped pod. Where its run is over a person has it now: it is
// kept until its time is over, and the next run of the same server may adopt it.
func start(ctx context.Context, inv *inventory, f found) error {
	p, err := pauser(f)
	if err != nil {
		return err
	}
	if until := f.until(); !until.IsZero() && !until.After(time.Now()) {
		return &hinted{errors.New("its time is over, so it would end itself at once"), "sweep pods terminate " + f.Name}
	}
	state := backends.Kept
	if f.run == runLive {
		state = backends.Created
	}
	return inv.journaled(f, state, func() error { return p.Resume(ctx, f.ref()) })
}

func pauser(f found) (backends.Pauser, error) {
	p, ok := f.by.backend.(backends.Pauser)
	if !ok {
		return nil, fmt.Errorf("pods of %s cannot be stopped and started, only terminated", f.Kind)
	}
	return p, nil
}

// once leaves each entry of the ledger with the first pod that shares it, which
// writes it down for all.
func once(pods []found) []found {
	seen := map[*book.Entry]bool{}
	for i, f := range pods {
		if f.entry != nil && seen[f.entry] {
			pods[i].entry = nil
		}
		seen[f.entry] = true
	}
	return pods
}

// terminate ends a pod and returns when it is seen to be gone.
func terminate(ctx context.Context, inv *inventory, f found) error {
	ctx, cancel := context.WithTimeoutCause(ctx, endTimeout+f.by.factory.Settle, errors.New("not seen to be gone in time"))
	defer cancel()
	e, err := inv.write(f, backends.DeleteSent)
	if errors.Is(err, book.ErrChanged) {
		return err
	}
	disk := err // a full disk is no reason to leave anything running
	if err := f.by.backend.Terminate(ctx, f.ref()); err != nil {
		return errors.Join(disk, err)
	}
	f.entry = e
	_, err = inv.write(f, backends.Gone)
	return errors.Join(disk, err)
}

// endTimeout bounds the end of one pod, beyond what its provider may need until
// it is seen to be gone.
const endTimeout = 5 * time.Minute

// ref is by what the provider finds the pod: as it lists it, or as the ledger
// has it.
func (f found) ref() backends.Ref {
	if !f.listed && f.entry != nil {
		return f.entry.Find()
	}
	return f.Ref
}

// journaled writes a state down, does what leads to it, and writes the earlier
// one down again where that fails.
func (inv *inventory) journaled(f found, state backends.State, do func() error) error {
	e, err := inv.write(f, state)
	if err != nil {
		return err
	}
	if err := do(); err != nil {
		if e != nil {
			_, back := inv.book.Update(*e, backends.Arrow{Pod: e.Pod, State: f.entry.State})
			err = errors.Join(err, back)
		}
		return err
	}
	return nil
}

// write writes down what becomes of a pod, where the ledger has it.
func (inv *inventory) write(f found, state backends.State) (*book.Entry, error) {
	if f.entry == nil {
		return nil, nil
	}
	e, err := inv.book.Update(*f.entry, backends.Arrow{Pod: f.entry.Pod, State: state})
	return &e, err
}
