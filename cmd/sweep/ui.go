package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/urfave/cli/v3"

	"sweep.dev/sweep/executor/event"
	"sweep.dev/sweep/internal/layout"
	"sweep.dev/sweep/internal/plaintext"
	"sweep.dev/sweep/report/conclude"
	"sweep.dev/sweep/result"
	"sweep.dev/sweep/result/col"
)

// This file is the terminal. Its rules are:
//   - stdout is for results, stderr for people.
//   - On a terminal a live line for each deployment and one for money and time,
//     redrawn in place; what has happened scrolls above it. No alternate screen,
//     no raw mode.
//   - Off a terminal, and on a dumb one, one line for what has happened, and a
//     heartbeat if nothing has for a while.
//   - Texts from engines and models lose their control characters.
//   - The reader of our output may be slow, stopped (Ctrl-S, a pager) or gone. A run
//     never waits for that: what it says is queued, and written by a goroutine
//     of its own.
//   - Writing to a closed stream is no reason to stop a run: errors of stderr
//     are dropped here and nowhere else.

const (
	redrawEvery    = 250 * time.Millisecond
	heartbeatEvery = 30 * time.Second
	// maxBacklog is how much may be queued before news of progress, which the
	// next one makes old, is left out. What has happened is always kept.
	maxBacklog = 256
)

// A ui shows one run.
type ui struct {
	out    io.Writer // people
	screen *screen   // where they can be shown live lines, else nil
	events *eventLog // or nil
	paint  func(conclude.Verdict, string) string
	now    func() time.Time
	view   *view
	shared string    // the file for who watches from elsewhere; "" is none
	wrote  time.Time // when it was written

	mu      sync.Mutex
	queue   []news
	stopped bool
	wake    chan struct{}
	quit    chan struct{}
	gone    chan struct{}
	said    time.Time // the last line off a terminal
}

// News is an event, or a line in words.
type news struct {
	event event.Event
	words string
}

func (a *app) newUI(c *cli.Command, j job) (*ui, error) {
	u := &ui{
		out: a.err, paint: a.painter(a.errTTY), now: time.Now, view: newView(j),
		shared: filepath.Join(j.path, layout.Progress),
		wake:   make(chan struct{}, 1), quit: make(chan struct{}), gone: make(chan struct{}),
	}
	if term, _ := a.env("TERM"); a.errTTY && term != "dumb" {
		u.screen = &screen{w: a.err, size: terminalSize}
	}
	switch path := c.String("events"); path {
	case "":
	case "-":
		u.events = &eventLog{w: a.out, close: func() error { return nil }}
	default:
		f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600) //nolint:forbidigo // for the caller, not part of the run
		if err != nil {
			return nil, &usage{fmt.Errorf("--events: %w", err)}
		}
		u.events = &eventLog{w: f, close: f.Close}
	}
	return u, nil
}

// event is the executor's listener. It returns at once.
func (u *ui) event(e event.Event) { u.post(news{event: e}) }

// notice says something about the run that is no event of it. It returns at
// once while the ui is not stopped.
func (u *ui) notice(format string, args ...any) {
	u.post(news{words: fmt.Sprintf(format, args...)})
}

func (u *ui) post(n news) {
	u.mu.Lock()
	defer u.mu.Unlock()
	switch {
	case u.stopped && n.words != "":
		fmt.Fprintln(u.out, n.words)
	case n.event.Type == event.TrialProgress && len(u.queue) > maxBacklog:
	default:
		u.queue = append(u.queue, n)
	}
	select {
	case u.wake <- struct{}{}:
	default: // it will look anyway
	}
}

// start begins to write. stop writes what is queued, takes the live lines off
// the screen and waits for it.
func (u *ui) start() {
	go func() {
		defer close(u.gone)
		tick := time.NewTicker(redrawEvery)
		defer tick.Stop()
		u.said = u.now()
		for {
			select {
			case <-u.quit:
				u.drain()
				return
			case <-u.wake:
				u.drain()
			case <-tick.C:
				u.tick()
			}
		}
	}()
}

func (u *ui) stop() {
	close(u.quit)
	<-u.gone
	u.mu.Lock()
	u.stopped = true
	u.mu.Unlock()
	u.drain() // what came while it ended
	u.unshare()
	u.screen.draw(nil)
	if err := u.events.done(); err != nil {
		fmt.Fprintf(u.out, "sweep: --events: %v\n", err)
	}
}

// drain handles everything that is queued.
func (u *ui) drain() {
	u.mu.Lock()
	list := u.queue
	u.queue = nil
	u.mu.Unlock()
	for _, n := range list {
		u.handle(n)
	}
}

func (u *ui) handle(n news) {
	if n.words != "" {
		u.say(n.words, "")
		return
	}
	if err := u.events.write(n.event); err != nil {
		u.say(fmt.Sprintf("sweep: --events: %v; nothing more is written to it", err), "")
	}
	text, verdict := words(n.event, u.view)
	u.view.follow(n.event, u.now())
	if text != "" {
		u.say(text, verdict)
	}
}

