package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"sweep.dev/sweep/executor/event"
	"sweep.dev/sweep/load"
	"sweep.dev/sweep/report/conclude"
	"sweep.dev/sweep/result"
	"sweep.dev/sweep/rundir"
)

// A glass is a terminal: it knows what we write to one, and nothing else.
type glass struct {
	t        *testing.T
	width    int
	height   int
	rows     [][]rune // all that was ever there, the last height of them shown
	row, col int
}

func (g *glass) size() (columns, rows int) { return g.width, g.height }

func (g *glass) Write(b []byte) (int, error) {
	for s := []rune(string(b)); len(s) > 0; {
		var n int
		var final rune
		if c, err := fmt.Sscanf(string(s), "\x1b[%d%c", &n, &final); c == 2 && err == nil {
			if final == 'A' {
				if top := max(0, len(g.rows)-g.height); g.row-n < top {
					g.t.Errorf("the cursor goes above the terminal's top: %d up from row %d", n, g.row-top)
				}
				g.row -= n
			} else if final != 'm' {
				g.t.Errorf("an unknown sequence %q", string(s))
			}
			s = s[len(fmt.Sprintf("\x1b[%d%c", n, final)):]
			continue
		}
		switch {
		case strings.HasPrefix(string(s), "\x1b[J"):
			g.rows = g.rows[:g.row+1]
			g.rows[g.row] = g.rows[g.row][:min(g.col, len(g.rows[g.row]))]
			s = s[3:]
			continue
		case s[0] == '\r':
			g.col = 0
		case s[0] == '\n':
			g.row, g.col = g.row+1, 0
		default:
			if g.col == g.width {
				g.row, g.col = g.row+1, 0
			}
			g.at(g.row)
			for len(g.rows[g.row]) <= g.col {
				g.rows[g.row] = append(g.rows[g.row], ' ')
			}
			g.rows[g.row][g.col] = s[0]
			g.col++
		}
		g.at(g.row)
		s = s[1:]
	}
	return len(b), nil
}

func (g *glass) at(row int) {
	for len(g.rows) <= row {
		g.rows = append(g.rows, nil)
	}
}

// resize is what a terminal does that wraps its lines anew.
func (g *glass) resize(width int) {
	old := g.rows[:g.row]
	g.rows, g.row, g.col, g.width = nil, 0, 0, width
	for _, line := range old {
		fmt.Fprintln(g, string(line))
	}
}

func (g *glass) String() string {
	var b strings.Builder
	for _, row := range g.rows {
		b.WriteString(strings.TrimRight(string(row), " ") + "\n")
	}
	return strings.TrimRight(b.String(), "\n") + "\n"
}

var epoch = time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC)

// A clock is set by the test.
type clock struct{ t time.Time }

func (c *clock) now() time.Time         { return c.t }
func (c *clock) pass(d time.Duration)   { c.t = c.t.Add(d) }
func (c *clock) at(s float64) time.Time { return epoch.Add(time.Duration(s * float64(time.Second))) }

// twoDeployments returns a view of two servers with two trials of 24 requests each,
// of which the plan thinks that they take ten seconds.
func twoDeployments() *view {
	v := &view{plan: "p", lanes: map[string]*lane{}, trials: map[rundir.Key]*expected{}, deployments: map[string]*forecast{"d1": {total: 2, left: 20}, "d2": {total: 2, left: 20}}, refused: map[string]string{}}
	for _, cell := range []string{"a", "b", "c", "d"} {
		v.trials[rundir.Key{Cell: cell, Trial: 1}] = &expected{seconds: 10, requests: 24}
	}
	v.run = forecast{total: 4, left: 40}
	v.lanes["d1"] = &lane{cells: []string{"a", "b"}, marks: map[string]string{}}
	v.lanes["d2"] = &lane{cells: []string{"c", "d"}, marks: map[string]string{}}
	return v
}

func onTerminal(t *testing.T, width, height int) (*ui, *glass, *clock) {
	g := &glass{t: t, width: width, height: height}
	c := &clock{epoch}
	u := &ui{
		out: g, screen: &screen{w: g, size: g.size}, now: c.now, view: twoDeployments(),
		wake: make(chan struct{}, 1), quit: make(chan struct{}), gone: make(chan struct{}),
	}
	return u, g, c
}

