package main

import (
	"context"
	"fmt"
	"os/exec"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/urfave/cli/v3"

	"sweep.dev/sweep/internal/humanize"
	"sweep.dev/sweep/internal/plaintext"
	"sweep.dev/sweep/load/calibrate"
	"sweep.dev/sweep/load/client"
	"sweep.dev/sweep/load/nullserver"
	"sweep.dev/sweep/load/wire"
	"sweep.dev/sweep/result"
)

func (a *app) calibrateCommand() *cli.Command {
	return &cli.Command{
		Name:      "calibrate",
		Usage:     "measures the delay that the client adds to its times",
		ArgsUsage: "[PLAN]",
		Description: `Starts a server without a model on another CPU, which writes the time of
sending into each chunk, and compares it with the time that the client
records: at the largest load of PLAN, or at one of your own. It takes 5 s.
sweep run does this by itself if no calibration of this machine and version
is younger than a week.

  $ sweep doctor calibrate plans/chat-capacity.yaml
  $ sweep doctor calibrate --streams 1024 --rate 50 --fresh` + exitHelp(exitOK, exitInternal, exitUsage),
		Flags: append(planFlags(),
			&cli.IntFlag{Name: "streams", Usage: "without a plan: `N` streams at once", Value: 256, Validator: positive[int]},
			&cli.FloatFlag{Name: "rate", Usage: "without a plan: `N` chunks per second of each stream", Value: defaultRate, Validator: positive[float64]},
			&cli.StringFlag{Name: "client", Usage: "calibrate the client `KIND`: auto, std or fast", DefaultText: "the plan's", Validator: clientKind},
			&cli.BoolFlag{Name: "fresh", Usage: "measure again, even if a calibration is known"},
			&cli.BoolFlag{Name: "json", Usage: "print as JSON"},
			&cli.BoolFlag{Name: "serve", Usage: "run the server until standard input ends", Hidden: true},
		),
		OnUsageError: usageError,
		Action: func(ctx context.Context, c *cli.Command) error {
			if c.Bool("serve") {
				return nullserver.Process(ctx, a.in, a.out)
			}
			return a.calibrate(ctx, c)
		},
	}
}

func (a *app) calibrate(ctx context.Context, c *cli.Command) error {
	want := demand{Shape: calibrate.Shape{Streams: c.Int("streams"), Rate: c.Float("rate")}}
	want.chunks = float64(want.Streams) * want.Rate
	if c.Args().Len() > 0 {
		path, err := oneArg(c, "plan")
		if err != nil {
			return err
		}
		if c.IsSet("streams") || c.IsSet("rate") {
			return &usage{fmt.Errorf("--streams and --rate are the load if there is no plan, and %s is one", path)}
		}
		p, made, err := a.open(path, a.planOptions(c))
		if err != nil {
			return err
		}
		want = demandOf(p.Deployments(), made.traits())
	}
	if kind := c.String("client"); kind != "" {
		want.Client = kind
	}
	found, err := a.calibration(ctx, want.Shape, c.Bool("fresh"))
	if err != nil {
		return err
	}
	if c.Bool("json") {
		return a.json().Encode(found)
	}
	if err := calibrationTable(a, found); err != nil {
		return err
	}
	if text := found.Stands(); text != "" {
		fmt.Fprintf(a.out, "\n%s\n", text)
	}
	if text := found.Warning(want.chunks); text != "" {
		a.say("sweep: %s", text)
	}
	return nil
}

