package planfile

import (
	"reflect"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"sweep.dev/sweep/internal/fieldtag"
	"sweep.dev/sweep/result/bounds"
)

// A plan that says nothing of validity has the defaults, and each of its keys
// moves the bound of its name alone: also to 0, if that is a bound.
func TestValidity(t *testing.T) {
	parsed := func(keys string) bounds.Bounds {
		t.Helper()
		p, err := Parse("plan.yaml", "", []byte(simple+"validity: {"+keys+"}\n"), testOptions())
		if err != nil {
			t.Fatal(err)
		}
		return p.Validity
	}
	if diff := cmp.Diff(bounds.Defaults(), parsed("")); diff != "" {
		t.Errorf("- the defaults, + the plan's:\n%s", diff)
	}
	for _, f := range fieldtag.Of(reflect.TypeFor[bounds.Bounds]()) {
		values := map[string]any{"0.5": 0.5, "50%": 0.5}
		if f.Outside(0) == "" {
			values["0"] = 0.0
		}
		switch f.Type {
		case reflect.TypeFor[time.Duration]():
			values = map[string]any{"30s": 30 * time.Second}
		case reflect.TypeFor[*int]():
			values = map[string]any{"0": new(int)}
		}
		for text, value := range values {
			want := bounds.Defaults()
			reflect.ValueOf(&want).Elem().Field(f.Index).Set(reflect.ValueOf(value))
			if diff := cmp.Diff(want, parsed(f.Key+": "+text)); diff != "" {
				t.Errorf("%s: %s:\n%s", f.Key, text, diff)
			}
		}
	}
}
