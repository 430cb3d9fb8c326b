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
	"sweep.dev/sweep/backends/host"
	"sweep.dev/sweep/executor/rented"
	"sweep.dev/sweep/internal/humanize"
	"sweep.dev/sweep/internal/plaintext"
	"sweep.dev/sweep/internal/secret"
)

func (a *app) podShowCommand() *cli.Command {
	return &cli.Command{
		Name:      "show",
		Usage:     "shows how a pod is used: its address, network path, key, and the commands",
		ArgsUsage: "NAME",
		Description: `NAME is a pod's name or its id at the provider, or the beginning of one of
them that no other pod has. A server of a run that is at work on this
machine (process, sim) goes by the run's id.

The key is never printed. --key-file writes it to a new file that only you
can read, and the commands read it from there.

  $ sweep pods show sw-1f2e3d4c
  $ sweep pods show --key-file sweep.key sw-1f2e3d4c
  $ sweep probe --key-file sweep.key http://203.0.113.7:35558` + exitHelp(exitOK, exitInternal, exitUsage, exitProvider),
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "key-file", Usage: "write the key of the server to `FILE`, which must not exist"},
			&cli.BoolFlag{Name: "force", Usage: "also the key of a pod that is not provably yours"},
			&cli.BoolFlag{Name: "json", Usage: "print as JSON"},
		},
		OnUsageError: usageError,
		Action: func(ctx context.Context, c *cli.Command) error {
			name, err := oneArg(c, "NAME")
			if err != nil {
				return err
			}
			return a.showPod(ctx, c, name)
		},
	}
}

// A usableRow is a pod with how it is reached. A field that is null has its
// reason in WhyNull, by its name.
type usableRow struct {
	podRow
	Access  []accessRow       `json:"access"` // one for each replica; null if not known
	WhyNull map[string]string `json:"why_null,omitempty"`
}

// An accessRow is how one replica of a pod is reached from this machine.
type accessRow struct {
	Engine      string            `json:"engine"`
	Model       string            `json:"model"`
	Role        string            `json:"role"`
	Replica     int               `json:"replica"`
	Entry       bool              `json:"entry"` // whether requests go to its role
	URL         *string           `json:"url"`
	MetricsURLs []string          `json:"metrics_urls"`
	NetworkPath *host.Path        `json:"network_path"`
	Network     *string           `json:"network"` // the path in words
	Tunnel      []string          `json:"tunnel,omitempty"`
	Key         *keyRow           `json:"key"`
	WhyNull     map[string]string `json:"why_null,omitempty"`

	secret secret.String // the key itself, which is in no output
}

// A keyRow says where a key is.
type keyRow struct {
	Variable string `json:"variable"`
	Where    string `json:"where"`
}

func accessRowOf(x backends.Access) accessRow {
	r := accessRow{
		Engine: x.Engine, Model: x.Model, Role: x.Role, Replica: x.Replica, Entry: x.Entry,
		MetricsURLs: x.Metrics, Tunnel: x.Tunnel, WhyNull: map[string]string{}, secret: x.Key,
	}
	if x.URL != "" {
		r.URL, r.NetworkPath, r.Network = &x.URL, &x.Path, &x.Network
	}
	if !x.Key.IsZero() {
		r.Key = &keyRow{x.KeyEnv, x.KeyAt}
	}
	for field, why := range x.Why {
		r.WhyNull[field] = why
		if field == backends.AccessURL {
			r.WhyNull["network_path"], r.WhyNull["network"] = why, why
		}
	}
	return r
}

// usable asks how a pod is reached.
func usable(ctx context.Context, p rented.Pod, now time.Time) usableRow {
	r := usableRow{podRow: rowOf(p, now)}
	list, err := p.Access(ctx)
	if err != nil {
		r.WhyNull = map[string]string{"access": err.Error()}
		return r
	}
	for _, x := range list {
		r.Access = append(r.Access, accessRowOf(x))
	}
	return r
}

