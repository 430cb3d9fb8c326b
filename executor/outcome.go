package executor

import (
	"fmt"
	"io"
	"maps"
	"strconv"
	"strings"
	"time"

	"sweep.dev/sweep/backends"
	"sweep.dev/sweep/executor/serverlog"
	"sweep.dev/sweep/internal/layout"
	"sweep.dev/sweep/internal/plaintext"
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

// finish judges the attempt and writes its files. failed is why there is
// nothing to judge, or nil.
func (m *measurement) finish(failed *serving.Failure) (o *result.Outcome, err error) {
	cell := m.trial.cell
	finished := time.Now().UTC()
	span := timeline.Assign(m.requests, cell.Load.Concurrency)
	samples := append(m.sink.Samples(), timeline.Samples(timeline.Of(m.requests, timeline.Step, cell.Load.Open()))...)

	o = &result.Outcome{
		CellID: m.trial.key.Cell, Trial: m.trial.key.Trial, Attempt: m.attempt,
		StartedAt: m.started, FinishedAt: finished,
	}
	measured, findings := summary.Of(m.requests, m.summaryOptions(span))
	o.Findings = findings
	row := result.Row{}
	maps.Copy(row, m.columns)
	maps.Copy(row, measured) // what we measured ourselves is nobody else's
	if row[col.ServerReportedThroughputTokS] == nil && m.d.server != nil && failed == nil {
		if claimed, ok := m.logs.Reported(); ok {
			row[col.ServerReportedThroughputTokS] = claimed
		}
	}
	terms := m.terms()
	o.Findings = append(o.Findings, m.moved(terms)...)
	m.identify(row, finished)
	m.price(row, terms)
	row.Derive()

	m.client(row)
	m.extras(row)
	row[col.EndedBy] = orNil(m.ended.By)

	switch {
	case m.trial.skip != "":
		row[col.Status], row[col.Error] = result.StatusSkipped, m.trial.skip
		o.Findings = append(o.Findings, result.Finding{Code: finding.LevelSkipped, Text: m.trial.skip})
	case failed != nil:
		o.StartFailure = failed.Start
		o.LogTail = lastLines(failed.Log, keptLines)
		row[col.Status], row[col.ErrorClass], row[col.Error] = result.StatusFailed, failed.Class, withHint(failed)
	case !anyCompleted(m.requests):
		row[col.Status] = result.StatusFailed
		row[col.ErrorClass], row[col.Error] = mostCommon(m.requests)
		if hung(m.requests) {
			d := m.d.servers.Hung()
			row[col.ErrorClass], row[col.Error] = d.Class, fmt.Sprintf("%v (%s)", row[col.Error], d.Advice())
		}
	default:
		evidence, bounds := m.evidence(row, span, samples), m.config.Plan.Validity
		o.Invalid = verdict.Judge(evidence, bounds)
		o.Findings = append(o.Findings, verdict.Remarks(evidence, bounds)...)
		row[col.Status], row[col.Valid] = result.StatusOK, len(o.Invalid) == 0
		if len(o.Invalid) > 0 {
			row[col.Status] = result.StatusInvalid
		}
		row[col.InvalidReasons] = codes(o.Invalid)
		o.Findings = append(o.Findings, reconcile.Findings(row, m.requests)...)
		o.SLOs = m.config.Plan.Objectives(row)
	}
	invalid := map[finding.Code]bool{finding.EngineRestarted: true, finding.GPUIdle: !anyCompleted(m.requests)}
	for _, f := range o.Invalid {
		invalid[f.Code] = true // it is said already
	}
	for _, n := range m.sink.Notes() {
		if !invalid[n.Code] {
			o.Findings = append(o.Findings, n)
		}
	}
	o.Findings = append(o.Findings, terms.Findings...)
	var routing *serverlog.Routing
	if m.logs != nil {
		if routing, err = m.logs.Routing(); err != nil {
			return nil, fmt.Errorf("which worker served what: %w", err)
		}
	}
	if routing != nil {
		o.Findings = append(o.Findings, routing.Idle(m.d.server.Roles)...)
	}
	row[col.Findings] = codes(o.Findings)
	if o.Row, err = row.Conform(m.config.Plan.Columns()); err != nil {
		return nil, fmt.Errorf("row of %s: %w", Label(cell), err)
	}
	if routing != nil {
		if err := m.file(layout.Routing, routing.Write); err != nil {
			return nil, err
		}
	}
	return o, m.write(samples)
}

func withHint(f *serving.Failure) string {
	if f.Hint == "" {
		return f.Text
	}
	return f.Text + " (" + f.Hint + ")"
}

// hung says whether every request was given up after its time without a token.
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
		return NothingMeasured, "no request was completed"
	}
	class, text, _ = strings.Cut(c, ": ")
	return class, "no request was completed: " + text
}

