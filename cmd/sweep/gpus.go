package main

import (
	"context"
	"fmt"
	"text/tabwriter"

	"github.com/urfave/cli/v3"

	"sweep.dev/sweep/engine/catalog"
)

func (a *app) gpusCommand() *cli.Command {
	return &cli.Command{
		Name:         "gpus",
		Usage:        "lists the GPUs that a plan can name",
		Description:  "  $ sweep list gpus" + exitHelp(exitOK, exitUsage),
		Flags:        []cli.Flag{&cli.BoolFlag{Name: "json", Usage: "print as JSON"}},
		OnUsageError: usageError,
		Action: func(_ context.Context, c *cli.Command) error {
			if c.Bool("json") {
				return a.json().Encode(catalog.GPUs())
			}
			w := tabwriter.NewWriter(a.out, 0, 0, 2, ' ', tabwriter.AlignRight)
			fmt.Fprintln(w, "name\tmemory GiB\tbandwidth GB/s\tbf16 TFLOP/s\tlist $/h\t")
			for _, g := range catalog.GPUs() {
				fmt.Fprintf(w, "%s\t%.0f\t%.0f\t%.0f\t%.2f\t\n", g.Name, float64(g.Memory())/(1<<30), g.Bandwidth, g.TFLOPS["bfloat16"], g.USDPerHour)
			}
			if err := w.Flush(); err != nil {
				return err
			}
			a.next("sweep init")
			return nil
		},
	}
}
