package main

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"sweep.dev/sweep/executor"
	"sweep.dev/sweep/executor/event"
	"sweep.dev/sweep/internal/humanize"
	"sweep.dev/sweep/internal/plaintext"
	"sweep.dev/sweep/load"
	"sweep.dev/sweep/plan"
	"sweep.dev/sweep/report/conclude"
	"sweep.dev/sweep/rundir"
)

// A view is how far a run has come, as people are shown it.
type view struct {
	plan        string
	lanes       map[string]*lane // by deployment
	countdown   countdown
	trials      map[rundir.Key]*expected // those without an outcome
	deployments map[string]*forecast
	searches    map[string]*searching // by deployment, of a plan with find
	run         forecast
	live        []*liveLine       // running deployments, oldest first
	refused     map[string]string // by deployment, why its last launch failed
	spending    *event.Spending   // nil if nothing costs money
}

// An expected trial is what the plan says of one that has no outcome yet.
type expected struct {
	seconds  float64 // the plan's estimate
	requests int     // 0 if its time alone ends it
	duration time.Duration
}

// A forecast says when something ends: what is left by the plan's estimate,
// corrected by how long its trials have taken of theirs. Time that passes
// without progress does not lengthen it: a server that starts, or that stands
// still, says nothing about the trials to come.
type forecast struct {
	done, total int       // trials
	began       time.Time // itself, then its first trial
	seen        time.Time // the last progress of a trial
	left, past  float64   // seconds by the plan's estimate
}

// forecastPrior is how much of the plan's own estimate is taken for granted,
// so that the first second of a run does not make a forecast for an hour.
const forecastPrior = 5.0

// eta returns how long it takes from now on. The trials at hand have done so much of
// their estimates by now, and at their last progress.
func (f *forecast) eta(now, last float64) (time.Duration, bool) {
	if f.began.IsZero() || f.left <= 0 {
		return 0, false
	}
	pace := (max(0, f.seen.Sub(f.began).Seconds()) + forecastPrior) / (f.past + last + forecastPrior)
	return time.Duration(max(0, f.left-now) * pace * float64(time.Second)), true
}

// measures notes that a trial begins.
func (f *forecast) measures(now time.Time) {
	if f.seen.IsZero() {
		f.began, f.seen = now, now
	}
}

// A liveLine is a running deployment.
type liveLine struct {
	deployment string
	name       string // the server, in words
	label      string // what it is doing, in words
	step       string
	since      time.Time  // the step's begin
	answer     string     // the server's last, while it is waited for
	key        rundir.Key // of the trial at hand
	trial      *expected
	progress   *load.Progress
	did        float64 // of the trial's estimate, in seconds, when a request last ended
	recent     []reading
}

// A reading is the progress at one time.
type reading struct {
	At     time.Time `json:"at"`
	Done   int       `json:"done"`
	Tokens int       `json:"tokens"`
}

// rateOver is the time that a live line's rate is taken over.
const rateOver = 3 * time.Second

func newView(j job) *view {
	v := &view{plan: j.plan.Name, lanes: map[string]*lane{}, trials: map[rundir.Key]*expected{}, deployments: map[string]*forecast{}, searches: map[string]*searching{}, refused: map[string]string{}}
	deployments, err := selected(j.plan, j.only)
	if err != nil {
		return v // the run will say it
	}
	for _, d := range deployments {
		f := &forecast{}
		v.deployments[d.ID] = f
		v.lanes[d.ID] = &lane{marks: map[string]string{}}
		for _, cell := range d.Cells {
			if j.plan.Find == nil { // a search chooses its cells
				v.lanes[d.ID].cells = append(v.lanes[d.ID].cells, cell.ID)
			}
			for _, n := range executor.Numbers(j.plan, j.state, cell) {
				key := rundir.Key{Cell: cell.ID, Trial: n}
				f.total++
				if executor.Done(j.plan, j.state, j.retry, cell, n) {
					if o, err := rundir.Outcome(j.path, j.state.Committed[key]); err == nil {
						v.lanes[d.ID].marks[cell.ID] = conclude.Judge(conclude.Trial{Outcome: o}).Mark()
					}
					f.done++
					continue
				}
				e := expect(cell.Server, cell.Load, j.plugins.traits().scale)
				v.trials[key] = e
				f.left += e.seconds
			}
		}
		if j.plan.Find != nil {
			s := j.searchingFor(d)
			v.searches[d.ID] = s
			f.total, f.left = s.left(f.done)
		}
		v.run.total, v.run.done, v.run.left = v.run.total+f.total, v.run.done+f.done, v.run.left+f.left
	}
	return v
}

