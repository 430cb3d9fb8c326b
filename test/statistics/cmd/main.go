// Command statistics holds the statistical rules of sweep against simulated
// truth, prints the tables, and keeps them for docs/statistics.md. It is a tool
// of the repository: task statistics.
package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"path"
	"strings"

	"sweep.dev/sweep/test/statistics"
	"sweep.dev/sweep/test/statistics/tables"
)

func main() {
	if err := run(os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "statistics:", err)
		os.Exit(1)
	}
}

func run(args []string, out io.Writer) error {
	flags := flag.NewFlagSet("statistics", flag.ContinueOnError)
	only := flags.String("table", "", "make only `NAMES`, joined by commas")
	reduced := flags.Bool("reduced", false, "make the reduced form, which is not kept")
	page := flags.Bool("page", false, "make docs/statistics.md again from the tables that are kept, and no table")
	before := flags.String("before", "", "keep the tables as those of `COMMIT`, before its rules changed")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *page {
		return renew()
	}
	figures, old, err := kept()
	if err != nil {
		return err
	}
	lab := statistics.NewLab(*reduced)
	made := 0
	for _, rule := range statistics.Rules() {
		if *only != "" && !strings.Contains(","+*only+",", ","+rule.Name+",") {
			continue
		}
		t := rule.Run(lab)
		fmt.Fprintln(out, t.Text(old))
		made++
		if *before != "" {
			old = old.With(t)
			old.Commit = *before
		} else {
			figures = figures.With(t)
		}
	}
	switch {
	case made == 0:
		return fmt.Errorf("no table %q", *only)
	case *reduced:
		return nil
	}
	if err := keep(tables.BeforeFile, old); err != nil {
		return err
	}
	if err := keep(tables.FiguresFile, figures); err != nil {
		return err
	}
	return renew()
}

// kept returns the tables of the documentation: of these rules, and of those before.
func kept() (figures, before tables.Record, err error) {
	if figures, err = read(tables.FiguresFile); err != nil {
		return figures, before, err
	}
	before, err = read(tables.BeforeFile)
	return figures, before, err
}

func read(name string) (tables.Record, error) {
	text, err := os.ReadFile(name)
	if os.IsNotExist(err) {
		return tables.Record{}, nil
	}
	if err != nil {
		return tables.Record{}, err
	}
	r, err := tables.ParseRecord(text)
	if err != nil {
		return r, fmt.Errorf("%s: %w", name, err)
	}
	return r, nil
}

func keep(name string, r tables.Record) error {
	text, err := r.JSON()
	if err != nil {
		return err
	}
	return write(name, text)
}

// renew makes the pictures and the generated parts of the pages from what is kept.
func renew() error {
	figures, before, err := kept()
	if err != nil {
		return err
	}
	text, err := os.ReadFile(tables.Page)
	if err != nil {
		return err
	}
	if text, err = tables.Document(text, figures); err != nil {
		return fmt.Errorf("%s: %w", tables.Page, err)
	}
	for _, t := range figures.Tables {
		if err := write(path.Join(tables.Pictures, t.Name+".svg"), t.SVG(before)); err != nil {
			return err
		}
	}
	if err := write(tables.TablesPage, tables.Reference(figures, before)); err != nil {
		return err
	}
	return write(tables.Page, text)
}

// write replaces a file of the repository: nothing that a crash could lose.
func write(name string, text []byte) error {
	return os.WriteFile(name, text, 0o644) //nolint:forbidigo // a tool of the repository; git has what was there before
}
