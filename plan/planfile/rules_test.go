package planfile

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"sweep.dev/sweep/internal/syntax"
	"sweep.dev/sweep/plan"
	"sweep.dev/sweep/plan/internal/rules"
)

// Every rule says what holds, finds something in a plan of the corpus, and
// changes nothing of the plan that it looks at.
func TestRules(t *testing.T) {
	speaks := make(map[string]bool)
	resolved := func(p *plan.Plan) []byte {
		text, err := p.Resolved()
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	apply := func(c *rules.Checked, list []rules.Rule) {
		for _, r := range list {
			before := c.Report.Len()
			r.Check(c)
			speaks[r.Name] = speaks[r.Name] || c.Report.Len() > before
		}
	}
	for _, file := range corpus(t, "testdata/err/*.yaml") {
		src, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		opts := testOptions()
		opts.Set = sets(string(src))
		l := &loader{opts: opts, dir: "testdata/err"}
		l.Report = &syntax.Report{}
		p := l.read(filepath.Base(file), src)
		if p == nil {
			continue
		}
		before := resolved(p)
		l.check(p, apply)
		if !bytes.Equal(before, resolved(p)) {
			t.Errorf("%s: a rule has changed the plan", file)
		}
	}
	seen := make(map[string]bool)
	for _, r := range slices.Concat(rules.OfPlan, rules.OfLoads, rules.OfCells) {
		if seen[r.Name] || r.Holds == "" {
			t.Errorf("rule %q is there twice, or does not say what holds", r.Name)
		}
		seen[r.Name] = true
		if !speaks[r.Name] {
			t.Errorf("no plan of the corpus breaks the rule %q: %s", r.Name, r.Holds)
		}
	}
}
