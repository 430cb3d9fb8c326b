package groups

import (
	"math"
	"testing"

	"sweep.dev/sweep/result"
)

func TestOf(t *testing.T) {
	cols := result.Columns(result.Extra{Axes: []result.Column{{Name: "arg_x", Type: result.Int}}, SLOs: []string{"smooth"}})
	trial := func(cell string, valid any, ttft any) result.Row {
		return result.Row{"cell_id": cell, "engine": "vllm", "arg_x": int64(7), "valid": valid, "p50_ttft_ms": ttft, "slo_smooth": true}
	}
	gotCols, got := Of(cols, []result.Row{
		trial("b", true, 10.0), trial("a", true, 5.0), trial("b", true, 12.0), trial("b", false, 999.0),
		trial("b", true, 14.0), trial("c", nil, nil), trial("b", true, nil),
	})
	if len(got) != 3 {
		t.Fatalf("%d rows, want 3", len(got))
	}
	half := 4.302653 * 2 / math.Sqrt(3)
	check(t, got[0], result.Row{
		"cell_id": "b", "engine": "vllm", "arg_x": int64(7), "trials": int64(5), "valid_trials": int64(4),
		"p50_ttft_ms_mean": 12.0, "p50_ttft_ms_sd": 2.0, "p50_ttft_ms_cv": 2.0 / 12,
		"p50_ttft_ms_ci95_low": 12 - half, "p50_ttft_ms_ci95_high": 12 + half, "throughput_tok_s_mean": nil,
	})
	check(t, got[1], result.Row{"cell_id": "a", "trials": int64(1), "p50_ttft_ms_mean": 5.0, "p50_ttft_ms_sd": nil, "p50_ttft_ms_ci95_low": nil})
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
	if _, ok := result.Lookup(gotCols, "slo_smooth"); ok {
		t.Error("slo_smooth is a column, but trials may differ in it")
	}
}

func TestMeanAndSD_ofEqualValues(t *testing.T) {
	if mean, sd := meanAndSD([]float64{0.1, 0.1, 0.1}); mean != 0.1 || sd != 0 {
		t.Errorf("got %v and %v, want 0.1 and 0", mean, sd)
	}
}

// TestStudentT975 integrates the density: half of what lies between -t and t
// must be 0.475.
func TestStudentT975(t *testing.T) {
	for df := 1; df <= 200; df++ {
		v := float64(df)
		a, _ := math.Lgamma((v + 1) / 2)
		b, _ := math.Lgamma(v / 2)
		c := math.Exp(a-b) / math.Sqrt(v*math.Pi)
		density := func(x float64) float64 { return c * math.Pow(1+x*x/v, -(v+1)/2) }
		const steps = 20_000 // Simpson's rule
		end := studentT975(df)
		h := end / steps
		sum := density(0) + density(end)
		for i := 1; i < steps; i++ {
			sum += density(float64(i)*h) * float64(2+2*(i%2))
		}
		if got := sum * h / 3; math.Abs(got-0.475) > 2e-7 {
			t.Errorf("df %d: %.7f lies between 0 and %v, want 0.475", df, got, end)
		}
	}
}

// check holds columns against what they must be; nil means that there is none.
func check(t *testing.T, row result.Row, want result.Row) {
	t.Helper()
	for name, w := range want {
		got := row[name]
		if g, ok := got.(float64); ok {
			if w, ok := w.(float64); ok && math.Abs(g-w) <= 1e-9*math.Max(1, math.Abs(w)) {
				continue
			}
		}
		if got != w {
			t.Errorf("%s is %v (%T), want %v (%T)", name, got, got, w, w)
		}
	}
}
