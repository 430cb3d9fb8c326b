package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sweep.dev/sweep/internal/slow"
	"sweep.dev/sweep/judge/search"
	"sweep.dev/sweep/report"
)

// TestPlans_find rehearses every plan that ships with a search of simulated or rented servers: the simulator certifies a
// load within the range of each, which its comments promise, and at a cost within its
// budget. Without the tag slow the smallest is rehearsed alone.
func TestPlans_find(t *testing.T) {
	t.Parallel()
	paths, err := filepath.Glob("../../plans/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(text), "\nfind:\n") || strings.Contains(string(text), "\nbackend: process\n") {
			continue // what a command line of the plan's own starts is not simulated
		}
		n++
		if !slow.Tests && filepath.Base(path) != "find-quickstart.yaml" {
			continue
		}
		t.Run(filepath.Base(path), func(t *testing.T) {
			t.Parallel()
			abs, err := filepath.Abs(path)
			if err != nil {
				t.Fatal(err)
			}
			got := sweep(t, t.TempDir(), nil, "plan", "--rehearse", "--json", abs)
			if got.code != exitOK {
				t.Fatalf("exit %d: %s", got.code, got.stderr)
			}
			var r report.Rehearsal
			if err := json.Unmarshal([]byte(got.stdout), &r); err != nil {
				t.Fatal(err)
			}
			if len(r.Searches) == 0 || len(r.Missing) > 0 || r.Hours <= 0 || r.USD == nil || *r.USD > 25 {
				t.Errorf("%d answers in %v h, not rehearsed: %v", len(r.Searches), r.Hours, r.Missing)
			}
			for _, s := range r.Searches {
				if s.Reason == nil || *s.Reason != search.Certified || s.Capacity == nil || s.FailsAt == nil || s.Throughput == nil {
					t.Errorf("%s, %s: %+v", s.About, s.Objective, s)
				}
			}
		})
	}
	if n < 5 {
		t.Errorf("%d plans with a search", n)
	}
}
