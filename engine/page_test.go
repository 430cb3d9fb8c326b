package engine_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"sweep.dev/sweep/collectors/prom"
	"sweep.dev/sweep/engine"
	"sweep.dev/sweep/internal/exposition"
)

// TestPage runs the worked example of docs/engines.md: the file is a profile,
// the recording says what the table says, the command line is the one shown.
func TestPage(t *testing.T) {
	src, err := os.ReadFile("../docs/engines.md")
	if err != nil {
		t.Fatal(err)
	}
	page := string(src)
	for _, name := range engine.Names() {
		if !strings.Contains(page, "| `"+name+"`") && !strings.Contains(page, ", `"+name+"`") {
			t.Errorf("the page says nothing of %s", name)
		}
	}
	block := func(kind string) string {
		t.Helper()
		_, rest, ok := strings.Cut(page, "```"+kind+"\n")
		text, _, ok2 := strings.Cut(rest, "```")
		if !ok || !ok2 {
			t.Fatalf("the page has no block of %s", kind)
		}
		return text
	}
	var set engine.Set
	const file = "name: toy\n" // the first line of the example; other blocks are parts of files
	p, err := set.Add([]byte(file + block("yml\nname: toy")))
	if err != nil {
		t.Fatal(err)
	}

	args := []engine.Arg{{Name: "batch", Value: int64(8)}, {Name: "paging", Value: false}}
	argv, err := p.Argv("server", engine.Vars{Model: "org/model", Host: "127.0.0.1", Port: 7000}, args, nil)
	if err != nil || strings.Join(argv, " ") != strings.TrimSpace(block("console")) {
		t.Errorf("command line %q, %v", argv, err)
	}

	e, err := exposition.Parse([]byte(block("text")), true)
	if err != nil {
		t.Fatal(err)
	}
	x := prom.Explain([]*engine.Profile{p}, e, true)
	read := 0
	for _, f := range x.Families {
		if f.Is == prom.IsUnknown {
			t.Errorf("%s is unknown", f.Name)
		}
		for _, r := range f.Readings {
			read++
			if r.Value == nil || !strings.Contains(page, fmt.Sprintf("| `%s` | %v |\n", r.Quantity, *r.Value)) {
				t.Errorf("the page does not say %s: %v", r.Quantity, r.Value)
			}
		}
	}
	if want := len(p.Metrics.Series); read != want {
		t.Errorf("%d quantities read, want %d", read, want)
	}
}
