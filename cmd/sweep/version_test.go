package main

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"
)

// TestVersion_modules: what sweep says that it was built from is what go.sum has.
func TestVersion_modules(t *testing.T) {
	var out struct {
		Version, Go, OS, Arch string
		Modules               []module
	}
	ran := sweep(t, t.TempDir(), nil, "version", "--json")
	if err := json.Unmarshal([]byte(ran.stdout), &out); err != nil {
		t.Fatal(err, ran.stderr)
	}
	if out.Version == "" || out.Go == "" || out.OS == "" || out.Arch == "" {
		t.Errorf("it leaves something out: %+v", out)
	}
	sums, err := os.ReadFile("../../go.sum")
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(string(sums), "\n")
	for _, m := range out.Modules {
		if line := strings.Join([]string{m.Path, m.Version, m.Sum}, " "); !slices.Contains(lines, line) {
			t.Errorf("go.sum has no line %q", line)
		}
	}
	for _, path := range []string{
		"github.com/goccy/go-yaml", "github.com/expr-lang/expr", "github.com/parquet-go/parquet-go",
		"github.com/prometheus/common", "github.com/urfave/cli/v3",
	} {
		if !slices.ContainsFunc(out.Modules, func(m module) bool { return m.Path == path }) {
			t.Errorf("%s is missing", path)
		}
	}
}

// TestVersion_flag: --version prints what version prints.
func TestVersion_flag(t *testing.T) {
	want := sweep(t, t.TempDir(), nil, "version")
	if got := sweep(t, t.TempDir(), nil, "--version"); got.code != exitOK || got.stdout != want.stdout || !strings.HasPrefix(got.stdout, "sweep ") {
		t.Errorf("exit %d, %q; version prints %q", got.code, got.stdout, want.stdout)
	}
}
