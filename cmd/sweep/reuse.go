package main

import (
	"context"
	"errors"

	"sweep.dev/sweep/executor/reuse"
	"sweep.dev/sweep/internal/plaintext"
	"sweep.dev/sweep/plan"
	"sweep.dev/sweep/rundir"
)

// openReuse finds what of a run directory a plan can take over, and says it. hint
// is what to do where the directory cannot be used.
func (a *app) openReuse(dir string, p *plan.Plan, only func(plan.Cell) (bool, error), client, hint string) (*reuse.Source, error) {
	source, err := reuse.Open(dir, p, only, client)
	switch {
	case errors.Is(err, reuse.ErrUnusable):
		return nil, &usage{&hinted{err, hint}}
	case err != nil:
		return nil, err
	}
	if err := sameMethod("reuse", source.Manifest); err != nil {
		return nil, err
	}
	if err := sameEnvironment("reuse", source.Manifest, p); err != nil {
		return nil, err
	}
	a.say("sweep: %s", plaintext.Line(source.String()))
	return source, nil
}

// takeOver brings what a source has into the run directory of the job.
func (j *job) takeOver(ctx context.Context, source *reuse.Source) error {
	if source == nil {
		return nil
	}
	if err := source.Into(ctx, j.dir, j.state); err != nil {
		return &hinted{err, "sweep resume " + plaintext.Word(j.path) + " goes on where it stopped"}
	}
	state, err := rundir.Read(j.path)
	if err == nil {
		j.state = state
	}
	return err
}
