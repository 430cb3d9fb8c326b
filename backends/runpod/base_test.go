package runpod

import (
	"strings"
	"testing"
)

// A plan may be a stranger's: the key goes to RunPod, to this machine, or where
// whoever holds it has said in the environment.
func TestKnown(t *testing.T) {
	for _, c := range []struct {
		base, env string
		ok        bool
	}{
		{"", "", true},
		{"https://api.runpod.io/v2", "", true},
		{"https://v2-rest.runpod.dev/v2", "", true},
		{"http://127.0.0.1:8900", "", true},
		{"http://localhost:8900/v2", "", true},
		{"https://gateway.example.com/v2", "https://gateway.example.com", true},
		{"https://evil.example.com/v2", "", false},
		{"https://evil.example.com/v2", "https://gateway.example.com", false},
		{"https://gateway.example.com:444", "https://gateway.example.com", false},
		{"https://runpod.io.example.com", "", false},
		{"https://evilrunpod.io", "", false},
	} {
		t.Setenv(baseVar, c.env)
		_, err := Factory(nil).New(func(v any) error {
			v.(*Config).BaseURL = c.base
			return nil
		})
		if (err == nil) != c.ok || err != nil && !strings.Contains(err.Error(), baseVar) {
			t.Errorf("%q with %q: got %v", c.base, c.env, err)
		}
	}
}
