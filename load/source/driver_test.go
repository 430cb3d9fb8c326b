package source_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"sweep.dev/sweep/load"
	"sweep.dev/sweep/load/loadtest"
	"sweep.dev/sweep/load/openai"
	"sweep.dev/sweep/load/source"
	"sweep.dev/sweep/load/wire"
	"sweep.dev/sweep/result"
)

type rows []result.Request

func (r *rows) Record(q result.Request) { *r = append(*r, q) }

// drive sends a source to an engine and returns what was recorded, in the order
// of the requests.
func drive(t *testing.T, e *loadtest.Engine, s load.Source, err error) rows {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	d, err := openai.New(wire.Config{BaseURL: e.URL, Model: "m", Chat: true, Stream: true, IncludeUsage: true})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	var r rows
	if _, err := d.Run(t.Context(), s, &r, load.Options{Anchor: result.NewAnchor(), RequestID: "x"}); err != nil {
		t.Fatal(err)
	}
	slices.SortFunc(r, func(a, b result.Request) int { return a.N - b.N })
	return r
}

// On the wire a conversation is what the user said and what the server really
// answered, and each request has headers of its own.
func TestConversation_onTheWire(t *testing.T) {
	e := loadtest.New(nil)
	defer e.Close()
	c := source.Config{
		Seed: 1, Cell: "c", Trial: 1, Concurrency: 2, Requests: 9, MaxTokens: 3, Conversation: source.Conversation{Turns: 3},
		Prompts: source.Prompts{InputTokens: 12, System: "be brief"},
		Headers: []load.Header{{Name: "X-Session", Value: "{conversation}"}, {Name: "X-Turn", Value: "{turn}"}},
	}
	s, err := source.New(c)
	got := drive(t, e, s, err)
	if len(got) != 9 {
		t.Fatalf("%d rows", len(got))
	}
	seen := map[string]*loadtest.Request{}
	for _, q := range e.Requests() {
		seen[q.ID] = q
	}
	sessions := map[string]bool{}
	for i, r := range got {
		q := seen[fmt.Sprintf("x-s0-n%d", r.N)]
		if r.Status != result.Completed || r.Turn != i%3 || q == nil {
			t.Fatalf("request %d: %s %s, turn %d", r.N, r.Status, r.Error, r.Turn)
		}
		if len(q.Body.Messages) != 2+2*r.Turn || q.Body.Messages[0].Content != "be brief" || q.Header.Get("X-Turn") != fmt.Sprint(r.Turn) {
			t.Errorf("request %d: %d messages, headers %v", r.N, len(q.Body.Messages), q.Header)
		}
		if r.Turn == 0 {
			sessions[q.Header.Get("X-Session")] = true
			continue
		}
		before := seen[fmt.Sprintf("x-s0-n%d", r.N-1)]
		n := len(before.Body.Messages)
		if !slices.Equal(before.Body.Messages, q.Body.Messages[:n]) || q.Header.Get("X-Session") != before.Header.Get("X-Session") {
			t.Errorf("request %d does not go on from the one before it", r.N)
		}
		if a := q.Body.Messages[n]; a.Role != "assistant" || a.Content == "" || a.Content != got[i-1].Answer {
			t.Errorf("request %d: %+v for the answer %q", r.N, a, got[i-1].Answer)
		}
	}
	if len(sessions) != 3 || sessions[""] {
		t.Errorf("sessions %v", sessions)
	}
}

// A share of the requests is given up by the client, and is no failure; probes
// beside a load are told apart from it.
func TestCancel_onTheWire(t *testing.T) {
	e := loadtest.New(func(*loadtest.Request) loadtest.Answer { return loadtest.Answer{ITL: 100 * time.Millisecond} })
	defer e.Close()
	c := source.Config{
		Seed: 1, Cell: "c", Trial: 1, Concurrency: 10, Requests: 10, MaxTokens: 5, Prompts: source.Prompts{InputTokens: 12},
		Cancel: source.Cancel{Share: 0.3, After: 50 * time.Millisecond},
		Probe:  source.Probe{Rate: 1000, InputTokens: 9, MaxTokens: 1},
	}
	s, err := source.New(c)
	planned := 0
	for _, r := range drive(t, e, s, err) {
		switch {
		case r.Status == result.Cancelled && r.Planned:
			planned++
		case r.Status != result.Completed || r.Planned:
			t.Errorf("request %d: %s %s", r.N, r.Status, r.Error)
		}
	}
	if planned != 3 {
		t.Errorf("%d of 10 were given up, want 3", planned)
	}
	c.Duration = 10 * time.Millisecond
	c.Phase = result.Probe
	s, err = source.New(c)
	probes := drive(t, e, s, err)
	if len(probes) != 10 {
		t.Errorf("%d probes", len(probes))
	}
	for i, r := range probes {
		if r.Phase != result.Probe || r.Measured() || r.N != source.FirstProbe+i || r.Status != result.Completed {
			t.Errorf("probe %d: %s %s", r.N, r.Phase, r.Status)
		}
	}
}
