package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/urfave/cli/v3"

	"sweep.dev/sweep/internal/plaintext"
)

func (a *app) gcCommand() *cli.Command {
	return &cli.Command{
		Name:  "gc",
		Usage: "ends pods that were left behind, from any machine",
		Description: `Asks every provider of the environment's credentials what is there, ends what
was left behind, and waits until it is seen to be gone. A pod's name says enough:
neither the ledger of this machine nor a run directory is needed, and with them
it knows more. It ends

  - every pod whose time is over, by the date in its name or in the ledger;
  - pods of a run whose directory is here and not locked: the run is over;
  - with --run, the pods of that run, unless it is seen to be at work.

It touches nothing that is not provably the owner's: a pod whose name sweep does
not give, another owner's, or one whose marks contradict its name. A pod that is
kept, or that a person has stopped, is left until its date.

Nothing is ended without --yes or somebody who agrees.

  $ sweep gc                                # what is there, what would be ended, and why
  $ sweep gc --yes
  $ sweep gc --expired --yes --owner ci@runner-7     # for a timer on another machine
  $ sweep gc --run 3f2a9c01d4 --yes` + exitHelp(exitOK, exitInternal, exitUsage, exitCleanup, exitProvider),
		Flags: []cli.Flag{
			backendFlag(),
			&cli.BoolFlag{Name: "expired", Usage: "end nothing but what is past its date"},
			&cli.StringFlag{Name: "run", Usage: "look at the pods of the run `ID` alone, and end them whatever is known of the run, unless it is at work"},
			&cli.StringFlag{Name: "owner", Usage: "end what `OWNER` has left behind (USER@HOST, or the tag in a pod's name)", DefaultText: "you, on this machine"},
			&cli.BoolFlag{Name: "dry-run", Usage: "end nothing"},
			&cli.BoolFlag{Name: "yes", Aliases: []string{"y"}, Usage: "end without asking"},
			&cli.BoolFlag{Name: "json", Usage: "print as JSON"},
		},
		OnUsageError: usageError,
		Action: func(ctx context.Context, c *cli.Command) error {
			switch {
			case c.Args().Present():
				return &usage{fmt.Errorf("gc takes no arguments, got %q (--run ID names a run, sweep pods terminate ID ends one pod)", c.Args().First())}
			case c.Bool("dry-run") && c.Bool("yes"):
				return &usage{errors.New("--dry-run and --yes: only one of them")}
			}
			return a.gc(ctx, c)
		},
	}
}

// A gcRow is what became of one pod.
type gcRow struct {
	podRow
	Action action `json:"action"`
	Why    string `json:"why"`
	Gone   bool   `json:"gone"`
	Error  string `json:"error,omitempty"`
}

// A duePod is one that gc is to end.
type duePod struct {
	found
	row *gcRow
}

func (a *app) gc(ctx context.Context, c *cli.Command) error {
	s := scope{now: time.Now(), owner: owner(), run: c.String("run"), expired: c.Bool("expired")}
	if c.IsSet("owner") {
		s.owner = c.String("owner")
	}
	inv, err := a.take(ctx, c.StringSlice("backend"))
	if err != nil {
		return err
	}
	rows, due, strangers := judge(inv, s)
	text := !c.Bool("json")
	if text {
		for _, r := range rows {
			if _, err := fmt.Fprintf(a.out, "%-5s  %s  %s  %s  %s/h: %s\n", r.Action, r.Backend, plaintext.Line(r.Name),
				plaintext.Line(r.standing()), dollars(r.USDPerHour), plaintext.Line(r.Why)); err != nil {
				return gone(err)
			}
		}
	}
	a.unasked(inv)
	if strangers > 0 {
		a.say("%s left alone: not provably of %s", plural(strangers, "pod"), s.owner)
	}
	agreed, asked := a.agreed(c, len(due))
	if agreed {
		ctx, _, stop := signals(ctx, a.say)
		defer stop()
		endAll(ctx, inv, due)
		if text {
			for _, d := range due {
				if d.row.Gone {
					fmt.Fprintf(a.out, "gone   %s  %s\n", d.row.Backend, plaintext.Line(d.row.Name))
				}
			}
		}
	}
	if !text {
		enc := json.NewEncoder(plaintext.JSON(a.out))
		enc.SetIndent("", "  ")
		if err := enc.Encode(rows); err != nil {
			return gone(err)
		}
	}
	return a.swept(inv, due, agreed, asked, len(rows))
}

