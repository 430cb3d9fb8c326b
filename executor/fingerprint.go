package executor

import (
	"context"
	"fmt"
	"time"

	"sweep.dev/sweep/backends"
	"sweep.dev/sweep/executor/event"
	"sweep.dev/sweep/executor/fingerprint"
	"sweep.dev/sweep/executor/serving/ask"
	"sweep.dev/sweep/plan"
	"sweep.dev/sweep/result"
	"sweep.dev/sweep/result/col"
)

// fingerprint asks the server that is up how fast it computes, before anything is measured on
// it, where the plan wants that. Each launch is asked once: another may be on another device.
// What is not known is left out, and ends nothing.
func (d *deployment) fingerprint(ctx context.Context) {
	if o := d.config.Servers; !d.config.Plan.Fingerprints(o.Given, o.Rents) {
		return
	}
	s := d.up.Server
	d.run.Emit(event.Event{Type: event.StepStarted, Deployment: d.of.ID, Launch: s.Launch, Label: d.label, Step: "fingerprint"})
	asking, stop := backends.WhileUp(ctx, s.Deployment)
	defer stop()
	client := ask.New(s.Host(d.profile.EntryRole(), 0), d.authorize, d.run.mask, d.Asked)
	defer client.Close()
	p := fingerprint.Take(asking, fingerprint.Server{
		API: &d.profile.API, Model: d.of.Server.Served, Chat: d.of.Cells[0].Load.Endpoint != plan.EndpointCompletions,
		Salt: fmt.Sprintf("%.4s%s%03d", d.config.State.Manifest.RunID, d.of.ID, s.Launch), Post: client.Post, Now: time.Now,
	})
	d.fingerprintRow = result.Row{}
	for column, v := range map[string]*float64{col.DevicePrefillMs: p.Prefill, col.DeviceDecodeMs: p.Decode} {
		if v != nil {
			d.fingerprintRow[column] = *v
		}
	}
	d.described()
}
