package attempt

import (
	"fmt"
	"io"
	"maps"
	"strconv"
	"strings"
	"time"

	"sweep.dev/sweep/backends"
	"sweep.dev/sweep/engine"
	"sweep.dev/sweep/executor/serverlog"
	"sweep.dev/sweep/internal/layout"
	"sweep.dev/sweep/plan"
	"sweep.dev/sweep/reconcile"
	"sweep.dev/sweep/result"
	"sweep.dev/sweep/result/col"
	"sweep.dev/sweep/result/finding"
	"sweep.dev/sweep/result/summary"
	"sweep.dev/sweep/result/timeline"
	"sweep.dev/sweep/serving"
	"sweep.dev/sweep/store"
	"sweep.dev/sweep/verdict"
)

// keptLines is how many of a log's last lines are in result.json.
const keptLines = 25

// An End is why there is nothing to judge in an attempt. The zero value is one that
// was measured.
type End struct {
	Failure *serving.Failure  // the server could not be used, or the load not be sent
	Skip    string            // it is not run at all
	Hung    *engine.Diagnosis // of a server that answered nobody in their time, see [Attempt.Hung]
}

// Finish judges the attempt and writes its files.
func (a *Attempt) Finish(end End) (o *result.Outcome, err error) {
	cell := a.trial.Cell
	finished := time.Now().UTC()
	span := timeline.Assign(a.requests, cell.Load.Concurrency)
	samples := append(a.sink.Samples(), timeline.Samples(timeline.Of(a.requests, timeline.Step, cell.Load.Open()))...)

	o = &result.Outcome{
		CellID: a.trial.Key.Cell, Trial: a.trial.Key.Trial, Attempt: a.number,
		StartedAt: a.started, FinishedAt: finished,
	}
	measured, findings := summary.Of(a.requests, a.summaryOptions(span))
	o.Findings = findings
	row := result.Row{}
	maps.Copy(row, a.columns)
	maps.Copy(row, measured) // what we measured ourselves is nobody else's
	if row[col.ServerReportedThroughputTokS] == nil && a.subject.Server != nil && end.Failure == nil {
		if claimed, ok := a.logs.Reported(); ok {
			row[col.ServerReportedThroughputTokS] = claimed
		}
	}
	terms := a.terms()
	o.Findings = append(o.Findings, a.moved(terms)...)
	a.identify(row, finished)
	a.price(row, terms)
	row.Derive()

	a.client(row)
	if end.Skip == "" {
		a.extras(row)
	}
	row[col.EndedBy] = orNil(a.ended.By)

	switch {
	case end.Skip != "":
		row[col.Status], row[col.Error] = result.StatusSkipped, end.Skip
		o.Findings = append(o.Findings, result.Finding{Code: finding.LevelSkipped, Text: end.Skip})
	case end.Failure != nil:
		failed := end.Failure
		o.StartFailure = failed.Start
		o.LogTail = lastLines(failed.Log, keptLines)
		row[col.Status], row[col.ErrorClass], row[col.Error] = result.StatusFailed, failed.Class, withHint(failed)
	case !anyCompleted(a.requests):
		row[col.Status] = result.StatusFailed
		row[col.ErrorClass], row[col.Error] = mostCommon(a.requests)
		if end.Hung != nil {
			row[col.ErrorClass], row[col.Error] = end.Hung.Class, fmt.Sprintf("%v (%s)", row[col.Error], end.Hung.Advice())
		}
	default:
		evidence, bounds := a.evidence(row, span, samples), a.config.Plan.Validity
		o.Invalid = verdict.Judge(evidence, bounds)
		o.Findings = append(o.Findings, verdict.Remarks(evidence, bounds)...)
		row[col.Status], row[col.Valid] = result.StatusOK, len(o.Invalid) == 0
		if len(o.Invalid) > 0 {
			row[col.Status] = result.StatusInvalid
		}
		row[col.InvalidReasons] = codes(o.Invalid)
		o.Findings = append(o.Findings, reconcile.Findings(row, a.requests)...)
		o.SLOs = a.config.Plan.Objectives(row)
	}
	invalid := map[finding.Code]bool{finding.EngineRestarted: true, finding.GPUIdle: !anyCompleted(a.requests)}
	for _, f := range o.Invalid {
		invalid[f.Code] = true // it is said already
	}
	for _, n := range a.sink.Notes() {
		if !invalid[n.Code] {
			o.Findings = append(o.Findings, n)
		}
	}
	o.Findings = append(o.Findings, terms.Findings...)
	var routing *serverlog.Routing
	if a.logs != nil {
		if routing, err = a.logs.Routing(); err != nil {
			return nil, fmt.Errorf("which worker served what: %w", err)
		}
	}
	if routing != nil {
		o.Findings = append(o.Findings, routing.Idle(a.subject.Server.Roles)...)
	}
	row[col.Findings] = codes(o.Findings)
	if o.Row, err = row.Conform(a.config.Plan.Columns()); err != nil {
		return nil, fmt.Errorf("row of %s: %w", a.trial.Label, err)
	}
	if routing != nil {
		if err := a.file(layout.Routing, routing.Write); err != nil {
			return nil, err
		}
	}
	return o, a.write(samples)
}

