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
	"sweep.dev/sweep/internal/humanize"
	"sweep.dev/sweep/internal/plaintext"
	"sweep.dev/sweep/nightly/fetch"
	"sweep.dev/sweep/nightly/schedule"
)

func (a *app) fetchCommand() *cli.Command {
	return &cli.Command{
		Name:  "fetch",
		Usage: "copies the runs and the history of nights in a cluster to this machine",
		Description: `Copies what the nights of the plan NAME in NAMESPACE have kept (sweep night schedule --target
kubernetes) into runs/ and NAME.jsonl below the working directory, or below -o. A pod of
the nights' own image mounts their volume for reading meanwhile, and is gone afterwards;
the cluster ends it after --timeout in any case.

Only what is not here is sent, and the digest of each file is verified. A fetch that broke
off goes on where it stopped. A run of the same name that is another run, or a history with
lines of its own, is refused and not replaced.

  $ sweep night fetch --kube bench/chat-capacity
  $ sweep night fetch --kube bench/chat-capacity --latest 7 -o nights
  $ sweep night fetch --kube bench/chat-capacity --print-role  # the Role that it needs` + exitHelp(exitOK, exitInternal, exitUsage, exitCleanup, exitProvider, exitInt, exitTerm),
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "kube", Usage: "the nights of a plan in a cluster: `NAMESPACE/NAME`", Required: true},
			kubeContextFlag(),
			&cli.StringFlag{Name: "output", Aliases: []string{"o"}, Usage: "copy into `DIR`", DefaultText: "the working directory"},
			&cli.IntFlag{Name: "latest", Usage: "copy the latest `N` runs", Validator: positive[int], DefaultText: "all"},
			&cli.StringFlag{Name: "max-size", Value: "10Gi", Usage: "refuse to copy more than `SIZE`: bytes, or a number with Ki, Mi, Gi or Ti"},
			&cli.DurationFlag{Name: "timeout", Value: time.Hour, Usage: "stop after `DURATION`", Validator: positive[time.Duration]},
			&cli.StringFlag{Name: "image", Usage: "the `IMAGE` of sweep in the pod", DefaultText: "that of the nights"},
			&cli.BoolFlag{Name: "print-role", Usage: "print the Role that a fetch needs in the namespace"},
		},
		OnUsageError: usageError,
		Action: func(ctx context.Context, c *cli.Command) error {
			if c.Args().Present() {
				return &usage{fmt.Errorf("fetch takes no arguments, got %q (-o names the folder)", c.Args().First())}
			}
			return a.fetch(ctx, c)
		},
	}
}

func (a *app) fetch(ctx context.Context, c *cli.Command) error {
	namespace, name, _ := strings.Cut(c.String("kube"), "/")
	if c.Bool("print-role") && namespace != "" {
		_, err := io.WriteString(a.out, fetch.RoleYAML(plaintext.Line(namespace)))
		return err
	}
	if namespace == "" || name == "" {
		return &usage{errors.New("--kube: want NAMESPACE/NAME, the name of the plan")}
	}
	most, err := bytesOf(c.String("max-size"))
	if err != nil {
		return &usage{fmt.Errorf("--max-size: %w", err)}
	}
	api, err := a.kubeAPI(c)
	if err != nil {
		return err
	}
	fx, err := a.effects()
	if err != nil {
		return err
	}
	folder := c.String("output")
	if folder == "" {
		folder = "."
	} else if err := fx.MkdirAll(effect.DeriveCreate, folder); err != nil {
		return &usage{err}
	}
	running, _, stop := signals(ctx, a.say)
	defer stop()
	running, cancel := context.WithTimeoutCause(running, c.Duration("timeout"), fmt.Errorf("not done within %v: the same command goes on", c.Duration("timeout")))
	defer cancel()
	got, left, err := pull(running, fetch.Source{
		API: api, Effects: fx, Namespace: namespace, Object: schedule.Object(name), Image: c.String("image"), Time: c.Duration("timeout"), Latest: c.Int("latest"),
	}, folder, fetch.Options{MaxBytes: most, Say: a.say})
	if got.Files > 0 || err == nil {
		a.say("%s and %d bytes fetched, %s were here", humanize.Plural(got.Files, "file"), got.Bytes, humanize.Plural(got.Present, "file"))
	}
	if err != nil {
		err = refusedByKube(fmt.Errorf("fetch: %w", err), "night fetch", namespace)
	} else {
		for _, r := range got.Runs {
			fmt.Fprintln(a.out, plaintext.Word(filepath.Join(folder, fetch.RunsFolder, r)))
		}
	}
	if left != nil {
		err = &statusError{exitCleanup, errors.Join(err, fmt.Errorf("clean-up not verified: %w", left))}
	}
	return err
}

// pull fetches with a pod of its own. left is why that may not be gone.
func pull(ctx context.Context, s fetch.Source, folder string, o fetch.Options) (got fetch.Result, left, err error) {
	pod, err := s.Start(ctx)
	if err == nil {
		got, err = fetch.Pull(ctx, pod, s.Effects, folder, o)
		return got, pod.End(context.WithoutCancel(ctx)), err
	}
	// Apart, so that its reason is not that of the fetch.
	if l, ok := errors.AsType[*fetch.LeftError](err); ok {
		left = l
		err = without(err, func(part error) bool { return part == left }) //nolint:errorlint // one by one
	}
	return got, left, err
}

// bytesOf returns a number of bytes.
func bytesOf(text string) (int64, error) {
	number, shift := text, 0
	for i, unit := range []string{"Ki", "Mi", "Gi", "Ti"} {
		if n, ok := strings.CutSuffix(text, unit); ok {
			number, shift = n, 10*(i+1)
		}
	}
	n, err := strconv.ParseInt(number, 10, 64)
	if err != nil || n <= 0 || n > (1<<62)>>shift {
		return 0, fmt.Errorf("%q is no size: want a number of bytes, or one with Ki, Mi, Gi or Ti", text)
	}
	return n << shift, nil
}

// filesCommand returns what sweep night fetch runs in its pod.
func (a *app) filesCommand() *cli.Command {
	serve := func(name string, do func(context.Context, *cli.Command) error, flags ...cli.Flag) *cli.Command {
		return &cli.Command{Name: name, Flags: flags, OnUsageError: usageError, Action: do}
	}
	volume := func(do func(*cli.Command, *os.Root) error) func(context.Context, *cli.Command) error {
		return func(_ context.Context, c *cli.Command) error {
			dir, err := oneArg(c, "folder")
			if err != nil {
				return err
			}
			root, err := os.OpenRoot(dir)
			if err != nil {
				return err
			}
			defer root.Close()
			return do(c, root)
		}
	}
	return &cli.Command{
		Name:         fetch.Command,
		Hidden:       true,
		OnUsageError: usageError,
		Commands: []*cli.Command{
			serve(fetch.Hold, func(ctx context.Context, _ *cli.Command) error {
				ctx, _, stop := signals(ctx, func(string, ...any) {})
				defer stop()
				<-ctx.Done()
				return nil
			}),
			serve(fetch.ListOf, volume(func(c *cli.Command, root *os.Root) error { return fetch.List(root, c.Int("latest"), a.out) }), &cli.IntFlag{Name: "latest"}),
			serve(fetch.SendOf, volume(func(_ *cli.Command, root *os.Root) error { return fetch.Send(root, a.in, a.out) })),
		},
	}
}
