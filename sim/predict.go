package sim

import (
	"errors"
	"fmt"
	"io"
	"time"

	"sweep.dev/sweep/engine/catalog"
	"sweep.dev/sweep/sim/core"
	"sweep.dev/sweep/sim/dialect"
)

// A Refusal is how a server ends that would not start.
type Refusal struct {
	*core.StartError
	Log []string // its last lines, in the engine's words
}

func (r *Refusal) Unwrap() error { return r.StartError }

// Engine returns the engine that a server with this command line would start. A server that would
// not start is a *[Refusal]; any other error says that the command line is not the
// simulator's.
func Engine(args []string) (*core.Config, error) {
	f, err := parseFlags(args, io.Discard)
	if err != nil {
		return nil, err
	}
	m, ok := catalog.ModelByName(f.model)
	if !ok {
		return nil, fmt.Errorf("the simulator does not know the model %q", f.model)
	}
	g, ok := catalog.GPUByName(f.gpu)
	if !ok {
		return nil, fmt.Errorf("the simulator does not know the GPU %q", f.gpu)
	}
	cfg, err := core.Plan(f.options(g, m))
	if e, ok := errors.AsType[*core.StartError](err); ok {
		last := f.dialect.Start.Fail(&dialect.Failure{StartError: e, Model: f.model, Share: f.util, Seqs: f.maxSeqs, Now: time.Unix(0, 0)})
		return nil, &Refusal{e, last}
	}
	return cfg, err
}
