package result

import (
	"regexp"
	"slices"
	"testing"
)

func TestColumns_firstEight(t *testing.T) {
	want := []string{
		"gpu", "concurrency", "max_tokens", "p50_ttft_ms", "p95_ttft_ms",
		"p50_e2e_ms", "p95_e2e_ms", "throughput_tok_s",
	}
	if got := names(Columns(Extra{}))[:8]; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// core is what a person reads of a row, so it stays short; what the plan adds
// comes on top.
func TestColumns_core(t *testing.T) {
	all := Columns(Extra{})
	var basic []string
	for _, c := range all {
		if c.Tier == Core {
			basic = append(basic, c.Name)
		}
	}
	if want := slices.Sorted(slices.Values(core())); !slices.Equal(slices.Sorted(slices.Values(basic)), want) {
		t.Errorf("core is %v, want %v", basic, want)
	}
	if len(basic) > 45 {
		t.Errorf("core has %d columns", len(basic))
	}
	for _, c := range Columns(Extra{Axes: []Column{{Name: "arg_x"}, {Name: "target_input_tokens"}}, SLOs: []string{"smooth"}, Roles: []string{"worker"}}) {
		want := Full
		if slices.Contains(append(basic, "arg_x", "target_input_tokens", "slo_smooth"), c.Name) {
			want = Core
		}
		if c.Tier != want {
			t.Errorf("%s is of the tier %q, want %s", c.Name, c.Tier, want)
		}
	}
}

func TestColumns_areWellFormed(t *testing.T) {
	name := regexp.MustCompile(`^[a-z][a-z0-9]*(_[a-z0-9]+)*$`)
	cols := Columns(Extra{
		Axes: []Column{{Name: "arg_max_num_seqs", Type: Int}, {Name: "concurrency", Type: Int}},
		SLOs: []string{"smooth"},
	})
	seen := map[string]bool{}
	for _, c := range cols {
		if !name.MatchString(c.Name) {
			t.Errorf("%s is no column name", c.Name)
		}
		if seen[c.Name] {
			t.Errorf("%s is there twice", c.Name)
		}
		seen[c.Name] = true
		if c.Name != "arg_max_num_seqs" && (c.Doc == "" || c.Doc[len(c.Doc)-1] != '.') {
			t.Errorf("%s: doc %q is no sentence", c.Name, c.Doc)
		}
		if !slices.Contains([]Type{String, Int, Float, Bool, Timestamp}, c.Type) {
			t.Errorf("%s: type %q", c.Name, c.Type)
		}
	}
}

func TestColumns_placesWhatThePlanAdds(t *testing.T) {
	got := names(Columns(Extra{
		Axes: []Column{{Name: "arg_max_num_seqs", Type: Int}, {Name: "gpu", Type: Int}},
		SLOs: []string{"smooth", "clean"},
	}))
	for _, pair := range [][2]string{
		{"target_input_tokens", "arg_max_num_seqs"},
		{"arg_max_num_seqs", "status"},
		{"slo_pass", "slo_smooth"},
		{"slo_smooth", "slo_clean"},
		{"slo_clean", "requests"},
	} {
		if i := slices.Index(got, pair[0]); i < 0 || got[i+1] != pair[1] {
			t.Errorf("%s does not come after %s", pair[1], pair[0])
		}
	}
}

func names(cols []Column) []string {
	var out []string
	for _, c := range cols {
		out = append(out, c.Name)
	}
	return out
}
