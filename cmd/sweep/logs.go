package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v3"

	"sweep.dev/sweep/internal/layout"
	"sweep.dev/sweep/internal/plaintext"
	"sweep.dev/sweep/rundir"
)

func (a *app) logsCommand() *cli.Command {
	return &cli.Command{
		Name:      "logs",
		Usage:     "prints the logs of a run's engines, or of a stack on Kubernetes",
		ArgsUsage: "[DIR] [CELL]",
		Description: `Prints the log of every launch of DIR, or the part of it that belongs to one
cell's trials. Control characters are removed. Without DIR it reads the
latest run under runs/. CELL is what sweep cells takes.

With --kube it follows the logs of all containers of a stack side by side,
without the lines that say nothing, until ctrl-C. --timeline shows the steps
of one request through the roles of a stack, with their times.

  $ sweep logs runs/quickstart-20261121T101500Z-3f2a
  $ sweep logs -f runs/monday  # the newest launch, as it grows
  $ sweep logs --kube llm-d/pd --save logs
  $ sweep logs --kube llm-d/pd --timeline --request 710a2ee7-fb67-4151` + exitHelp(exitOK, exitUsage, exitProvider, exitInt, exitTerm),
		Flags: append([]cli.Flag{
			&cli.BoolFlag{Name: "follow", Aliases: []string{"f"}, Usage: "keep printing until the run ends"},
		}, logsKubeFlags()...),
		OnUsageError: usageError,
		Action: func(ctx context.Context, c *cli.Command) error {
			if err := a.otherLogs(c); err != nil {
				return err
			}
			switch {
			case c.Bool("timeline"):
				return a.timeline(ctx, c)
			case c.IsSet("kube"):
				return a.logsKube(ctx, c)
			}
			dir, cell, err := a.runAndCell(c)
			if err != nil {
				return err
			}
			run, _, err := openRun(dir)
			if err != nil {
				return err
			}
			if c.Bool("follow") {
				if cell != "" {
					return &usage{errors.New("--follow prints the newest launch: remove the cell")}
				}
				return a.follow(ctx, run.Dir)
			}
			paths, err := logPaths(run, cell)
			if err != nil {
				return &usage{err}
			}
			return a.printLogs(paths)
		},
	}
}

// otherLogs refuses flags that another kind of logs has.
func (a *app) otherLogs(c *cli.Command) error {
	needs := map[string][]string{
		"timeline": {"request", "json", "engine"},
		"kube":     {"kube-context", "since", "role", "all", "save", "engine"},
	}
	for _, flag := range []string{"request", "json", "engine", "kube-context", "since", "role", "all", "save"} {
		if !c.IsSet(flag) {
			continue
		}
		var with []string
		for _, kind := range []string{"kube", "timeline"} {
			if slices.Contains(needs[kind], flag) {
				with = append(with, "--"+kind)
			}
		}
		if !slices.ContainsFunc(with, func(kind string) bool { return c.IsSet(kind[2:]) }) {
			return &usage{fmt.Errorf("--%s is only for %s", flag, strings.Join(with, " or "))}
		}
	}
	if c.Bool("follow") && (c.IsSet("kube") || c.Bool("timeline")) {
		return &usage{errors.New("--follow is for a run directory: leave it out")}
	}
	return nil
}

func (a *app) printLogs(paths []string) error {
	for _, path := range paths {
		l, err := openLog(path)
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(a.out, "==> %s <==\n", path)
		if err == nil {
			err = l.print(a.out, true)
		}
		if cerr := l.Close(); err == nil {
			err = cerr
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// longestLine is where a line without an end is broken.
const longestLine = 64 << 10

// A logFile is an engine's log that is printed line by line.
type logFile struct {
	*os.File
	path string
	r    *bufio.Reader
	part []byte // a line that has no end yet
}

func openLog(path string) (*logFile, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	return &logFile{File: f, path: path, r: bufio.NewReaderSize(f, longestLine)}, nil
}

// print prints every line that is whole, and at the log's end what is left.
func (l *logFile) print(w io.Writer, end bool) error {
	for {
		piece, err := l.r.ReadSlice('\n')
		l.part = append(l.part, piece...)
		if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, bufio.ErrBufferFull) {
			return err
		}
		eof := errors.Is(err, io.EOF)
		if whole := !eof || end || len(l.part) >= longestLine; whole && len(l.part) > 0 {
			line := strings.TrimRight(string(l.part), "\r\n")
			l.part = l.part[:0]
			if _, err := fmt.Fprintln(w, plaintext.Line(line)); err != nil {
				return err
			}
		}
		if eof {
			return nil
		}
	}
}

// followEvery is how often a growing log is looked at.
const followEvery = 250 * time.Millisecond

// follow prints the newest log of a run as it grows, and goes on with the next
// launch's, until the run ends.
func (a *app) follow(ctx context.Context, dir string) (err error) {
	ctx, _, stop := signals(ctx, a.say)
	defer stop()
	var current *logFile
	defer func() {
		if current != nil {
			err = errors.Join(err, current.Close())
		}
	}()
	for {
		holder, err := rundir.LockHolder(dir) // before the log: its end is then in it
		if err != nil {
			return err
		}
		newest, err := newestLog(dir)
		if err != nil {
			return err
		}
		if current != nil {
			if err := current.print(a.out, holder == nil || current.path != newest); err != nil {
				return err
			}
		}
		if newest != "" && (current == nil || current.path != newest) {
			if current != nil {
				if err := current.Close(); err != nil {
					return err
				}
				current = nil
			}
			if current, err = openLog(newest); err != nil {
				return err
			}
			if _, err := fmt.Fprintf(a.out, "==> %s <==\n", newest); err != nil {
				return err
			}
			continue
		}
		if holder == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return interrupted(ctx)
		case <-time.After(followEvery):
		}
	}
}

// newestLog returns the log that was begun last; "" for none.
func newestLog(dir string) (string, error) {
	paths, err := launchLogs(dir)
	if err != nil {
		return "", err
	}
	var best string
	var when time.Time
	for _, p := range paths {
		// The folder's time: the log's own changes as long as it is written.
		if st, err := os.Stat(filepath.Dir(p)); err == nil && !st.ModTime().Before(when) {
			best, when = p, st.ModTime()
		}
	}
	return best, nil
}

func launchLogs(dir string) ([]string, error) {
	// Of the folder alone: the characters of its own path are no pattern.
	paths, err := fs.Glob(os.DirFS(dir), layout.AnyServerLog)
	for i, path := range paths {
		paths[i] = filepath.Join(dir, path)
	}
	return paths, err
}
