package main

import (
	"testing"
	"time"

	"sweep.dev/sweep/plan"
)

// If it is unknown what is started, nothing is predicted: cells are skipped for
// predictions.
func TestPredicted_unknown(t *testing.T) {
	small := []plan.Arg{{Name: "gpu-memory-utilization", Value: 0.6}}
	server := func(change func(*plan.Server)) plan.Server {
		s := plan.Server{Engine: "vllm", Profile: "vllm", Model: "meta-llama/Llama-3.1-8B-Instruct", GPU: "l4", GPUCount: 1, Args: small}
		change(&s)
		return s
	}
	if got := predicted(server(func(*plan.Server) {})); got == nil || got.Starts {
		t.Fatalf("16 GB of weights in 0.6 of an L4: %+v", got)
	}
	for name, change := range map[string]func(*plan.Server){
		"a profile of one's own":      func(s *plan.Server) { s.ProfileSHA256 = "0" },
		"a command line of one's own": func(s *plan.Server) { s.Command = []string{"my-vllm", "--gpu-memory-utilization", "0.9"} },
		"arguments of a role": func(s *plan.Server) {
			s.Roles = map[string]plan.Role{"server": {Args: map[string]any{"gpu-memory-utilization": 0.95}}}
		},
	} {
		if got := predicted(server(change)); got != nil {
			t.Errorf("%s: predicted %+v", name, got)
		}
	}
	router := server(func(s *plan.Server) {
		s.Profile = "dynamo"
		s.Roles = map[string]plan.Role{"frontend": {Args: map[string]any{"router-mode": "kv"}}}
	})
	if predicted(router) == nil {
		t.Error("a frontend's arguments need no GPU")
	}
}

// A load that is sent by time takes that time, whichever key sets it.
func TestTrialEstimate_time(t *testing.T) {
	t.Parallel()
	cold := plan.Warmup{Requests: new(0)}
	stages := []plan.Stage{{Rate: 10, For: 30 * time.Second}, {Rate: 50, Over: time.Minute}}
	for _, c := range []struct {
		load plan.Load
		want time.Duration
	}{
		{plan.Load{Stages: stages, Warmup: cold}, 90 * time.Second},
		{plan.Load{Stages: stages, Duration: time.Minute, Warmup: cold}, time.Minute},
		{plan.Load{RequestRate: 1, Duration: 10 * time.Second, Warmup: plan.Warmup{Duration: 5 * time.Second}}, 15 * time.Second},
		{plan.Load{RequestRate: 10, Requests: 10_000, Duration: 10 * time.Second, Warmup: cold}, 10 * time.Second},
	} {
		if got := trialEstimate(plan.Server{}, c.load, 1); got != c.want {
			t.Errorf("%+v: %s, want %s", c.load, got, c.want)
		}
	}
}

// A server's clock has its tokens, and nothing that the client waits for.
func TestTrialEstimate_timeScale(t *testing.T) {
	t.Parallel()
	token := tokenEstimate(plan.Server{})
	cold := plan.Warmup{Requests: new(0)}
	for _, c := range []struct {
		load            plan.Load
		scaled, waiting time.Duration // at scale 1
	}{
		// The first of each worker comes on top, and workers that begin one after the
		// other wait for half of a request, all but the first.
		{plan.Load{Requests: 6, Concurrency: 2, MaxTokens: 50, ThinkTime: time.Second, Warmup: cold, Start: plan.StartTogether}, 4 * 50 * token, 4 * time.Second},
		{plan.Load{Requests: 6, Concurrency: 2, MaxTokens: 60, ThinkTime: time.Second, Warmup: cold}, 17 * 15 * token, 17 * time.Second / 4},
		// Two for each worker are the warm-up.
		{plan.Load{Requests: 6, Concurrency: 2, MaxTokens: 50, Start: plan.StartTogether}, (2 + 4) * 50 * token, 0},
		// The ramp of an open loop comes on top, and its last request.
		{plan.Load{Requests: 10, RequestRate: 2, MaxTokens: 50, Warmup: cold}, 2 * 50 * token, 5 * time.Second},
		{plan.Load{Duration: time.Minute, MaxTokens: 50, Warmup: plan.Warmup{Requests: new(1)}}, 50 * token, time.Minute},
	} {
		for _, scale := range []float64{0.5, 1, 10} {
			want := time.Duration(float64(c.scaled)/scale) + c.waiting
			if got := trialEstimate(plan.Server{}, c.load, scale); got != want {
				t.Errorf("%+v at %v: %s, want %s", c.load, scale, got, want)
			}
		}
	}
}
