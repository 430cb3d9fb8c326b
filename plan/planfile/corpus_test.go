package planfile

import (
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"sweep.dev/sweep/plan"
)

var update = flag.Bool("update", false, "write golden files in place of comparing")

// golden compares got with a file, or writes it.
func golden(t *testing.T, name, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(name, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", name, diff)
	}
}

// sets reads the "# set: path=value" lines at the head of a corpus file.
func sets(src string) []string {
	var out []string
	for line := range strings.Lines(src) {
		set, ok := strings.CutPrefix(line, "# set: ")
		if !ok {
			break
		}
		out = append(out, strings.TrimSuffix(set, "\n"))
	}
	return out
}

func corpus(t *testing.T, pattern string) []string {
	t.Helper()
	files, err := filepath.Glob(pattern)
	if err != nil || len(files) == 0 {
		t.Fatalf("no files match %s (%v)", pattern, err)
	}
	return files
}

// TestErr holds everything that each wrong plan is told, to the letter.
func TestErr(t *testing.T) {
	files := corpus(t, "testdata/err/*.yaml")
	if len(files) < 80 {
		t.Errorf("the corpus has %d wrong plans, want at least 80", len(files))
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".yaml"), func(t *testing.T) {
			src, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			opts := testOptions()
			opts.Set = sets(string(src))
			_, err = Parse(filepath.Base(file), "testdata/err", src, opts)
			d, ok := plan.IsDiagnostics(err)
			if !ok {
				t.Fatalf("error = %v, want diagnostics", err)
			}
			checkDiagnostics(t, d)
			if strings.Contains(d.Pretty(), "hunter") {
				t.Errorf("a credential of the file is printed: %s", d.Pretty())
			}
			golden(t, strings.TrimSuffix(file, ".yaml")+".out", d.Pretty()+"\n")
		})
	}
}

var machineLine = regexp.MustCompile(`^[^:\n]+:[1-9][0-9]*:[1-9][0-9]*: [^\n]+ \[[a-z-]+\]$`)

// checkDiagnostics holds what is true of every diagnostic.
func checkDiagnostics(t *testing.T, d *plan.Diagnostics) {
	t.Helper()
	if len(d.List) == 0 {
		t.Error("an error without a diagnostic")
	}
	for _, one := range d.List {
		if !machineLine.MatchString(one.String()) {
			t.Errorf("not a machine line: %q", one)
		}
		if one.EndCol <= one.Col {
			t.Errorf("%s: empty span %d to %d", one, one.Col, one.EndCol)
		}
		if strings.Contains(one.Pretty(), "canary") { // the environment's, not the file's own
			t.Errorf("a secret is printed: %s", one.Pretty())
		}
	}
}

func TestErr_tenAtOnce(t *testing.T) {
	_, err := Open("testdata/err/mixed_ten.yaml", testOptions())
	d, ok := plan.IsDiagnostics(err)
	if !ok || len(d.List) != 10 {
		t.Fatalf("got %v, want ten diagnostics", err)
	}
	rules := make(map[string]bool)
	for _, one := range d.List {
		rules[one.Rule] = true
	}
	if len(rules) < 8 {
		t.Errorf("only %d different rules: %v", len(rules), rules)
	}
}
