package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/urfave/cli/v3"

	"sweep.dev/sweep/backends"
	"sweep.dev/sweep/internal/plaintext"
)

func (a *app) podsCommand() *cli.Command {
	acts := []*cli.Command{a.podShowCommand()}
	for _, act := range podActs() {
		acts = append(acts, a.podCommand(act))
	}
	return &cli.Command{
		Name:  "pods",
		Usage: "lists what is rented now, its age and its price; shows how a pod is used; stops, starts and terminates pods",
		Description: `Lists every pod that sweep has rented and that is not known to be gone: from
the ledger of this machine, and from every provider that can be asked with the
credentials of the environment. A pod that only one of the two knows is marked.
Dollars are the provider's price since the pod was asked for. --json also has the
address of each pod's servers, and where their key is, but never the key.

  $ sweep pods
  $ sweep pods --json --backend runpod
  $ sweep pods show sw-1f2e3d4c
  $ sweep pods terminate sw-1f2e3d4c-0a1b2c3d4e-k3v9x2mq-xt4m0q8     # or the provider's id; a prefix will do` +
			exitHelp(exitOK, exitInternal, exitUsage, exitCleanup, exitProvider),
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "json", Usage: "print as JSON", Local: true},
			&cli.BoolFlag{Name: "all-owners", Usage: "list what others have rented too, as far as it carries sweep's marks", Local: true},
			backendFlag(),
		},
		OnUsageError: usageError,
		Commands:     acts,
		Action: func(ctx context.Context, c *cli.Command) error {
			if name := c.Args().First(); name != "" {
				return &usage{fmt.Errorf("pods has no command %q (see: %s --help)", name, c.FullName())}
			}
			return a.pods(ctx, c)
		},
	}
}

func backendFlag() cli.Flag {
	return &cli.StringSliceFlag{Name: "backend", Usage: "only pods of this `KIND` of backend; may be repeated"}
}

// A podRow is one rented pod.
type podRow struct {
	Name       string         `json:"name"`
	ID         string         `json:"id,omitempty"`
	Backend    string         `json:"backend"`
	Owner      string         `json:"owner"` // in full where it is known, else its tag
	RunID      string         `json:"run_id"`
	RunDir     string         `json:"run_dir,omitempty"`
	Pod        string         `json:"pod,omitempty"`
	GPU        string         `json:"gpu,omitempty"`
	State      backends.State `json:"state,omitempty"`  // in the ledger; "" where it is not there
	Status     string         `json:"status,omitempty"` // the provider's word; "" where it does not list the pod
	InLedger   bool           `json:"in_ledger"`
	Listed     bool           `json:"listed"` // by its provider
	Asked      bool           `json:"asked"`  // whether its provider was asked, and answered
	Since      time.Time      `json:"since,omitzero"`
	Expires    time.Time      `json:"expires,omitzero"`
	Overdue    bool           `json:"overdue"`
	USDPerHour float64        `json:"usd_per_hour"`
	USD        float64        `json:"usd"` // so far
}

func (f found) row(now time.Time) podRow {
	name, parsed := backends.ParseName(f.Name)
	r := podRow{
		Name: f.Name, ID: f.ID, Backend: f.Kind, Owner: f.Owner, RunID: f.RunID, Pod: f.Pod, GPU: f.GPU, Status: f.Status,
		InLedger: f.entry != nil, Listed: f.listed, Asked: f.by != nil && f.by.err == nil, Since: f.Since, Expires: f.until(), USDPerHour: f.USDPerHour,
	}
	if parsed {
		r.Owner, r.RunID = cmp.Or(r.Owner, name.Owner), cmp.Or(r.RunID, name.Run)
	}
	if e := f.entry; e != nil {
		r.State, r.RunID, r.RunDir = e.State, e.RunID, e.Dir
		r.Owner = e.Owner
	}
	r.Overdue = !r.Expires.IsZero() && over(now, r.Expires)
	if !r.Since.IsZero() {
		r.USD = r.USDPerHour * max(0, now.Sub(r.Since)).Hours()
	}
	return r
}

