package groups

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"sweep.dev/sweep/result"
	"sweep.dev/sweep/result/col"
)

// table is [Each], of rows in any order.
func table(cols []result.Column, rows []result.Row, objectives map[string][]result.SLOResult) ([]result.Column, []result.Row) {
	var cells []string
	byCell := map[string][]result.Row{}
	for _, row := range rows {
		id, _ := row[col.CellID].(string)
		if byCell[id] == nil {
			cells = append(cells, id)
		}
		byCell[id] = append(byCell[id], row)
	}
	var sorted []result.Row
	for _, id := range cells {
		sorted = append(sorted, byCell[id]...)
	}
	out, each := Each(cols, slices.Values(sorted), objectives)
	return out, slices.Collect(each)
}

func TestEach(t *testing.T) {
	cols := result.Columns(result.Extra{Axes: []result.Column{{Name: "arg_x", Type: result.Int}}, SLOs: []string{"smooth"}})
	trial := func(cell string, valid any, ttft any) result.Row {
		return result.Row{"cell_id": cell, "engine": "vllm", "arg_x": int64(7), "valid": valid, "p50_ttft_ms": ttft, "slo_smooth": "pass"}
	}
	gotCols, got := table(cols, []result.Row{
		trial("b", true, 10.0), trial("a", true, 5.0), trial("b", true, 12.0), trial("b", false, 999.0),
		trial("b", true, 14.0), trial("c", nil, nil), trial("b", true, nil),
	}, map[string][]result.SLOResult{"b": {{Name: "smooth", Verdict: result.SLOUndecided}}})
	if len(got) != 3 {
		t.Fatalf("%d rows, want 3", len(got))
	}
	half := 4.30265272991 * 2 / math.Sqrt(3)
	check(t, got[0], result.Row{
		"cell_id": "b", "engine": "vllm", "arg_x": int64(7), "trials": int64(5), "valid_trials": int64(4),
		"slo_smooth": "undecided", "p50_ttft_ms_mean": 12.0, "p50_ttft_ms_median": 12.0, "p50_ttft_ms_sd": 2.0, "p50_ttft_ms_cv": 2.0 / 12,
		"p50_ttft_ms_ci95_low": 12 - half, "p50_ttft_ms_ci95_high": 12 + half, "throughput_tok_s_mean": nil,
	})
	check(t, got[1], result.Row{"cell_id": "a", "trials": int64(1), "slo_smooth": nil, "p50_ttft_ms_mean": 5.0, "p50_ttft_ms_sd": nil, "p50_ttft_ms_ci95_low": nil})
	check(t, got[2], result.Row{"cell_id": "c", "trials": int64(1), "valid_trials": int64(0), "p50_ttft_ms_mean": nil})
	for _, row := range got {
		if _, err := row.Conform(gotCols); err != nil {
			// The test's rows lack most of what is required; nothing may be unknown.
			for name := range row {
				if _, ok := result.Lookup(gotCols, name); !ok {
					t.Errorf("%s is no column", name)
				}
			}
		}
	}
	if _, ok := result.Lookup(gotCols, "slo_pass"); ok {
		t.Error("slo_pass is a column, but trials may differ in it")
	}
}

// No figure is negative, so neither is the interval of its mean. Its upper end is Student's.
func TestOf_intervalsFromZero(t *testing.T) {
	t.Parallel()
	for _, values := range [][2]float64{{10, 90}, {0, 0.01}} {
		var rows []result.Row
		for _, v := range values {
			row := result.Row{"cell_id": "a", "valid": true}
			for _, name := range grouped {
				row[name] = v
			}
			rows = append(rows, row)
		}
		mean, half := (values[0]+values[1])/2, 12.7062047362*(values[1]-values[0])/2
		_, got := table(result.Columns(result.Extra{}), rows, nil)
		for _, name := range grouped {
			check(t, got[0], result.Row{name + CILow: 0.0, name + CIHigh: mean + half})
		}
	}
}

// A trial may have been taken over from another run.
func TestOf_namesEveryRun(t *testing.T) {
	var rows []result.Row
	for _, run := range []string{"r1", "r2", "r1"} {
		rows = append(rows, result.Row{"cell_id": "a", "run_id": run, "valid": true})
	}
	if _, got := table(result.Columns(result.Extra{}), rows, nil); got[0]["run_id"] != "r1,r2" {
		t.Errorf("run_id is %v", got[0]["run_id"])
	}
}

func TestMeanAndSD_ofEqualValues(t *testing.T) {
	if mean, sd := meanAndSD([]float64{0.1, 0.1, 0.1}); mean != 0.1 || sd != 0 {
		t.Errorf("got %v and %v, want 0.1 and 0", mean, sd)
	}
}

