package plan

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"sweep.dev/sweep/internal/syntax"
)

// Every rule says what holds, finds something in a plan of the corpus, and
// changes nothing of the plan that it looks at.
func TestRules(t *testing.T) {
	speaks := make(map[string]bool)
	apply := func(c *checked, list []rule) {
		for _, r := range list {
			before := c.Report.Len()
			r.check(c)
			speaks[r.name] = speaks[r.name] || c.Report.Len() > before
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
		c, before := l.checked(p), canonical(p.resolved())
		apply(c, rules)
		if !bytes.Equal(before, canonical(p.resolved())) {
			t.Errorf("%s: a rule has changed the plan", file)
		}
		if l.Report.Len() == 0 && l.expand(p) {
			apply(c, cellRules)
		}
	}
	seen := make(map[string]bool)
	for _, r := range append(append([]rule{}, rules...), cellRules...) {
		if seen[r.name] || r.holds == "" {
			t.Errorf("rule %q is there twice, or does not say what holds", r.name)
		}
		seen[r.name] = true
		if !speaks[r.name] {
			t.Errorf("no plan of the corpus breaks the rule %q: %s", r.name, r.holds)
		}
	}
}
