package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"sweep.dev/sweep/backends/runpod/runpodtest"
	"sweep.dev/sweep/backends/runpod/runpodtest/podtest"
)

// simulates is the value of --provider on the command line of sim, which is
// otherwise an engine's.
func simulates(args []string) (name string, ok bool) {
	for i, a := range args {
		flag, value, has := strings.Cut(strings.TrimLeft(a, "-"), "=")
		switch {
		case !strings.HasPrefix(a, "-") || flag != "provider":
		case has:
			return value, true
		case i+1 < len(args):
			return args[i+1], true
		default:
			return "", true
		}
	}
	return "", false
}

const simProviderHelp = `Usage: sweep sim --provider runpod [flags]

Serves RunPod's REST API v2. Each pod that is created is a process of this
machine: vllm/vllm-openai is the simulated engine, other images are told of with
--image. It prints a line for each request, and the bill at its end.
  $ sweep sim --provider runpod --listen 127.0.0.1:8900
  $ export RUNPOD_API_BASE_URL=http://127.0.0.1:8900 RUNPOD_API_KEY=...     # as it prints them
  $ sweep run plan.yaml

Flags:
`

// simProvider serves an emulated provider until ctx is done.
func (a *app) simProvider(ctx context.Context, args []string) error {
	o, err := a.parseSimProvider(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return nil
	case err != nil:
		return &usage{err}
	}
	e, err := runpodtest.New(o)
	if err != nil {
		return err
	}
	fmt.Fprintf(a.out, "export RUNPOD_API_BASE_URL=%s\nexport RUNPOD_API_KEY=%s\n", e.URL(), e.Key())
	fmt.Fprintf(a.err, "sweep: pods' http ports are at %s\n", e.ProxyURL())
	<-ctx.Done()
	alive := len(e.Audit().Alive())
	err = e.Close()
	audit := e.Audit()
	fmt.Fprintf(a.err, "sweep: %d pods in %d creates, $%.6f; %d ended with the emulator\n",
		len(audit.Pods), audit.Creates, audit.USD, alive)
	return err
}

func (a *app) parseSimProvider(args []string) (runpodtest.Options, error) {
	o := runpodtest.Options{OnEvent: func(ev runpodtest.Event) {
		fmt.Fprintf(a.err, "%s %v\n", ev.At.UTC().Format(time.TimeOnly), ev)
	}}
	fs := flag.NewFlagSet("sweep sim --provider runpod", flag.ContinueOnError)
	fs.SetOutput(io.Discard)
	name := fs.String("provider", "", "`provider` to play: runpod")
	fs.StringVar(&o.Addr, "listen", "127.0.0.1:0", "`address` to listen on; port 0 takes a free one")
	fs.StringVar(&o.Key, "key", "", "the account's `key`; default a random one")
	fs.Uint64Var(&o.Seed, "seed", 0, "`seed` of ids, places and the dice of faults")
	fs.Float64Var(&o.BillRate, "bill-rate", 1, "billed seconds per second, a `factor`")
	fs.DurationVar(&o.Provision, "provision", 2*time.Second, "`time` from a create to RUNNING")
	fs.DurationVar(&o.Pull, "pull", 3*time.Second, "`time` from RUNNING to the container's start")
	fs.DurationVar(&o.ProxyLatency, "proxy-latency", 20*time.Millisecond, "`time` that the HTTP proxy adds")
	fs.IntVar(&o.PerMinute, "per-minute", 0, "`requests` of the account in a minute; 0 is no limit")
	fs.Func("fault", "`NAME[=VALUE][:COUNT][:PERCENT%]`, more than once or separated by commas, see below", func(s string) error {
		o.Faults = append(o.Faults, strings.Split(s, ",")...)
		return nil
	})
	fs.Func("stock", "`GPU=N` or GPU/CLOUD=N, more than once: how many there are; default plenty", func(s string) error {
		id, value, _ := strings.Cut(s, "=")
		n, err := strconv.Atoi(value)
		if err != nil || n < 0 {
			return fmt.Errorf("%q is not GPU=N", s)
		}
		if o.Stock == nil {
			o.Stock = map[string]int{}
		}
		o.Stock[id] = n
		return nil
	})
	fs.Func("image", "`PATTERN=COMMAND`, more than once: what an image's ENTRYPOINT is on this machine", func(s string) error {
		pattern, command, ok := strings.Cut(s, "=")
		if !ok || pattern == "" {
			return fmt.Errorf("%q is not PATTERN=COMMAND", s)
		}
		o.Images = append(o.Images, podtest.Image{Pattern: pattern, Entrypoint: strings.Fields(command)})
		return nil
	})
	fs.Func("sim", "`ARGUMENT` of the simulated engine, more than once: --sim --time-scale=20", func(s string) error {
		o.SimArgs = append(o.SimArgs, s)
		return nil
	})
	err := fs.Parse(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		fmt.Fprint(a.out, simProviderHelp)
		fs.SetOutput(a.out)
		fs.PrintDefaults()
		fmt.Fprint(a.out, "\nFaults:\n")
		for _, k := range runpodtest.FaultKinds {
			fmt.Fprintf(a.out, "  %-24s %s\n", k.Name, k.Doc)
		}
		return o, err
	case err != nil:
		return o, err
	case *name != "runpod":
		return o, fmt.Errorf("no provider is called %q; there is runpod", *name)
	case fs.NArg() > 0:
		return o, fmt.Errorf("unexpected arguments: %s", strings.Join(fs.Args(), " "))
	}
	for _, f := range o.Faults {
		if _, err := runpodtest.ParseFault(f); err != nil {
			return o, err
		}
	}
	return o, nil
}
