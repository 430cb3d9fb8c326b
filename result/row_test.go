package result

import (
	"encoding/json"
	"maps"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"
)

func TestRow_comesBackFromJSONWithItsTypes(t *testing.T) {
	at := time.Date(2026, 3, 4, 5, 6, 7, 891_000, time.FixedZone("", 3600))
	want := Row{
		"gpu": "RTX \"2000\" <Ada>\n", "concurrency": int64(8), "request_rate": 4.0, "throughput_tok_s": 1e21,
		"error_rate": 0.0, "simulated": true, "started_at": at.UTC(), "p50_ttft_ms": nil,
		"output_tokens": int64(1<<53 + 1), "p95_ttft_ms": math.Inf(1), "p90_ttft_ms": math.Copysign(0, -1),
		"arg_ratio": 2.0, "arg_max_num_seqs": int64(64), "arg_dtype": "2026-03-04T05:06:07Z", "slo_smooth": "undecided",
	}
	in := Outcome{CellID: "c", Row: Row{}, StartedAt: at, FinishedAt: at}
	maps.Copy(in.Row, want)
	in.Row["started_at"] = at
	data, err := json.Marshal(in)
	if err != nil {
		t.Fatal(err)
	}
	var out Outcome
	if err := json.Unmarshal(data, &out); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, out.Row); diff != "" {
		t.Error(diff)
	}
	again, err := json.Marshal(out.Row)
	if err != nil || !strings.Contains(string(data), string(again)) {
		t.Errorf("written again it is\n%s\nnot as in\n%s\n(%v)", again, data, err)
	}
}

// A row of any values comes back with the same values of the same types, and
// written again it has the same bytes: every column, null, and floats that are
// no number or zero of either sign.
func TestRow_anyRowComesBack(t *testing.T) {
	cols := Columns(Extra{Axes: []Column{{Name: "arg_i", Type: Int}, {Name: "arg_s", Type: String}, {Name: "arg_b", Type: Bool}}, SLOs: []string{"smooth"}})
	// JSON alone says the type of a column that is not in the registry.
	cols = append(cols, Column{Name: "arg_f", Type: "finite"})
	floats := rapid.OneOf(rapid.Float64(), rapid.SampledFrom([]float64{math.NaN(), math.Inf(1), math.Inf(-1), 0, math.Copysign(0, -1), 4, 1e21}))
	rapid.Check(t, func(t *rapid.T) {
		want := Row{}
		for _, c := range cols {
			if rapid.IntRange(0, 3).Draw(t, "null") == 0 {
				want[c.Name] = nil
				continue
			}
			switch c.Type {
			case String:
				want[c.Name] = rapid.String().Draw(t, c.Name)
			case Int:
				want[c.Name] = rapid.Int64().Draw(t, c.Name)
			case Float:
				want[c.Name] = floats.Draw(t, c.Name)
			case Bool:
				want[c.Name] = rapid.Bool().Draw(t, c.Name)
			case Timestamp:
				want[c.Name] = time.UnixMicro(rapid.Int64Range(0, 1<<52).Draw(t, c.Name)).UTC()
			default:
				want[c.Name] = rapid.Float64Range(-math.MaxFloat64, math.MaxFloat64).Draw(t, c.Name)
			}
		}
		data, err := json.Marshal(want)
		if err != nil {
			t.Fatal(err)
		}
		var got Row
		if err := json.Unmarshal(data, &got); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got, cmpopts.EquateNaNs()); diff != "" {
			t.Fatal(diff)
		}
		if again, err := json.Marshal(got); err != nil || string(again) != string(data) {
			t.Fatalf("written again it is %s, not %s (%v)", again, data, err)
		}
	})
}

func TestRow_UnmarshalJSON_rejects(t *testing.T) {
	for _, text := range []string{
		`{"p50_ttft_ms":"fast"}`, `{"started_at":"yesterday"}`, `{"requests":99999999999999999999}`, `{"requests":1.5}`,
		`{"x":[1]}`, `{"x":{}}`, `[]`,
	} {
		var r Row
		if err := json.Unmarshal([]byte(text), &r); err == nil {
			t.Errorf("%s was read as %v", text, r)
		}
	}
}

func TestRow_Conform(t *testing.T) {
	cols := []Column{
		{Name: "s", Type: String},
		{Name: "i", Type: Int, Nullable: true},
		{Name: "f", Type: Float, Nullable: true},
		{Name: "b", Type: Bool, Nullable: true},
		{Name: "t", Type: Timestamp, Nullable: true},
	}
	at := time.Date(2026, 1, 2, 3, 4, 5, 6_789, time.FixedZone("", 7200))
	got, err := Row{"s": "a\xff", "i": 3, "f": 4, "t": at}.Conform(cols)
	if err != nil {
		t.Fatal(err)
	}
	want := Row{"s": "a\uFFFD", "i": int64(3), "f": 4.0, "b": nil, "t": at.UTC().Truncate(time.Microsecond)}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if got, err := (Row{"s": "", "f": math.Inf(1)}).Conform(cols); err != nil || got["f"] != nil {
		t.Errorf("infinity: %v, %v", got["f"], err)
	}
	_, err = Row{"i": 1.5, "b": "true", "x": 1}.Conform(cols)
	for _, want := range []string{"s may not be null", "i is 1.5 (float64)", "b is true (string)", "x is no column"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the error does not say %q: %v", want, err)
		}
	}
}

func TestRow_Derive(t *testing.T) {
	r := Row{"duration_s": 36.0, "usd_per_hour": 2.0, "output_tokens": int64(4000), "gpu_energy_j": 100.0, "server_output_tokens": int64(3600), "throughput_tok_s": 200.0}
	r.Derive()
	check(t, r, Row{"cost_usd": 0.02, "usd_per_1m_output_tokens": 2.0 / 0.72, "usd_per_1m_output_tokens_whole": 5.0, "joules_per_output_token": 0.025, "server_throughput_tok_s": 100.0})
	r = Row{"duration_s": 36.0, "usd_per_hour": 2.0, "output_tokens": int64(0), "throughput_tok_s": 0.0, "gpu_energy_j": nil}
	r.Derive()
	check(t, r, Row{"cost_usd": 0.02, "usd_per_1m_output_tokens": nil, "usd_per_1m_output_tokens_whole": nil, "joules_per_output_token": nil, "server_throughput_tok_s": nil})
}

// check holds columns against what they must be; nil means that there is none.
func check(t *testing.T, row Row, want Row) {
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
