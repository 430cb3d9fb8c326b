// Package groups is the statistics over the trials of a cell.
package groups

import (
	"iter"
	"math"
	"slices"
	"strings"

	"github.com/aclements/go-moremath/stats"
	"golang.org/x/perf/benchmath"

	"sweep.dev/sweep/result"
	"sweep.dev/sweep/result/col"
)

// grouped are the columns that are summarized over the trials of a cell. None can be negative,
// and so no mean of one.
var grouped = []string{
	col.MeanTTFTMs, col.P50TTFTMs, col.P95TTFTMs, col.P99TTFTMs,
	col.MeanTPOTMs, col.P50TPOTMs, col.P95TPOTMs, col.P99TPOTMs,
	col.P50ITLMs, col.P95ITLMs, col.P99ITLMs, col.P99ICLMs,
	col.MeanE2EMs, col.P50E2EMs, col.P95E2EMs, col.P99E2EMs,
	col.ThroughputTokS, col.TotalThroughputTokS, col.RequestThroughput, col.GoodputReqS,
	col.P50UserTokS, col.ErrorRate, col.AchievedRate, col.DurationS,
	col.P50TTFTMsCompleted, col.P95TTFTMsCompleted, col.P50TPOTMsCompleted, col.P95TPOTMsCompleted, col.P95E2EMsCompleted,
	col.ThroughputTokSWhole, col.RequestThroughputWhole, col.GoodputReqSWhole, col.MeanInFlight,
	col.P50ProbeTTFTMs, col.P95ProbeTTFTMs,
	col.ServerThroughputTokS, col.MaxKVCacheUsage, col.PrefixCacheHitRate, col.MeanGPUPowerW,
	col.CostUSD, col.USDPer1MOutputTokens, col.JoulesPerOutputToken, col.P99ClientLagMs,
}

// Columns that only this table has, as OutlierTrials.
const (
	trialsColumn   = "trials"
	validColumn    = "valid_trials"
	launchesColumn = "launches"
)

// The ends of the names of what stands for a figure over the trials of a cell.
const (
	meanEnd = "_mean"
	Median  = "_median"
	sdEnd   = "_sd"
	CV      = "_cv" // sd / mean
	CILow   = "_ci95_low"
	CIHigh  = "_ci95_high"
)

// Each makes the table of cells from the table of trials: one row per cell,
// in the order of their first trials, with the number of trials and of valid
// ones, and of each of its figures over the valid trials the mean, the median,
// the standard deviation (n - 1), the coefficient of variation (sd / mean) and
// the 95 % interval of the mean by Student's t, which covers what differs between the
// trials: of one launch, or of as many as the column launches says. What there are too few trials
// for is nil. A trial that is unlike the others is named and stays in.
//
// A trial without a value has no part in a figure; one with an infinite value makes
// the figure nil.
// The figures of percentiles are over the trials' own percentiles, not
// percentiles of all their requests together. The objectives are those of the cells by
// their ids, over all their trials together.
// The rows of a cell must be neighbours. It goes through them once, holds those of one cell at
// a time, and keeps what comes of each cell in few bytes.
func Each(cols []result.Column, rows iter.Seq[result.Row], objectives map[string][]result.SLOResult) ([]result.Column, iter.Seq[result.Row]) {
	keys := groupKeys(cols)
	out := append(slices.Clone(keys),
		result.Column{Name: trialsColumn, Type: result.Int, Unit: "trials", Doc: "Trials of the cell that have an outcome, without those that were skipped."},
		result.Column{Name: validColumn, Type: result.Int, Unit: "trials", Doc: "Those whose numbers may be used; the figures are over them."},
		nullable(launchesColumn, result.Int, "launches", "Launches of the server that the valid trials are of. At 1 the figures' deviations and intervals are within one launch; they cover what differs between launches only if there are as many launches as valid trials. Null if the launch of a trial is not known."),
		nullable(OutlierTrials, result.String, "", "Valid trials that are unlike the others, with the figure by which they are: trial:figure, joined by commas. None is left out."),
	)
	for _, c := range cols {
		if c.Name != col.SLOPass && strings.HasPrefix(c.Name, col.OfSLO("")) {
			out = append(out, nullable(c.Name, result.String, "", "What the objective comes to over all valid trials of the cell together: pass, fail or undecided; null if it could not be checked."))
		}
	}
	var figures []figure
	for _, name := range grouped {
		if c, ok := result.Lookup(cols, name); ok {
			figures = append(figures, figure{name, name + meanEnd, name + Median, name + sdEnd, name + CV, name + CILow, name + CIHigh})
			out = append(out,
				nullable(name+meanEnd, result.Float, c.Unit, "Mean of "+name+" over the valid trials."),
				nullable(name+Median, result.Float, c.Unit, "Median of "+name+" over the valid trials."),
				nullable(name+sdEnd, result.Float, c.Unit, "Standard deviation (n - 1) of "+name+" between the valid trials."),
				nullable(name+CV, result.Float, "ratio", "Standard deviation of "+name+" / its mean."),
				nullable(name+CILow, result.Float, c.Unit, "Lower end of the 95 % interval of the mean of "+name+"."),
				nullable(name+CIHigh, result.Float, c.Unit, "Upper end of the 95 % interval of the mean of "+name+"."),
			)
		}
	}

	cell := func(trials []result.Row) result.Row {
		row := group(keys, figures, trials)
		id, _ := trials[0][col.CellID].(string)
		for _, o := range objectives[id] {
			if o.Verdict != "" {
				row[col.OfSLO(o.Name)] = o.Verdict
			}
		}
		return row
	}
	var table result.Packed
	var all [][]sample
	none := make([]sample, len(compared)) // one trial has no spread, and is unlike no other
	for trials := range cells(rows) {
		table.Add(cell(trials))
		samples := none
		if len(trials) > 1 {
			samples = samplesOf(trials)
		}
		all = append(all, samples)
	}
	unlike := outliers(all)
	return out, func(yield func(result.Row) bool) {
		i := 0
		for row := range table.All() {
			if unlike[i] != "" {
				row[OutlierTrials] = unlike[i]
			}
			if i++; !yield(row) {
				return
			}
		}
	}
}

