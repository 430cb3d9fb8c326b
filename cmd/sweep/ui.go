package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/urfave/cli/v3"

	"sweep.dev/sweep/executor"
	"sweep.dev/sweep/report"
	"sweep.dev/sweep/result"
)

// This file is the terminal. Its rules are:
//   - stdout is for results, stderr for people.
//   - On a terminal one live line for each deployment, redrawn in place; what
//     has happened scrolls above it. No alternate screen, no raw mode.
//   - Off a terminal one line for each event, and a heartbeat.
//   - Texts from engines and models lose their control characters.
//   - Writing to a closed stream is no reason to stop a run: errors of stderr
//     are dropped here and nowhere else.

const (
	redrawEvery    = 250 * time.Millisecond
	heartbeatEvery = 30 * time.Second
)

// A ui shows one run.
type ui struct {
	out    io.Writer // people
	events io.Writer // JSON lines, or nil
	close  func() error
	tty    bool
	paint  func(report.Verdict, string) string

	mu      sync.Mutex
	lines   []*liveLine // one for each running deployment, oldest first
	drawn   int         // lines on the screen that are ours to redraw
	started time.Time
	done    int
	before  int
	total   int
	quit    chan struct{}
	gone    chan struct{}
}

// A liveLine is a running deployment on a terminal.
type liveLine struct {
	deployment string
	name       string
	text       string
}

func (a *app) newUI(c *cli.Command, dir string) (*ui, error) {
	u := &ui{out: a.err, tty: a.errTTY, paint: a.painter(a.errTTY), close: func() error { return nil },
		started: time.Now(), quit: make(chan struct{}), gone: make(chan struct{})}
	switch path := c.String("events"); path {
	case "":
	case "-":
		u.events = a.out
	default:
		f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644) //nolint:forbidigo // for the caller, not part of the run
		if err != nil {
			return nil, &usage{fmt.Errorf("--events: %w", err)}
		}
		u.events, u.close = f, f.Close
	}
	u.say("run directory %s", dir)
	return u, nil
}

// start begins redrawing and the heartbeat; stop ends them and waits.
func (u *ui) start() {
	every := heartbeatEvery
	if u.tty {
		every = redrawEvery
	}
	go func() {
		defer close(u.gone)
		tick := time.NewTicker(every)
		defer tick.Stop()
		for {
			select {
			case <-u.quit:
				return
			case <-tick.C:
				u.mu.Lock()
				if u.tty {
					u.redraw()
				} else {
					u.heartbeat()
				}
				u.mu.Unlock()
			}
		}
	}()
}

func (u *ui) stop() {
	close(u.quit)
	<-u.gone
	u.mu.Lock()
	defer u.mu.Unlock()
	u.erase()
	u.lines = nil
	if err := u.close(); err != nil {
		fmt.Fprintf(u.out, "sweep: --events: %v\n", err)
	}
}

