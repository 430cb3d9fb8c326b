package all

import (
	"errors"
	"testing"

	"sweep.dev/sweep/result"
)

func TestFactories(t *testing.T) {
	columns := result.Columns(result.Extra{})
	wrong := errors.New("wrong")
	seen := map[string]bool{}
	for _, f := range Factories() {
		if f.Kind == "" || f.Doc == "" || seen[f.Kind] {
			t.Errorf("%q: its kind or doc is empty, or there are two", f.Kind)
		}
		seen[f.Kind] = true
		// A plan that only names the sink decodes nothing.
		for name, decode := range map[string]func(any) error{"nil": nil, "nothing": func(any) error { return nil }} {
			if s, err := f.New(decode, columns); err != nil || s == nil {
				t.Errorf("%s (%s): %v, %v", f.Kind, name, s, err)
			}
		}
		if _, err := f.New(func(any) error { return wrong }, columns); !errors.Is(err, wrong) {
			t.Errorf("%s: what is wrong with its configuration is lost: %v", f.Kind, err)
		}
	}
}