// judge decides about every pod. strangers counts those that are not provably
// the owner's.
func judge(inv *inventory, s scope) (rows []*gcRow, due []duePod, strangers int) {
	rows = []*gcRow{}
	for _, f := range inv.pods {
		d := decide(f, s)
		switch d.action {
		case foreign:
			strangers++
			continue
		case other:
			continue
		}
		r := &gcRow{podRow: f.row(s.now), Action: d.action, Why: d.why}
		rows = append(rows, r)
		if d.action == end {
			due = append(due, duePod{f, r})
		}
	}
	return rows, due, strangers
}

// agreed says whether to end what is due; asked is false without a terminal to
// ask on.
func (a *app) agreed(c *cli.Command, due int) (yes, asked bool) {
	if due == 0 || c.Bool("dry-run") {
		return false, true
	}
	yes, err := a.ask(c.Bool("yes"), fmt.Sprintf("end %s?", plural(due, "pod")))
	return yes, err == nil
}

// endAll ends pods, all at once: each is money.
func endAll(ctx context.Context, inv *inventory, due []duePod) {
	pods := make([]found, len(due))
	for i, d := range due {
		pods[i] = d.found
	}
	pods = once(pods)
	var all sync.WaitGroup
	for i, d := range due {
		all.Go(func() {
			var err error
			if d.by == nil || d.by.backend == nil {
				err = fmt.Errorf("no %s could be asked", d.Kind)
			} else {
				err = terminate(ctx, inv, pods[i])
			}
			d.row.Gone = err == nil
			if err != nil {
				d.row.Error = err.Error()
			}
		})
	}
	all.Wait()
}

// swept says how it ended.
func (a *app) swept(inv *inventory, due []duePod, ended, asked bool, rows int) error {
	var stuck []string
	var rate float64
	for _, d := range due {
		if d.row.Gone {
			continue
		}
		rate += d.row.USDPerHour
		if d.row.Error != "" {
			stuck = append(stuck, d.row.Name)
			a.say("sweep: %s %s is not seen to be gone: %s", d.row.Backend, plaintext.Line(d.row.Name), plaintext.Line(d.row.Error))
		}
	}
	refused := inv.refused()
	switch {
	case len(stuck) > 0:
		a.say("sweep: clean-up not verified: %s may still be billed, %s/h together", plural(len(stuck), "pod"), dollars(rate))
		a.next("sweep gc --yes")
		return &statusError{exitCleanup, nil}
	case len(due) > 0 && !ended:
		a.say("sweep: nothing was ended; %s, %s/h together, would be", plural(len(due), "pod"), dollars(rate))
		a.next("sweep gc --yes")
		if !asked {
			// A timer without --yes must not look as if it cleaned up.
			return &statusError{exitCleanup, nil}
		}
		return nil
	case refused != nil:
		return &statusError{exitProvider, nil} // and why has been said
	case inv.silent() != "":
		a.say("sweep: clean-up not verified: %s did not answer", inv.silent())
		return &statusError{exitCleanup, nil}
	case inv.damaged != nil:
		return &statusError{exitInternal, nil}
	case rows == 0:
		a.say("nothing of that owner is there")
	}
	return nil
}

// silent names the accounts that could not be looked into, though there are
// credentials for them; "" for none. That no Docker runs here is no such case:
// what the ledger owes of it stands in the list.
func (inv *inventory) silent() string {
	var list []string
	for _, p := range inv.vendors {
		if p.factory.Bills && p.backend != nil && p.err != nil {
			list = append(list, p.where())
		}
	}
	return strings.Join(list, ", ")
}
