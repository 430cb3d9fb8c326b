package expression

import (
	"testing"

	"sweep.dev/sweep/internal/syntax"
)

func measured() Env {
	e := env()
	e.Zero["c"], e.Zero["share"], e.Zero["used"] = 0.0, 0.0, 0.0
	e.Units = map[string]string{"a": "ms", "b": "s", "c": "tokens/s", "share": "ratio", "used": "bytes"}
	return e
}

func TestRun_units(t *testing.T) {
	values := map[string]any{"a": 300.0, "b": 90.0, "c": 4000.0, "share": 0.05, "used": float64(3 << 30), "gpu": "300ms"}
	for text, want := range map[string]bool{
		"a == 300ms":                       true,
		"a < 300ms":                        false,
		"a == 0.3s":                        true,
		"a == 3e5us":                       true,
		"a <= 300 ms and b > 1 m":          true,
		"b == 1.5m":                        true,
		"b < 2min && b < 1h":               true,
		"a in [200ms, 300ms]":              true,
		"not (a > 300ms)":                  true,
		"-a == -300ms":                     true,
		"a - 100ms == 0.2s":                true,
		"max(a, 1s) == 1000":               true,
		"a < 250ms + 100ms":                true,
		"2 * a < 601ms":                    true,
		"share == 5%":                      true,
		"share<=5%&&a>1":                   true,
		"c == 4k":                          true,
		"c > 4ki":                          false,
		"c == 4000tok/s":                   true,
		"used == 3GiB":                     true,
		"used > 3GB":                       true,
		`gpu == "300ms" and a == 300`:      true, // a text stays as it is
		"b > 80s ? a == 300ms : a == 1e3s": true,
	} {
		r := &syntax.Report{}
		e := Compile(r, syntax.Literal("x", text), measured())
		if e == nil {
			t.Errorf("%s: %v", text, r.Err())
			continue
		}
		if got, err := e.Run(values); err != nil || got != want {
			t.Errorf("%s = %v, %v; want %v", text, got, err, want)
		}
	}
}

func TestIn(t *testing.T) {
	if x, ok := in(300, "ms", "s"); !ok || x != 0.3 {
		t.Errorf("300 ms = %v s, %v", x, ok)
	}
	if x, ok := in(80, "%", "percent"); !ok || x != 80 {
		t.Errorf("80%% = %v percent, %v", x, ok)
	}
	if x, ok := in(4, "k", "endpoints"); !ok || x != 4000 {
		t.Errorf("4k = %v endpoints, %v", x, ok)
	}
	for unit, of := range map[string]string{"k": "ms", "ms": "", "s": "tokens/s", "endpoints": "endpoints"} {
		if x, ok := in(1, unit, of); ok {
			t.Errorf("1 %s = %v %s", unit, x, of)
		}
	}
}
