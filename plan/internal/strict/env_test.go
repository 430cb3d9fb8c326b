package strict

import "testing"

// A secret that is stored at a provider is named in a plan, and is no secret
// there. What only looks like its name is.
func TestPlaceholder(t *testing.T) {
	for text, want := range map[string]bool{
		"{{ RUNPOD_SECRET_hf }}":         true,
		"{{RUNPOD_SECRET_hf}}":           true,
		"{{ hf_abcdefgh }}":              false,
		"{{ RUNPOD_SECRET_hf }} hf_abcd": false,
		"{{ RUNPOD_SECRET_hf":            false,
		"{{ A-B }}":                      false,
		"{{ }}":                          false,
		"hf_abcdefgh":                    false,
		"":                               false,
	} {
		if got := placeholder.MatchString(text); got != want {
			t.Errorf("%q: got %t", text, got)
		}
	}
}