func TestOf_namesOutliers(t *testing.T) {
	trials := func(valid any, values ...float64) []result.Row {
		var rows []result.Row
		for i, v := range values {
			rows = append(rows, result.Row{
				"cell_id": "a", "trial": int64(i + 1), "valid": valid, "throughput_tok_s": v, "error_rate": 0.0, "p50_ttft_ms": 7.0,
			})
		}
		return rows
	}
	for _, c := range []struct {
		rows []result.Row
		want any
	}{
		{trials(true, 100, 101, 99, 100.5, 60), "5:throughput_tok_s"},
		{trials(true, 100, 60), nil}, // too few
		{trials(true, 100, 100.001, 60), "3:throughput_tok_s"},
		{trials(false, 100, 101, 99, 100.5, 60), nil},                // no numbers to use
		{trials(true, 100, 100.01, 99.99, 100.02, 103), nil},         // too close to matter
		{trials(true, 100, 120, 80, 110, 60), nil},                   // they all differ
		{trials(true, 100, 100, 100, 100, 50), "5:throughput_tok_s"}, // no deviation but its own
	} {
		_, got := table(result.Columns(result.Extra{}), c.rows, nil)
		if got[0][OutlierTrials] != c.want {
			t.Errorf("%v: outliers %v, want %v", c.rows, got[0][OutlierTrials], c.want)
		}
		if n := int64(len(c.rows)); c.rows[0]["valid"] == true && (got[0]["valid_trials"] != n || got[0]["throughput_tok_s_mean"] == nil) {
			t.Errorf("an outlier was left out: %v", got[0])
		}
	}
}

// TestOutliers_seldom holds that trials of one normal distribution, as far apart as
// trials usually are, are hardly ever called outliers, and that cells which scatter alike
// lend each other what five trials do not know.
func TestOutliers_seldom(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	const runs = 400
	for _, lenders := range []int{0, 5} {
		named, found := 0, 0
		for range runs {
			cells := make([][]result.Row, 1+lenders)
			for i := range cells {
				for trial := range int64(5) {
					cells[i] = append(cells[i], result.Row{col.Valid: true, col.Trial: trial, col.ThroughputTokS: 100 + 3*r.NormFloat64()})
				}
			}
			if unlikeOf(cells) != "" {
				named++
			}
			cells[0][2][col.ThroughputTokS] = 70 + 2*r.NormFloat64()
			if unlikeOf(cells) == "2:"+col.ThroughputTokS {
				found++
			}
		}
		if share := float64(named) / runs; share > outlierLevel {
			t.Errorf("%d lend: an outlier in %.1f %% of cells that have none", lenders, 100*share)
		}
		if share := float64(found) / runs; share < 0.8 && lenders > 0 {
			t.Errorf("%d lend: %.0f %% of trials 30 %% below the others are named", lenders, 100*share)
		}
	}
}

func unlikeOf(cells [][]result.Row) string {
	all := make([][]sample, len(cells))
	for i, trials := range cells {
		all[i] = samplesOf(trials)
	}
	return outliers(all)[0]
}

// check holds columns against what they must be; nil means that there is none.
func check(t *testing.T, row result.Row, want result.Row) {
	t.Helper()
	for name, w := range want {
		got := row[name]
		if g, ok := got.(float64); ok {
			if w, ok := w.(float64); ok && math.Abs(g-w) <= 1e-8*math.Max(1, math.Abs(w)) {
				continue
			}
		}
		if got != w {
			t.Errorf("%s is %v (%T), want %v (%T)", name, got, got, w, w)
		}
	}
}

// An interval says of how many launches its trials are.
func TestOf_countsLaunches(t *testing.T) {
	trial := func(run string, launch, valid any) result.Row {
		return result.Row{"cell_id": "a", "run_id": run, "launch": launch, "valid": valid, "throughput_tok_s": 1.0}
	}
	for name, c := range map[string]struct {
		rows []result.Row
		want any
	}{
		"one":          {[]result.Row{trial("r", int64(1), true), trial("r", int64(1), true)}, int64(1)},
		"each":         {[]result.Row{trial("r", int64(1), true), trial("r", int64(2), true)}, int64(2)},
		"invalid":      {[]result.Row{trial("r", int64(1), true), trial("r", int64(2), false)}, int64(1)},
		"two runs":     {[]result.Row{trial("r", int64(1), true), trial("s", int64(1), true)}, int64(2)},
		"one unknown":  {[]result.Row{trial("r", int64(1), true), trial("r", nil, true)}, nil},
		"none of them": {[]result.Row{trial("r", int64(1), false)}, nil},
	} {
		_, got := table(result.Columns(result.Extra{}), c.rows, nil)
		if got[0]["launches"] != c.want {
			t.Errorf("%s: %v launches, want %v", name, got[0]["launches"], c.want)
		}
	}
}

// Named loads have nothing in common: the cells of one lend those of another nothing.
func TestOutliers_ofOneLoad(t *testing.T) {
	of := func(load any) deployment {
		return samplesOf([]result.Row{{col.Valid: true, col.Engine: "vllm", result.LoadAxis: load, col.ThroughputTokS: 100.0}})[0].of
	}
	if of("chat") == of("batch") {
		t.Error("cells of two loads lend each other their spread")
	}
	if of("chat") != of("chat") || of(nil) != of(nil) {
		t.Error("cells of one load do not lend each other their spread")
	}
}