// usableAll asks for all pods at once.
func usableAll(ctx context.Context, list []rented.Pod, now time.Time) []usableRow {
	rows := make([]usableRow, len(list))
	var all sync.WaitGroup
	for i, p := range list {
		all.Go(func() { rows[i] = usable(ctx, p, now) })
	}
	all.Wait()
	return rows
}

func (a *app) showPod(ctx context.Context, c *cli.Command, name string) error {
	kinds := c.StringSlice("backend")
	inv, err := a.rented(ctx, kinds)
	if err != nil {
		return err
	}
	if len(kinds) == 0 {
		from, err := a.sources()
		if err != nil {
			return err
		}
		from.AddLocal(ctx, inv)
	}
	p, err := inv.Find(name)
	if err != nil {
		a.unasked(inv)
		return misnamed(err)
	}
	if !p.Asked() {
		a.unasked(inv)
	}
	r := usable(ctx, p, time.Now())
	file := c.String("key-file")
	if file != "" {
		if err := a.keyToFile(p, r, file, c.Bool("force")); err != nil {
			return err
		}
	}
	if p.Run == rented.RunLive {
		a.say("sweep: its run is active%s: requests sent now disturb the measurement", p.Holder)
	}
	if c.Bool("json") {
		err = a.json().Encode(r)
	} else {
		_, err = fmt.Fprint(a.out, r.text(time.Now(), file))
	}
	switch {
	case a.beside(err) != nil:
		return err
	case p.By != nil && errors.Is(p.By.Err, backends.ErrRefused):
		return &statusError{exitProvider, nil} // and why has been said
	}
	return nil
}

// keyToFile writes the key of a pod's entry.
func (a *app) keyToFile(p rented.Pod, r usableRow, file string, force bool) error {
	mine := p.Is(owner()) || p.Name == "" && p.Owner == owner() // on this machine a pod has no name
	if !mine && !force {
		return &usage{&hinted{fmt.Errorf("%w: its key was not written", p.Foreign(owner())), "--force writes it all the same"}}
	}
	entry := r.entry()
	switch {
	case entry == nil:
		return &usage{fmt.Errorf("--key-file: the pod's key is not known: %s", r.WhyNull["access"])}
	case entry.Key == nil:
		return &usage{fmt.Errorf("--key-file: sweep knows no key of the pod: %s", entry.WhyNull[backends.AccessKey])}
	}
	return a.writeKey(file, entry.secret)
}

// entry returns the replica to which requests go first; nil if none is known.
func (r usableRow) entry() *accessRow {
	if len(r.Access) == 0 {
		return nil
	}
	return &r.Access[max(0, slices.IndexFunc(r.Access, func(x accessRow) bool { return x.Entry }))]
}

// showWidth is that of a terminal, in columns. A word that is longer than a line
// is not broken.
const showWidth = 80

