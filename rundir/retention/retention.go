// Package retention decides which run directories of a folder are old, and removes them.
// It never removes a run that is at work or owes a pod, one that cannot be read, or one
// that is named as a baseline.
package retention

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"sweep.dev/sweep/internal/effect"
	"sweep.dev/sweep/internal/humanize"
	"sweep.dev/sweep/internal/layout"
	"sweep.dev/sweep/rundir"
)

// A Run is a run directory of a folder.
type Run struct {
	Dir     string    `json:"dir"`
	Plan    string    `json:"plan,omitempty"`
	Started time.Time `json:"started,omitzero"`
	Bytes   int64     `json:"bytes"`
	Remove  bool      `json:"remove"`
	Why     string    `json:"why"`
	Removed bool      `json:"removed"`
	Error   string    `json:"error,omitempty"`

	state *rundir.State
}

// prefix is of a folder that is being removed. A crash may leave one.
const prefix = ".pruned-"

// Decide looks at the run directories of a folder and decides about each, the latest
// first: keep of each plan stay. Baselines are run directories that stay whatever their
// age.
func Decide(folder string, keep int, baselines []string) ([]Run, error) {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return nil, err
	}
	var named []os.FileInfo
	for _, path := range baselines {
		info, err := os.Stat(path)
		if err != nil {
			return nil, fmt.Errorf("baseline: %w", err)
		}
		named = append(named, info)
	}
	var runs []Run
	for _, e := range entries {
		r := Run{Dir: filepath.Join(folder, e.Name())}
		if !e.IsDir() { // nor what a link leads to
			continue
		}
		if len(e.Name()) > len(prefix) && e.Name()[:len(prefix)] == prefix {
			r.Remove, r.Why, r.Bytes = true, "left by a prune that did not come to its end", size(r.Dir)
			runs = append(runs, r)
			continue
		}
		if holder, err := rundir.LockHolder(r.Dir); layout.IsMerging(e.Name()) && err == nil && holder == nil {
			r.Remove, r.Why, r.Bytes = true, "left by a merge that did not come to its end", size(r.Dir)
			runs = append(runs, r)
			continue
		}
		state, err := rundir.Read(r.Dir)
		if errors.Is(err, rundir.ErrNoRun) {
			continue
		}
		if err != nil {
			r.Why = "stays: " + err.Error()
		} else {
			r.Plan, r.Started, r.state = state.Manifest.Plan, state.Manifest.CreatedAt, state
			r.Why = needed(r.Dir, state)
		}
		info, err := e.Info()
		if err == nil && slices.ContainsFunc(named, func(b os.FileInfo) bool { return os.SameFile(b, info) }) {
			r.Why = "stays: a baseline"
		}
		runs = append(runs, r)
	}
	slices.SortStableFunc(runs, func(a, b Run) int { return b.Started.Compare(a.Started) })
	kept := map[string]int{}
	for i := range runs {
		r := &runs[i]
		if r.state == nil {
			continue
		}
		kept[r.Plan]++
		switch {
		case kept[r.Plan] <= keep:
			r.Why = fmt.Sprintf("stays: one of the %d latest of its plan", keep)
		case r.Why == "":
			r.Remove, r.Why = true, fmt.Sprintf("older than the %d latest of its plan", keep)
		}
		if r.Remove {
			r.Bytes = size(r.Dir)
		}
	}
	return runs, nil
}

// needed says why a run of any age stays; "" if it need not.
func needed(dir string, state *rundir.State) string {
	holder, err := rundir.LockHolder(dir)
	switch {
	case err != nil:
		return "stays: " + err.Error()
	case holder != nil:
		return fmt.Sprintf("stays: locked by process %d on %s", holder.PID, holder.Host)
	}
	return owing(state)
}

// owing returns the reason to keep a run that owes pods; "" if it owes none.
func owing(state *rundir.State) string {
	if len(state.Owed) == 0 {
		return ""
	}
	return fmt.Sprintf("stays: it owes %s (sweep gc)", humanize.Plural(len(state.Owed), "pod"))
}

// size returns how many bytes the files of a folder have; what cannot be seen counts nothing.
func size(dir string) (bytes int64) {
	_ = filepath.WalkDir(dir, func(_ string, e os.DirEntry, err error) error {
		if err == nil && e.Type().IsRegular() {
			if info, err := e.Info(); err == nil {
				bytes += info.Size()
			}
		}
		return nil
	})
	return bytes
}

// Remove removes a run that is to go, unless it has come to be needed meanwhile: it is
// locked until it is out of sight.
func Remove(fx *effect.Effects, r Run) error {
	gone := r.Dir
	if r.state != nil {
		d, state, err := rundir.Open(fx, r.Dir)
		if err != nil {
			return err
		}
		if why := owing(state); why != "" {
			return errors.Join(errors.New(why), d.Close())
		}
		// Out of sight at once: half of a run must not look like one.
		gone = filepath.Join(filepath.Dir(r.Dir), prefix+filepath.Base(r.Dir))
		if err := errors.Join(fx.Rename(effect.PruneRename, r.Dir, gone), d.Close()); err != nil {
			return err
		}
	}
	return fx.RemoveAll(effect.PruneRemove, gone)
}