// tick redraws the live lines, or ends a silence that has been long.
func (u *ui) tick() {
	now := u.now()
	u.share(now)
	switch {
	case u.screen != nil:
		width, _ := u.screen.size()
		u.screen.draw(u.view.frame(now, width))
	case now.Sub(u.said) >= heartbeatEvery:
		for _, line := range u.view.heartbeat(now) {
			u.say(line, "")
		}
		u.said = now
	}
}

// say prints a line, above the live ones.
func (u *ui) say(text string, v conclude.Verdict) {
	text = plaintext.Line(text)
	width := 0
	if u.screen != nil {
		width, _ = u.screen.size()
		text = wrap(text, width)
	}
	if u.paint != nil && v != "" {
		text = u.paint(v, text)
	}
	now := u.now()
	if u.screen != nil {
		u.screen.say(text, u.view.frame(now, width))
		return
	}
	u.said = now
	fmt.Fprintln(u.out, text)
}

// words returns an event as a line for people, with its verdict where that is worth
// a colour; "" for what only a live line shows.
func words(e event.Event, v *view) (string, conclude.Verdict) {
	switch e.Type {
	case event.RunStarted:
		if e.Done > 0 {
			return fmt.Sprintf("%d of %d trials are committed already", e.Done, e.Total), ""
		}
		if e.Total == 1 {
			return "1 trial", ""
		}
		return strings.TrimSpace(fmt.Sprintf("%d trials %s", e.Total, e.Text)), ""
	case event.StepStarted:
		if e.Cell == "" && e.Step == "launch" {
			return fmt.Sprintf("%s: launch %d", e.Label, e.Launch), ""
		}
	case event.ServerReady:
		return fmt.Sprintf("%s: %s", e.Label, e.Text), ""
	case event.LaunchFailed:
		return fmt.Sprintf("%s: did not start: %s: %s", e.Label, e.Class, e.Error), conclude.NoStart
	case event.ServerDied:
		return fmt.Sprintf("%s: the server died: %s: %s", e.Label, e.Class, e.Error), conclude.FailedRun
	case event.TrialDiscarded:
		return fmt.Sprintf("%s: attempt %d discarded: %s", e.Label, e.Attempt, e.Text), ""
	case event.Notice:
		return e.Text, ""
	case event.PodKept:
		return fmt.Sprintf("%s: kept: %s", e.Label, e.Text), ""
	case event.TrialCommitted:
		text, verdict := outcomeWords(e, v.refused[e.Deployment])
		return fmt.Sprintf("[%d/%d] %s", e.Done, e.Total, text), verdict
	case event.DeploymentStopped:
		if l := v.line(e.Deployment); l != nil && e.Status == "" {
			return l.name + ": stopped", ""
		}
	}
	return "", ""
}

// outcomeWords returns a trial's outcome; refused is why its server did not start,
// which has been said.
func outcomeWords(e event.Event, refused string) (string, conclude.Verdict) {
	label := e.Label
	if e.Trial > 1 {
		label += fmt.Sprintf(", trial %d", e.Trial)
	}
	if e.Status == result.StatusFailed {
		if hint, ok := strings.CutPrefix(e.Error, refused); ok && refused != "" {
			return fmt.Sprintf("%s: failed: %s%s", label, e.Class, hint), conclude.FailedRun
		}
		return fmt.Sprintf("%s: failed: %s: %s", label, e.Class, e.Error), conclude.FailedRun
	}
	if e.Status == result.StatusSkipped {
		return label + ": " + e.Error, conclude.Skipped
	}
	text := label + ": " + conclude.Headline(e.Row)
	switch verdict := conclude.Judge(conclude.Trial{Outcome: e.Outcome}); verdict {
	case conclude.Invalid:
		return text + fmt.Sprintf(", INVALID (%v)", e.Row[col.InvalidReasons]), verdict
	case conclude.Undecided:
		return text + ", SLO undecided", verdict
	case conclude.Missed, conclude.Unstable:
		return text + ", " + string(verdict), verdict
	}
	return text, ""
}

// An eventLog writes events as JSON lines. A nil one writes none.
type eventLog struct {
	w     io.Writer
	close func() error
	ended bool
}

// write returns the first error alone, and none where the reader just left.
func (l *eventLog) write(e event.Event) error {
	if l == nil || l.ended {
		return nil
	}
	b, err := json.Marshal(e)
	if err != nil {
		return err
	}
	if _, err = plaintext.JSON(l.w).Write(append(b, '\n')); err == nil {
		return nil
	}
	l.ended = true
	if errors.Is(err, syscall.EPIPE) {
		return nil
	}
	return err
}

func (l *eventLog) done() error {
	if l == nil {
		return nil
	}
	return l.close()
}

// painter colours by verdict where a person is watching and wants colour.
func (a *app) painter(tty bool) func(conclude.Verdict, string) string {
	if !tty || !a.color() {
		return nil
	}
	codes := map[conclude.Verdict]string{
		conclude.SweetSpot: "1;32", conclude.Acceptable: "32", conclude.Unstable: "33", conclude.Undecided: "33", conclude.Missed: "35",
		conclude.Invalid: "1;31", conclude.NoStart: "31", conclude.FailedRun: "31", conclude.Pending: "2",
	}
	return func(v conclude.Verdict, s string) string { return "\x1b[" + codes[v] + "m" + s + "\x1b[0m" }
}