// text returns a pod for a person. file has the key; "" if it was not written.
func (r usableRow) text(now time.Time, file string) string {
	var b strings.Builder
	field := func(name, value string) {
		if value == "" {
			return
		}
		indent := strings.Repeat(" ", 12)
		value = wrap(plaintext.Line(value), showWidth-len(indent))
		fmt.Fprintf(&b, "  %-9s %s\n", name, strings.ReplaceAll(value, "\n    ", "\n"+indent))
	}
	fmt.Fprintln(&b, plaintext.Line(cmp.Or(r.Name, r.ID)))
	field("backend", strings.Join(slices.DeleteFunc([]string{r.Backend, r.ID}, func(s string) bool { return s == "" }), ", "))
	state := r.standing()
	if r.Name == "" && !r.InLedger {
		state = r.Status + ", ends with its run"
	}
	field("state", state)
	field("run", r.RunID+in(r.RunDir))
	if !r.Expires.IsZero() {
		field("ends", fmt.Sprintf("%s, %s", r.Expires.Local().Format(time.DateTime), ends(now, r.Expires)))
	}
	if r.USDPerHour > 0 {
		field("price", fmt.Sprintf("%s/h, %s so far", humanize.Dollars(r.USDPerHour), humanize.Dollars(r.USD)))
	}
	field("gpu", r.GPU)
	if entry := r.entry(); entry != nil {
		field("engine", entry.Engine)
		field("model", entry.Model)
	} else {
		field("access", "not known: "+r.WhyNull["access"])
	}
	for _, x := range r.Access {
		fmt.Fprintf(&b, "\n%s\n", plaintext.Line(x.name()))
		for _, part := range x.fields(file) {
			field(part[0], part[1])
		}
	}
	if commands := r.commands(file); len(commands) > 0 {
		b.WriteString("\nTo use it:\n")
		for _, command := range commands {
			fmt.Fprintf(&b, "  %s\n", plaintext.Line(command))
		}
	}
	return b.String()
}

func in(dir string) string {
	if dir == "" {
		return ""
	}
	return ", " + dir
}

func (x accessRow) name() string {
	if x.Replica == 0 {
		return x.Role
	}
	return fmt.Sprintf("%s %d", x.Role, x.Replica)
}

// fields returns what is known of a replica, or why it is not.
func (x accessRow) fields(file string) [][2]string {
	none := func(field string) string { return "none: " + x.WhyNull[field] }
	list := [][2]string{{"url", none(backends.AccessURL)}}
	if x.URL != nil {
		list = [][2]string{{"url", *x.URL}, {"network", fmt.Sprintf("%s: %s", *x.NetworkPath, *x.Network)}}
	}
	metrics := none(backends.AccessMetrics)
	if len(x.MetricsURLs) > 0 {
		metrics = strings.Join(x.MetricsURLs, " or ")
	}
	key := none(backends.AccessKey)
	if x.Key != nil {
		key = fmt.Sprintf("%s, in %s", x.Key.Variable, x.Key.Where)
		if x.Entry && file != "" {
			key += ", and in " + file
		}
	}
	if x.URL != nil { // else the reason is that of the URL
		list = append(list, [2]string{"metrics", metrics})
	}
	return append(list, [2]string{"key", key})
}

// commands returns what to type, line by line. Each can be given to a shell as it is,
// and none has the key among its arguments.
func (r usableRow) commands(file string) (lines []string) {
	x := r.entry()
	if x == nil || x.URL == nil {
		return nil
	}
	if len(x.Tunnel) > 0 {
		lines = append(lines, "# in a terminal of its own, for as long as you use it:")
		lines = append(append(lines, shellLines(x.Tunnel...)...), "# and here:")
	}
	models := plaintext.Word(*x.URL + "/v1/models")
	if x.Key == nil {
		return append(append(lines, shellLines("sweep", "probe", *x.URL)...), "curl -sS "+models)
	}
	if file == "" {
		file = "sweep.key"
		lines = append(lines, shellLines("sweep", "pods", "show", "--key-file", file, cmp.Or(r.Name, r.ID))...)
	}
	lines = append(lines, shellLines("sweep", "probe", "--key-file", file, *x.URL)...)
	// The shell's own redirection: sed writes the header, and no argument has the key.
	return append(lines, "sed 's/^/Authorization: Bearer /' <"+plaintext.Word(file)+" |", "  curl -sS -H @- "+models)
}

// shellLines returns a command of a POSIX shell, broken where a line would be too long.
func shellLines(words ...string) (lines []string) {
	line := ""
	for _, word := range words {
		word = plaintext.Word(word)
		if line != "" && len("  ")+len(line)+len(word)+len("  \\") > showWidth {
			lines, line = append(lines, line+" \\"), " "
		}
		if line != "" {
			line += " "
		}
		line += word
	}
	return append(lines, line)
}
