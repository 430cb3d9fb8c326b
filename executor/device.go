package executor

import (
	"context"
	"fmt"
	"slices"

	"sweep.dev/sweep/executor/event"
	"sweep.dev/sweep/executor/observe"
	"sweep.dev/sweep/executor/outcome"
	"sweep.dev/sweep/result"
	"sweep.dev/sweep/result/col"
	"sweep.dev/sweep/result/finding"
)

// This file is on which device the server of a search runs, where several must carry its
// load.

// identify looks on which device the server that is up runs, where that matters: before
// anything is measured on one that was measured already.
func (d *deployment) identify(ctx context.Context) {
	if f := d.config.Plan.Find; f == nil || f.Devices <= 1 || d.up.Server == nil {
		return
	}
	watch := observe.Start(ctx, observe.Config{
		Collectors: slices.DeleteFunc(slices.Clone(d.config.Collectors), func(n observe.Named) bool { return n.Kind != "gpu" }),
		Server:     d.up.Server, Profile: d.profile, Backend: d.config.Backend, Given: d.config.Servers.Given,
		Columns: d.config.Plan.Columns(), Anchor: result.NewAnchor(),
		Asked: func() { d.extra.Add(1, 0) }, Sink: observe.NewSink(nil, d.run.mask),
	})
	d.up.Device, _ = watch(ctx)[col.GPUUUID].(string)
}

// isTaken reports whether the server that is up is on a device that the next trial must not
// run on.
func (d *deployment) isTaken() bool { return slices.Contains(d.excluded, d.up.Device) }

// leave gives the server that is up back if it is on a device that is taken. A launch that
// failed on another device is tried again.
func (d *deployment) leave() {
	if len(d.excluded) == 0 || d.up.Server != nil && !d.isTaken() {
		return
	}
	d.servers.Renew()
	d.use(nil)
}

// DeviceSeen returns why a trial is not run whose new server is on a device that was measured.
func DeviceSeen(id string) *result.Finding {
	return &result.Finding{Code: finding.DeviceSeen, Text: fmt.Sprintf("not run: its server is on %s, which was measured already", id)}
}

// commitSeen commits that a trial is not run because a new server is on a device that was
// measured already, so that a resume counts it too.
func (d *deployment) commitSeen(ctx context.Context, t *trial, n int) error {
	why := DeviceSeen(d.up.Device)
	d.run.Emit(event.Event{Type: event.Notice, Deployment: d.of.ID, Launch: d.up.Server.Launch, Label: d.label, Text: d.label + ": the new server is on a device that was measured already; another is tried"})
	return d.commitUnmeasured(ctx, t, n, outcome.End{Skip: why})
}
