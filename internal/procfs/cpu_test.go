package procfs

import "testing"

func TestParseCPUTime(t *testing.T) {
	for _, c := range []struct {
		text string
		want CPUTime
		ok   bool
	}{
		{"cpu  10 1 20 60 2 0 3 4 7 0\ncpu0 1 2 3\n", CPUTime{100, 4}, true},
		{"cpu  10 1 20 60 2 0 3\n", CPUTime{}, false}, // before Linux 2.6.11
		{"cpu0 10 1 20 60 2 0 3 4 0 0\n", CPUTime{}, false},
		{"cpu  10 1 x 60 2 0 3 4 0 0\n", CPUTime{}, false},
		{"", CPUTime{}, false},
	} {
		if got, ok := parseCPUTime([]byte(c.text)); got != c.want || ok != c.ok {
			t.Errorf("%q: %+v, %v", c.text, got, ok)
		}
	}
	if got, ok := (CPUTime{300, 14}).StolenSince(CPUTime{100, 4}); got != 0.05 || !ok {
		t.Errorf("stolen %g, %v", got, ok)
	}
	// The kernel's figures may step back when a CPU is taken away.
	for _, from := range []CPUTime{{100, 5}, {50, 5}, {100, 4}} {
		if got, ok := (CPUTime{100, 4}).StolenSince(from); ok {
			t.Errorf("stolen %g since %v", got, from)
		}
	}
	if now, ok := ReadCPUTime(); ok && now.All == 0 {
		t.Error("the machine has done nothing")
	}
}
