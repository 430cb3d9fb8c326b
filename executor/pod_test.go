package executor

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"sweep.dev/sweep/backends"
	"sweep.dev/sweep/collectors"
	"sweep.dev/sweep/collectors/collectortest"
	"sweep.dev/sweep/executor/event"
	"sweep.dev/sweep/executor/observe"
	"sweep.dev/sweep/executor/serving"
	"sweep.dev/sweep/executor/serving/budget"
	"sweep.dev/sweep/result"
	"sweep.dev/sweep/rundir"
)

// states returns the transitions of a journal's pods, in order.
func (w *world) states() string {
	var list []string
	for _, e := range w.state().Events {
		if e.Type != "pod" {
			continue
		}
		var a backends.Transition
		if err := json.Unmarshal(e.Data, &a); err != nil {
			w.t.Error(err)
		}
		list = append(list, string(a.State))
	}
	return strings.Join(list, " ")
}

func TestPod_life(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.must()
	want(t, "states", w.states(), "intent create_sent created ready draining delete_sent gone_verified")
}

// Whatever else a run that is ended still has to do, its servers are ended
// first, all at once.
func TestPod_endedAtOnce(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancelCause(t.Context())
	stopping := make(chan string, 3)
	begun, all := make(chan struct{}, 3), make(chan struct{})
	w := newWorld(t, func(_ int, spec backends.Spec) script {
		return script{
			request: func(s *fakeServer, n int) {
				if n == 2 { // after the warm-up
					begun <- struct{}{}
				}
				<-s.hung()
			},
			stop: func(context.Context) error {
				stopping <- spec.Pod
				if len(stopping) == 3 {
					close(all)
				}
				<-all // a stop that waits for the others: they come, or this hangs
				return nil
			},
		}
	}, `matrix: {engine: sim, gpu: [a, b, c], concurrency: 1}`, `load: {requests: 2, warmup: {requests: 0}, max_tokens: 4, prompts: {input_tokens: 24}}`)
	// And whose collectors wait until the servers are ended.
	w.collectors = []observe.Named{{Kind: "slow", Collector: &collectortest.Fake{End: func(context.Context, collectors.Sink) (result.Row, error) {
		<-all
		return nil, nil
	}}}}
	w.on = func(e event.Event) {
		if e.Type == event.StepStarted && e.Step == "measure" {
			begun <- struct{}{}
		}
	}
	enough := errors.New("enough")
	go func() {
		for range 3 {
			<-begun
		}
		cancel(enough)
	}()
	rep, err := w.run(ctx, func(c *Config) { c.Parallel = 3 })
	if err != nil || rep.Left.Cleanup != nil || !errors.Is(rep.Interrupted, enough) {
		t.Errorf("%v, %+v", err, rep)
	}
	want(t, "stopped", len(stopping), 3)
	want(t, "owed", len(w.state().Owed), 0)
}

func TestMoney_stopsTheRun(t *testing.T) {
	t.Parallel()
	w := newWorld(t, always(script{request: func(s *fakeServer, _ int) { <-s.hung() }}), `timeouts: {stop: 1s, request: 20s}`)
	w.backend.usdPerHour = 3600 // a dollar a second
	rep, err := w.run(t.Context(), func(c *Config) { c.Servers.MaxCost = 4 })
	if err != nil || !errors.Is(rep.Interrupted, budget.ErrMaxCost) {
		t.Fatalf("%v, %+v", err, rep)
	}
	if rep.Left.Spending.USD < 1 || rep.Left.Spending.USD > 4 {
		t.Errorf("spent $%.2f of $4", rep.Left.Spending.USD)
	}
	want(t, "owed", len(w.state().Owed), 0)

	// Money that was spent still counts after a resume.
	before := w.backend.count("launch")
	rep, err = w.run(t.Context(), func(c *Config) { c.Servers.MaxCost = 4 })
	if err != nil || !errors.Is(rep.Interrupted, budget.ErrMaxCost) {
		t.Fatalf("resumed: %v, %+v", err, rep)
	}
	if got := w.backend.servers; w.backend.count("launch") > before+1 || rep.Left.Spending.USD > 4 {
		t.Errorf("resumed: %d servers, $%.2f of $4", len(got), rep.Left.Spending.USD)
	}
}

func TestMoney_tooDear(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil, `timeouts: {stop: 10s}`)
	w.backend.usdPerHour = 3600
	rep, err := w.run(t.Context(), func(c *Config) { c.Servers.MaxCost = 10 })
	if err != nil || !errors.Is(rep.Interrupted, budget.ErrMaxCost) {
		t.Errorf("%v, %+v", err, rep)
	}
	want(t, "servers", len(w.backend.list()), 0)
	want(t, "journaled", w.states(), "")
	want(t, "outcomes", w.summary(), "")
}

func TestMoney_lifetime(t *testing.T) {
	t.Parallel()
	w := newWorld(t, always(script{request: func(s *fakeServer, _ int) { <-s.hung() }}), `timeouts: {stop: 1s, request: 20s}`)
	rep, err := w.run(t.Context(), func(c *Config) { c.Servers.Lifetime = 4 * time.Second })
	if err != nil || !errors.Is(rep.Interrupted, budget.ErrLifetime) {
		t.Errorf("%v, %+v", err, rep)
	}
	want(t, "stopped", w.backend.count("stop"), 1)
}

