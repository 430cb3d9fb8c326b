package main

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/urfave/cli/v3"

	"sweep.dev/sweep/report/draw"
	"sweep.dev/sweep/report/size"
)

// sizeFlags make sweep report say how many servers carry a load.
func sizeFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "load", Usage: "say how many servers carry requests per second or minute: `RATE` such as 40/s or 90/min"},
		&cli.StringFlag{Name: "objective", Usage: "with --load: the objective of the plan with this `NAME`", DefaultText: "all"},
		&cli.BoolFlag{Name: "json", Usage: "with --load: print as JSON"},
	}
}

// size says how many servers carry a load, by the runs that the command line names.
func (a *app) size(c *cli.Command) error {
	load, err := rateOf(c.String("load"))
	if err != nil {
		return &usage{fmt.Errorf("--load %w", err)}
	}
	runs, err := a.runsNamed(c)
	if err != nil {
		return err
	}
	for _, run := range runs {
		if len(run.Resolved.Searches) == 0 {
			return &usage{&hinted{fmt.Errorf("%s: its plan has no find, so no load is certified", run.Dir), "docs/capacity.md says how a plan searches for a load"}}
		}
	}
	answers := size.Of(runs, load, c.String("objective"))
	if len(answers) == 0 {
		return &usage{fmt.Errorf("--objective: no plan has an objective %q", c.String("objective"))}
	}
	sized := false
	for i := range answers {
		sized = sized || len(answers[i].Servers) > 0
	}
	if c.Bool("json") {
		err = a.json().Encode(answers)
	} else {
		page := a.page()
		sizes(page, answers)
		err = page.Err()
	}
	if err = a.beside(err); err != nil {
		return err
	}
	if !sized {
		return &statusError{exitIncomplete, nil}
	}
	return nil
}

func sizes(page *draw.Document, answers []size.Answer) {
	for i := range answers {
		answer := &answers[i]
		if i > 0 {
			page.Blank()
		}
		page.Text(answer.Title())
		if len(answer.Servers) > 0 {
			page.Rows(answer.Rows()...)
			page.Text(answer.Conclusion())
		}
		for _, l := range answer.Left {
			page.Text(fmt.Sprintf("%s: %s", l.Name, l.Why))
		}
	}
}

// rateOf reads requests per second.
func rateOf(text string) (float64, error) {
	number, unit, ok := strings.Cut(strings.TrimSpace(text), "/")
	per := map[string]time.Duration{"s": time.Second, "min": time.Minute, "h": time.Hour}[strings.TrimSpace(unit)]
	v, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
	if !ok || per == 0 || err != nil || !(v > 0 && v < 1e9) {
		return 0, errors.New(strconv.Quote(text) + ": want a rate above 0, such as 40/s, 90/min or 5000/h")
	}
	return v / per.Seconds(), nil
}
