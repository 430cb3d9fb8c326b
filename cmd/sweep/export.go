package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/urfave/cli/v3"

	"sweep.dev/sweep/internal/effect"
	"sweep.dev/sweep/internal/humanize"
	"sweep.dev/sweep/internal/plaintext"
	"sweep.dev/sweep/report/export"
)

// exportFolder is where an export of many files goes, in the run directory, if -o names
// no other.
const exportFolder = "export"

func (a *app) exportCommand() *cli.Command {
	list := described(export.Formats(), func(f export.Format) (name, doc string) { return f.Name, f.Doc })
	return &cli.Command{
		Name:      "export",
		Usage:     "writes the trials of a run as the files of other tools",
		ArgsUsage: "[DIR]",
		Description: `Without DIR it is the latest run under runs/. INVALID trials are left out and
counted. The formats are:
` + list + `

  $ sweep export --format vllm runs/monday -o sweep-vllm
  $ vllm bench sweep plot_pareto sweep-vllm --gpu-count-var gpu_count
  $ sweep export --format prometheus runs/monday -o /var/lib/node_exporter/sweep.prom
  $ sweep export --format inferencex --fact MODEL_PREFIX=dsr1 --fact PRECISION=fp8 --fact SPEC_DECODING=none --fact IMAGE=vllm/vllm-openai:v0.32.0` +
			exitHelp(exitOK, exitInternal, exitUsage, exitIncomplete),
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "format", Usage: "the `FORMAT`: " + strings.Join(exportFormats(), ", "), Required: true},
			&cli.StringFlag{Name: "output", Aliases: []string{"o"}, Usage: "write to `PATH`: a folder that is empty or not there, or the file of prometheus and openmetrics; - is the standard output", DefaultText: "DIR/" + exportFolder + "/FORMAT, or the standard output"},
			&cli.BoolFlag{Name: "invalid", Usage: "also export INVALID trials, marked: their numbers must not be used"},
			&cli.StringSliceFlag{Name: "fact", Usage: "`NAME=VALUE`: what a row of InferenceX wants and a run does not know, such as PRECISION=fp8"},
		},
		OnUsageError: usageError,
		Action: func(_ context.Context, c *cli.Command) error {
			return a.export(c)
		},
	}
}

// exportFormats returns the names of all formats.
func exportFormats() []string {
	var names []string
	for _, f := range export.Formats() {
		names = append(names, f.Name)
	}
	return names
}

func (a *app) export(c *cli.Command) error {
	formats := export.Formats()
	i := slices.IndexFunc(formats, func(f export.Format) bool { return f.Name == c.String("format") })
	if i < 0 {
		return &usage{fmt.Errorf("--format %s: want one of %s", plaintext.Line(c.String("format")), strings.Join(exportFormats(), ", "))}
	}
	f := formats[i]
	o := export.Options{Invalid: c.Bool("invalid"), Facts: map[string]string{}}
	for _, word := range c.StringSlice("fact") {
		name, value, ok := strings.Cut(word, "=")
		if !ok || f.Name != "inferencex" {
			return &usage{fmt.Errorf("--fact %s: want NAME=VALUE, with --format inferencex", plaintext.Line(word))}
		}
		o.Facts[name] = value
	}
	dir, err := a.runDir(c)
	if err != nil {
		return err
	}
	run, _, err := openRun(dir)
	if err != nil {
		return err
	}
	made, err := export.Of(run, f, o)
	if err != nil {
		return exportError(err)
	}
	if f.Single {
		err = a.writeTo(c, "-", func(w io.Writer) error {
			_, err := w.Write(made.Files[0].Data)
			return err
		})
	} else {
		err = a.writeFolder(c, filepath.Join(dir, exportFolder, f.Name), made)
	}
	if err != nil {
		return err
	}
	for _, note := range made.Notes {
		a.say("sweep: %s", note)
	}
	return nil
}

// exportError says what a user can do about an error.
func exportError(err error) error {
	if missing, ok := errors.AsType[*export.MissingError](err); ok {
		return &usage{&hinted{err, missing.Hint()}}
	}
	if fact, ok := errors.AsType[*export.FactError](err); ok {
		return &usage{fact}
	}
	if empty, ok := errors.AsType[*export.EmptyError](err); ok {
		return &statusError{exitIncomplete, empty}
	}
	return err
}

// writeFolder writes the files of an export into a folder that has no others: a reader
// takes what it finds there.
func (a *app) writeFolder(c *cli.Command, dir string, made *export.Export) error {
	if c.IsSet("output") {
		dir = c.String("output")
	}
	if dir == "" || dir == "-" {
		return &usage{fmt.Errorf("-o: --format %s writes a folder, name one", c.String("format"))}
	}
	switch entries, err := os.ReadDir(dir); {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return &usage{err}
	case len(entries) > 0:
		return &usage{fmt.Errorf("%s is not empty, and readers take every file in it: name another folder with -o, or remove it", plaintext.Word(dir))}
	}
	fx, err := a.effects()
	if err != nil {
		return err
	}
	for _, f := range made.Files {
		path := filepath.Join(dir, filepath.FromSlash(f.Name))
		if err := fx.MkdirAll(effect.DeriveCreate, filepath.Dir(path)); err != nil {
			return fmt.Errorf("export: %w", err)
		}
		err := fx.WriteFileAtomic(effect.DeriveCreate, path, func(w io.Writer) error {
			_, err := w.Write(f.Data)
			return err
		})
		if err != nil {
			return fmt.Errorf("write %s: %w", path, err)
		}
	}
	a.say("%s: %s of %s", plaintext.Word(dir), humanize.Plural(len(made.Files), "file"), humanize.Plural(made.Trials, "trial"))
	return nil
}