// feed handles events as the goroutine of a ui does.
func feed(u *ui, events ...event.Event) {
	for _, e := range events {
		u.event(e)
	}
	u.drain()
}

func progress(at time.Time, done, tokens int) event.Event {
	return event.Event{
		Type: event.TrialProgress, Time: at, Deployment: "d1", Cell: "a", Trial: 1, Label: "vllm l4 concurrency=4",
		Progress: &load.Progress{Sent: done + 4, Done: done, InFlight: 4, OutputTokens: tokens},
	}
}

var (
	runStarted = event.Event{Type: event.RunStarted, Total: 4}
	d1Started  = event.Event{Type: event.DeploymentStarted, Deployment: "d1", Label: "vllm l4"}
	d1Measures = event.Event{Type: event.StepStarted, Deployment: "d1", Cell: "a", Trial: 1, Step: "measure", Label: "vllm l4 concurrency=4"}
	d2Started  = event.Event{Type: event.DeploymentStarted, Deployment: "d2", Label: "sglang l4"}
	committed  = event.Event{
		Type: event.TrialCommitted, Deployment: "d1", Cell: "a", Trial: 1, Label: "vllm l4 concurrency=4",
		Status: "ok", Done: 1, Total: 4, Outcome: &result.Outcome{Row: result.Row{"status": "ok"}},
		Row: map[string]any{"throughput_tok_s": 319.4, "p95_ttft_ms": 40.7, "p95_tpot_ms": 12.3, "low_confidence": "p95_ttft_ms", "completed": int64(24), "plateau_requests": int64(24)},
	}
)

