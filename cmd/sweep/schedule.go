package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/urfave/cli/v3"

	"sweep.dev/sweep/internal/effect"
	"sweep.dev/sweep/internal/plaintext"
	"sweep.dev/sweep/nightly/schedule"
	"sweep.dev/sweep/plan/planfile"
)

func (a *app) scheduleCommand() *cli.Command {
	return &cli.Command{
		Name:      "schedule",
		Usage:     "prints the files with which systemd, cron, GitHub or Kubernetes measures a plan every night",
		ArgsUsage: "PLAN",
		Description: `A night is sweep run, gate, report and prune, one night at a time and within a bound,
with a timer of its own for sweep gc. Runs and the history are kept in the working
directory. sweep installs nothing: it prints the files, or writes them to -o.

  $ sweep night schedule --target systemd --at 02:30 -o ~/.config/systemd/user plans/chat-capacity.yaml
  $ sweep night schedule --target cron --max-time 3h --max-cost 10 plans/chat-capacity.yaml
  $ sweep night schedule --target github -o .github/workflows plans/chat-capacity.yaml
  $ sweep night schedule --target kubernetes --namespace bench --image registry.example/sweep:0.1.0 plans/chat-capacity.yaml | kubectl apply --server-side -f -` + exitHelp(exitOK, exitInternal, exitUsage),
		Flags: append(append(append(planFlags(), webhookFlags()...), clusterFlags()...),
			&cli.StringFlag{Name: "target", Usage: "the scheduler is `NAME`: " + strings.Join(schedule.Targets(), ", "), Required: true},
			&cli.StringFlag{Name: "output", Aliases: []string{"o"}, Usage: "write the files into `DIR`, where they replace those of before", DefaultText: "print them"},
			&cli.StringFlag{Name: "at", Value: "02:00", Usage: "begin at `HH:MM`: the machine's time, on GitHub and Kubernetes UTC"},
			&cli.DurationFlag{Name: "max-time", Value: 4 * time.Hour, Usage: "measure for `DURATION` at most; 45 minutes later the scheduler ends what is left", Validator: positive[time.Duration]},
			&cli.FloatFlag{Name: "max-cost", Usage: "spend `USD` a night at most on pods", Validator: positive[float64], DefaultText: "the plan's budget"},
			&cli.IntFlag{Name: "keep", Value: 30, Usage: "keep the latest `N` run directories", Validator: positive[int]},
			&cli.StringFlag{Name: "history", Usage: "the history of nights is `FILE`", DefaultText: "NAME.jsonl"},
			&cli.StringFlag{Name: "notify", Usage: "after a night that did not end with 0 run the shell's `COMMAND` with the plan's name, the exit code and the report's path (systemd, cron)"},
		),
		OnUsageError: usageError,
		Action: func(_ context.Context, c *cli.Command) error {
			path, err := oneArg(c, "plan")
			if err != nil {
				return err
			}
			return a.schedule(c, path)
		},
	}
}

func (a *app) schedule(c *cli.Command, path string) error {
	if path == planfile.Stdin {
		return &usage{errors.New("a night reads its plan again: name a file")}
	}
	p, made, err := a.open(path, a.planOptions(c))
	if err != nil {
		return err
	}
	here, err := os.Getwd()
	if err != nil {
		return err
	}
	abs := func(path string) string {
		if filepath.IsAbs(path) {
			return path
		}
		return filepath.Join(here, path)
	}
	n := schedule.Night{
		Name: p.Name, Plan: abs(path), Dir: here, Exe: a.exe, Out: abs(c.String("output")), History: p.Name + ".jsonl", At: c.String("at"),
		MaxTime: c.Duration("max-time"), MaxCost: c.Float("max-cost"), Keep: c.Int("keep"), Notify: c.String("notify"),
	}
	if c.IsSet("history") {
		n.History = c.String("history")
	}
	for _, v := range c.StringSlice("set") {
		n.Flags = append(n.Flags, "--set", v)
	}
	for _, v := range c.StringSlice("allow-env") {
		n.Flags = append(n.Flags, "--allow-env", v)
	}
	sends, err := a.agreeSends(c, path, p, made.sends)
	if err != nil {
		return err
	}
	for _, v := range sends {
		n.Flags = append(n.Flags, "--send-env", v)
	}
	engineFile := abs
	if c.String("target") == schedule.Kubernetes {
		if n.Cluster, err = a.cluster(c, path, p, made); err != nil {
			return err
		}
		names := mounted(c.StringSlice("engine-file"))
		engineFile = func(path string) string { return schedule.PlanFolder + "/" + names[path] }
	}
	for _, v := range c.StringSlice("engine-file") {
		n.Flags = append(n.Flags, "--engine-file", engineFile(v))
	}
	for _, flag := range []string{allowWebhook, allowPrivateWebhook} {
		if c.Bool(flag) {
			n.Flags = append(n.Flags, "--"+flag)
		}
	}
	if c.IsSet("max-cells") {
		n.Flags = append(n.Flags, "--max-cells", strconv.Itoa(c.Int("max-cells")))
	}
	files, err := schedule.Files(c.String("target"), n)
	if err != nil {
		return &usage{err}
	}
	if !c.IsSet("output") {
		if len(files) == 1 && n.Cluster != nil { // for kubectl apply -f -
			_, err := io.WriteString(a.out, files[0].Text)
			return err
		}
		for _, f := range files {
			if _, err := fmt.Fprintf(a.out, "==> %s\n%s\n", f.Name, f.Text); err != nil {
				return err
			}
		}
		return nil
	}
	fx, err := a.effects()
	if err != nil {
		return err
	}
	if err := fx.MkdirAll(effect.DeriveCreate, n.Out); err != nil {
		return fmt.Errorf("schedule: %w", err)
	}
	for _, f := range files {
		err := fx.WriteFileAtomic(effect.DeriveCreate, filepath.Join(n.Out, f.Name), func(w io.Writer) error {
			_, err := io.WriteString(w, f.Text)
			return err
		})
		if err != nil {
			return fmt.Errorf("write %s: %w", f.Name, err)
		}
		a.say("%s", plaintext.Word(filepath.Join(n.Out, f.Name)))
	}
	a.next(schedule.Install(c.String("target"), n))
	return nil
}
