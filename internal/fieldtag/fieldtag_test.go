package fieldtag

import (
	"reflect"
	"testing"
)

func TestOf(t *testing.T) {
	type sample struct {
		Rate   float64 `yaml:"rate,omitempty" doc:"how fast" unit:"requests/s" gt:"0" max:"10" default:"8"`
		Mode   string  `yaml:"mode" enum:"a,b"`
		Plain  int
		Hidden int `yaml:"-"`
		own    int
	}
	_ = sample{}.own
	fields := Of(reflect.TypeFor[sample]())
	var keys []string
	for _, f := range fields {
		keys = append(keys, f.Key)
	}
	if want := []string{"rate", "mode", "plain"}; !reflect.DeepEqual(keys, want) {
		t.Fatalf("keys = %v, want %v", keys, want)
	}
	rate := fields[0]
	if rate.Doc != "how fast" || rate.Unit != "requests/s" || rate.Default != "8" {
		t.Errorf("rate = %+v", rate)
	}
	for v, want := range map[float64]string{0: "more than 0", -1: "more than 0", 11: "at most 10", 10: "", 0.5: ""} {
		if got := rate.Outside(v); got != want {
			t.Errorf("Outside(%v) = %q, want %q", v, got, want)
		}
	}
	if want := []string{"a", "b"}; !reflect.DeepEqual(fields[1].Enum, want) {
		t.Errorf("enum = %v, want %v", fields[1].Enum, want)
	}
}

func TestOf_badBound(t *testing.T) {
	type sample struct {
		N int `min:"many"`
	}
	defer func() {
		if recover() == nil {
			t.Error("a bound that is no number was taken")
		}
	}()
	Of(reflect.TypeFor[sample]())
}
