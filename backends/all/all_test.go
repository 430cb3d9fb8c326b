package all

import (
	"reflect"
	"testing"

	"sweep.dev/sweep/internal/fieldtag"
)

func TestFactories(t *testing.T) {
	seen := map[string]bool{}
	for _, f := range Factories(nil) {
		if f.Kind == "" || f.Doc == "" || f.New == nil || f.Config == nil {
			t.Errorf("incomplete: %+v", f)
		}
		if len(fieldtag.Of(reflect.TypeOf(f.Config))) == 0 { // it panics on a tag that it cannot read
			t.Errorf("%s has no configuration", f.Kind)
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