func TestMoney_inRows(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.backend.usdPerHour = 0.25
	var row result.Row
	w.on = func(e event.Event) {
		if e.Type == event.TrialCommitted {
			row = e.Row
		}
	}
	w.must()
	if row["usd_per_hour"] != 0.25 || row["price_source"] != result.PriceProvider || row["image_digest"] != "sha256:0a" {
		t.Errorf("%v, %v, %v", row["usd_per_hour"], row["price_source"], row["image_digest"])
	}
}

func TestKeep(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.backend.usdPerHour = 1
	rep, err := w.run(t.Context(), func(c *Config) { c.Servers.Keep, c.Servers.Lifetime = time.Hour, time.Hour })
	if err != nil || rep.Left.Cleanup != nil || len(rep.Left.Kept) != 1 {
		t.Fatalf("%v, %+v", err, rep)
	}
	want(t, "stopped", w.backend.count("stop"), 0)
	want(t, "kept", w.backend.count("keep"), 1)
	owed := w.state().Owed
	if len(owed) != 1 || owed[0].State != backends.Kept || owed[0].Due(time.Now()) || !owed[0].Due(time.Now().Add(61*time.Minute)) {
		t.Errorf("%+v", owed)
	}
	for _, s := range w.backend.list() {
		s.close()
		s.served.Wait()
	}

	// One that does not want to be kept is ended, and so is one whose run is.
	w = newWorld(t, always(script{kept: errors.New("no")}))
	w.backend.usdPerHour = 1
	if rep, err := w.run(t.Context(), func(c *Config) { c.Servers.Keep = time.Hour }); err != nil || rep.Left.Cleanup != nil || len(rep.Left.Kept) != 0 {
		t.Errorf("%v, %+v", err, rep)
	}
	want(t, "stopped", w.backend.count("stop"), 1)
	want(t, "owed", len(w.state().Owed), 0)

	ctx, cancel := context.WithCancel(t.Context())
	w = newWorld(t, nil)
	w.backend.usdPerHour = 1
	w.on = func(e event.Event) {
		if e.Type == event.TrialCommitted {
			cancel()
		}
	}
	if rep, err := w.run(ctx, func(c *Config) { c.Servers.Keep = time.Hour }); err != nil || len(rep.Left.Kept) != 0 {
		t.Errorf("%v, %+v", err, rep)
	}
	want(t, "kept", w.backend.count("keep"), 0)
	want(t, "owed", len(w.state().Owed), 0)
}

// A panic is no good end of a run: no pod is kept after one, wherever it strikes, and each
// is ended. Nothing else of the run is left behind by it.
func TestKeep_panic(t *testing.T) {
	t.Parallel()
	in := func(typ event.Type) func(*world) {
		return func(w *world) {
			w.on = func(e event.Event) {
				if e.Type == typ {
					panic("ours")
				}
			}
		}
	}
	byTurns := []string{
		`engines: {other: {profile: sim}}`, `matrix: {engine: [sim, other], concurrency: [2]}`,
		`compare: {axis: engine, baseline: sim}`, `repeats: {n: 2, launch: each}`,
	}
	for name, c := range map[string]struct {
		lines []string
		where func(*world)
		pods  int
	}{
		"in a trial":              {nil, in(event.TrialCommitted), 1},
		"as the server is kept":   {nil, in(event.PodKept), 1},
		"in a turn":               {byTurns, in(event.TrialCommitted), 1},
		"as a turn's end is said": {byTurns, in(event.DeploymentStopped), 4},
		"after all":               {nil, in(event.RunFinished), 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, nil, c.lines...)
			w.backend.usdPerHour = 1
			c.where(w)
			rep, err := w.run(t.Context(), func(c *Config) { c.Servers.Keep, c.Servers.Lifetime = time.Hour, time.Hour })
			if _, panicked := errors.AsType[*serving.Panic](err); !panicked {
				t.Errorf("the error is %v, want the panic", err)
			}
			kept := 0
			if name == "after all" { // of the run, which has ended well by then
				kept = 1
			}
			want(t, "kept", len(rep.Left.Kept), kept)
			want(t, "not ended", rep.Left.Cleanup, nil)
			want(t, "launched", w.backend.count("launch"), c.pods)
			want(t, "stopped", w.backend.count("stop"), c.pods-kept)
			want(t, "owed", len(w.state().Owed), kept)
			for _, s := range w.backend.list() {
				s.close()
				s.served.Wait()
			}
		})
	}
}

// A fakePodLedger has at most one kept pod.
type fakePodLedger struct {
	kept  *rundir.Owed
	holds bool
	taken func() // called when it was taken over
	asked []string
}

func (b *fakePodLedger) Ledger(_ string, inner backends.Ledger) backends.Ledger { return inner }

