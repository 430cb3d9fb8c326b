package main

import (
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"time"

	"sweep.dev/sweep/internal/layout"
	"sweep.dev/sweep/load"
	"sweep.dev/sweep/rundir"
)

const (
	// shareEvery is how often a run writes its progress for sweep runs --watch.
	shareEvery = time.Second
	// shareStale is the age of a progress that no longer describes what is run.
	shareStale = 10 * time.Second
	// maxShared bounds the bytes that are read of it.
	maxShared = 1 << 20
)

// A runProgress is the file [layout.Progress]: what a run knows of its trials that
// are measured, before their outcomes. It is for people, and only there while it runs.
type runProgress struct {
	Time time.Time    `json:"time"`
	Live []sharedLine `json:"live"`
}

// A sharedLine is one running deployment.
type sharedLine struct {
	Deployment string         `json:"deployment"`
	Trial      rundir.Key     `json:"trial"`
	Step       string         `json:"step"`
	Since      time.Time      `json:"since"`
	Requests   int            `json:"requests,omitempty"` // of the trial; 0 if its time alone ends it
	Progress   *load.Progress `json:"progress,omitempty"`
	Recent     []reading      `json:"recent,omitempty"` // the first and the last of the last seconds
}

// share writes the progress if that is due. Nothing depends on the file, so that its
// errors are dropped: a full disk ends a run elsewhere.
func (u *ui) share(now time.Time) {
	if u.shared == "" || now.Sub(u.wrote) < shareEvery || len(u.view.live) == 0 {
		return
	}
	u.wrote = now
	s := runProgress{Time: now}
	for _, l := range u.view.live {
		line := sharedLine{Deployment: l.deployment, Trial: l.key, Step: l.step, Since: l.since, Progress: l.progress}
		if l.trial != nil {
			line.Requests = l.trial.requests
		}
		if n := len(l.recent); n > 1 {
			line.Recent = []reading{l.recent[0], l.recent[n-1]}
		}
		s.Live = append(s.Live, line)
	}
	b, err := json.Marshal(s)
	if err != nil {
		return
	}
	//nolint:forbidigo // a hint for people: it is rewritten every second, and a crash may lose it
	if os.WriteFile(u.shared+".tmp", b, 0o600) == nil {
		_ = os.Rename(u.shared+".tmp", u.shared) //nolint:forbidigo // "
	}
}

// unshare removes the file.
func (u *ui) unshare() {
	if u.shared != "" {
		_ = os.Remove(u.shared + ".tmp") //nolint:forbidigo // it may not be there, and a crash may leave it
		_ = os.Remove(u.shared)          //nolint:forbidigo // "
	}
}

// readShared returns the progress of the run in a directory, by deployment; nil if there is
// none that is recent.
func readShared(dir string, now time.Time) map[string]sharedLine {
	f, err := os.Open(filepath.Join(dir, layout.Progress))
	if err != nil {
		return nil
	}
	defer f.Close()
	var s runProgress
	if json.NewDecoder(io.LimitReader(f, maxShared)).Decode(&s) != nil || now.Sub(s.Time).Abs() > shareStale {
		return nil
	}
	lines := map[string]sharedLine{}
	for _, l := range s.Live {
		lines[l.Deployment] = l
	}
	return lines
}

// take takes in what the run says of its deployment. What it says of another trial is
// old, or newer than what was read of the run.
func (l *liveLine) take(s sharedLine) {
	if s.Trial != l.key {
		return
	}
	l.step, l.since, l.progress, l.recent = s.Step, s.Since, s.Progress, s.Recent
	if s.Requests > 0 {
		l.trial = &expected{requests: s.Requests}
	}
}
