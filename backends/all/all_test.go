package all

import "testing"

func TestFactories(t *testing.T) {
	seen := map[string]bool{}
	for _, f := range Factories(nil) {
		if f.Kind == "" || f.Doc == "" || f.New == nil || f.Config == nil {
			t.Errorf("incomplete: %+v", f)
		}
		if seen[f.Kind] {
			t.Errorf("%s is there twice", f.Kind)
		}
		seen[f.Kind] = true
	}
	for _, kind := range []string{"command", "docker", "endpoint", "kubernetes", "process", "runpod", "sim", "ssh"} {
		if !seen[kind] {
			t.Errorf("%s is missing", kind)
		}
	}
}
