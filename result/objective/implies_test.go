package objective

import "testing"

func TestImplies(t *testing.T) {
	t.Parallel()
	below := func(column string, limit float64) Comparison { return Comparison{column, "<", limit} }
	one := func(c Comparison) [][]Comparison { return [][]Comparison{{c}} }
	ttft, tpot := below("p95_ttft_ms", 200), below("p95_tpot_ms", 25)
	for _, c := range []struct {
		name          string
		strict, loose [][]Comparison
		want, back    bool
	}{
		{"a looser bound", one(ttft), one(below("p95_ttft_ms", 1000)), true, false},
		{"the same", one(ttft), one(ttft), true, true},
		{"the bound itself", one(ttft), one(Comparison{"p95_ttft_ms", "<=", 200}), true, false},
		{"fewer parts", [][]Comparison{{ttft}, {tpot}}, one(ttft), true, false},
		{"all looser", [][]Comparison{{ttft}, {tpot}}, [][]Comparison{{below("p95_tpot_ms", 50)}, {below("p95_ttft_ms", 1000)}}, true, false},
		{"one tighter", [][]Comparison{{ttft}, {tpot}}, [][]Comparison{{below("p95_ttft_ms", 1000)}, {below("p95_tpot_ms", 20)}}, false, false},
		{"another metric", one(ttft), one(below("p95_tpot_ms", 1000)), false, false},
		{"a lower percentile", one(ttft), one(below("p90_ttft_ms", 200)), true, false},
		{"a mean", one(ttft), one(below("mean_ttft_ms", 1000)), false, false},
		{"a looser mean", one(below("mean_ttft_ms", 100)), one(below("mean_ttft_ms", 200)), true, false},
		{"of the whole trial", one(ttft), one(below("p95_ttft_ms_whole", 1000)), false, false},
		{"failures", one(below("error_rate", .01)), one(below("error_rate", .05)), true, false},
		{"failures and a latency", one(below("error_rate", .01)), one(ttft), false, false},
		{"a speed", one(Comparison{"p50_user_tok_s", ">", 50}), one(Comparison{"p50_user_tok_s", ">", 20}), true, false},
		{"a speed and a time", one(Comparison{"p50_user_tok_s", ">", 50}), one(below("p50_tpot_ms", 25)), true, false},
		{"a side more", one(ttft), [][]Comparison{{ttft, tpot}}, true, false},
		{"sides", [][]Comparison{{ttft, tpot}}, [][]Comparison{{below("p95_tpot_ms", 50), below("p95_ttft_ms", 400)}}, true, false},
		{"no comparison", one(Comparison{}), one(Comparison{}), false, false},
	} {
		if got := Implies(c.strict, c.loose); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
		if got := Implies(c.loose, c.strict); got != c.back {
			t.Errorf("%s, the other way: %v", c.name, got)
		}
	}
}