func withHint(f *serving.Failure) string {
	if f.Hint == "" {
		return f.Text
	}
	return f.Text + " (" + f.Hint + ")"
}

// Hung says whether every request was given up after its time without a token: the
// server's logs may say why.
func (a *Attempt) Hung() bool { return hung(a.requests) }

func hung(reqs []result.Request) bool {
	n := 0
	for _, r := range reqs {
		switch {
		case !r.Measured():
		case r.Status != result.Failed || r.ErrorClass != result.ErrTimeout || r.FirstTokenChunk >= 0:
			return false
		default:
			n++
		}
	}
	return n > 0
}

func anyCompleted(reqs []result.Request) bool {
	for _, r := range reqs {
		if r.Measured() && r.Status == result.Completed {
			return true
		}
	}
	return false
}

// mostCommon is the class and text that explain why no request was completed.
func mostCommon(reqs []result.Request) (class, text string) {
	c := verdict.CommonError(reqs)
	if c == "" {
		return nothingMeasured, "no request was completed"
	}
	class, text, _ = strings.Cut(c, ": ")
	return class, "no request was completed: " + text
}

// identify fills in what the trial is, beside what was measured.
func (a *Attempt) identify(row result.Row, finished time.Time) {
	cell := a.trial.Cell
	maps.Copy(row, a.config.Plan.AxisColumns(cell))
	set := func(name string, v any) { row[name] = v }
	set(col.GPU, orNil(cell.Server.GPU))
	// The GPUs of a server that runs already are known only if the plan gives them;
	// the axis gpu_count is among the settings.
	if cell.Server.GPU != "" || cell.Server.RoleGPUs != nil {
		set(col.GPUCount, int64(cell.Server.GPUCount))
	}
	set(col.RunID, a.config.RunID)
	set(col.Plan, a.config.Plan.Name)
	set(col.CellID, cell.ID)
	set(col.SpecDigest, a.config.Plan.SpecDigest(cell))
	set(col.ConditionsDigest, a.config.Plan.ConditionsDigest(a.config.Client))
	set(col.Trial, int64(a.trial.Key.Trial))
	set(col.Attempt, int64(a.number))
	set(col.StartedAt, a.started)
	set(col.FinishedAt, finished)
	set(col.Backend, a.config.Plan.Backend.Kind)
	set(col.Simulated, a.simulated())
	set(col.TimeScale, a.timeScale())
	set(col.Engine, cell.Server.Engine)
	set(col.Model, cell.Server.Model)
	set(col.ModelRevision, orNil(cell.Server.ModelRevision))
	set(col.ClientHost, a.config.ClientHost)
	if a.subject.Server != nil {
		maps.Copy(row, Recorded(a.subject.Server, a.subject.Of))
		set(col.SubjectDigest, a.config.Plan.SubjectDigest(cell, row))
		if a.subject.Server.StartUp > 0 {
			set(col.StartUpS, a.subject.Server.StartUp.Seconds())
		}
		set(col.NetworkPath, string(a.subject.Server.Host(a.subject.Profile.EntryRole(), 0).Path()))
	}
}

// Recorded is what can be seen of the software of a server.
func Recorded(s *serving.Server, of plan.Deployment) result.Row {
	return result.Row{
		col.ImageDigest:   orNil(s.Terms().ImageDigest),
		col.EngineVersion: orNil(s.Version),
		col.ModelRevision: orNil(of.Server.ModelRevision),
	}
}

