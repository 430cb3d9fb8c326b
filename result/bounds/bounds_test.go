package bounds

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"sweep.dev/sweep/internal/fieldtag"
	"sweep.dev/sweep/result/finding"
)

func TestDefaults(t *testing.T) {
	want := Bounds{
		ErrorRate: 0.05, Moved: 0.05, Throttled: 0.1,
		Steal: 0.02, Drift: 0.2, OutputOff: 0.01, CacheHitExcess: 0.05, DecodeOnly: 0.05, ForeignLoad: 0.05,
	}
	if diff := cmp.Diff(want, Defaults()); diff != "" {
		t.Errorf("- want, + got:\n%s", diff)
	}
}

// Each bound is named where it is wider, and nowhere else.
func TestBounds_wider(t *testing.T) {
	if wider := Defaults().Wider(Defaults()); wider != nil {
		t.Errorf("the defaults are wider than themselves: %v", wider)
	}
	for _, f := range fieldtag.Of(reflect.TypeFor[Bounds]()) {
		b := Defaults()
		switch to := reflect.ValueOf(&b).Elem().Field(f.Index).Addr().Interface().(type) {
		case *float64:
			*to *= 2
		case **int: // no bound is the default
			*to = new(int)
			if wider := b.Wider(Defaults()); wider != nil {
				t.Errorf("%s: %v", f.Key, wider)
			}
			continue
		default:
			t.Errorf("%s has a type that Wider does not know", f.Key)
		}
		wider := b.Wider(Defaults())
		if len(wider) != 1 || !strings.HasPrefix(wider[0], f.Key+" ") {
			t.Errorf("%s: %v", f.Key, wider)
		}
		if wider := Defaults().Wider(b); wider != nil {
			t.Errorf("a tighter %s: %v", f.Key, wider)
		}
	}
	b := Defaults()
	b.Moved, b.Steal = 1, 0.5
	if got, want := strings.Join(b.Wider(Defaults()), ", "), "max_moved 100 % (default 5 %), max_steal 50 % (default 2 %)"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// The documentation of a reason for INVALID names the bound that it breaks.
func TestBounds_documented(t *testing.T) {
	for _, f := range fieldtag.Of(reflect.TypeFor[Bounds]()) {
		if !slices.ContainsFunc(finding.Reasons(), func(r finding.Fact) bool { return strings.Contains(r.Detail, "`"+f.Key+"`") }) {
			t.Errorf("no reason for INVALID names %s", f.Key)
		}
	}
}
