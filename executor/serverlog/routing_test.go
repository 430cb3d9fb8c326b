package serverlog

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"sweep.dev/sweep/backends"
	"sweep.dev/sweep/engine"
	"sweep.dev/sweep/result/finding"
)

// A router's log tells which worker got which phase of which request.
func TestReadRouting(t *testing.T) {
	f, err := os.Open("testdata/dynamo-1.6.1-disagg.frontend.log")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	dynamo, _ := engine.Lookup("dynamo-disagg")
	choice := regexp.MustCompile(dynamo.MetricsOf(dynamo.EntryRole()).Routed)
	r, err := readRouting(f, choice)
	if err != nil || r == nil {
		t.Fatal(r, err)
	}
	if got := r.String(); got != "prefill 7 (7); decode 7 (7)" {
		t.Errorf("got %q", got)
	}
	one := r.Requests["ecb04fb6-4d36-46a3-9bc0-6c2079e92330"]
	if one["prefill"] != "14432561736065644925" || one["decode"] != "3334648018003761726" {
		t.Errorf("got %v", one)
	}
	if r, err := readRouting(strings.NewReader("Selected model\n"), choice); r != nil || err != nil {
		t.Errorf("got %v, %v", r, err)
	}
	idle := r.Idle([]backends.Role{{Name: "prefill", Replicas: 1}, {Name: "decode", Replicas: 2}})
	if len(idle) != 1 || idle[0].Code != finding.WorkerIdle || !strings.Contains(idle[0].Text, "1 of the 2 workers of decode got no request") {
		t.Errorf("got %v", idle)
	}
}
