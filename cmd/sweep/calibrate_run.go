package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/urfave/cli/v3"

	"sweep.dev/sweep/internal/layout"
	"sweep.dev/sweep/load/calibrate"
	"sweep.dev/sweep/plan"
	"sweep.dev/sweep/rundir"
)

// defaultRate is the assumed rate of one stream in chunks per second if the plan does
// not give it: one each 20 ms, the middle of what interactive serving aims for.
const defaultRate = 50

// openStreams is how many streams an open loop has where its plan bounds them by
// nothing and brings its rates from a file.
const openStreams = 256

// A demand is the most that a plan may ask of the client.
type demand struct {
	calibrate.Shape         // of the cell with the most streams, at the highest rate of any
	chunks          float64 // per second, of the cell with the most
}

// demandOf looks at every cell. The rate of a stream is that of an engine with
// nothing else to do, so that no cell can ask for more.
func demandOf(deployments []plan.Deployment, of traits) demand {
	var d demand
	for _, deployment := range deployments {
		each := of.scale * float64(time.Second) / float64(max(time.Microsecond, tokenEstimate(deployment.Server)))
		for _, cell := range deployment.Cells {
			l, rate := cell.Load, each
			if l.Stream != nil && !*l.Stream {
				rate = 0 // one chunk a request, if that
			}
			n := streams(l, rate)
			d.Streams, d.Rate = max(d.Streams, n), max(d.Rate, rate)
			d.chunks = max(d.chunks, float64(n)*rate)
			// Where some cells want the one and others the other, the slower one
			// is what a warning has to be about.
			if kind := cmp.Or(l.Client, plan.ClientAuto); d.Client == "" || kind == plan.ClientStd {
				d.Client = kind
			}
		}
	}
	if d.Client == plan.ClientAuto && of.wrapped {
		d.Client = plan.ClientStd
	}
	return d
}

// streams returns how many answers of a load come at once at most. An open loop
// without a bound has as many as its rate makes in the time that an answer
// takes (Little's law).
func streams(l plan.Load, rate float64) int {
	if l.Concurrency > 0 {
		return l.Concurrency
	}
	if l.MaxInFlight > 0 {
		return l.MaxInFlight
	}
	requests := l.PeakRate()
	if requests <= 0 {
		return openStreams
	}
	return max(1, int(requests*float64(max(1, l.MaxTokens))/max(1, rate)))
}

// calibrateAuto is what every plan has that does not say never.
const calibrateAuto = "auto"

// calibrateFlag is shared by run and resume.
func calibrateFlag() cli.Flag {
	return &cli.StringFlag{
		Name:        "calibrate",
		Usage:       "calibrate the client before the run: `WHEN` is auto (if no calibration is known) or never",
		DefaultText: "the plan's",
		Validator:   oneOf(calibrateAuto, plan.CalibrateNever),
	}
}

// calibrates reports whether a run is to be calibrated: by its flag, the
// environment, or the plan.
func (a *app) calibrates(c *cli.Command, p *plan.Plan) (bool, error) {
	const name = "SWEEP_CALIBRATE"
	env, _ := a.env(name)
	if env != "" {
		if err := oneOf(calibrateAuto, plan.CalibrateNever)(env); err != nil {
			return false, &usage{fmt.Errorf("%s: %w", name, err)}
		}
	}
	return cmp.Or(c.String("calibrate"), env, p.Calibrate) != plan.CalibrateNever, nil
}

// calibrateRun calibrates the client for what a run asks of it, and warns where
// that is more than it can take in. A client that could not be calibrated
// measures all the same: its figures are judged by what it sees of itself.
func (a *app) calibrateRun(ctx context.Context, c *cli.Command, p *plan.Plan, deployments []plan.Deployment, of traits) (*calibrate.Result, error) {
	on, err := a.calibrates(c, p)
	if err != nil || !on {
		return nil, err
	}
	want := demandOf(deployments, of)
	want.Client = cmp.Or(c.String("client"), want.Client)
	found, err := a.calibration(ctx, want.Shape, false)
	if err != nil {
		a.say("sweep: the client is not calibrated: %v", err)
		return nil, nil
	}
	text := found.Warning(want.chunks)
	if text == "" || found.Announced {
		return found, nil
	}
	a.say("sweep: %s", text)
	if found.Disturbance() != "" {
		found.Announced = true
		if err := a.calibrations().keep(found); err != nil {
			a.say("sweep: the calibration is not kept for the next run: %v", err)
		}
	}
	return found, nil
}

// warnOfDemand says what is known already, for a plan that is only looked at.
func (a *app) warnOfDemand(deployments []plan.Deployment, of traits) {
	want := demandOf(deployments, of)
	found := a.calibrations().find(calibrate.ThisMachine(version()), want.Bounded())
	if found == nil || found.Announced {
		return
	}
	if text := found.Warning(want.chunks); text != "" {
		a.say("sweep: %s", text)
	}
}

// calibrationOf returns what a run directory holds, nil if that is nothing. The error is
// [rundir.ErrDamaged] if the file is broken.
func calibrationOf(dir string) (found *calibrate.Result, err error) {
	if _, err := os.Stat(filepath.Join(dir, layout.Calibration)); errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	err = rundir.ReadFile(dir, layout.Calibration, func(b []byte) (err error) {
		found, err = parseCalibration(b)
		return err
	})
	return found, err
}

// calibrateResume returns the calibration that a run began with: its later trials
// are to be judged like its first. If it has none and trials are still to be
// measured, the client is calibrated now, and fresh is true.
func (a *app) calibrateResume(ctx context.Context, c *cli.Command, j *job) (found *calibrate.Result, fresh bool, err error) {
	found, err = calibrationOf(j.path)
	if err != nil {
		return nil, false, unreadable(j.path, err)
	}
	if found != nil || len(j.state.Committed) >= j.state.Planned() && len(j.retry) == 0 {
		return found, false, nil
	}
	deployments, err := selected(j.plan, j.only)
	if err != nil {
		return nil, false, err
	}
	found, err = a.calibrateRun(ctx, c, j.plan, deployments, j.plugins.traits())
	return found, found != nil, err
}