func (b *fakePodLedger) Adopt(digest string, _ time.Duration) (rundir.Owed, bool, error) {
	b.asked = append(b.asked, digest)
	if b.kept == nil {
		return rundir.Owed{}, false, nil
	}
	o := *b.kept
	b.kept = nil
	if b.taken != nil {
		b.taken()
	}
	return o, true, nil
}

func (b *fakePodLedger) Holds(string) (bool, error) { return b.holds, nil }

func TestAdopt(t *testing.T) {
	t.Parallel()
	for _, missing := range []bool{false, true} {
		ref := backends.Ref{Kind: "fake", RunID: "run-0", Pod: "old-l01", ID: "id-old"}
		ledger := &fakePodLedger{kept: &rundir.Owed{
			Pod: "old-l01", Kind: "fake", Name: "sw-old", State: backends.Created, Ref: &ref,
			Expires: time.Now().Add(time.Hour), USDPerHour: 1,
		}}
		w := newWorld(t, nil)
		rep, err := w.run(t.Context(), func(c *Config) {
			c.Servers.PodLedger, c.Backend = ledger, adoptingBackend{w.backend, missing}
		})
		if err != nil || rep.Left.Cleanup != nil || rep.Missing != 0 {
			t.Fatalf("missing %v: %v, %+v", missing, err, rep)
		}
		launched := 0
		if missing {
			launched = 1
		}
		want(t, "adopted", w.backend.count("adopt id-old"), 1)
		want(t, "launched", w.backend.count("launch"), launched)
		want(t, "stopped", w.backend.count("stop"), 1)
		want(t, "owed", len(w.state().Owed), 0)
		want(t, "digest", strings.HasPrefix(ledger.asked[0], "fake-"), true)
	}
}

// A run that ends in the moment in which it has taken a pod over ends the pod
// too: no other run knows of it any more.
func TestAdopt_interrupted(t *testing.T) {
	t.Parallel()
	ref := backends.Ref{Kind: "fake", RunID: "run-0", Pod: "old-l01", ID: "id-old"}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ledger := &fakePodLedger{taken: cancel, kept: &rundir.Owed{
		Pod: "old-l01", Kind: "fake", Name: "sw-old", State: backends.Created, Ref: &ref, Expires: time.Now().Add(time.Hour),
	}}
	w := newWorld(t, nil)
	rep, err := w.run(ctx, func(c *Config) { c.Servers.PodLedger, c.Backend = ledger, adoptingBackend{w.backend, false} })
	if err != nil || rep.Left.Cleanup != nil {
		t.Fatalf("%v, %+v", err, rep)
	}
	want(t, "ended", w.backend.count("terminate id-old"), 1)
	want(t, "adopted", w.backend.count("adopt"), 0)
	want(t, "owed", len(w.state().Owed), 0)
}

// A pod that was taken over is not kept beyond its own end.
func TestAdopt_keptAgain(t *testing.T) {
	t.Parallel()
	ref := backends.Ref{Kind: "fake", RunID: "run-0", Pod: "old-l01", ID: "id-old"}
	end := time.Now().Add(time.Hour)
	ledger := &fakePodLedger{kept: &rundir.Owed{
		Pod: "old-l01", Kind: "fake", Name: "sw-old", State: backends.Created, Ref: &ref, Expires: end,
	}}
	w := newWorld(t, nil)
	rep, err := w.run(t.Context(), func(c *Config) {
		c.Servers.PodLedger, c.Backend, c.Servers.Keep = ledger, adoptingBackend{w.backend, false}, 2*time.Hour
	})
	if err != nil || len(rep.Left.Kept) != 1 || !rep.Left.Kept[0].Expires.Equal(end) {
		t.Errorf("%v, %+v; want it kept until %v", err, rep.Left, end)
	}
	for _, s := range w.backend.list() {
		s.close()
		s.served.Wait()
	}
}

// A resume ends a pod that its run kept if the pod is due, and never if another run
// has it by now.
func TestReclaim_kept(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name          string
		holds, due    bool
		ended, stands int
	}{
		{"not due", true, false, 0, 1},
		{"due", true, true, 1, 0},
		{"taken over", false, true, 0, 0},
		{"given back", true, false, 0, 0},
	} {
		w := newWorld(t, nil)
		w.backend.usdPerHour = 1
		keep := time.Hour
		if c.due {
			keep = time.Millisecond
		}
		if _, err := w.run(t.Context(), func(c *Config) { c.Servers.Keep = keep }); err != nil {
			t.Fatal(err)
		}
		for _, s := range w.backend.list() {
			s.close()
			s.served.Wait()
		}
		ledger := &fakePodLedger{holds: c.holds}
		if owed := w.state().Owed; c.name != "given back" {
			w.backend.known = []backends.Listed{{Ref: *owed[0].Ref}}
			w.backend.known[0].Name = owed[0].Name
		}
		if _, err := w.run(t.Context(), func(c *Config) { c.Servers.PodLedger = ledger }); err != nil {
			t.Fatal(err)
		}
		want(t, c.name+": ended", w.backend.count("terminate"), c.ended)
		want(t, c.name+": owed", len(w.state().Owed), c.stands)
	}
}
