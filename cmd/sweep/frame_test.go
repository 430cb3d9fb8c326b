package main

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"sweep.dev/sweep/executor/event"
	"sweep.dev/sweep/judge/stopping"
	"sweep.dev/sweep/load"
	"sweep.dev/sweep/result"
)

// TestFrame holds what a terminal of 40, 80 and 120 columns shows of a run with two
// servers, money and an objective that was missed.
func TestFrame(t *testing.T) {
	t.Parallel()
	v := twoDeployments()
	v.plan = "chat-capacity"
	missed := committed
	missed.Outcome = &result.Outcome{Row: result.Row{"status": "ok", "slo_pass": false}, SLOs: []result.SLOResult{{Verdict: result.SLOFail}}}
	events := []event.Event{
		runStarted, d1Started, d1Measures, missed,
		{Type: event.StepStarted, Deployment: "d1", Cell: "b", Trial: 1, Step: "measure", Label: "vllm l4 concurrency=16 max_tokens=128"},
		d2Started,
		{Type: event.Money, Spending: &event.Spending{Pods: 2, USDPerHour: 1.38, USD: 0.21, MaxUSD: 1}},
	}
	for _, e := range events {
		v.follow(e, epoch)
	}
	for i := range 3 {
		v.follow(event.Event{
			Type: event.TrialProgress, Time: epoch.Add(time.Duration(i) * time.Second), Deployment: "d1", Cell: "b", Trial: 1,
			Progress: &load.Progress{Done: 4 * i, InFlight: 16, Failed: 1, OutputTokens: 873 * i, TTFTP95MS: new(340.2)},
		}, epoch)
	}
	for width, want := range map[int]string{
		120: `
chat-capacity  1/4  vllm l4 [-.]  c=16 out=128  873 tok/s  1 failed  TTFT p95 340 ms  8/24 requests  16 in flight
                    sglang l4 [..]  starting 2s
                    2 pods $1.38/h, $0.21 of $1.00   10s to go
`,
		80: `
chat-capacity  1/4  vllm l4 [-.]  c=16 out=128  873 tok/s  1 failed
                    sglang l4 [..]  starting 2s
                    2 pods $1.38/h, $0.21 of $1.00   10s to go
`,
		40: `
1/4  vllm l4 [-.]  … out=128  873 tok/s
     sglang l4 [..]  starting 2s
     2 pods $1.38/h, $0.21 of $1.00   10s to go
`,
	} {
		v.countdown = countdown{}
		lines := v.frame(epoch.Add(2*time.Second), width)
		if diff := cmp.Diff(strings.TrimPrefix(want, "\n"), strings.Join(lines, "\n")+"\n"); diff != "" {
			t.Errorf("%d columns (-want +got):\n%s", width, diff)
		}
		for _, line := range lines[:1] {
			if n := utf8.RuneCountInString(line); n > width {
				t.Errorf("a line of %d columns on %d", n, width)
			}
		}
	}
	if got := v.lanes["d1"].marks["a"]; got != "-" {
		t.Errorf("the mark of a missed objective is %q", got)
	}
	saturated := committed
	saturated.Outcome = &result.Outcome{Row: result.Row{"status": "ok", "ended_by": stopping.Saturated}}
	v.follow(saturated, epoch)
	if got := v.lanes["d1"].marks["a"]; got != "~" {
		t.Errorf("the mark of a saturated trial is %q", got)
	}
}

// TestCountdown holds that the time that is left grows with a reason alone.
func TestCountdown(t *testing.T) {
	t.Parallel()
	c, now := countdown{}, epoch
	for _, step := range []struct {
		eta   time.Duration
		cause string
		pass  time.Duration
		want  string
	}{
		{60 * time.Second, "", 0, "1m00s to go"},
		{58 * time.Second, "", time.Second, "58s to go"},
		{62 * time.Second, "", time.Second, "58s to go"}, // noise
		{57 * time.Second, "", time.Second, "57s to go"},
		{237 * time.Second, "a trial is measured again", time.Second, "3m57s to go (+3m00s: a trial is measured again)"},
		{230 * time.Second, "", time.Second, "3m50s to go (+3m00s: a trial is measured again)"},
		{200 * time.Second, "", noted, "3m20s to go"},
		{300 * time.Second, "", time.Second, "5m00s to go (+1m40s: slower than the plan's estimate)"},
	} {
		now = now.Add(step.pass)
		if step.cause != "" {
			c.because(step.cause)
		}
		if got := c.show(step.eta, now); got != step.want {
			t.Errorf("%v: %q, want %q", step.eta, got, step.want)
		}
	}
}
