// Package outcome makes the outcome of one attempt at a trial from its records: the
// row, the verdict and the findings. It asks no server, no file and no clock.
package outcome

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"sweep.dev/sweep/backends"
	"sweep.dev/sweep/backends/host"
	"sweep.dev/sweep/engine/failure"
	"sweep.dev/sweep/executor/serverlog"
	"sweep.dev/sweep/executor/serving"
	"sweep.dev/sweep/judge/agreement"
	"sweep.dev/sweep/judge/stopping"
	"sweep.dev/sweep/judge/validity"
	"sweep.dev/sweep/load"
	"sweep.dev/sweep/load/calibrate"
	"sweep.dev/sweep/plan"
	"sweep.dev/sweep/plan/axes"
	"sweep.dev/sweep/result"
	"sweep.dev/sweep/result/col"
	"sweep.dev/sweep/result/finding"
	"sweep.dev/sweep/result/summary"
	"sweep.dev/sweep/result/timeline"
)

// keptLines is how many of a log's last lines are in result.json.
const keptLines = 25

// A Trial is what an attempt is one at, and what all of its run share.
type Trial struct {
	Plan    *plan.Plan
	RunID   string
	Cell    plan.Cell
	Label   string // of the cell, in a person's words
	Number  int    // of the trial, from 1
	Attempt int    // from 1
	Why     string // why it is run, if the plan has it chosen; else ""

	Client      string // which driver sends, in place of the plan's choice; ""
	ClientHost  string
	Calibration *calibrate.Result // nil: the client was not calibrated
	Simulated   bool              // the backend says that its servers make up their numbers
	ByPoint     bool              // objectives are decided by their values alone
	TimeScale   *float64          // simulated seconds in a real one, of all servers of the backend; nil: it does not say
}

// A Server is the one that was up.
type Server struct {
	Version string        // of the engine; "" if it tells none
	Model   string        // as which it answers; "" if it does not say
	Launch  int           // of its deployment, from 1; 0 for one that was up before the run
	StartUp time.Duration // until it answered; 0 for one that was up before the run
	Terms   backends.Terms
	Roles   []backends.Role
	Path    host.Path // from the client to its entry
}

// Measured holds the records of an attempt.
type Measured struct {
	Started, Finished time.Time

	Requests []result.Request // each with its phase of the load
	Span     timeline.Span    // of the plateau
	Ramp     time.Duration    // how long the load was expected to take to be at work; 0: unknown
	Samples  []result.Sample
	Notes    []result.Finding
	Columns  result.Row // from the collectors
	Health   load.Health
	Ended    stopping.Decision  // why the load ended
	Stolen   *float64           // share of the CPU time that a hypervisor gave to others; nil: not known
	Claimed  *float64           // output in tokens per second, as the servers' logs say; nil: they do not
	Compiled string             // line of a server's log that says that it compiled a kernel under the load; "" for none
	Routing  *serverlog.Routing // nil: not known which worker served what
	Shared   *float64           // largest share of the prompts that a prefix cache can know by the load itself; nil: not judged
	MayKnow  bool               // an earlier run may have left the prompts in the server's prefix cache
	Extra    Extra
}

// Extra counts the requests sent to the servers beyond the load since the last row.
type Extra struct{ Requests, Completions int64 }

// An End is why there is nothing to judge in an attempt. The zero value is one that
// was measured.
type End struct {
	Failure *serving.Failure   // the server could not be used, or the load not be sent
	Skip    *result.Finding    // why it is not run at all
	Hung    *failure.Diagnosis // of a server that answered no request in its time
}

