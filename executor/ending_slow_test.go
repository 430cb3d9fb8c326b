//go:build slow

package executor

import (
	"slices"
	"testing"
	"time"

	"sweep.dev/sweep/backends"
	"sweep.dev/sweep/judge/stopping"
)

// An open loop whose server does not follow is ended as saturated.
func TestEnding_saturated(t *testing.T) {
	t.Parallel()
	gate := make(chan struct{}, 1) // one request at a time
	w := newWorld(t, func(int, backends.Spec) script {
		return script{request: func(*fakeServer, int) {
			gate <- struct{}{}
			time.Sleep(25 * time.Millisecond)
			<-gate
		}}
	}, `matrix: {engine: sim, request_rate: [60, 90, 120]}`,
		`load: {duration: 28s, warmup: {requests: 1}, max_tokens: 4, prompts: {input_tokens: 24}, stop: {saturated: true, skip_higher: true}}`)
	w.must()
	list := w.outcomes()
	want(t, "outcomes", w.summary(), "ok/1 ok/1 skipped/1")
	want(t, "ended by", list[0].Row["ended_by"], stopping.Saturated)
	want(t, "load_stopped", slices.Contains(codesOf(list[0]), "load_stopped"), true)
	want(t, "steadiness_unknown", slices.Contains(codesOf(list[0]), "steadiness_unknown"), false)
	if n := list[0].Row["cancelled"].(int64); n == 0 {
		t.Error("nothing was in flight")
	}
}