// cells returns the rows of each cell, which are neighbours.
func cells(rows iter.Seq[result.Row]) iter.Seq[[]result.Row] {
	return func(yield func([]result.Row) bool) {
		var trials []result.Row
		for row := range rows {
			if len(trials) > 0 && trials[0][col.CellID] != row[col.CellID] {
				if !yield(trials) {
					return
				}
				trials = nil
			}
			trials = append(trials, row.Trusted())
		}
		if len(trials) > 0 {
			yield(trials)
		}
	}
}

// groupKeys returns the columns that all trials of a cell share; run_id has every run
// that measured one of them.
func groupKeys(cols []result.Column) []result.Column {
	shared := []string{
		col.GPU, col.Concurrency, col.MaxTokens, col.RunID, col.Plan, col.CellID, col.SpecDigest, col.Method, col.ConditionsDigest, col.Backend, col.Simulated, col.TimeScale,
		col.Engine, col.Model, col.ModelRevision, col.GPUCount, col.PriceSource, col.RequestRate, col.TargetInputTokens,
	}
	own := map[string]bool{}
	for _, c := range result.Columns(result.Extra{}) {
		own[c.Name] = true
	}
	var keys []result.Column
	for _, c := range cols {
		axis := !own[c.Name] && !strings.HasPrefix(c.Name, col.OfSLO(""))
		if axis || slices.Contains(shared, c.Name) {
			keys = append(keys, c)
		}
	}
	return keys
}

// A figure is a column that is summarized, and the columns of what stands for it.
type figure struct{ of, mean, median, sd, cv, low, high string }

// group returns the row of one cell.
func group(keys []result.Column, figures []figure, trials []result.Row) result.Row {
	run := 0
	for _, t := range trials {
		if t[col.Status] != result.StatusSkipped {
			run++
		}
	}
	row := make(result.Row, len(keys)+3+2*len(figures)) // of one trial, as most are
	row[trialsColumn] = int64(run)
	for _, c := range keys {
		row[c.Name] = trials[0][c.Name]
	}
	if row[col.RunID] != nil {
		row[col.RunID] = runs(trials)
	}
	var valid []result.Row
	for _, t := range trials {
		if t[col.Valid] == true {
			valid = append(valid, t)
		}
	}
	row[validColumn] = int64(len(valid))
	if n := launches(valid); n > 0 {
		row[launchesColumn] = int64(n)
	}
	var values []float64
	for _, f := range figures {
		infinite := func(t result.Row) bool { return t.Infinite(f.of) }
		if slices.ContainsFunc(valid, infinite) {
			continue // so is the mean
		}
		values = values[:0]
		for _, t := range valid {
			if v, ok := t.Number(f.of); ok {
				values = append(values, v)
			}
		}
		if len(values) == 0 {
			continue
		}
		mean, sd := meanAndSD(values)
		row[f.mean], row[f.median] = mean, result.Median(values)
		if len(values) < 2 {
			continue
		}
		row[f.sd] = sd
		if mean != 0 {
			row[f.cv] = sd / mean
		}
		interval := benchmath.AssumeNormal.Summary(benchmath.NewSample(values, &benchmath.DefaultThresholds), confidence)
		row[f.low], row[f.high] = max(0, interval.Lo), interval.Hi // no mean is below 0, so it covers as much
	}
	return row
}

// launches returns how many launches the trials are of; 0 if that of one is not known.
func launches(trials []result.Row) int {
	seen := map[[2]any]bool{}
	for _, t := range trials {
		if t[col.Launch] == nil {
			return 0
		}
		seen[[2]any{t[col.RunID], t[col.Launch]}] = true
	}
	return len(seen)
}

// runs returns the runs that measured the trials, joined by commas: some may have been
// taken over from another.
func runs(trials []result.Row) string {
	var ids []string
	for _, t := range trials {
		if id, ok := t[col.RunID].(string); ok && !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	return strings.Join(ids, ",")
}

// confidence is that of the interval of a mean.
const confidence = 0.95

// meanAndSD returns the mean and the sample's standard deviation, which is NaN for
// one value.
func meanAndSD(values []float64) (mean, sd float64) {
	if mean, sd = stats.Mean(values), stats.StdDev(values); len(values) < 2 {
		sd = math.NaN()
	}
	return mean, sd
}

func nullable(name string, t result.Type, unit, doc string) result.Column {
	return result.Column{Name: name, Type: t, Unit: unit, Nullable: true, Doc: doc}
}