// Of returns the outcome of an attempt: what it measured, or why it did not, as a row
// with its verdict and findings. server is nil if none was up. The error is ours:
// a row with what is no value of a column.
func Of(t Trial, server *Server, m Measured, end End) (*result.Outcome, error) {
	o := &result.Outcome{
		CellID: t.Cell.ID, Trial: t.Number, Attempt: t.Attempt,
		StartedAt: m.Started, FinishedAt: m.Finished,
	}
	options := summaryOptions(&t, &m)
	measured, findings := summary.Of(m.Requests, options)
	o.Findings = findings
	row := result.Row{}
	maps.Copy(row, m.Columns)
	maps.Copy(row, measured) // the client's own figures win
	if moves(&t, row) {
		row[col.CachedTokens] = nil
	}
	if took, ok := timeline.Recovery(m.Requests, m.Span.First, t.Cell.Load.Holds()); ok {
		row[col.BurstRecoveryS] = took.Seconds()
	}
	if row[col.ServerReportedThroughputTokS] == nil && m.Claimed != nil && end.Failure == nil {
		row[col.ServerReportedThroughputTokS] = *m.Claimed
	}
	var terms backends.Terms
	if server != nil {
		terms = server.Terms
	}
	o.Findings = append(o.Findings, moved(t.Cell, terms)...)
	identify(row, &t, server, &m)
	price(row, &t, terms)
	row.Derive()

	client(row, &m, t.Calibration)
	several(o, row, &t, &m)
	if end.Skip == nil {
		row[col.ExtraRequests], row[col.ExtraCompletions] = m.Extra.Requests, m.Extra.Completions
		row[col.Why] = orNil(t.Why)
	}
	if m.Ramp > 0 {
		row[col.ExpectedRampS] = m.Ramp.Seconds()
	}
	row[col.EndedBy] = orNil(m.Ended.By)

	switch {
	case end.Skip != nil:
		row[col.Status], row[col.Error] = result.StatusSkipped, end.Skip.Text
		row[col.Launch], row[col.StartUpS] = nil, nil // whatever server is up did not measure it
		o.Findings = append(o.Findings, *end.Skip)
	case end.Failure != nil:
		failed := end.Failure
		o.StartFailure = failed.Start
		o.LogTail = lastLines(failed.Log, keptLines)
		row[col.Status], row[col.ErrorClass], row[col.Error] = result.StatusFailed, failed.Class, withHint(failed)
	case !anyCompleted(m.Requests) && !lostClient(&m.Health):
		row[col.Status] = result.StatusFailed
		row[col.ErrorClass], row[col.Error] = mostCommon(m.Requests)
		if end.Hung != nil {
			row[col.ErrorClass], row[col.Error] = end.Hung.Class, fmt.Sprintf("%v (%s)", row[col.Error], end.Hung.Advice())
		}
	default:
		row[col.Status], row[col.Valid] = result.StatusOK, true
		judged := figures(&t, &m, options, row, measured)
		evidence, bounds := evidence(row, &t, &m, options.Drifts), t.Plan.Validity
		evidence.Reported, evidence.Figures = slices.Concat(m.Notes, terms.Findings), judged
		v := validity.Judge(evidence, bounds)
		o.Invalid, o.SLOs = v.Reasons, v.SLOs
		o.Findings = slices.Concat(o.Findings, v.Remarks, validity.Remarks(evidence, bounds))
		switch m.Ended.By {
		case stopping.Saturated, stopping.Failing, stopping.Refused: // no time would settle it
		default:
			o.Findings = append(o.Findings, m.Span.Findings()...)
		}
		if row[col.Valid] = len(o.Invalid) == 0; len(o.Invalid) > 0 {
			row[col.Status] = result.StatusInvalid
		}
		row[col.InvalidReasons], row[col.InvalidFigures] = codes(o.Invalid), orNil(strings.Join(v.Figures, ","))
		widen(row, v)
		plan.Record(row, o.SLOs)
		o.Findings = append(o.Findings, agreement.Findings(row, m.Requests)...)
		overloaded(&t, &m, options, o, row)
		if t.Plan.Repeats.Most() == 1 && !options.Open && len(o.Invalid) == 0 {
			if f, ok := validity.OneCycle(m.Requests, t.Cell.Load.Concurrency, tails(t.Cell.Load, o.SLOs)); ok {
				o.Findings = append(o.Findings, f)
			}
		}
	}
	invalid := map[finding.Code]bool{finding.EngineRestarted: true, finding.GPUIdle: !anyCompleted(m.Requests)}
	for _, f := range o.Invalid {
		invalid[f.Code] = true // it is said already
	}
	for _, n := range slices.Concat(m.Notes, terms.Findings) {
		if !invalid[n.Code] {
			o.Findings = append(o.Findings, n)
		}
	}
	if m.Routing != nil && server != nil {
		o.Findings = append(o.Findings, m.Routing.Idle(server.Roles)...)
	}
	row[col.Findings] = codes(o.Findings)
	var err error
	if o.Row, err = row.Conform(t.Plan.Columns()); err != nil {
		return nil, fmt.Errorf("row of %s: %w", t.Label, err)
	}
	return o, nil
}

// moves reports whether the cached tokens of answers may have come from another server: a
// server that decodes alone counts the KV caches that it was sent.
func moves(t *Trial, row result.Row) bool {
	profile, ok := t.Plan.Profile(t.Cell.Server.Profile)
	return ok && profile.Disaggregated() && row[col.PD] != result.PDAbsent
}

func withHint(f *serving.Failure) string {
	if f.Hint == "" {
		return f.Text
	}
	return f.Text + " (" + f.Hint + ")"
}

func anyCompleted(reqs []result.Request) bool {
	for _, r := range reqs {
		if r.Measured() && r.Status == result.Completed {
			return true
		}
	}
	return false
}

// lostClient reports whether one of several clients did not come to its end: what is missing
// is its part, and no fault of the server.
func lostClient(h *load.Health) bool {
	return slices.ContainsFunc(h.Shards, func(s load.ShardHealth) bool { return s.Lost != "" })
}

