package main

import (
	"errors"
	"fmt"

	"sweep.dev/sweep/engine"
	"sweep.dev/sweep/plan"
	"sweep.dev/sweep/report"
	"sweep.dev/sweep/sim/predict"
)

// predicted returns how the start of a server would end; nil if that is unknown. A cell
// may be skipped for it, so it is unknown for a profile or a command line of one's
// own, for arguments of single roles, and for more than tensor parallelism.
func predicted(s plan.Server) *report.Prediction {
	arithmetic, err := simulable(s)
	if err != nil {
		return nil
	}
	p, known := predict.Start(arithmetic)
	if !known {
		return nil
	}
	return &report.Prediction{Starts: p.Starts, Class: p.Class, Text: p.Text, KVTokens: p.KVTokens}
}

// simulable returns a server in the terms of the simulator's arithmetic. The error says why that
// does not know it.
func simulable(s plan.Server) (of predict.Server, err error) {
	profile, ok := engine.Lookup(s.Profile)
	switch {
	case !ok || s.ProfileSHA256 != "":
		return of, errors.New("its engine has a profile of its own, which the simulator does not know")
	case s.Command != nil:
		return of, errors.New("its command line is the plan's own, which the simulator does not know")
	}
	for name, own := range s.Roles {
		if role := profile.Role(name); role != nil && role.Computes() && (own.Command != nil || len(own.Args) > 0) {
			return of, fmt.Errorf("its role %s has arguments of its own", name)
		}
	}
	for _, role := range profile.Roles {
		// The arithmetic is that of a model whose tensors are shared.
		if spread, wrong := s.Parallelism(profile, role.Name); wrong != nil || !spread.Only(engine.TensorParallel) {
			return of, errors.New("its GPUs do not share the model by tensor parallelism alone")
		}
	}
	args := make(map[string]any, len(s.Args))
	for _, a := range s.Args {
		args[a.Name] = a.Value
	}
	return predict.Server{Engine: s.Profile, Model: s.Model, GPU: s.GPU, GPUs: s.ReplicaGPUs(), Args: args}, nil
}

// fitting narrows a filter to the cells whose server is not predicted to fail,
// where the plan wants that.
func fitting(p *plan.Plan, only func(plan.Cell) (bool, error)) func(plan.Cell) (bool, error) {
	if p.Predicted != plan.PredictedSkip {
		return only
	}
	byServer := map[string]bool{} // false: it does not fit
	for _, d := range p.Deployments() {
		fits := predicted(d.Server)
		for _, cell := range d.Cells {
			byServer[cell.ID] = fits == nil || fits.Starts
		}
	}
	return func(c plan.Cell) (bool, error) {
		if !byServer[c.ID] || only == nil {
			return byServer[c.ID], nil
		}
		return only(c)
	}
}

// predictionText returns a prediction for people; "" if there is nothing to warn
// of.
func predictionText(s plan.Server) string {
	if got := predicted(s); got != nil && !got.Starts {
		return fmt.Sprintf("does not fit (%s)", got.Class)
	}
	return ""
}