// calibration returns what is known of the client at a shape, or what is found out
// now.
func (a *app) calibration(ctx context.Context, shape calibrate.Shape, fresh bool) (*calibrate.Result, error) {
	shape = shape.Bounded()
	machine := calibrate.ThisMachine(version())
	kept := a.calibrations()
	if !fresh {
		if found := kept.find(machine, shape); found != nil {
			return found, nil
		}
	}
	if a.errTTY {
		a.say("calibrating the client at %d streams of %.3g chunks/s, 5 s", shape.Streams, shape.Rate)
	}
	found, err := calibrate.Run(ctx, calibrate.Config{
		Machine: machine, Shape: shape, Driver: measuringClient,
		Server: func() *exec.Cmd { return exec.CommandContext(ctx, a.exe, "doctor", "calibrate", "--serve") },
	})
	if err != nil {
		return nil, err
	}
	if err := kept.keep(found); err != nil {
		a.say("sweep: the calibration is not kept for the next run: %v", err)
	}
	return found, nil
}

// measuringClient returns the client of a run.
func measuringClient(c wire.Config, kind string) (calibrate.Driver, error) {
	return client.New(c, kind)
}

func calibrationTable(a *app, r *calibrate.Result) error {
	cpus := fmt.Sprintf("client on %d, null server on %d", r.ClientCPUs, r.ServerCPUs)
	if r.ServerCPUs == 0 {
		cpus = "client and null server on the same: the client's figures hold the server's work"
	}
	stamps := map[string]string{
		result.StampKernel: "by the kernel", result.StampUser: "after each read (no kernel stamps here)",
	}[r.Stamp]
	w := tabwriter.NewWriter(a.out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "machine\t%s, %s, %s (%s), %s, sweep %s\n", plaintext.Line(r.Host), r.CPU, humanize.Plural(r.CPUs, "CPU"), cpus, r.Kernel, r.Sweep)
	fmt.Fprintf(w, "load\t%s of %.3g chunks/s\n", humanize.Plural(r.Streams, "stream"), r.Rate)
	fmt.Fprintf(w, "client\t%s, times stamped %s\n", r.Driver, stamps)
	fmt.Fprintf(w, "measured\t%s, in %.1f s\n", r.At.Format(time.DateTime+" UTC"), r.Took.Seconds())
	if err := w.Flush(); err != nil {
		return err
	}
	w = tabwriter.NewWriter(a.out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprint(w, "\nin us\tp50\tp99\tp99.9\tof\t\n")
	row := func(name string, s calibrate.Spread, what string) {
		us := func(d time.Duration) string { return fmt.Sprintf("%.1f", float64(d)/1e3) }
		top := us(s.P999)
		if s.N < 1000 { // the highest of so few is no percentile
			top += " (max)"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%d %s\t\n", name, us(s.P50), us(s.P99), top, s.N, what)
	}
	for _, p := range []struct {
		name string
		calibrate.Pattern
	}{{"random phase", r.Random}, {"bursts", r.Bursts}} {
		row(p.name+": added error", p.Error, "chunks")
		if p.Lag.N > 0 {
			row("more without kernel stamps", p.Lag, "reads")
		}
	}
	row("open loop at 1,000/s: late", r.Timer, "requests")
	if err := w.Flush(); err != nil {
		return err
	}
	fmt.Fprintf(a.out, "\nCPU a chunk  %.1f us at random phase, %.1f us in bursts\n", float64(r.Random.CPU)/1e3, float64(r.Bursts.CPU)/1e3)
	bound, why := "", map[string]string{
		calibrate.ByCoalesced: "above it over 1 % of the chunks share a read",
		calibrate.ByCPU:       "above it the client's CPUs are full",
		calibrate.ByDisturbed: "above it over 1 % of the chunks share a read, and the client had CPU to spare",
		calibrate.ByOffered:   "no more was offered: the null server has one CPU",
	}[r.Ceiling.By]
	if r.Ceiling.By == calibrate.ByOffered {
		bound = "at least "
	}
	fmt.Fprintf(a.out, "ceiling      %s%.0f chunks/s (%s)\n", bound, r.Ceiling.Chunks, why)
	return nil
}

// oneOf refuses a value that is not in values.
func oneOf(values ...string) func(string) error {
	return func(v string) error {
		if slices.Contains(values, v) {
			return nil
		}
		return fmt.Errorf("want one of %v, got %q", values, v)
	}
}
