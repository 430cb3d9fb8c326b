package planfile

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"sweep.dev/sweep/plan"
)

// FuzzParse holds that no file makes us panic, that every error has a place,
// and that what is taken once is taken again with the same meaning.
func FuzzParse(f *testing.F) {
	for _, pattern := range []string{"testdata/ok/*.yaml", "testdata/err/*.yaml"} {
		files, err := filepath.Glob(pattern)
		if err != nil {
			f.Fatal(err)
		}
		for _, file := range files {
			src, err := os.ReadFile(file)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(string(src))
		}
	}
	f.Fuzz(func(t *testing.T, src string) {
		opts := testOptions()
		opts.MaxCells = 500
		opts.Set = sets(src)
		// Not the folder of the corpus: a fuzzer writes paths too.
		p, err := Parse("fuzz.yaml", t.TempDir(), []byte(src), opts)
		if err != nil {
			var d *plan.Diagnostics
			if !errors.As(err, &d) {
				t.Fatalf("error without a place: %v", err)
			}
			checkDiagnostics(t, d)
			_ = d.Pretty()
			return
		}
		q, err := Parse("again.yaml", t.TempDir(), []byte(src), opts)
		if err != nil || p.Digest() != q.Digest() {
			t.Fatalf("read again, it is another plan: %v", err)
		}
		for _, d := range p.Deployments() {
			for _, c := range d.Cells {
				brought := c.Load.Trace.Lengths() || c.Load.Prompts.Distribution == plan.Empirical
				if len(c.ID) != 12 || c.Load.MaxTokens < 1 && !brought {
					t.Fatalf("cell %+v", c)
				}
			}
		}
		for _, s := range p.SLO {
			if s.Evaluate(nil, nil, 0.95).Verdict != "" {
				t.Fatalf("%s passes on nothing", s.Name)
			}
		}
	})
}