// identify fills in what the trial is, beside what was measured.
func (m *measurement) identify(row result.Row, finished time.Time) {
	cell := m.trial.cell
	maps.Copy(row, m.config.Plan.AxisColumns(cell))
	set := func(name string, v any) { row[name] = v }
	set(col.GPU, orNil(cell.Server.GPU))
	// The GPUs of a server that runs already are known only if the plan gives them;
	// the axis gpu_count is among the settings.
	if cell.Server.GPU != "" || cell.Server.RoleGPUs != nil {
		set(col.GPUCount, int64(cell.Server.GPUCount))
	}
	set(col.RunID, m.config.State.Manifest.RunID)
	set(col.Plan, m.config.Plan.Name)
	set(col.CellID, cell.ID)
	set(col.SpecDigest, m.digest)
	set(col.ConditionsDigest, m.config.Plan.ConditionsDigest(m.config.Client))
	set(col.Trial, int64(m.trial.key.Trial))
	set(col.Attempt, int64(m.attempt))
	set(col.StartedAt, m.started)
	set(col.FinishedAt, finished)
	set(col.Backend, m.config.Plan.Backend.Kind)
	set(col.Simulated, m.simulated())
	set(col.TimeScale, m.timeScale())
	set(col.Engine, cell.Server.Engine)
	set(col.Model, cell.Server.Model)
	set(col.ModelRevision, orNil(cell.Server.ModelRevision))
	set(col.ClientHost, m.config.ClientHost)
	if m.d.server != nil {
		maps.Copy(row, m.d.recorded(m.d.server))
		set(col.SubjectDigest, m.config.Plan.SubjectDigest(cell, row))
		if m.d.server.StartUp > 0 {
			set(col.StartUpS, m.d.server.StartUp.Seconds())
		}
		set(col.NetworkPath, string(m.d.server.Host(m.d.profile.EntryRole(), 0).Path()))
	}
}

// simulated says whether the numbers are made up: by the backend, or by an engine
// that says so of itself wherever it runs.
func (m *measurement) simulated() bool {
	if sim, ok := m.config.Backend.(backends.Simulator); ok && sim.Simulated() {
		return true
	}
	if m.d.server == nil {
		return false
	}
	_, sim := scaleOf(m.d.server.Version)
	return sim
}

// timeScale is the simulated seconds in a real second, as a simulated engine says
// of itself wherever it runs, else as its backend does; nil if neither says it.
func (m *measurement) timeScale() any {
	if m.d.server != nil {
		if scale, ok := scaleOf(m.d.server.Version); ok {
			return scale
		}
	}
	if s, ok := m.config.Backend.(backends.TimeScaler); ok {
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
func (m *measurement) terms() backends.Terms {
	if m.d.server == nil {
		return backends.Terms{}
	}
	return m.d.server.Terms()
}

func (m *measurement) moved(terms backends.Terms) []result.Finding {
	want := m.trial.cell.Server.GPU
	if terms.GPU == "" || want == "" || terms.GPU == want {
		return nil
	}
	return []result.Finding{{Code: finding.GPUMoved, Text: fmt.Sprintf("it ran on %s, the cell asks for %s", terms.GPU, want)}}
}

// price fills in what the deployment costs: what its provider bills, else what
// the plan, the user's configuration or the catalogue says. What follows from it
// is derived.
func (m *measurement) price(row result.Row, terms backends.Terms) {
	if terms.USDPerHour > 0 {
		row[col.USDPerHour], row[col.PriceSource] = terms.USDPerHour, result.PriceProvider
		return
	}
	if usd, source := m.config.Plan.PriceOf(m.trial.cell.Server); source != "" {
		row[col.USDPerHour], row[col.PriceSource] = usd, source
	}
}

func (m *measurement) summaryOptions(span timeline.Span) summary.Options {
	o := summary.Options{Open: m.trial.cell.Load.Open(), Span: span, EndedEarly: m.ended.Cancel}
	if g := m.config.Plan.Goodput; g != nil {
		o.Goodput = &summary.Goodput{TTFT: g.TTFT, TPOT: g.TPOT, E2E: g.E2E}
	}
	return o
}

// write stores the attempt's raw rows and its part of the server's logs.
func (m *measurement) write(samples []result.Sample) error {
	ids := store.IDs{Run: m.config.State.Manifest.RunID, Cell: m.trial.key.Cell, Trial: m.trial.key.Trial, Attempt: m.attempt, Anchor: m.anchor}
	err := m.file(layout.Requests, func(w io.Writer) error { return store.WriteRequests(w, ids, m.requests) })
	if err != nil {
		return err
	}
	err = m.file(layout.Samples, func(w io.Writer) error { return store.WriteSamples(w, ids, samples) })
	if err != nil {
		return err
	}
	if m.logs == nil {
		return nil
	}
	return m.file(layout.EngineLog, func(w io.Writer) error { return m.logs.Copy(w, m.run.mask) })
}

func (m *measurement) file(name string, write func(io.Writer) error) error {
	w, err := m.files.Create(name)
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

// Label is a cell in a person's words.
func Label(c plan.Cell) string {
	return words(c.Settings, func(plan.Axis) bool { return true })
}

// ServerLabel is a deployment in a person's words: its server axes.
func ServerLabel(d plan.Deployment) string {
	return words(d.Cells[0].Settings, func(a plan.Axis) bool { return a.Server })
}

// words are on one line that does nothing on a terminal: a plan may be a
// stranger's.
func words(settings []plan.Setting, want func(plan.Axis) bool) string {
	var parts []string
	for _, s := range settings {
		if want(*s.Axis) {
			parts = append(parts, s.String())
		}
	}
	return plaintext.Line(strings.Join(parts, " "))
}

func lastLines(lines []string, n int) []string { return lines[max(0, len(lines)-n):] }
