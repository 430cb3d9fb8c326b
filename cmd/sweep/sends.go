package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/urfave/cli/v3"

	"sweep.dev/sweep/backends"
	"sweep.dev/sweep/cmd/sweep/internal/outbound"
	"sweep.dev/sweep/executor/serving/render"
	"sweep.dev/sweep/internal/effect"
	"sweep.dev/sweep/internal/input"
	"sweep.dev/sweep/internal/plaintext"
	"sweep.dev/sweep/plan"
	"sweep.dev/sweep/rundir/podledger"
)

// This file is what a run does before a variable of its plan goes to a host.

// sendFlag is shared by every command that reads a plan, and by resume.
func sendFlag() cli.Flag {
	return &cli.StringSliceFlag{
		Name: "send-env", Usage: "let the variable go to a host that the plan names: `NAME=HOST` or NAME=HOST:PORT; recorded in the run",
		Validator: func(texts []string) error {
			_, err := outbound.ParsePermits(flagWords(texts))
			return err
		},
	}
}

// flagWords returns the values of a flag, of which several may stand in one.
func flagWords(values []string) (list []string) {
	for _, v := range values {
		list = append(list, strings.FieldsFunc(v, func(r rune) bool { return r == ',' || r == ' ' })...)
	}
	return list
}

// flows returns the variables of a plan that go to hosts. The error is what is refused.
func (m *plugins) flows(p *plan.Plan) ([]outbound.Flow, error) {
	permits, err := outbound.ParsePermits(p.SendEnv())
	if err != nil {
		return nil, &usage{err}
	}
	var to backends.Destinations
	if b, ok := m.backend.(backends.Outbound); ok {
		if to, err = b.Destinations(); err != nil {
			return nil, p.Backend.Wrong(err)
		}
	}
	images := func() (list []string, err error) {
		with := m.servers("").With()
		for _, d := range p.Deployments() {
			spec, err := render.Spec(p, d, with)
			if err != nil {
				return nil, err
			}
			for _, r := range spec.Roles {
				if r.Image != "" {
					list = append(list, r.Image)
				}
			}
		}
		slices.Sort(list)
		return slices.Compact(list), nil
	}
	return outbound.Check(p, to, outbound.Policy{Permits: permits, Env: os.LookupEnv}, images)
}

// listSends prints which variable goes to which other host. Nothing has left by then.
func (a *app) listSends(path string, flows []outbound.Flow) {
	for _, f := range flows {
		if f.Host.Loopback() {
			continue
		}
		a.say("%s: sends %s", path, plaintext.Line(f.String()))
		if f.Host.Plain {
			a.say("%s: warning: %s goes to %s over plain http, which others on the network can read: use https", path, f.Name, plaintext.Line(f.Host.String()))
		}
	}
}

// agreeSends lists what leaves and asks for each host that nobody has permitted yet: by
// --send-env, by an earlier answer or by --yes. It returns all that the run may send, as
// --send-env takes it.
func (a *app) agreeSends(c *cli.Command, path string, p *plan.Plan, flows []outbound.Flow) ([]string, error) {
	a.listSends(path, flows)
	all := p.SendEnv()
	before, asked := a.answers(), map[string][]outbound.Flow{}
	var hosts []string
	for _, f := range flows {
		host := f.Host.String()
		switch {
		case !f.Asks || f.Host.Loopback():
		case slices.Contains(before, f.Permit()) || c.Bool("yes"):
			all = append(all, f.Permit())
		default:
			if asked[host] == nil {
				hosts = append(hosts, host)
			}
			asked[host] = append(asked[host], f)
		}
	}
	var errs []error
	for _, host := range hosts {
		var names, permits []string
		for _, f := range asked[host] {
			names, permits = append(names, f.Name), append(permits, f.Permit())
		}
		yes, err := a.ask(false, fmt.Sprintf("send %s to %s?", strings.Join(names, ", "), plaintext.Line(host)))
		switch {
		case err != nil:
			flags := make([]string, len(permits))
			for i, permit := range permits {
				flags[i] = "--send-env " + plaintext.Word(permit)
			}
			errs = append(errs, fmt.Errorf("%s would go to %s, which the plan names (%s)", strings.Join(names, ", "), plaintext.Line(host), strings.Join(flags, " ")))
		case !yes:
			return nil, &usage{fmt.Errorf("not agreed: nothing was sent to %s", plaintext.Line(host))}
		default:
			all = append(all, permits...)
			a.remember(permits)
		}
	}
	if len(errs) > 0 {
		hint := "nothing was sent: these flags permit it"
		if slices.ContainsFunc(c.Flags, func(f cli.Flag) bool { return slices.Contains(f.Names(), "yes") }) {
			hint += "; --yes permits all that is listed"
		}
		return nil, &usage{&hinted{errors.Join(errs...), hint}}
	}
	slices.Sort(all)
	return slices.Compact(all), nil
}

// answersFile has the answers of this person, each as NAME=HOST on a line.
const answersFile = "send-env"

// answersPath is in the folder of the ledger of pods, or beside it.
func (a *app) answersPath() (string, error) {
	dir, err := podledger.DefaultDir(a.env)
	if own, _ := a.env("SWEEP_STATE_DIR"); own == "" {
		dir = filepath.Dir(dir)
	}
	return filepath.Join(dir, answersFile), err
}

// answers returns those of before. A file that cannot be read has none: then they are asked for.
func (a *app) answers() (list []string) {
	path, err := a.answersPath()
	if err != nil {
		return nil
	}
	text, err := input.ReadFile(path, maxKey)
	if err != nil {
		return nil
	}
	for line := range strings.Lines(string(text)) {
		if p, err := outbound.ParsePermit(strings.TrimSpace(line)); err == nil && p.Name != "" {
			list = append(list, strings.TrimSpace(line))
		}
	}
	return list
}

// remember keeps answers. Without a place for them they are asked for again.
func (a *app) remember(permits []string) {
	path, err := a.answersPath()
	var fx *effect.Effects
	if err == nil {
		fx, err = a.effects()
	}
	if err == nil {
		err = fx.MkdirAll(effect.DeriveCreate, filepath.Dir(path))
	}
	if err == nil {
		list := append(a.answers(), permits...)
		slices.Sort(list)
		err = fx.WriteFileAtomic(effect.DeriveCreate, path, func(w io.Writer) error {
			_, err := io.WriteString(w, strings.Join(slices.Compact(list), "\n")+"\n")
			return err
		})
	}
	if err != nil && !errors.Is(err, fs.ErrExist) {
		a.say("sweep: the answer is not kept, and is asked for again: %v", err)
	}
}
