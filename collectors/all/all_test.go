package all

import (
	"errors"
	"reflect"
	"testing"
)

// Every collector can be made without a word in the plan, decodes into the
// type that it shows, and passes an error of the plan on.
func TestCollectors(t *testing.T) {
	seen := map[string]bool{}
	for _, f := range Collectors() {
		if f.Kind == "" || f.Doc == "" || seen[f.Kind] {
			t.Errorf("%q: it needs a name of its own and a line of documentation", f.Kind)
		}
		seen[f.Kind] = true
		var decoded reflect.Type
		c, err := f.New(func(v any) error { decoded = reflect.TypeOf(v).Elem(); return nil })
		if err != nil || c == nil {
			t.Errorf("%s: %v, %v", f.Kind, c, err)
		}
		if want := reflect.TypeOf(f.Config); decoded != want {
			t.Errorf("%s decodes into %v and shows %v", f.Kind, decoded, want)
		}
		wrong := errors.New("plan.yaml:7:3: unknown key")
		if _, err := f.New(func(any) error { return wrong }); !errors.Is(err, wrong) {
			t.Errorf("%s: got %v, want the plan's error", f.Kind, err)
		}
	}
	if len(seen) != 3 {
		t.Errorf("collectors: %v", seen)
	}
}
