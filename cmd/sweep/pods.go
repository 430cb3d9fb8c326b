package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v3"

	"sweep.dev/sweep/backends"
	"sweep.dev/sweep/executor/rented"
	"sweep.dev/sweep/internal/humanize"
	"sweep.dev/sweep/internal/plaintext"
)

func (a *app) podsCommand() *cli.Command {
	acts := []*cli.Command{a.podShowCommand()}
	for _, act := range podActs() {
		acts = append(acts, a.podCommand(act))
	}
	return &cli.Command{
		Name:  "pods",
		Usage: "lists rented pods; shows, stops, starts and terminates them",
		Description: `Lists every pod that sweep has rented and that is not known to be gone: from
the ledger of this machine, and from every provider that can be asked with
the credentials of the environment. A pod that only one of the two knows is
marked. Dollars are the provider's price since the pod was asked for. --json
also has the address of each pod's servers, and where their key is, but
never the key.

  $ sweep pods
  $ sweep pods --json --backend runpod
  $ sweep pods show sw-1f2e3d4c
  $ sweep pods terminate sw-1f2e3d4c-0a1b2c3d4e-k3v9x2mq-xt4m0q8  # or a prefix` +
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
			return a.listPods(ctx, c)
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
	State      backends.State `json:"state,omitempty"`  // in the ledger; "" if it is not there
	Status     string         `json:"status,omitempty"` // the provider's word; "" if it does not list the pod
	InLedger   bool           `json:"in_ledger"`
	Listed     bool           `json:"listed"` // by its provider
	Asked      bool           `json:"asked"`  // whether its provider was asked, and answered
	Since      time.Time      `json:"since,omitzero"`
	Expires    time.Time      `json:"expires,omitzero"`
	Overdue    bool           `json:"overdue"`
	USDPerHour float64        `json:"usd_per_hour"`
	USD        float64        `json:"usd"` // so far
}

func rowOf(p rented.Pod, now time.Time) podRow {
	name, parsed := backends.ParseName(p.Name)
	r := podRow{
		Name: p.Name, ID: p.ID, Backend: p.Kind, Owner: p.Owner, RunID: p.RunID, Pod: p.Pod, GPU: p.GPU, Status: p.Status,
		InLedger: p.Entry != nil, Listed: p.AtProvider, Asked: p.Asked(), Since: p.Since, Expires: p.Until(), Overdue: p.Overdue(now),
		USDPerHour: p.USDPerHour, USD: p.USD(now),
	}
	if parsed {
		r.Owner, r.RunID = cmp.Or(r.Owner, name.Owner), cmp.Or(r.RunID, name.Run)
	}
	if e := p.Entry; e != nil {
		r.State, r.RunID, r.RunDir = e.State, e.RunID, e.Dir
		r.Owner = e.Owner
	}
	return r
}

// standing returns where a pod stands, in words.
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

// rented returns everything that is known to be rented, of the kinds that are named;
// see [rented.Sources.Take].
func (a *app) rented(ctx context.Context, kinds []string) (*rented.Inventory, error) {
	from, err := a.sources()
	if err != nil {
		return nil, err
	}
	inv, err := from.Take(ctx, kinds)
	if err != nil {
		return nil, &usage{err}
	}
	return inv, nil
}

func (a *app) sources() (rented.Sources, error) {
	fx, err := a.effects()
	if err != nil {
		return rented.Sources{}, err
	}
	return rented.Sources{Backends: a.backends(fx), Env: a.env, Effects: fx}, nil
}

// unasked says on one line each which providers could not be asked, and the beginning of
// why; sweep doctor -v has all of it.
func (a *app) unasked(inv *rented.Inventory) {
	for _, p := range inv.Providers {
		if p.Err != nil {
			why, _, _ := strings.Cut(plaintext.Line(p.Err.Error()), "; ")
			a.say("sweep: %s was not asked: %s", p.Where(), why)
		}
	}
	if inv.Damaged != nil {
		a.say("sweep: %s", plaintext.Line(inv.Damaged.Error()))
	}
}

// misnamed returns the usage error of a pod that a person named.
func misnamed(err error) error {
	if _, ok := errors.AsType[*rented.UnknownError](err); ok {
		err = &hinted{err, "sweep pods --all-owners lists what is rented; a server of process or sim ends with its run"}
	} else if _, ok := errors.AsType[*rented.ForeignError](err); ok {
		err = &hinted{err, "--force ends it anyway: make sure that nobody needs it"}
	}
	return &usage{err}
}

func (a *app) listPods(ctx context.Context, c *cli.Command) error {
	inv, err := a.rented(ctx, c.StringSlice("backend"))
	if err != nil {
		return err
	}
	now := time.Now()
	var list []rented.Pod
	rows := []podRow{}
	overdue := 0
	for _, p := range inv.Pods {
		mine := p.Is(owner())
		if !mine && !c.Bool("all-owners") {
			continue
		}
		r := rowOf(p, now)
		list, rows = append(list, p), append(rows, r)
		if mine && r.Overdue {
			overdue++
		}
	}
	if c.Bool("json") {
		err = a.json().Encode(usableAll(ctx, list, now))
	} else {
		err = a.printPods(rows, now, c.Bool("all-owners"))
	}
	a.unasked(inv)
	var codes []int
	if inv.Refused() != nil {
		codes = append(codes, exitProvider) // and why has been said
	}
	if inv.Damaged != nil {
		codes = append(codes, exitInternal) // as above
	}
	switch {
	case overdue > 0:
		a.say("sweep: %s should be gone by now", humanize.Plural(overdue, "pod"))
		a.next("sweep gc --yes")
		codes = append(codes, exitCleanup)
	case len(rows) > 0 && len(codes) == 0 && !c.Bool("json"):
		a.next("sweep pods show " + plaintext.Word(cmp.Or(rows[0].Name, rows[0].ID)))
	}
	return errors.Join(exitWith(worst(codes...)), err)
}

// printPods prints what all pods cost, and a line for each.
func (a *app) printPods(rows []podRow, now time.Time, owners bool) error {
	page := a.page()
	if len(rows) == 0 {
		page.Text("nothing is rented, as far as could be asked")
		return page.Err()
	}
	var rate, usd float64
	table := [][]string{{"AGE", "$/H", "SO FAR", "ENDS", "POD"}}
	for _, r := range rows {
		rate, usd = rate+r.USDPerHour, usd+r.USD
		about := []string{r.Pod, r.standing(), r.GPU, r.Backend}
		if r.RunID != "" {
			about = append(about, "run "+r.RunID)
		}
		if owners {
			about = append(about, "of "+r.Owner)
		}
		about = slices.DeleteFunc(about, func(text string) bool { return text == "" })
		table = append(table, []string{
			cmp.Or(since(now, r.Since), "-"), humanize.Dollars(r.USDPerHour), humanize.Dollars(r.USD), cmp.Or(ends(now, r.Expires), "-"),
			cmp.Or(r.Name, r.ID) + ": " + strings.Join(about, ", "),
		})
	}
	page.Parts(fmt.Sprintf("%s, %s/h, %s so far", humanize.Plural(len(rows), "pod"), humanize.Dollars(rate), humanize.Dollars(usd)))
	page.Rows(table...)
	return page.Err()
}

func since(now, t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return humanize.Duration(now.Sub(t))
}

func ends(now, t time.Time) string {
	switch {
	case t.IsZero():
		return ""
	case t.Before(now):
		return humanize.Duration(now.Sub(t)) + " ago"
	}
	return "in " + humanize.Duration(t.Sub(now))
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