// mostCommon returns the class and text that explain why no request was completed.
func mostCommon(reqs []result.Request) (class, text string) {
	c := validity.CommonError(reqs)
	if c == "" {
		return nothingMeasured, "no request was completed"
	}
	class, text, _ = strings.Cut(c, ": ")
	return class, "no request was completed: " + text
}

// identify fills in what the trial is, beside what was measured.
func identify(row result.Row, t *Trial, server *Server, m *Measured) {
	cell := t.Cell
	maps.Copy(row, axes.Columns(t.Plan, cell))
	set := func(name string, v any) { row[name] = v }
	set(col.GPU, orNil(cell.Server.GPU))
	// The GPUs of a server that runs already are known only if the plan gives them;
	// the axis gpu_count is among the settings.
	if cell.Server.GPU != "" || cell.Server.RoleGPUs != nil {
		set(col.GPUCount, int64(cell.Server.GPUCount))
	}
	set(col.RunID, t.RunID)
	set(col.Plan, t.Plan.Name)
	set(col.CellID, cell.ID)
	set(col.SpecDigest, t.Plan.SpecDigest(cell))
	set(col.Method, int64(result.Method))
	set(col.ConditionsDigest, t.Plan.ConditionsDigest(cell, t.Client))
	set(col.Trial, int64(t.Number))
	set(col.Attempt, int64(t.Attempt))
	set(col.StartedAt, m.Started)
	set(col.FinishedAt, m.Finished)
	set(col.Backend, t.Plan.Backend.Kind)
	set(col.Engine, cell.Server.Engine)
	set(col.Model, cell.Server.Model)
	set(col.ModelRevision, orNil(cell.Server.ModelRevision))
	set(col.ClientHost, t.ClientHost)
	set(col.Simulated, t.Simulated)
	set(col.TimeScale, nil)
	if t.TimeScale != nil {
		set(col.TimeScale, *t.TimeScale)
	}
	if server == nil {
		return
	}
	if scale, ok := scaleOf(server.Version); ok { // its own word first, wherever it runs
		set(col.Simulated, true)
		set(col.TimeScale, scale)
	}
	if cell.Server.GPU == "" && cell.Server.RoleGPUs == nil { // what was found is all that is known
		set(col.GPU, orNil(server.Terms.GPU))
		if n := server.Terms.GPUs; n > 0 {
			set(col.GPUCount, int64(n))
		}
	}
	maps.Copy(row, Recorded(server.Terms, server.Version, cell.Server.ModelRevision))
	set(col.AnsweredModel, orNil(server.Model))
	set(col.SubjectDigest, t.Plan.SubjectDigest(cell, row))
	if server.Launch > 0 {
		set(col.Launch, int64(server.Launch))
	}
	if server.StartUp > 0 {
		set(col.StartUpS, server.StartUp.Seconds())
	}
	set(col.NetworkPath, string(server.Path))
}

// Recorded returns the columns on the software of a server.
func Recorded(terms backends.Terms, version, modelRevision string) result.Row {
	return result.Row{
		col.ImageDigest:   orNil(terms.ImageDigest),
		col.EngineVersion: orNil(version),
		col.ModelRevision: orNil(modelRevision),
	}
}

// simulatedVersion is after the release in the version of every simulated engine.
// A time scale other than 1 follows: 0.32.0+sim.x20.
const simulatedVersion = "+sim"

// scaleOf returns the time scale in a simulated engine's version, if that has one.
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

// moved finds that a server is on another GPU than the cell asks for.
func moved(c plan.Cell, terms backends.Terms) []result.Finding {
	want := c.Server.GPU
	if terms.GPU == "" || want == "" || terms.GPU == want {
		return nil
	}
	return []result.Finding{{Code: finding.GPUMoved, Text: fmt.Sprintf("it ran on %s, the cell asks for %s", terms.GPU, want)}}
}

// price fills in what the deployment costs: what its provider bills, else what
// the plan, the user's configuration or the catalogue says. What follows from it
// is derived.
func price(row result.Row, t *Trial, terms backends.Terms) {
	if terms.USDPerHour > 0 {
		row[col.USDPerHour], row[col.PriceSource] = terms.USDPerHour, result.PriceProvider
		return
	}
	if usd, source := t.Plan.PriceOf(t.Cell.Server); source != "" {
		row[col.USDPerHour], row[col.PriceSource] = usd, source
	}
}

// summaryOptions are of the columns, the verdict and the objectives alike: the drifts in
// them are a search over many shapes.
func summaryOptions(t *Trial, m *Measured) summary.Options {
	open := t.Cell.Load.Open()
	return summary.Options{
		Open: open, Span: m.Span, Drifts: timeline.DriftOf(m.Requests, m.Span, open),
		EndedEarly: m.Ended.Cancel, Goodput: t.Plan.Goodput.Bounds(),
	}
}

func lastLines(lines []string, n int) []string { return lines[max(0, len(lines)-n):] }
