package groups

import (
	"math"
	"slices"
	"strings"

	"sweep.dev/sweep/result"
)

// grouped are the columns that are summarized over the trials of a cell.
var grouped = []string{
	"p50_ttft_ms", "p95_ttft_ms", "p99_ttft_ms",
	"p50_tpot_ms", "p95_tpot_ms", "p99_tpot_ms",
	"p50_itl_ms", "p95_itl_ms", "p99_itl_ms",
	"p50_e2e_ms", "p95_e2e_ms", "p99_e2e_ms",
	"throughput_tok_s", "total_throughput_tok_s", "request_throughput", "goodput_req_s",
	"p50_user_tok_s", "error_rate", "cost_usd", "usd_per_1m_output_tokens",
}

// Of makes the table of cells from the table of trials: one row per cell,
// in the order of their first trials, with the number of trials and of valid
// ones, and of each of its figures over the valid trials the mean, the
// standard deviation (n - 1), the coefficient of variation (sd / mean) and the
// 95 % interval of the mean by Student's t. What there are too few trials for
// is nil.
func Of(cols []result.Column, rows []result.Row) ([]result.Column, []result.Row) {
	keys := groupKeys(cols)
	out := append(slices.Clone(keys),
		result.Column{Name: "trials", Type: result.Int, Unit: "trials", Doc: "Trials of the cell."},
		result.Column{Name: "valid_trials", Type: result.Int, Unit: "trials", Doc: "Those whose numbers may be used; the figures are over them."},
	)
	var figures []result.Column
	for _, name := range grouped {
		if c, ok := result.Lookup(cols, name); ok {
			figures = append(figures, c)
			out = append(out,
				nullable(name+"_mean", result.Float, c.Unit, "Mean of "+name+" over the valid trials."),
				nullable(name+"_sd", result.Float, c.Unit, "Standard deviation (n - 1) of "+name+" between the valid trials."),
				nullable(name+"_cv", result.Float, "ratio", "Standard deviation of "+name+" / its mean."),
				nullable(name+"_ci95_low", result.Float, c.Unit, "Lower end of the 95 % interval of the mean of "+name+"."),
				nullable(name+"_ci95_high", result.Float, c.Unit, "Upper end of the 95 % interval of the mean of "+name+"."),
			)
		}
	}

	var order []string
	cells := map[string][]result.Row{}
	for _, row := range rows {
		id, _ := row["cell_id"].(string)
		if cells[id] == nil {
			order = append(order, id)
		}
		cells[id] = append(cells[id], row)
	}
	var table []result.Row
	for _, id := range order {
		table = append(table, group(keys, figures, cells[id]))
	}
	return out, table
}

// groupKeys are the columns that all trials of a cell share.
func groupKeys(cols []result.Column) []result.Column {
	shared := []string{
		"gpu", "concurrency", "max_tokens", "run_id", "plan", "cell_id", "spec_digest", "backend", "simulated",
		"engine", "model", "model_revision", "gpu_count", "request_rate", "target_input_tokens",
	}
	own := map[string]bool{}
	for _, c := range result.Columns(result.Extra{}) {
		own[c.Name] = true
	}
	var keys []result.Column
	for _, c := range cols {
		axis := !own[c.Name] && !strings.HasPrefix(c.Name, "slo_")
		if axis || slices.Contains(shared, c.Name) {
			keys = append(keys, c)
		}
	}
	return keys
}

// group is the row of one cell.
func group(keys, figures []result.Column, trials []result.Row) result.Row {
	row := result.Row{"trials": int64(len(trials))}
	for _, c := range keys {
		row[c.Name] = trials[0][c.Name]
	}
	var valid []result.Row
	for _, t := range trials {
		if t["valid"] == true {
			valid = append(valid, t)
		}
	}
	row["valid_trials"] = int64(len(valid))
	for _, c := range figures {
		var values []float64
		for _, t := range valid {
			if v, ok := number(t, c.Name); ok {
				values = append(values, v)
			}
		}
		n := float64(len(values))
		if n == 0 {
			continue
		}
		mean, sd := meanAndSD(values)
		row[c.Name+"_mean"] = mean
		if n < 2 {
			continue
		}
		row[c.Name+"_sd"] = sd
		if mean != 0 {
			row[c.Name+"_cv"] = sd / mean
		}
		half := studentT975(len(values)-1) * sd / math.Sqrt(n)
		row[c.Name+"_ci95_low"], row[c.Name+"_ci95_high"] = mean-half, mean+half
	}
	return row
}

// meanAndSD are the mean and the sample's standard deviation, which is NaN for
// one value.
func meanAndSD(values []float64) (mean, sd float64) {
	n := float64(len(values))
	for _, v := range values {
		mean += v - values[0] // from the first: equal values have no deviation
	}
	mean = values[0] + mean/n
	sum := 0.0
	for _, v := range values {
		sum += (v - mean) * (v - mean)
	}
	return mean, math.Sqrt(sum / (n - 1))
}

// studentT975 is the 97.5 % quantile of Student's t with df degrees of
// freedom: the tabled values up to 30, and from there the first terms of the
// Cornish-Fisher expansion around the normal's (Abramowitz and Stegun,
// 26.7.5), which are off by less than 1e-5.
func studentT975(df int) float64 {
	table := [...]float64{
		12.706205, 4.302653, 3.182446, 2.776445, 2.570582, 2.446912, 2.364624, 2.306004, 2.262157, 2.228139,
		2.200985, 2.178813, 2.160369, 2.144787, 2.131450, 2.119905, 2.109816, 2.100922, 2.093024, 2.085963,
		2.079614, 2.073873, 2.068658, 2.063899, 2.059539, 2.055529, 2.051831, 2.048407, 2.045230, 2.042272,
	}
	if df <= len(table) {
		return table[df-1]
	}
	const z = 1.959963984540054
	v := float64(df)
	const z3, z5, z7 = z * z * z, z * z * z * z * z, z * z * z * z * z * z * z
	return z + (z3+z)/(4*v) + (5*z5+16*z3+3*z)/(96*v*v) + (3*z7+19*z5+17*z3-15*z)/(384*v*v*v)
}

func nullable(name string, t result.Type, unit, doc string) result.Column {
	return result.Column{Name: name, Type: t, Unit: unit, Nullable: true, Doc: doc}
}

// number is a column's value, and whether it has one.
func number(r result.Row, name string) (float64, bool) {
	switch v := r[name].(type) {
	case float64:
		return v, true
	case int64:
		return float64(v), true
	}
	return 0, false
}