// standing is where a pod stands, in words.
func (r podRow) standing() string {
	text := string(r.State)
	switch {
	case !r.Asked:
		text += ", and its provider was not asked"
	case !r.Listed:
		text += ", only in the ledger"
	case !r.InLedger:
		text = cmp.Or(r.Status, "there") + ", not in the ledger"
	case r.Status != "":
		text += " (" + r.Status + ")"
	}
	if r.Overdue {
		text += ", OVERDUE"
	}
	return text
}

// mine says whether a pod is this person's: by its name, or by the ledger.
func (a *app) mine(f found) bool {
	_, why := ours(f.Listed, owner())
	return why == "" || f.entry != nil && f.entry.Owner == owner()
}

func (a *app) pods(ctx context.Context, c *cli.Command) error {
	inv, err := a.take(ctx, c.StringSlice("backend"))
	if err != nil {
		return err
	}
	now := time.Now()
	var pods []found
	rows := []podRow{}
	overdue := 0
	for _, f := range inv.pods {
		mine := a.mine(f)
		if !mine && !c.Bool("all-owners") {
			continue
		}
		r := f.row(now)
		pods, rows = append(pods, f), append(rows, r)
		if mine && r.Overdue {
			overdue++
		}
	}
	if c.Bool("json") {
		err = a.json().Encode(usableAll(ctx, pods, now))
	} else {
		err = a.printPods(rows, now, c.Bool("all-owners"))
	}
	a.unasked(inv)
	switch {
	case err != nil:
		return gone(err)
	case overdue > 0:
		a.say("sweep: %s should be gone by now", plural(overdue, "pod"))
		a.next("sweep gc --yes")
		return &statusError{exitCleanup, nil}
	case inv.refused() != nil:
		return &statusError{exitProvider, nil} // and why has been said
	case inv.damaged != nil:
		return &statusError{exitInternal, nil}
	}
	return nil
}

func (a *app) printPods(rows []podRow, now time.Time, owners bool) error {
	var rate, usd float64
	w := tabwriter.NewWriter(a.out, 0, 0, 2, ' ', 0)
	line := func(owner string, cells ...string) {
		if owners {
			cells = append(cells, owner)
		}
		for i := range cells {
			cells[i] = cmp.Or(plaintext.Line(cells[i]), "-")
		}
		fmt.Fprintln(w, strings.Join(cells, "\t"))
	}
	if len(rows) > 0 {
		line("OWNER", "NAME", "BACKEND", "RUN", "POD", "GPU", "STATE", "AGE", "PER HOUR", "SO FAR", "ENDS")
	}
	for _, r := range rows {
		rate, usd = rate+r.USDPerHour, usd+r.USD
		line(r.Owner, cmp.Or(r.Name, r.ID), r.Backend, r.RunID, r.Pod, r.GPU, r.standing(), since(now, r.Since),
			dollars(r.USDPerHour), dollars(r.USD), ends(now, r.Expires))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if len(rows) == 0 {
		_, err := fmt.Fprintln(a.out, "nothing is rented, as far as could be asked")
		return err
	}
	_, err := fmt.Fprintf(a.out, "%s, %s/h, %s so far\n", plural(len(rows), "pod"), dollars(rate), dollars(usd))
	return err
}

func since(now, t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return span(now.Sub(t))
}

// dollars is money in cents, and never nothing where there is some.
func dollars(usd float64) string {
	if usd > 0 && usd < 0.01 {
		return "<$0.01"
	}
	return fmt.Sprintf("$%.2f", usd)
}

func ends(now, t time.Time) string {
	switch {
	case t.IsZero():
		return ""
	case t.Before(now):
		return span(now.Sub(t)) + " ago"
	}
	return "in " + span(t.Sub(now))
}

// errNoTerminal is why a question was not asked.
var errNoTerminal = errors.New("there is no terminal to ask on")

// ask asks whether to go on. --yes answers; without it and without a terminal
// the error is errNoTerminal.
func (a *app) ask(yes bool, question string) (bool, error) {
	if yes {
		return true, nil
	}
	if !a.inTTY || !a.errTTY {
		return false, errNoTerminal
	}
	fmt.Fprintf(a.err, "%s [y/N] ", question)
	var answer string
	if _, err := fmt.Fscanln(a.in, &answer); err != nil && answer == "" {
		return false, nil // an empty line, or the end of the input
	}
	answer = strings.ToLower(answer)
	return answer == "y" || answer == "yes", nil
}
