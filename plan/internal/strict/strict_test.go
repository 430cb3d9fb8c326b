package strict

import (
	"testing"

	"sweep.dev/sweep/internal/syntax"
)

// A section that a file has begins with the numbers that its tags name, unless
// something else has defaults for it.
func TestDecode_sections(t *testing.T) {
	type section struct {
		Rate  float64 `yaml:"rate" default:"1.5"`
		Count int     `yaml:"count" default:"30"`
		Limit int     `yaml:"limit" default:"all"`
		Name  string  `yaml:"name" default:"2"`
	}
	var plan struct {
		New, Old, Absent *section
	}
	plan.Old = &section{Count: 7}
	r := &syntax.Report{}
	d := Decoder{Report: r}
	d.Decode(syntax.Parse("p.yaml", "new: {rate: 3}\nold: {}\n", r), &plan, "")
	if err := r.Err(); err != nil {
		t.Fatal(err)
	}
	if want := (section{Rate: 3, Count: 30}); *plan.New != want {
		t.Errorf("a new section is %+v, want %+v", *plan.New, want)
	}
	if want := (section{Count: 7}); *plan.Old != want || plan.Absent != nil {
		t.Errorf("the others are %+v and %v", *plan.Old, plan.Absent)
	}
}