// event is the executor's listener.
func (u *ui) event(e executor.Event) {
	if u.events != nil {
		if b, err := json.Marshal(e); err == nil {
			u.events.Write(append(b, '\n')) //nolint:errcheck // a reader that left must not stop the run
		}
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if e.Total > 0 && e.Type != executor.DeploymentStarted {
		u.total = e.Total
		u.done = e.Done
	}
	u.follow(e)
	if text := u.words(e); text != "" {
		u.say("%s", text)
	}
}

// words is an event as a line for people; "" for what only the live line shows.
func (u *ui) words(e executor.Event) string {
	switch e.Type {
	case executor.RunStarted:
		u.before = e.Done
		if e.Done > 0 {
			return fmt.Sprintf("%d of %d trials are committed already", e.Done, e.Total)
		}
		return fmt.Sprintf("%d trials", e.Total)
	case executor.StepStarted:
		if e.Cell == "" && e.Step == "launch" {
			return fmt.Sprintf("%s: launch %d", e.Label, e.Launch)
		}
	case executor.ServerReady:
		return fmt.Sprintf("%s: %s", e.Label, e.Text)
	case executor.LaunchFailed:
		return fmt.Sprintf("%s: did not start: %s: %s", e.Label, e.Class, e.Error)
	case executor.ServerDied:
		return fmt.Sprintf("%s: the server died: %s: %s", e.Label, e.Class, e.Error)
	case executor.TrialDiscarded:
		return fmt.Sprintf("%s: attempt %d discarded: %s", e.Label, e.Attempt, e.Text)
	case executor.Notice:
		return e.Text
	case executor.TrialCommitted:
		return fmt.Sprintf("[%d/%d] %s", e.Done, e.Total, outcomeWords(e))
	}
	return ""
}

func outcomeWords(e executor.Event) string {
	if e.Status == result.StatusFailed {
		return fmt.Sprintf("%s: failed: %s: %s", e.Label, e.Class, e.Error)
	}
	text := fmt.Sprintf("%s: %s tok/s, p95 TTFT %s ms, p95 TPOT %s ms", e.Label,
		report.Figure(e.Row["throughput_tok_s"]), report.Figure(e.Row["p95_ttft_ms"]), report.Figure(e.Row["p95_tpot_ms"]))
	switch {
	case e.Status == result.StatusInvalid:
		text += fmt.Sprintf(", INVALID (%v)", e.Row["invalid_reasons"])
	case e.Row["slo_pass"] == false:
		text += ", SLO failed"
	}
	return text
}

// follow keeps the live lines up to date.
func (u *ui) follow(e executor.Event) {
	switch e.Type {
	case executor.DeploymentStarted:
		u.lines = append(u.lines, &liveLine{deployment: e.Deployment, name: e.Label})
	case executor.DeploymentStopped:
		for i, l := range u.lines {
			if l.deployment == e.Deployment {
				u.lines = append(u.lines[:i], u.lines[i+1:]...)
				break
			}
		}
	case executor.StepStarted:
		if l := u.line(e.Deployment); l != nil {
			l.text = e.Label + ": " + e.Step
		}
	case executor.TrialProgress:
		if l := u.line(e.Deployment); l != nil {
			p := e.Progress
			l.text = fmt.Sprintf("%s: %d done, %d in flight, %d failed, %d tokens", e.Label, p.Done, p.InFlight, p.Failed, p.OutputTokens)
		}
	}
}

func (u *ui) line(deployment string) *liveLine {
	for _, l := range u.lines {
		if l.deployment == deployment {
			return l
		}
	}
	return nil
}

// say prints a line above the live ones.
func (u *ui) say(format string, args ...any) {
	u.erase()
	fmt.Fprintln(u.out, report.Printable(fmt.Sprintf(format, args...)))
	if u.tty {
		u.redraw()
	}
}

func (u *ui) erase() {
	if u.drawn > 0 {
		fmt.Fprintf(u.out, "\x1b[%dA\x1b[J", u.drawn)
		u.drawn = 0
	}
}

func (u *ui) redraw() {
	u.erase()
	width := terminalWidth()
	for _, l := range u.lines {
		fmt.Fprintln(u.out, cut(fmt.Sprintf("  %s %s", u.progress(), report.Printable(l.text)), width))
		u.drawn++
	}
}

func (u *ui) heartbeat() {
	for _, l := range u.lines {
		fmt.Fprintf(u.out, "%s %s\n", u.progress(), report.Printable(l.text))
	}
}

// progress is how far the run is, and when it may end: the time that trials
// have taken until now goes on.
func (u *ui) progress() string {
	text := fmt.Sprintf("[%d/%d]", u.done, u.total)
	if here := u.done - u.before; here > 0 && u.done < u.total {
		left := time.Since(u.started) / time.Duration(here) * time.Duration(u.total-u.done)
		text += fmt.Sprintf(" ETA %s", left.Round(time.Second))
	}
	return text
}

// cut shortens a line to the terminal, which would wrap it and spoil the redraw.
func cut(s string, width int) string {
	r := []rune(s)
	if width <= 1 || len(r) < width {
		return s
	}
	return strings.TrimRight(string(r[:width-2]), " ") + "…"
}

// painter colours by verdict where a person is watching and wants colour.
func (a *app) painter(tty bool) func(report.Verdict, string) string {
	if !tty || !a.color() {
		return nil
	}
	codes := map[report.Verdict]string{
		report.SweetSpot: "1;32", report.Acceptable: "32", report.Unstable: "33",
		report.Missed: "35", report.Invalid: "1;31", report.FailedRun: "31", report.Pending: "2",
	}
	return func(v report.Verdict, s string) string { return "\x1b[" + codes[v] + "m" + s + "\x1b[0m" }
}
