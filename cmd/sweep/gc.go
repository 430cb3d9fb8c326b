package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/urfave/cli/v3"

	"sweep.dev/sweep/executor/rented"
	"sweep.dev/sweep/internal/humanize"
	"sweep.dev/sweep/internal/plaintext"
)

func (a *app) gcCommand() *cli.Command {
	return &cli.Command{
		Name:  "gc",
		Usage: "ends pods that were left behind, from any machine",
		Description: `Asks every provider of the environment's credentials what is there, ends
what was left behind, and waits until it is seen to be gone. A pod's name
says enough: neither the ledger of this machine nor a run directory is
needed, and with them it knows more. It ends

  - every pod whose time is over, by the date in its name or in the ledger;
  - pods of a run whose directory is here and not locked: the run is over;
  - with --run, the pods of that run, unless it is seen to be at work.

It touches nothing that is not provably the owner's: a pod whose name sweep
does not give, another owner's, or one whose marks contradict its name. A
pod that is kept, or that a person has stopped, is left until its date.

It ends nothing without --yes or your agreement.

  $ sweep gc       # what is there, what would be ended, and why
  $ sweep gc --yes
  $ sweep gc --expired --yes --owner ci@runner-7  # in a timer
  $ sweep gc --run 3f2a9c01d4 --yes` + exitHelp(exitOK, exitInternal, exitUsage, exitCleanup, exitProvider),
		Flags: []cli.Flag{
			backendFlag(),
			&cli.BoolFlag{Name: "expired", Usage: "end only pods past their expiry time"},
			&cli.StringFlag{Name: "run", Usage: "only the pods of the run `ID`; they are ended unless the run is active"},
			&cli.StringFlag{Name: "owner", Usage: "end the pods that `OWNER` left behind (USER@HOST, or the tag in a pod's name)", DefaultText: "you, on this machine"},
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
	Action rented.Action `json:"action"`
	Why    string        `json:"why"`
	Gone   bool          `json:"gone"`
	Error  string        `json:"error,omitempty"`
}

func (a *app) gc(ctx context.Context, c *cli.Command) error {
	s := rented.Scope{Now: time.Now(), Owner: owner(), Run: c.String("run"), Expired: c.Bool("expired")}
	if c.IsSet("owner") {
		s.Owner = c.String("owner")
	}
	if c.Bool("yes") { // what is interrupted while it looks has not cleaned up
		running, _, stop := signals(ctx, a.say)
		defer stop()
		ctx = running
	}
	inv, err := a.rented(ctx, c.StringSlice("backend"))
	if err != nil {
		return err
	}
	rows, due, strangers := judged(inv, s)
	var text strings.Builder
	for _, r := range rows {
		fmt.Fprintf(&text, "%-5s  %s  %s  %s  %s/h: %s\n", r.Action, r.Backend, plaintext.Line(r.Name),
			plaintext.Line(r.standing()), humanize.Dollars(r.USDPerHour), plaintext.Line(r.Why))
	}
	list := func() {
		if !c.Bool("json") {
			_, _ = io.WriteString(a.out, text.String()) // main tells what is not written
		}
		a.unasked(inv)
		if strangers > 0 {
			a.say("%s left alone: not provably of %s", humanize.Plural(strangers, "pod"), s.Owner)
		}
	}
	// A person reads the list to answer. With --yes pods are ended first: whoever reads the
	// list may be slow, or gone.
	agreed, asked := c.Bool("yes") && len(due.pods) > 0, true
	if !c.Bool("yes") {
		list()
		agreed, asked = a.agreed(c, len(due.pods))
	}
	switch {
	case c.Bool("yes"):
		due.end(ctx, inv)
		list()
	case agreed:
		ctx, _, stop := signals(ctx, a.say)
		defer stop()
		due.end(ctx, inv)
	}
	for _, r := range due.rows {
		if r.Gone && !c.Bool("json") {
			fmt.Fprintf(a.out, "gone   %s  %s\n", r.Backend, plaintext.Line(r.Name))
		}
	}
	if c.Bool("json") {
		err = a.json().Encode(rows)
	}
	return errors.Join(a.swept(inv, due.rows, agreed, asked, len(rows)), err)
}

// duePods are what gc is to end, each with its row.
type duePods struct {
	pods []rented.Pod
	rows []*gcRow
}

// judged decides about every pod. strangers counts those that are not provably
// the owner's.
func judged(inv *rented.Inventory, s rented.Scope) (rows []*gcRow, due duePods, strangers int) {
	rows = []*gcRow{}
	for _, d := range inv.Decide(s) {
		switch d.Action {
		case rented.Foreign:
			strangers++
			continue
		case rented.Other:
			continue
		}
		r := &gcRow{podRow: rowOf(d.Pod, s.Now), Action: d.Action, Why: d.Why}
		rows = append(rows, r)
		if d.Action == rented.End {
			due.pods, due.rows = append(due.pods, d.Pod), append(due.rows, r)
		}
	}
	return rows, due, strangers
}

func (d duePods) end(ctx context.Context, inv *rented.Inventory) {
	for i, err := range inv.End(ctx, d.pods) {
		d.rows[i].Gone = err == nil
		if err != nil {
			d.rows[i].Error = err.Error()
		}
	}
}

// agreed reports whether to end what is due; asked is false without a terminal to
// ask on.
func (a *app) agreed(c *cli.Command, due int) (yes, asked bool) {
	if due == 0 || c.Bool("dry-run") {
		return false, true
	}
	yes, err := a.ask(c.Bool("yes"), fmt.Sprintf("end %s?", humanize.Plural(due, "pod")))
	return yes, err == nil
}

// swept says how it ended.
func (a *app) swept(inv *rented.Inventory, due []*gcRow, ended, asked bool, rows int) error {
	var stuck []string
	var rate float64
	for _, r := range due {
		if r.Gone {
			continue
		}
		rate += r.USDPerHour
		if r.Error != "" {
			stuck = append(stuck, r.Name)
			a.say("sweep: %s %s is not confirmed gone: %s", r.Backend, plaintext.Line(r.Name), plaintext.Line(r.Error))
		}
	}
	var codes []int
	if inv.Refused() != nil {
		codes = append(codes, exitProvider) // and why has been said
	}
	if inv.Damaged != nil {
		codes = append(codes, exitInternal) // as above
	}
	if silent := inv.Silent(); silent != "" {
		a.say("sweep: clean-up not verified: %s did not answer", silent)
		codes = append(codes, exitCleanup)
	}
	switch {
	case len(stuck) > 0:
		a.say("sweep: clean-up not verified: %s may still be billed, %s/h together", humanize.Plural(len(stuck), "pod"), humanize.Dollars(rate))
		a.next("sweep gc --yes")
		codes = append(codes, exitCleanup)
	case len(due) > 0 && !ended:
		a.say("sweep: nothing was ended; %s, %s/h together, would be", humanize.Plural(len(due), "pod"), humanize.Dollars(rate))
		a.next("sweep gc --yes")
		if !asked {
			// A timer without --yes must not look as if it cleaned up.
			codes = append(codes, exitCleanup)
		}
	case rows == 0 && len(codes) == 0:
		a.say("nothing of that owner is there")
	}
	return exitWith(worst(codes...))
}
