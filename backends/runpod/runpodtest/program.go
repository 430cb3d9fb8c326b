package runpodtest

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"sweep.dev/sweep/backends/runpod/runpodtest/podtest"
)

const program = "runpod-emulator"

const help = `Usage: runpod-emulator [flags]

Serves RunPod's REST API v2. Each pod that is created is a process of this
machine: vllm/vllm-openai is the simulated engine, --image names the programs of
other images. It prints a line for each request, and the bill at its end.
  $ runpod-emulator --listen 127.0.0.1:8900
  $ export RUNPOD_API_BASE_URL=http://127.0.0.1:8900 RUNPOD_API_KEY=...     # as it prints them
  $ sweep run plan.yaml

Flags:
`

// Main returns the emulator as a program: it serves until ctx is done, ends its pods and
// returns the exit code. Pods start this executable with sim as its first argument,
// which has to play the simulated engine.
func Main(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	o, err := parse(args, stdout, stderr)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		fmt.Fprintf(stderr, "%s: %v\n", program, err)
		return 2
	}
	if err := serveUntilDone(ctx, o, stdout, stderr); err != nil {
		fmt.Fprintf(stderr, "%s: %v\n", program, err)
		return 1
	}
	return 0
}

func serveUntilDone(ctx context.Context, o Options, stdout, stderr io.Writer) error {
	e, err := New(o)
	if err != nil {
		return err
	}
	fmt.Fprintf(stdout, "export RUNPOD_API_BASE_URL=%s\nexport RUNPOD_API_KEY=%s\n", e.URL(), e.Key())
	fmt.Fprintf(stderr, "%s: pods' http ports are at %s\n", program, e.ProxyURL())
	<-ctx.Done()
	alive := len(e.Audit().Alive())
	err = e.Close()
	audit := e.Audit()
	fmt.Fprintf(stderr, "%s: %d pods in %d creates, $%.6f; %d ended with the emulator\n",
		program, len(audit.Pods), audit.Creates, audit.USD, alive)
	return err
}

// parse reads the flags. It prints the help to stdout and each request to stderr.
func parse(args []string, stdout, stderr io.Writer) (Options, error) {
	o := Options{OnEvent: func(ev Event) {
		fmt.Fprintf(stderr, "%s %v\n", ev.At.UTC().Format(time.TimeOnly), ev)
	}}
	fs := flag.NewFlagSet(program, flag.ContinueOnError)
	fs.SetOutput(io.Discard)
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
		fmt.Fprint(stdout, help)
		fs.SetOutput(stdout)
		fs.PrintDefaults()
		fmt.Fprint(stdout, "\nFaults:\n")
		for _, k := range FaultKinds {
			fmt.Fprintf(stdout, "  %-24s %s\n", k.Name, k.Doc)
		}
		return o, err
	case err != nil:
		return o, err
	case fs.NArg() > 0:
		return o, fmt.Errorf("unexpected arguments: %s", strings.Join(fs.Args(), " "))
	}
	for _, f := range o.Faults {
		if _, err := ParseFault(f); err != nil {
			return o, err
		}
	}
	return o, nil
}
