package plaintext

import (
	"os/exec"
	"testing"
)

// A shell takes each word for what it is.
func TestWord(t *testing.T) {
	for text, want := range map[string]string{
		"run-1/plan.yaml": "run-1/plan.yaml", "": "''", "a b": "'a b'", "$(id)": "'$(id)'", "it's": `'it'\''s'`, "~": "'~'", "a\nb": "'a\nb'",
	} {
		got := Word(text)
		if got != want {
			t.Errorf("Word(%q) = %s, want %s", text, got, want)
		}
		if out, err := exec.Command("/bin/sh", "-c", "printf %s "+got).Output(); err != nil || string(out) != text {
			t.Errorf("a shell makes %q of %q: %v", out, text, err)
		}
	}
}
