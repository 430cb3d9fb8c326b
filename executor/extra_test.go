package executor

import (
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"sweep.dev/sweep/backends"
	"sweep.dev/sweep/executor/event"
	"sweep.dev/sweep/executor/fingerprint"
	"sweep.dev/sweep/executor/serving"
	"sweep.dev/sweep/plan/plantest"
)

// A run announces how many requests it sends beyond the load at most, and which of
// their numbers are open.
func TestAnnounce(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		given bool
		load  string
		want  string
	}{
		"own": {
			false, `load: {requests: 2, warmup: {requests: 1}, max_tokens: 4, prompts: {input_tokens: 24}}`,
			"8 requests beyond the load (warm-up 2), more for count, metrics",
		},
		"own, by words and time": {
			false, `load: {requests: 2, warmup: {duration: 1s}, max_tokens: 4, prompts: {input_tokens: 24, length: words}}`,
			"6 requests beyond the load, more for warm up, metrics",
		},
		"given": {
			true, `load: {requests: 2, warmup: {requests: 0}, max_tokens: 4, prompts: {input_tokens: 24}}`,
			"268 requests beyond the load, more for metrics",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, waits, c.load) // a warm-up by time sends few requests
			w.must(func(config *Config) { config.Servers.Given = c.given })
			notices := w.seen(event.Notice)
			if len(notices) == 0 || notices[0].Text != "sim: up to "+c.want {
				t.Errorf("got %+v, want %s", notices, c.want)
			}
		})
	}
}

// Servers that get the same are announced once.
func TestAnnounce_several(t *testing.T) {
	t.Parallel()
	p := plantest.Parse(t, `matrix: {engine: sim, gpu: [a, b, c], concurrency: [1, 2], exclude: ['gpu == "c" && concurrency == 2']}`)
	got := Announce(p, p.Deployments(), &fakeBackend{}, serving.Options{Given: true})
	if len(got) != 2 || len(got[0].Servers) != 2 || !strings.HasPrefix(got[0].Title(), "sim a and 1 more server, each") {
		t.Errorf("%+v", got)
	}
}

// Every request that the servers get is the load's or is counted in a row: of
// attempts that a death discarded, of launches that failed, and of a run that goes on.
func TestRun_extraRequests(t *testing.T) {
	t.Parallel()
	dies := func(n int, _ backends.Spec) script {
		return script{request: func(s *fakeServer, i int) {
			if n == 1 && i == 3 {
				s.die(killed())
			}
		}}
	}
	for name, s := range map[string]func(int, backends.Spec) script{"quiet": nil, "a death": dies} {
		w := newWorld(t, s, `fingerprint: true`, `load: {requests: 3, warmup: {requests: 2}, max_tokens: 4, prompts: {input_tokens: 24, length: words}}`)
		w.must()
		var asked, computed int64
		for _, server := range w.backend.list() {
			want(t, name+": completions before the load of a launch", server.looked("probe"), 1+fingerprint.Asked())
			computed += int64(len(server.prompts()) + server.looked("probe"))
			asked += int64(server.looked("all"))
		}
		for _, o := range w.outcomes() {
			requests := o.Row["requests"].(int64)
			asked -= requests + o.Row["extra_requests"].(int64)
			computed -= requests + o.Row["extra_completions"].(int64)
		}
		if s != nil { // a server that died got less than it was sent
			asked, computed = max(0, asked), max(0, computed)
		}
		want(t, name+": requests without a row", asked, 0)
		want(t, name+": completions without a row", computed, 0)
	}
}

// A plan with fewer replicas of a role than its profile is announced as it is sent.
func TestExtras_replicasOfThePlan(t *testing.T) {
	t.Parallel()
	lines := []string{
		`matrix: {engine: split, concurrency: [1]}`, `engine_files: [` + splitEngine(t) + `]`,
		`engines: {split: {roles: {worker: {replicas: 1}}}}`,
	}
	p := plantest.Parse(t, lines...)
	announced := 0
	for _, x := range Extras(p, p.Deployments()[0], &fakeBackend{}, serving.Options{}) {
		if x.What == "reset" {
			announced = *x.Requests
		}
	}
	w := newWorld(t, nil, lines...)
	w.must()
	want(t, "resets announced", announced, 1)
	want(t, "resets sent", w.backend.list()[0].looked("reset"), 1)
}

// The docs list every kind of requests that the code sends.
func TestAnnounce_kinds(t *testing.T) {
	t.Parallel()
	p := plantest.Parse(t, `load: {requests: 2, warmup: {requests: 1}, max_tokens: 4, prompts: {input_tokens: 24}}`, `quality: {file: `+questions(t)+`}`, `fingerprint: true`)
	var kinds []string
	for _, given := range []bool{false, true} {
		for _, x := range Extras(p, p.Deployments()[0], &fakeBackend{}, serving.Options{Given: given}) {
			if !slices.Contains(kinds, x.What) {
				kinds = append(kinds, x.What)
			}
		}
	}
	b, err := os.ReadFile("../docs/given.md")
	if err != nil {
		t.Fatal(err)
	}
	docs := string(b)
	for _, kind := range kinds {
		if !strings.Contains(docs, "| `"+kind+"` |") {
			t.Errorf("docs/given.md does not list %s", kind)
		}
	}
	if len(kinds) != 8 {
		t.Errorf("%v are not all kinds", kinds)
	}
}

// waits answers each request after a moment.
func waits(int, backends.Spec) script {
	return script{request: func(*fakeServer, int) { time.Sleep(20 * time.Millisecond) }}
}
