package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v3"

	"sweep.dev/sweep/internal/layout"
	"sweep.dev/sweep/internal/plaintext"
	"sweep.dev/sweep/report"
	"sweep.dev/sweep/result"
	"sweep.dev/sweep/rundir"
)

// runsFolder is where sweep run makes a directory that -o does not name.
const runsFolder = "runs"

// dirTime is the layout of the time in its name.
const dirTime = "20060102T150405Z"

func (a *app) runsCommand() *cli.Command {
	return &cli.Command{
		Name:      "runs",
		Usage:     "lists the runs of a folder, or says how far one is",
		ArgsUsage: "[FOLDER|DIR]",
		Description: `Lists the run directories of FOLDER, or of runs/, the latest first. The first is the one
that sweep cells, logs and resume take without an argument. Of a run directory DIR it says
how far the run is; it needs no lock and changes nothing. A run with all its trials is
complete, or has some that are INVALID or failed. --watch without an argument is of
the latest run.

  $ sweep runs
  $ sweep runs runs/quickstart-20261121T101500Z-3f2a
  $ sweep runs --watch  # until the run ends, from another terminal` + exitHelp(exitOK, exitUsage, exitInt, exitTerm),
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "watch", Aliases: []string{"w"}, Usage: "go on showing a run until it ends"},
			&cli.BoolFlag{Name: "json", Usage: "print as JSON"},
		},
		OnUsageError: usageError,
		Commands:     []*cli.Command{a.pruneCommand(), a.mergeCommand()},
		Action: func(ctx context.Context, c *cli.Command) error {
			folder, err := folderArg(c)
			if err != nil {
				return err
			}
			if c.Bool("watch") || isRun(folder) {
				return a.oneRun(ctx, c)
			}
			list, err := runsOf(folder)
			if err != nil {
				return &usage{err}
			}
			if c.Bool("json") {
				return a.json().Encode(list)
			}
			return a.runsText(folder, list)
		},
	}
}

// isRun reports whether a folder is a run directory.
func isRun(folder string) bool {
	_, err := os.Stat(filepath.Join(folder, layout.Journal))
	return err == nil
}

// oneRun says how far a run is.
func (a *app) oneRun(ctx context.Context, c *cli.Command) error {
	dir, err := a.runDir(c)
	if err != nil {
		return err
	}
	if c.Bool("watch") {
		if c.Bool("json") {
			return &usage{errors.New("--watch is for people; sweep run --events FILE has what happens as JSON lines")}
		}
		if err := a.watch(ctx, dir); err != nil {
			return err
		}
	}
	return a.status(c, dir)
}

// folderArg returns the folder of runs that a command line names, or runs/.
func folderArg(c *cli.Command) (string, error) {
	switch c.Args().Len() {
	case 0:
		return runsFolder, nil
	case 1:
		return c.Args().First(), nil
	}
	return "", &usage{fmt.Errorf("%s takes at most one folder, got %d arguments (see: %s --help)", c.Name, c.Args().Len(), c.FullName())}
}

// A listedRun is a run directory in a list. Of one that cannot be read nothing but
// the reason is known.
type listedRun struct {
	Dir     string    `json:"dir"`
	RunID   string    `json:"run_id,omitempty"`
	Plan    string    `json:"plan,omitempty"`
	Started time.Time `json:"started,omitzero"`
	Running bool      `json:"running"`
	Trials  *int      `json:"trials"` // planned
	Done    *int      `json:"done"`   // with an outcome
	Invalid *int      `json:"invalid"`
	Failed  *int      `json:"failed"`
	Error   string    `json:"error,omitempty"`
}

// runsOf lists the run directories of a folder, the latest first and those that
// cannot be read last. A folder that does not exist has none.
func runsOf(folder string) ([]listedRun, error) {
	entries, err := os.ReadDir(folder)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	list := []listedRun{}
	for _, e := range entries {
		r := listedRun{Dir: filepath.Join(folder, e.Name())}
		if info, err := os.Stat(r.Dir); err != nil || !info.IsDir() || layout.IsMerging(e.Name()) {
			continue
		}
		holder, lockErr := rundir.LockHolder(r.Dir)
		state, err := rundir.Read(r.Dir)
		switch {
		case errors.Is(err, rundir.ErrNoRun):
			continue
		case errors.Join(err, lockErr) != nil:
			r.Error = errors.Join(err, lockErr).Error()
		default:
			m, done, planned := state.Manifest, len(state.Committed), state.Planned()
			r.RunID, r.Plan, r.Started, r.Running, r.Trials, r.Done = m.RunID, m.Plan, m.CreatedAt, holder != nil, &planned, &done
			r.Invalid, r.Failed = new(int), new(int)
			for _, c := range state.Committed {
				switch c.Status {
				case result.StatusInvalid:
					*r.Invalid++
				case result.StatusFailed:
					*r.Failed++
				}
			}
		}
		list = append(list, r)
	}
	slices.SortStableFunc(list, func(x, y listedRun) int { return y.Started.Compare(x.Started) })
	return list, nil
}