// simulated says whether the numbers are made up: by the backend, or by an engine
// that says so of itself wherever it runs.
func (a *Attempt) simulated() bool {
	if sim, ok := a.config.Backend.(backends.Simulator); ok && sim.Simulated() {
		return true
	}
	if a.subject.Server == nil {
		return false
	}
	_, sim := scaleOf(a.subject.Server.Version)
	return sim
}

// timeScale is the simulated seconds in a real second, as a simulated engine says
// of itself wherever it runs, else as its backend does; nil if neither says it.
func (a *Attempt) timeScale() any {
	if a.subject.Server != nil {
		if scale, ok := scaleOf(a.subject.Server.Version); ok {
			return scale
		}
	}
	if s, ok := a.config.Backend.(backends.TimeScaler); ok {
		return s.TimeScale()
	}
	return nil
}

// simulatedVersion is after the release in the version of every simulated engine.
// A time scale other than 1 follows: 0.32.0+sim.x20.
const simulatedVersion = "+sim"

// scaleOf is the time scale in a simulated engine's version, if that has one.
func scaleOf(version string) (scale float64, ok bool) {
	_, end, ok := strings.Cut(version, simulatedVersion)
	if end == "" {
		return 1, ok
	}
	number, ok := strings.CutPrefix(end, ".x")
	scale, err := strconv.ParseFloat(number, 64)
	return scale, ok && err == nil
}

func orNil(s string) any {
	if s == "" {
		return nil
	}
	return s
}

// terms are what the server was got for, by now: a price or a finding may have
// come after the launch.
func (a *Attempt) terms() backends.Terms {
	if a.subject.Server == nil {
		return backends.Terms{}
	}
	return a.subject.Server.Terms()
}

func (a *Attempt) moved(terms backends.Terms) []result.Finding {
	want := a.trial.Cell.Server.GPU
	if terms.GPU == "" || want == "" || terms.GPU == want {
		return nil
	}
	return []result.Finding{{Code: finding.GPUMoved, Text: fmt.Sprintf("it ran on %s, the cell asks for %s", terms.GPU, want)}}
}

// price fills in what the deployment costs: what its provider bills, else what
// the plan, the user's configuration or the catalogue says. What follows from it
// is derived.
func (a *Attempt) price(row result.Row, terms backends.Terms) {
	if terms.USDPerHour > 0 {
		row[col.USDPerHour], row[col.PriceSource] = terms.USDPerHour, result.PriceProvider
		return
	}
	if usd, source := a.config.Plan.PriceOf(a.trial.Cell.Server); source != "" {
		row[col.USDPerHour], row[col.PriceSource] = usd, source
	}
}

func (a *Attempt) summaryOptions(span timeline.Span) summary.Options {
	o := summary.Options{Open: a.trial.Cell.Load.Open(), Span: span, EndedEarly: a.ended.Cancel}
	if g := a.config.Plan.Goodput; g != nil {
		o.Goodput = &summary.Goodput{TTFT: g.TTFT, TPOT: g.TPOT, E2E: g.E2E}
	}
	return o
}

// write stores the attempt's raw rows and its part of the server's logs.
func (a *Attempt) write(samples []result.Sample) error {
	ids := store.IDs{Run: a.config.RunID, Cell: a.trial.Key.Cell, Trial: a.trial.Key.Trial, Attempt: a.number, Anchor: a.anchor}
	err := a.file(layout.Requests, func(w io.Writer) error { return store.WriteRequests(w, ids, a.requests) })
	if err != nil {
		return err
	}
	err = a.file(layout.Samples, func(w io.Writer) error { return store.WriteSamples(w, ids, samples) })
	if err != nil {
		return err
	}
	if a.logs == nil {
		return nil
	}
	return a.file(layout.EngineLog, func(w io.Writer) error { return a.logs.Copy(w, a.config.Mask) })
}

func (a *Attempt) file(name string, write func(io.Writer) error) error {
	w, err := a.files.Create(name)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	err = write(w)
	if cerr := w.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

func lastLines(lines []string, n int) []string { return lines[max(0, len(lines)-n):] }
