package sim

import (
	"errors"
	"fmt"
	"io"

	"sweep.dev/sweep/catalog"
	"sweep.dev/sweep/sim/core"
)

// Predict says what a server with this command line would do, without starting
// it: start, with so many tokens of KV cache, or fail with a *core.StartError.
// Any other error says that the command line is not the simulator's.
func Predict(args []string) (kvTokens int, err error) {
	f, err := parseFlags(args, io.Discard)
	if err != nil {
		return 0, err
	}
	m, ok := catalog.ModelByName(f.model)
	if !ok {
		return 0, fmt.Errorf("the simulator does not know the model %q", f.model)
	}
	g, ok := catalog.GPUByName(f.gpu)
	if !ok {
		return 0, errors.New("the simulator does not know the GPU " + f.gpu)
	}
	cfg, err := core.Plan(f.options(g, m))
	if err != nil {
		return 0, err
	}
	return cfg.KVTokens(), nil
}