func (a *app) runsText(folder string, list []listedRun) error {
	if len(list) == 0 {
		a.say("no runs in %s", folder)
		return nil
	}
	rows := [][]string{{"STARTED", "STATE", "TRIALS", "DIRECTORY"}}
	for _, r := range list {
		if r.Error != "" {
			rows = append(rows, []string{"-", "unreadable", "-", r.Dir + ": " + r.Error})
			continue
		}
		state := "complete"
		switch {
		case r.Running:
			state = "running"
		case *r.Done < *r.Trials:
			state = "incomplete"
		case *r.Invalid+*r.Failed > 0:
			state = fmt.Sprintf("%d not VALID", *r.Invalid+*r.Failed)
		}
		rows = append(rows, []string{r.Started.Local().Format("2006-01-02 15:04"), state, fmt.Sprintf("%d/%d", *r.Done, *r.Trials), r.Dir})
	}
	page := a.page()
	page.Rows(rows...)
	if err := page.Err(); err != nil {
		return err
	}
	if list[0].Error == "" {
		a.next("sweep runs " + plaintext.Word(list[0].Dir))
	}
	return nil
}

// runDir returns the run directory that a command line names first, else the latest
// under runs/. more is what may follow it.
func (a *app) runDir(c *cli.Command, more ...string) (string, error) {
	if n := c.Args().Len(); n > 1+len(more) {
		most := strings.Join(append([]string{"one run directory"}, more...), " and ")
		return "", &usage{fmt.Errorf("%s takes at most %s, got %d arguments (see: %s --help)", c.Name, most, n, c.FullName())}
	} else if n > 0 {
		return c.Args().First(), nil
	}
	return a.latestRun()
}

// latestRun returns the run directory under runs/ that was begun last.
func (a *app) latestRun() (string, error) {
	list, err := runsOf(runsFolder)
	if err != nil {
		return "", &usage{err}
	}
	if len(list) == 0 || list[0].Error != "" {
		return "", &usage{&hinted{fmt.Errorf("there is no run in %s", runsFolder), "name the run directory, which sweep run printed first"}}
	}
	a.say("latest run %s", list[0].Dir)
	return list[0].Dir, nil
}

// runAndCell returns the run directory and the cell that a command line names: [DIR]
// [CELL]. A single argument that is no path is a cell of the latest run.
func (a *app) runAndCell(c *cli.Command) (dir, cell string, err error) {
	only := c.Args().First()
	if c.Args().Len() != 1 || isPath(only) {
		dir, err = a.runDir(c, "a cell")
		return dir, c.Args().Get(1), err
	}
	if dir, err = a.latestRun(); err != nil {
		return "", "", &usage{&hinted{fmt.Errorf("%q is no directory, and there is no run in %s that could have such a cell", only, runsFolder), "name the run directory, which sweep run printed first"}}
	}
	return dir, only, nil
}

// isPath reports whether an argument names a file, or could only be meant so.
func isPath(arg string) bool {
	_, err := os.Stat(arg)
	return err == nil || strings.HasPrefix(arg, runsFolder+string(os.PathSeparator)) || strings.HasPrefix(arg, ".") || filepath.IsAbs(arg)
}

// openRun reads a run directory, also while a process is at work in it; holder is
// nil if none is.
func openRun(dir string) (_ *report.Run, holder *rundir.Holder, err error) {
	return openRunWith(report.Open, dir)
}

// openRunWith is openRun with report.Open or report.OpenLean.
func openRunWith(open func(string) (*report.Run, error), dir string) (_ *report.Run, holder *rundir.Holder, err error) {
	holder, lockErr := rundir.LockHolder(dir) // first: what a run that has ended wrote last is read then
	run, err := open(dir)
	if err != nil {
		return nil, nil, unreadable(dir, err)
	}
	run.Running = holder != nil
	return run, holder, lockErr
}
