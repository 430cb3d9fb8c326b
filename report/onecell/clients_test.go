package onecell_test

import (
	"slices"
	"strings"
	"testing"

	"sweep.dev/sweep/report/draw"
	"sweep.dev/sweep/report/onecell"
	"sweep.dev/sweep/report/reporttest"
	"sweep.dev/sweep/result"
	"sweep.dev/sweep/result/finding"
)

// The clients of a trial are shown if one of them made it INVALID, and with all details.
func TestWrite_clients(t *testing.T) {
	t.Parallel()
	two := []result.ClientHealth{
		{
			Client: 0, Requests: 50, LateMS: new(0.2), P99ScheduleLagMS: new(1.5), CPU: new(0.25), ThrottledPeriods: new(0),
			MaxStallMS: new(3.0), OffsetErrorMS: 0.05, DriftMS: new(0.0), DriftErrorMS: new(0.1), Nearest: "client_cpu", Share: new(0.294),
		},
		{Client: 1, Lost: "its process ended", Requests: 7, OffsetErrorMS: 0.06, Nearest: "client_lost"},
	}
	for name, c := range map[string]struct {
		clients []result.ClientHealth
		reason  finding.Code
		verbose bool
		shown   bool
	}{
		"lost":                     {two, finding.ClientLost, false, true},
		"sends late":               {two, finding.ScheduleLag, false, true},
		"of the server":            {two, finding.Drift, false, false},
		"of the server, verbose":   {two, finding.Drift, true, true},
		"one process":              {nil, finding.ClientCPU, true, false},
		"one process, not verbose": {nil, finding.ClientCPU, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			run := reporttest.MadeUp(t, "plan chat\naxes engine! concurrency\ncell vllm 8\n  invalid\n")
			for _, trial := range run.Trials {
				trial.Outcome.Clients = c.clients
				trial.Outcome.Invalid = []result.Finding{{Code: c.reason, Text: "as it is"}}
				if c.clients != nil {
					trial.Outcome.Row["limiting_client"] = int64(1)
				}
			}
			var b strings.Builder
			if err := onecell.Write(&b, run, run.Conclude().Points[0], onecell.Options{Style: draw.Style{Width: 100}, Verbose: c.verbose}); err != nil {
				t.Fatal(err)
			}
			lines := slices.Collect(strings.Lines(b.String()))
			for _, want := range []string{
				"clients, times in ms; client 1 came nearest to a bound of validity, or passed it\n",
				"0 client_cpu 29 % 50 0.2 1.50 25 0 3 0.05",
				"1 client_lost 7 - - - - - 0.06",
			} {
				if got := slices.ContainsFunc(lines, func(l string) bool {
					return strings.HasPrefix(strings.Join(strings.Fields(l), " "), strings.TrimSpace(want))
				}); got != c.shown {
					t.Errorf("shown %t, want %t: %q in\n%s", got, c.shown, want, b.String())
				}
			}
		})
	}
}
