package finding

import (
	"encoding/json"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// Every code that is declared has a fact, every fact says what it means and what
// to do, and no code has two in one table.
func TestFacts(t *testing.T) {
	source, err := os.ReadFile("table.go")
	if err != nil {
		t.Fatal(err)
	}
	var declared []string
	for _, m := range regexp.MustCompile(`= Code\{"([a-z][a-z0-9_]*)"\}`).FindAllStringSubmatch(string(source), -1) {
		declared = append(declared, m[1])
	}
	if n := strings.Count(string(source), "Code{\""); n != len(declared) || n < 60 {
		t.Errorf("%d codes, %d of them in snake_case", n, len(declared))
	}
	var told []string
	for name, facts := range map[string][]Fact{"reasons": Reasons(), "remarks": Remarks()} {
		seen := map[Code]bool{}
		for _, f := range facts {
			if seen[f.Code] || f.Doc == "" || f.Advice == "" {
				t.Errorf("%s: %s stands twice, or lacks its meaning or its advice", name, f.Code)
			}
			seen[f.Code] = true
			if !strings.HasPrefix(f.Code.String(), Collector("").String()) || slices.Contains(declared, f.Code.String()) {
				told = append(told, f.Code.String())
			}
		}
	}
	slices.Sort(declared)
	slices.Sort(told)
	if told = slices.Compact(told); !slices.Equal(declared, told) {
		t.Errorf("declared:    %v\nin the facts: %v", declared, told)
	}
}

func TestAdvice(t *testing.T) {
	if got, want := Advice(ClientSkew), "the clients of one load did not begin together -> give each client a CPU of its own, or lower load.clients"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := Advice(BoundLoosened); got != "" {
		t.Errorf("advice on what is no reason: %q", got)
	}
}

// The brief of a reason is one short line, and has the advice without its asides.
func TestBrief(t *testing.T) {
	if got, want := Brief(ClientLag), "the client read late and took the receive times itself -> give it cores of its own, or fewer streams"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	for _, f := range Reasons() {
		if text := Brief(f.Code); len(text) > 170 || strings.ContainsAny(text, "`();") {
			t.Errorf("%s: %d characters: %s", f.Code, len(text), text)
		}
	}
	if got := Brief(BoundLoosened); got != "" {
		t.Errorf("a brief of what is no reason: %q", got)
	}
}

// A code is text in a file, and one of another version survives being read.
func TestCode_json(t *testing.T) {
	for _, c := range []Code{Drift, {"of_another_version"}} {
		text, err := json.Marshal(c)
		if err != nil || string(text) != `"`+c.String()+`"` {
			t.Errorf("%s is stored as %s, %v", c, text, err)
		}
		var back Code
		if err := json.Unmarshal(text, &back); err != nil || back != c {
			t.Errorf("%s comes back as %s, %v", c, back, err)
		}
	}
}
