package published_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"sweep.dev/sweep/judge/published"
)

// TestDocs: docs/judge.md has the table of checks, and what is said of its example.
func TestDocs(t *testing.T) {
	page, err := os.ReadFile("../../docs/judge.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range published.Checks() {
		row := fmt.Sprintf("| `%s` | %s | %s | %s |\n", c.Code, c.Needs, c.Meaning, c.Advice)
		if !strings.Contains(string(page), row) {
			t.Errorf("docs/judge.md wants the row\n%s", row)
		}
	}
	_, example, _ := strings.Cut(string(page), "```text\n{")
	example, _, _ = strings.Cut(example, "\n```")
	list, err := published.Of([]byte("{"+example), published.Options{})
	if err != nil || len(list) != 1 {
		t.Fatalf("the example: %v", err)
	}
	said := []string{strings.Join(list[0].Left, ", ") + "\n"}
	for _, f := range list[0].Findings {
		said = append(said, "  "+f.Code+"  ", f.Text+"\n", f.Advice+"\n")
	}
	for _, text := range said {
		if !strings.Contains(string(page), strings.TrimPrefix(text, " ")) {
			t.Errorf("docs/judge.md does not show %q", text)
		}
	}
}
