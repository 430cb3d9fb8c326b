// Command grafana holds a dashboard against what can be had of its readers without a
// Grafana: the dashboard's form against Grafana's own schema, and its queries against
// Prometheus' own parser and the series of a file in Prometheus' text format. It is a tool
// of the repository: task check:dashboard.
package main

import (
	"errors"
	"fmt"
	"os"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "grafana:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) != 2 {
		return errors.New("usage: grafana DASHBOARD METRICS")
	}
	dashboard, err := os.ReadFile(args[0])
	if err != nil {
		return err
	}
	metrics, err := os.ReadFile(args[1])
	if err != nil {
		return err
	}
	known, err := parseSeries(metrics)
	if err != nil {
		return fmt.Errorf("%s: %w", args[1], err)
	}
	n, err := check(dashboard, known)
	if err != nil {
		return fmt.Errorf("%s: %w", args[0], err)
	}
	fmt.Printf("%s: its form is Grafana's, and %d queries parse and find series in %s\n", args[0], n, args[1])
	return nil
}
