package main

import (
	"context"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/urfave/cli/v3"

	"sweep.dev/sweep/internal/plaintext"
	"sweep.dev/sweep/result"
	"sweep.dev/sweep/result/meant"
)

func (a *app) columnsCommand() *cli.Command {
	return &cli.Command{
		Name:      "columns",
		Usage:     "lists the columns of the cells table and their meaning",
		ArgsUsage: "[PATTERN]",
		Description: `These are the columns of cells.parquet, which objectives of a plan can read;
cells.csv has those of the tier core unless the plan asks for others. PATTERN
is a part of a name, or a whole name with * and ?. If no name matches, the
meanings are searched. A plan adds a column for each of its own axes
(arg_max_num_seqs), objectives (slo_<name>) and roles. If several columns
match, it prints the first clause of each meaning; -v prints all of it.

  $ sweep list columns ttft
  $ sweep list columns 'p95_*_ms'` + exitHelp(exitOK, exitUsage),
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "verbose", Aliases: []string{"v"}, Usage: "print each meaning in full"},
			&cli.BoolFlag{Name: "json", Usage: "print as JSON"},
		},
		OnUsageError: usageError,
		Action: func(_ context.Context, c *cli.Command) error {
			if c.Args().Len() > 1 {
				return &usage{fmt.Errorf("columns takes at most one pattern, got %d arguments: put it in quotes", c.Args().Len())}
			}
			cols, err := matching(result.Columns(result.Extra{}), c.Args().First())
			if err != nil {
				return err
			}
			if c.Bool("json") {
				return a.columnsJSON(cols)
			}
			whole := c.Bool("verbose") || len(cols) == 1
			if err := a.columns(cols, whole); err != nil || whole {
				return err
			}
			next := "sweep list columns -v"
			if c.Args().Len() > 0 {
				next += " " + plaintext.Word(c.Args().First())
			}
			a.next(next)
			return nil
		},
	}
}

// matching returns the columns that a pattern names, or else those whose meaning has
// it; all for none.
func matching(cols []result.Column, pattern string) ([]result.Column, error) {
	if _, err := path.Match(pattern, ""); err != nil {
		return nil, &usage{fmt.Errorf("columns: %q is no pattern: %w", pattern, err)}
	}
	part := strings.ToLower(pattern)
	var named, meaning []result.Column
	names := make([]string, len(cols))
	for i, column := range cols {
		names[i] = column.Name
		whole, _ := path.Match(part, column.Name)
		switch {
		case whole, strings.Contains(column.Name, part):
			named = append(named, column)
		case strings.Contains(strings.ToLower(column.Doc), part):
			meaning = append(meaning, column)
		}
	}
	if found := slices.Concat(named, meaning); len(found) == 0 {
		err := fmt.Errorf("no column matches %q (see: sweep list columns)", pattern)
		if near := meant.Column(pattern, names); near != "" {
			err = fmt.Errorf("no column matches %q; did you mean %q?", pattern, near)
		}
		return nil, &usage{err}
	}
	if named == nil {
		return meaning, nil
	}
	return named, nil
}

func (a *app) columnsJSON(cols []result.Column) error {
	type column struct {
		Name     string `json:"name"`
		Type     string `json:"type"`
		Tier     string `json:"tier"`
		Unit     string `json:"unit"`
		Nullable bool   `json:"nullable"`
		Meaning  string `json:"meaning"`
	}
	list := make([]column, len(cols))
	for i, c := range cols {
		list[i] = column{c.Name, string(c.Type), string(c.Tier), c.Unit, c.Nullable, c.Doc}
	}
	return a.json().Encode(list)
}

// columns prints columns for people. A meaning begins with what the column is; how it is
// taken follows a colon, a semicolon or a full stop.
func (a *app) columns(cols []result.Column, whole bool) error {
	rows := make([][]string, len(cols))
	for i, c := range cols {
		text := c.Doc
		if at := clauseEnd.FindStringIndex(text); at != nil && !whole {
			text = text[:at[0]]
		}
		if c.Unit != "" {
			text = strings.TrimSuffix(text, ".") + " [" + c.Unit + "]"
		}
		rows[i] = []string{c.Name, text}
	}
	page := a.page()
	page.Rows(rows...)
	return page.Err()
}

// clauseEnd matches the end of the first clause of a meaning.
var clauseEnd = regexp.MustCompile(`[:;.] |\.$`)