func expect(s plan.Server, l plan.Load, scale float64) *expected {
	sends, _ := l.Sends()
	return &expected{seconds: trialEstimate(s, l, scale).Seconds(), requests: l.Total(), duration: sends}
}

// follow keeps the view up to date.
func (v *view) follow(e event.Event, now time.Time) {
	switch e.Type {
	case event.RunStarted:
		v.run.began, v.run.done, v.run.total = now, e.Done, e.Total
	case event.DeploymentStarted:
		v.live = append(v.live, &liveLine{deployment: e.Deployment, name: e.Label, label: e.Label, step: "starting", since: now})
		if f := v.deployments[e.Deployment]; f != nil {
			f.began = now
		}
	case event.DeploymentStopped:
		v.live = slices.DeleteFunc(v.live, func(l *liveLine) bool { return l.deployment == e.Deployment })
	case event.StepStarted:
		if l := v.line(e.Deployment); l != nil {
			l.label, l.step, l.since, l.answer = e.Label, e.Step, now, ""
			l.progress, l.recent, l.did = nil, nil, 0
			l.key = rundir.Key{Cell: e.Cell, Trial: e.Trial}
			if l.trial = v.trials[l.key]; l.trial != nil {
				l.trial = v.searches[e.Deployment].longer(l.key, l.trial)
				v.forecast(l).measures(now)
				v.run.measures(now)
			}
		}
	case event.Waiting:
		if l := v.line(e.Deployment); l != nil {
			l.answer = e.Text
		}
	case event.TrialProgress:
		if l := v.line(e.Deployment); l != nil && e.Progress != nil {
			ended := l.progress == nil || e.Progress.Done > l.progress.Done
			if l.read(*e.Progress, e.Time); ended {
				l.did = l.ran(e.Time)
				v.forecast(l).seen, v.run.seen = e.Time, e.Time
			}
		}
	case event.Money:
		v.spending = e.Spending
	case event.LaunchFailed:
		v.refused[e.Deployment] = e.Error
		v.countdown.because("a server did not start")
	case event.ServerDied:
		v.countdown.because("a server died and is started again")
	case event.TrialDiscarded:
		v.countdown.because("a trial is measured again")
	case event.TrialCommitted:
		v.committed(e, now)
	}
}

func (v *view) committed(e event.Event, now time.Time) {
	v.run.done, v.run.total = e.Done, e.Total
	key := rundir.Key{Cell: e.Cell, Trial: e.Trial}
	seconds := 0.0
	if t := v.trials[key]; t != nil {
		seconds = v.searches[e.Deployment].longer(key, t).seconds
	}
	delete(v.trials, key)
	if lane := v.lanes[e.Deployment]; lane != nil {
		if !slices.Contains(lane.cells, e.Cell) {
			lane.cells = append(lane.cells, e.Cell)
		}
		lane.marks[e.Cell] = conclude.Judge(conclude.Trial{Outcome: e.Outcome}).Mark()
	}
	v.run.left, v.run.past, v.run.seen = v.run.left-seconds, v.run.past+seconds, now
	if f := v.deployments[e.Deployment]; f != nil {
		f.done++
		f.total = max(f.total, f.done)
		before := f.left - seconds
		f.left, f.past, f.seen = before, f.past+seconds, now
		if s := v.searches[e.Deployment]; s != nil {
			s.ended(key, e.Outcome)
			total := f.total
			f.total, f.left = s.left(f.done)
			v.run.left += f.left - before
			v.run.total = max(v.run.done, v.run.total+f.total-total)
		}
	}
	if l := v.line(e.Deployment); l != nil {
		l.trial, l.progress, l.recent, l.did = nil, nil, nil, 0
	}
}

func (v *view) line(deployment string) *liveLine {
	for _, l := range v.live {
		if l.deployment == deployment {
			return l
		}
	}
	return nil
}

// forecast returns the forecast of a line's deployment.
func (v *view) forecast(l *liveLine) *forecast {
	if f := v.deployments[l.deployment]; f != nil {
		return f
	}
	return &v.run
}

