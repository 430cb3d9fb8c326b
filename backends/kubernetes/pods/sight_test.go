package pods

import (
	"encoding/json"
	"errors"
	"testing"
	"time"

	"sweep.dev/sweep/backends"
	"sweep.dev/sweep/backends/kubernetes/signs"
)

// Two short times in which the cluster does not hear from a node are not one long time. Nor
// does a time count in which the pod cannot be looked at.
func TestSight_heardAgain(t *testing.T) {
	t.Parallel()
	at := func(ready string) *pod {
		var p pod
		if err := json.Unmarshal([]byte(`{"status":{"phase":"Running","conditions":[{"type":"ContainersReady","status":"True"},{"type":"Ready","status":"`+ready+`"}]}}`), &p); err != nil {
			t.Fatal(err)
		}
		return &p
	}
	unheard := sight{pod: at("False")}
	for name, between := range map[string]sight{
		"heard":   {pod: at("True")},
		"trouble": {pod: at("False"), trouble: errors.New("connection refused")},
	} {
		j, begun := &signs.Judge{What: "pod x"}, time.Now()
		for after, s := range []sight{unheard, between, unheard} {
			if err := s.judge(j, begun.Add(time.Duration(after)*(signs.NodeGone+time.Second))); err != nil {
				t.Errorf("%s, look %d: %v", name, after, err)
			}
		}
		err := unheard.judge(j, begun.Add(3*(signs.NodeGone+time.Second)))
		if f, ok := errors.AsType[*backends.Failure](err); !ok || f.Class != signs.Node {
			t.Errorf("%s: unheard for long: %v", name, err)
		}
	}
}
