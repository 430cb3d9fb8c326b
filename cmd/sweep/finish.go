package main

import (
	"context"
	"path/filepath"
	"time"

	"github.com/urfave/cli/v3"

	"sweep.dev/sweep/executor"
	"sweep.dev/sweep/nightly/notify"
	"sweep.dev/sweep/plan"
	"sweep.dev/sweep/report"
	"sweep.dev/sweep/result"
	"sweep.dev/sweep/result/col"
)

const (
	allowWebhook        = "allow-webhook"
	allowPrivateWebhook = "allow-private-webhook"
)

// webhookFlags permit the webhook of a plan, which may be a stranger's.
func webhookFlags() []cli.Flag {
	return []cli.Flag{
		&cli.BoolFlag{Name: allowWebhook, Usage: "tell the plan's on_finish.webhook how the run ended"},
		&cli.BoolFlag{Name: allowPrivateWebhook, Usage: "like --" + allowWebhook + ", also on this machine, in a private network, and over http"},
	}
}

// finishNotifier makes what tells the webhook of a plan how the run ended; nil if there is none
// or the command line does not permit it. A URL that cannot be called is refused now.
func (a *app) finishNotifier(ctx context.Context, c *cli.Command, p *plan.Plan) (func(notify.Ended), error) {
	if p.OnFinish == nil || p.OnFinish.Webhook == nil {
		return nil, nil
	}
	private := c.Bool(allowPrivateWebhook)
	if !private && !c.Bool(allowWebhook) {
		a.say("sweep: the webhook of the plan is not told how the run ends: --%s permits it", allowWebhook)
		return nil, nil
	}
	w := p.OnFinish.Webhook
	hook := notify.Webhook{URL: w.URL, Slack: w.Format == plan.WebhookSlack, Private: private}
	if err := hook.Check(); err != nil {
		return nil, &usage{err}
	}
	ctx = context.WithoutCancel(ctx) // an interrupted run ends, too
	return func(e notify.Ended) {
		if w.When == plan.WebhookFailure && e.Exit == exitOK {
			return
		}
		if err := hook.Post(ctx, e); err != nil {
			a.say("sweep: warning: the webhook was not told how the run ended: %v", err)
		}
	}, nil
}

// finished returns how a run ended, for a webhook. run is nil if there are no tables.
func finished(j job, code int, run *report.Run, rep executor.Report) notify.Ended {
	m := j.state.Manifest
	e := notify.Ended{
		Event: notify.Event, Plan: m.Plan, Run: filepath.Base(j.path), RunID: m.RunID, Exit: code, Ending: exitName(code),
		StartedAt: m.CreatedAt, FinishedAt: time.Now().UTC().Truncate(time.Millisecond), Sweep: m.Version,
	}
	if usd := rep.Left.Spending.USD; usd > 0 {
		e.CostUSD = &usd
	}
	if run == nil {
		return e
	}
	e.Trials, e.Objectives = &notify.Trials{Planned: len(run.Trials)}, &notify.Objectives{}
	for _, o := range run.Outcomes() {
		if o.Row[col.Status] == result.StatusOK {
			e.Trials.Valid++
		}
	}
	e.Trials.Failed, e.Trials.Invalid = count(run)
	e.Objectives.Failed, e.Objectives.Undecided, e.Objectives.Unchecked = objectives(run, false)
	return e
}
