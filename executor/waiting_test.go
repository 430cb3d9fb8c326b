package executor

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"sweep.dev/sweep/executor/event"
)

// A given server that refuses is not waited for.
func TestReady_givenFailsAtOnce(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		script   script
		outcomes string
		says     string
	}{
		"no key":    {script{probe: status(http.StatusUnauthorized)}, "auth", "answered 401"},
		"wrong key": {script{probe: status(http.StatusForbidden)}, "auth", "key and the headers"},
		"no route":  {script{probe: status(http.StatusNotFound)}, "rejected", "completions answered 404"},
		"refused":   {script{probe: status(http.StatusUnprocessableEntity)}, "rejected", "short request"},
		"moved":     {script{probe: status(http.StatusPermanentRedirect)}, "rejected", "308"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, always(c.script), `timeouts: {ready: 10m, stop: 5s}`)
			w.must(func(c *Config) { c.Servers.Given, c.Servers.Patience.Again = true, time.Hour })
			want(t, "outcomes", w.summary(), strings.ReplaceAll("failed/X/1 failed/X/1", "X", c.outcomes))
			if text := w.outcomes()[0].Row["error"].(string); !strings.Contains(text, c.says) {
				t.Errorf("%q is not in: %s", c.says, text)
			}
		})
	}
}

// A server that sweep started may refuse for a moment: its second refusal ends the
// wait.
func TestReady_startedRefusesTwice(t *testing.T) {
	t.Parallel()
	impatient := func(c *Config) { c.Servers.Patience.Again = 200 * time.Millisecond }
	w := newWorld(t, always(script{probe: func(look int) (int, string) {
		if look < 3 {
			return http.StatusNotFound, ""
		}
		return http.StatusOK, "m"
	}}), `timeouts: {ready: 10m, stop: 5s}`)
	w.must(func(c *Config) { c.Servers.Patience.Again = time.Hour })
	want(t, "once", w.summary(), "ok/1 ok/1")

	w = newWorld(t, always(script{probe: status(http.StatusUnauthorized)}), `timeouts: {ready: 10m, stop: 5s}`)
	w.must(impatient)
	want(t, "for good", w.summary(), "failed/auth/1 failed/auth/1")
	if looks := w.backend.list()[0].looked("probe"); looks < 2 {
		t.Errorf("refused after %d looks", looks)
	}
}

// While a server is waited for, each new answer is shown once.
func TestReady_showsTheLastAnswer(t *testing.T) {
	t.Parallel()
	w := newWorld(t, always(script{probe: func(look int) (int, string) {
		if look < 4 {
			return http.StatusServiceUnavailable, ""
		}
		return http.StatusOK, "m"
	}}))
	w.must()
	list := w.seen(event.Waiting)
	want(t, "events", len(list), 1)
	if e := list[0]; e.Step != "ready" || !strings.Contains(e.Text, "answered 503") || e.Deployment == "" {
		t.Errorf("got %+v", e)
	}
}

// A server that counts no tokens is found by the first question, and noticed once
// for all cells.
func TestReady_uncounted(t *testing.T) {
	t.Parallel()
	w := newWorld(t, always(script{uncounted: true}))
	w.must()
	want(t, "outcomes", w.summary(), "ok/1 ok/1")
	told := 0
	for _, e := range w.seen(event.Notice) {
		if strings.Contains(e.Text, "tokens_assumed") {
			told++
		}
	}
	want(t, "notices", told, 1)
	for _, o := range w.outcomes() {
		row := o.Row
		if !strings.Contains(fmt.Sprint(row["findings"]), "tokens_assumed") || row["output_tokens"] != 4*(2+row["concurrency"].(int64)) || row["p50_tpot_ms"] != nil {
			t.Errorf("findings %v, output_tokens %v, TPOT %v", row["findings"], row["output_tokens"], row["p50_tpot_ms"])
		}
	}
	w = newWorld(t, nil)
	w.must()
	for _, e := range w.seen(event.Notice) {
		if strings.Contains(e.Text, "tokens_assumed") {
			t.Errorf("of a server that counts: %s", e.Text)
		}
	}
}

func status(code int) func(int) (int, string) {
	return func(int) (int, string) { return code, "" }
}

func models(ids ...string) func(int) []string { return func(int) []string { return ids } }

// A server that sweep started answers with the plan's model, unless the plan says that any will do.
func TestReady_anyModel(t *testing.T) {
	t.Parallel()
	routed := script{models: models("a", "b"), probe: func(int) (int, string) { return http.StatusOK, "org/m-2026" }}
	for keys, outcome := range map[string]string{"": "failed/wrong_model/1 failed/wrong_model/1", `engines: {sim: {served_model_name: any}}`: "ok/1 ok/1"} {
		w := newWorld(t, always(routed), keys, `timeouts: {ready: 10m, stop: 5s}`)
		w.must()
		want(t, "outcomes", w.summary(), outcome)
		if row := w.outcomes()[0].Row; outcome == "ok/1 ok/1" && (row["answered_model"] != "org/m-2026" || row["model"] != "m") {
			t.Errorf("answered_model %v, model %v", row["answered_model"], row["model"])
		}
	}
}

// A given server that is asked for a model and answers is measured, whatever it calls the model
// or lists, and what it says is told. One that takes no request of one token is asked for more.
func TestReady_givenAsItIs(t *testing.T) {
	t.Parallel()
	small := func(look int) (int, string) {
		if look == 1 {
			return http.StatusBadRequest, ""
		}
		return http.StatusOK, "m"
	}
	for name, c := range map[string]struct {
		script
		says string
	}{
		"another name":      {script{probe: func(int) (int, string) { return http.StatusOK, "org/m-2026" }}, `the server answers as "org/m-2026" to requests for "m"`},
		"not listed":        {script{models: models("a", "b")}, `the server does not list "m", and answers to it: it has a, b`},
		"no list":           {script{models: models()}, ""},
		"refuses one token": {script{probe: small}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, always(c.script), `timeouts: {ready: 10m, stop: 5s}`)
			w.must(func(c *Config) { c.Servers.Given = true })
			want(t, "outcomes", w.summary(), "ok/1 ok/1")
			var said []string
			for _, e := range w.seen(event.Notice) {
				said = append(said, e.Text)
			}
			if !strings.Contains(strings.Join(said, "\n"), c.says) {
				t.Errorf("%q is not in: %q", c.says, said)
			}
		})
	}
}
