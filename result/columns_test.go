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