// heartbeat returns what is said off a terminal of a run in which nothing happens: a line for
// each running deployment, one for the whole run if it has more than one deployment, and
// one for money.
func (v *view) heartbeat(now time.Time) []string {
	var lines []string
	running, last := 0.0, 0.0
	for _, l := range v.live {
		r := l.ran(now)
		running, last = running+r, last+l.did
		lines = append(lines, "  "+v.forecast(l).words(r, l.did)+"  "+plaintext.Line(l.label)+": "+strings.Join(l.details(now), ", "))
	}
	if len(v.deployments) > 1 || len(lines) == 0 {
		lines = append(lines, "  "+v.run.words(running, last)+" in all")
	}
	if v.spending != nil {
		lines = append(lines, "  "+moneyWords(*v.spending))
	}
	return lines
}

// moneyWords returns what a run costs at this moment.
func moneyWords(s event.Spending) string {
	text := fmt.Sprintf("%s  $%.2f/h  $%.2f so far", humanize.Plural(s.Pods, "pod"), s.USDPerHour, s.USD)
	if s.MaxUSD > 0 {
		text += fmt.Sprintf("  cap $%.2f", s.MaxUSD)
	}
	return text
}

func (f *forecast) words(now, last float64) string {
	text := fmt.Sprintf("[%d/%d]", f.done, f.total)
	if d, ok := f.eta(now, last); ok {
		text += " ETA " + short(d)
	}
	return text
}

// read takes a progress in.
func (l *liveLine) read(p load.Progress, at time.Time) {
	l.progress = &p
	l.recent = append(l.recent, reading{at, p.Done, p.OutputTokens})
	for len(l.recent) > 2 && at.Sub(l.recent[1].At) >= rateOver {
		l.recent = l.recent[1:]
	}
}

// rate returns tokens/s over the last seconds, or requests/s where tokens are not
// counted as they come; "" if there is nothing to say yet.
func (l *liveLine) rate() string {
	if len(l.recent) < 2 {
		return ""
	}
	first, last := l.recent[0], l.recent[len(l.recent)-1]
	seconds := last.At.Sub(first.At).Seconds()
	switch {
	case seconds < 0.2:
		return ""
	case last.Tokens > 0:
		return fmt.Sprintf("%.0f tok/s", float64(last.Tokens-first.Tokens)/seconds)
	default:
		return fmt.Sprintf("%.3g requests/s", float64(last.Done-first.Done)/seconds)
	}
}

// details returns what the deployment is doing, the most important first.
func (l *liveLine) details(now time.Time) []string {
	p := l.progress
	if p == nil {
		list := []string{l.step}
		if waited := now.Sub(l.since); waited >= 2*time.Second {
			list[0] = strings.TrimSpace(l.step + " " + short(waited))
		}
		if l.answer != "" {
			list = append(list, "last answer: "+l.answer)
		}
		return list
	}
	done := fmt.Sprintf("%d requests", p.Done)
	if l.trial != nil && p.Done <= l.trial.requests { // an open loop sends more, while it begins
		done = fmt.Sprintf("%d/%d requests", p.Done, l.trial.requests)
	}
	var list []string
	if r := l.rate(); r != "" {
		list = append(list, r)
	}
	if p.Failed > 0 {
		list = append(list, fmt.Sprintf("%d failed", p.Failed))
	}
	if p.TTFTP95MS != nil {
		list = append(list, "TTFT p95 "+humanize.Figure(*p.TTFTP95MS)+" ms")
	}
	return append(list, done, fmt.Sprintf("%d in flight", p.InFlight))
}

// ran returns how much of the plan's estimate the trial at hand has behind it.
func (l *liveLine) ran(now time.Time) float64 {
	if l.trial == nil || l.progress == nil {
		return 0
	}
	share := 0.0
	if l.trial.requests > 0 {
		share = float64(l.progress.Done) / float64(l.trial.requests)
	}
	if l.trial.duration > 0 {
		share = max(share, now.Sub(l.since).Seconds()/l.trial.duration.Seconds())
	}
	return min(1, share) * l.trial.seconds
}

// short returns a time for people: 45s, 12m05s, 3h07m.
func short(d time.Duration) string {
	s := int(d.Round(time.Second).Seconds())
	switch {
	case s < 60:
		return fmt.Sprintf("%ds", s)
	case s < 3600:
		return fmt.Sprintf("%dm%02ds", s/60, s%60)
	default:
		return fmt.Sprintf("%dh%02dm", s/3600, s%3600/60)
	}
}