func want(t *testing.T, what, got, want string) {
	t.Helper()
	if diff := cmp.Diff(strings.TrimLeft(want, "\n"), got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

// TestUI_live holds what stands on a terminal, from the first event to the last.
func TestUI_live(t *testing.T) {
	t.Parallel()
	u, g, c := onTerminal(t, 80, 24)
	u.notice("run directory runs/x")
	feed(u, runStarted, d1Started, d1Measures)
	c.pass(5 * time.Second)
	feed(u, progress(c.at(4), 4, 1000), progress(c.at(5), 8, 1320))
	feed(u, d2Started)
	u.tick()
	want(t, "while it runs", g.String(), `
run directory runs/x
4 trials
p  0/4  vllm l4 [..]  c=4  320 tok/s  8/24 requests  4 in flight
        sglang l4 [..]  starting
        40s to go
`)
	c.pass(3 * time.Second)
	feed(u, committed)
	want(t, "after a trial", g.String(), `
run directory runs/x
4 trials
[1/4] vllm l4 concurrency=4: 319 tok/s, p95 TTFT 40.7 ms, p95 TPOT 12.3 ms (24
    requests)
p  1/4  vllm l4 [+.]  c=4  measure 8s
        sglang l4 [..]  starting 3s
        26s to go
`)
	feed(u, event.Event{Type: event.DeploymentStopped, Deployment: "d1"}, event.Event{Type: event.DeploymentStopped, Deployment: "d2"})
	u.start()
	u.stop()
	want(t, "at the end", g.String(), `
run directory runs/x
4 trials
[1/4] vllm l4 concurrency=4: 319 tok/s, p95 TTFT 40.7 ms, p95 TPOT 12.3 ms (24
    requests)
vllm l4: stopped
sglang l4: stopped
`)
}

// TestUI_interrupted holds that the ^C that a terminal writes by itself, and
// what is said of the signal, leave nothing behind.
func TestUI_interrupted(t *testing.T) {
	t.Parallel()
	u, g, _ := onTerminal(t, 80, 24)
	feed(u, runStarted, d1Started, d1Measures)
	u.tick()
	io.WriteString(g, "^C")
	u.notice("sweep: interrupted by SIGINT: stopping")
	u.drain()
	u.screen.draw(nil)
	want(t, "the terminal", g.String(), "4 trials\nsweep: interrupted by SIGINT: stopping\n")
}

// TestUI_resized holds that lines which the terminal has wrapped are all taken
// off again.
func TestUI_resized(t *testing.T) {
	t.Parallel()
	u, g, c := onTerminal(t, 80, 24)
	feed(u, runStarted, d1Started, d1Measures, progress(c.at(0), 4, 1000), progress(c.at(1), 8, 1320))
	u.tick()
	for _, width := range []int{40, 30, 100} {
		g.resize(width)
		u.tick()
		for _, line := range g.rows {
			if len(line) >= width {
				t.Errorf("at %d columns a line has %d: %q", width, len(line), string(line))
			}
		}
	}
	u.screen.draw(nil)
	want(t, "the terminal", g.String(), "4 trials\n")
}

// TestUI_lowTerminal holds that no more is drawn than can be taken off again.
func TestUI_lowTerminal(t *testing.T) {
	t.Parallel()
	u, g, _ := onTerminal(t, 60, 4)
	feed(u, runStarted)
	for i := range 20 {
		feed(u, event.Event{Type: event.DeploymentStarted, Deployment: fmt.Sprint(i), Label: fmt.Sprint("server ", i)})
	}
	u.tick()
	if got := g.String(); !strings.Contains(got, "... and 19 more") {
		t.Errorf("the terminal has\n%s", got)
	}
	u.screen.draw(nil)
	want(t, "the terminal", g.String(), "4 trials\n")
}

// TestUI_piped holds one line for what has happened, and a heartbeat in a
// silence of half a minute.
func TestUI_piped(t *testing.T) {
	t.Parallel()
	u, _, c := onTerminal(t, 80, 24)
	var out bytes.Buffer
	u.out, u.screen, u.said = &out, nil, epoch
	feed(u, runStarted, d1Started, event.Event{Type: event.StepStarted, Deployment: "d1", Launch: 1, Step: "launch", Label: "vllm l4"})
	feed(u,
		event.Event{Type: event.StepStarted, Deployment: "d1", Step: "ready", Label: "vllm l4"},
		event.Event{Type: event.Waiting, Deployment: "d1", Step: "ready", Label: "vllm l4", Text: "connection refused"},
		event.Event{Type: event.Waiting, Deployment: "d1", Step: "ready", Label: "vllm l4", Text: "GET /health answered 503"})
	c.pass(29 * time.Second)
	u.tick()
	c.pass(time.Second)
	u.tick()
	feed(u, event.Event{Type: event.LaunchFailed, Deployment: "d1", Label: "vllm l4", Class: "oom.weights", Error: "CUDA\x1b[31m out of\r\nmemory"})
	c.pass(25 * time.Second)
	feed(u, d1Measures)
	c.pass(4 * time.Second)
	u.tick()
	c.pass(time.Second)
	feed(u, progress(c.at(58), 4, 1000), progress(c.at(60), 8, 1600))
	u.tick()
	c.pass(time.Second)
	u.tick()
	want(t, "stderr", out.String(), `
4 trials
vllm l4: launch 1
  [0/2] ETA 20s  vllm l4: ready 30s, last answer: GET /health answered 503
  [0/4] ETA 40s in all
vllm l4: did not start: oom.weights: CUDA out of  memory
  [0/2] ETA 20s  vllm l4 concurrency=4: 300 tok/s, 8/24 requests, 4 in flight
  [0/4] ETA 44s in all
`)
}

// TestUI_words holds the lines of everything that can happen to a trial.
func TestUI_words(t *testing.T) {
	t.Parallel()
	row := map[string]any{"throughput_tok_s": 10.0, "p95_ttft_ms": 1.0, "p95_tpot_ms": 2.0}
	with := func(name string, v any) map[string]any {
		r := maps.Clone(row)
		r[name] = v
		return r
	}
	of := func(status string, row result.Row, objectives ...result.SLOResult) event.Event {
		row = maps.Clone(row)
		row["status"] = status
		return event.Event{
			Type: event.TrialCommitted, Label: "c", Status: status, Row: row,
			Outcome: &result.Outcome{Row: row, SLOs: objectives},
		}
	}
	for _, c := range []struct {
		e       event.Event
		text    string
		verdict conclude.Verdict
	}{
		{event.Event{Type: event.RunStarted, Total: 1}, "1 trial", ""},
		{event.Event{Type: event.RunStarted, Done: 3, Total: 4}, "3 of 4 trials are committed already", ""},
		{event.Event{Type: event.TrialCommitted, Label: "c", Trial: 2, Status: "ok", Row: row, Done: 1, Total: 2}, "[1/2] c, trial 2: 10 tok/s, p95 TTFT 1 ms, p95 TPOT 2 ms", ""},
		{
			of("invalid", with("invalid_reasons", "client_cpu")),
			"[0/0] c: 10 tok/s, p95 TTFT 1 ms, p95 TPOT 2 ms, INVALID (client_cpu)", conclude.Invalid,
		},
		{of("ok", row, result.SLOResult{Verdict: result.SLOFail}), "[0/0] c: 10 tok/s, p95 TTFT 1 ms, p95 TPOT 2 ms, SLO failed", conclude.Missed},
		{of("ok", row, result.SLOResult{Verdict: result.SLOUndecided}), "[0/0] c: 10 tok/s, p95 TTFT 1 ms, p95 TPOT 2 ms, SLO undecided", conclude.Undecided},
		{of("ok", with("ended_by", "saturated")), "[0/0] c: 10 tok/s, p95 TTFT 1 ms, p95 TPOT 2 ms, unstable", conclude.Unstable},
		{event.Event{Type: event.TrialCommitted, Label: "c", Status: "failed", Class: "signal", Error: "killed"}, "[0/0] c: failed: signal: killed", conclude.FailedRun},
		{event.Event{Type: event.TrialCommitted, Label: "c", Status: "skipped", Error: "not run: why"}, "[0/0] c: not run: why", conclude.Skipped},
		{
			event.Event{Type: event.TrialCommitted, Deployment: "refused", Label: "c", Status: "failed", Class: "oom.kv", Error: "a long story (a hint)"},
			"[0/0] c: failed: oom.kv (a hint)", conclude.FailedRun,
		},
		{event.Event{Type: event.ServerDied, Label: "s", Class: "exit", Error: "exit 1"}, "s: the server died: exit: exit 1", conclude.FailedRun},
		{event.Event{Type: event.TrialDiscarded, Label: "c", Attempt: 1, Text: "why"}, "c: attempt 1 discarded: why", ""},
		{event.Event{Type: event.StepStarted, Cell: "a", Step: "measure", Label: "c"}, "", ""},
	} {
		text, verdict := words(c.e, &view{refused: map[string]string{"refused": "a long story"}})
		if text != c.text || verdict != c.verdict {
			t.Errorf("%s: %q, %q; want %q, %q", c.e.Type, text, verdict, c.text, c.verdict)
		}
	}
}

// A stuck reader takes nothing until it is let go.
type stuck struct {
	release chan struct{}
	bytes.Buffer
}

func (s *stuck) Write(b []byte) (int, error) {
	<-s.release
	return s.Buffer.Write(b)
}

// TestUI_stuckReader holds that a stopped terminal or pager stops no run, and
// that nothing but news of progress is lost by it.
func TestUI_stuckReader(t *testing.T) {
	t.Parallel()
	u, _, c := onTerminal(t, 80, 24)
	out := &stuck{release: make(chan struct{})}
	u.out, u.screen = out, nil
	u.start()
	u.event(runStarted)
	u.event(d1Started)
	u.event(d1Measures)
	for i := range 100_000 { // would not come to its end if it waited
		u.event(progress(c.at(0), i, i))
	}
	u.mu.Lock()
	n := len(u.queue)
	u.mu.Unlock()
	if n > maxBacklog+3 {
		t.Errorf("%d events are queued, want %d at most", n, maxBacklog+3)
	}
	u.event(committed)
	close(out.release)
	u.stop()
	if got := out.String(); !strings.HasPrefix(got, "4 trials\n") || !strings.Contains(got, "[1/4] vllm l4") {
		t.Errorf("what was said:\n%s", got)
	}
	u.notice("after the end")
	if got := out.String(); !strings.HasSuffix(got, "after the end\n") {
		t.Errorf("a notice after the end is lost:\n%s", got)
	}
}

// failing is a writer that fails.
type failing struct{ err error }

func (f failing) Write([]byte) (int, error) { return 0, f.err }

// TestEventLog holds that a full disk is told once, and a reader that left not
// at all; neither stops anything.
func TestEventLog(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		err  error
		want string
	}{
		{syscall.ENOSPC, "4 trials\nsweep: --events: no space left on device; nothing more is written to it\n"},
		{fmt.Errorf("write: %w", syscall.EPIPE), "4 trials\n"},
	} {
		u, _, _ := onTerminal(t, 80, 24)
		var out bytes.Buffer
		u.out, u.screen = &out, nil
		u.events = &eventLog{w: failing{c.err}, close: func() error { return nil }}
		feed(u, runStarted, d1Started, d1Measures)
		got := strings.Split(strings.TrimSpace(out.String()), "\n")
		slices.Sort(got)
		if all := strings.Join(got, "\n") + "\n"; all != c.want {
			t.Errorf("%v: %q, want %q", c.err, all, c.want)
		}
	}
	if err := (*eventLog)(nil).write(runStarted); err != nil {
		t.Error(err)
	}
	broken := errors.New("broken")
	if err := (&eventLog{close: func() error { return broken }}).done(); !errors.Is(err, broken) {
		t.Errorf("closing says %v, want %v", err, broken)
	}
}

func TestForecast(t *testing.T) {
	t.Parallel()
	// The estimate was three times too long: after 20 of 60 s, which took
	// 10 s, the 40 s left take 10 s + 15 s over 25 s of that, 24 s.
	f := forecast{began: epoch, seen: epoch.Add(10 * time.Second), past: 20, left: 40}
	got, ok := f.eta(0, 0)
	if !ok || math.Abs(got.Seconds()-24) > 1e-9 {
		t.Errorf("eta %v, %v; want 24s", got, ok)
	}
	// With all of the estimate behind it, it is about to end.
	if got, _ := f.eta(50, 40); got != 0 {
		t.Errorf("eta %v, want 0", got)
	}
	if _, ok := (&forecast{left: 1}).eta(0, 0); ok {
		t.Error("an eta of what has not begun")
	}
}

// The time that is left does not grow while nothing but the clock moves: while a
// server starts, between the ends of requests, and between trials.
func TestForecast_clock(t *testing.T) {
	t.Parallel()
	v := twoDeployments()
	v.trials[rundir.Key{Cell: "b", Trial: 1}] = &expected{seconds: 10, duration: 5 * time.Second}
	c := &clock{epoch}
	timed := d1Measures
	timed.Cell = "b"
	for _, e := range []event.Event{
		runStarted, d1Started,
		{Type: event.StepStarted, Deployment: "d1", Step: "ready"},
		d1Measures,
		progress(epoch, 0, 0), progress(epoch, 4, 400), progress(epoch, 4, 500), progress(epoch, 9, 900), committed, timed, progress(epoch, 3, 30), d2Started,
	} {
		e.Time = c.now()
		v.follow(e, c.now())
		run, one := math.MaxFloat64, math.MaxFloat64
		for range 40 {
			running, last := 0.0, 0.0
			for _, l := range v.live {
				running, last = running+l.ran(c.now()), last+l.did
			}
			if d, _ := v.run.eta(running, last); d.Seconds() > run {
				t.Fatalf("%s: the run's forecast grew from %.2fs to %v", e.Type, run, d)
			} else {
				run = d.Seconds()
			}
			for _, l := range v.live[:min(1, len(v.live))] {
				if d, _ := v.forecast(l).eta(l.ran(c.now()), l.did); d.Seconds() > one {
					t.Fatalf("%s: the deployment's forecast grew from %.2fs to %v", e.Type, one, d)
				} else {
					one = d.Seconds()
				}
			}
			c.pass(500 * time.Millisecond)
		}
	}
}

func TestRate(t *testing.T) {
	t.Parallel()
	var l liveLine
	for i := range 40 { // 100 tok/s for 5 s, then 400
		tokens := 25 * i
		if i > 20 {
			tokens = 500 + 100*(i-20)
		}
		l.read(load.Progress{OutputTokens: tokens}, epoch.Add(time.Duration(i)*250*time.Millisecond))
	}
	if got := l.rate(); got != "400 tok/s" {
		t.Errorf("rate %q, want that of the last seconds, 400 tok/s", got)
	}
	if len(l.recent) > 16 {
		t.Errorf("%d readings are kept", len(l.recent))
	}
	l = liveLine{}
	l.read(load.Progress{Done: 1}, epoch)
	if got := l.rate(); got != "" {
		t.Errorf("rate of one reading: %q", got)
	}
	l.read(load.Progress{Done: 4}, epoch.Add(2*time.Second))
	if got := l.rate(); got != "1.5 requests/s" {
		t.Errorf("rate %q, want 1.5 requests/s", got)
	}
}

func TestShort(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration]string{
		0: "0s", 59 * time.Second: "59s", 59600 * time.Millisecond: "1m00s", 725 * time.Second: "12m05s", 187 * time.Minute: "3h07m",
	} {
		if got := short(d); got != want {
			t.Errorf("short(%v) = %q, want %q", d, got, want)
		}
	}
}
