// Package predict says before a server is started whether it would fit on its
// GPU, by the arithmetic of the simulated engine: weights, one largest step,
// and what is left for the KV cache. Its constants are in package sim/core.
//
// A prediction is as good as that arithmetic. It knows dense models and GPUs of
// the catalogue and the flags that the simulator knows, and makes none for
// anything else: an unknown flag may be the one that makes the server fit.
package predict

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"sweep.dev/sweep/engine"
	"sweep.dev/sweep/engine/catalog"
	"sweep.dev/sweep/engine/failure"
	"sweep.dev/sweep/sim"
	"sweep.dev/sweep/sim/core"
)

// A Server is what is known of a server before it is started.
type Server struct {
	Engine string // name of the profile
	Model  string
	GPU    string         // name in the catalogue
	GPUs   int            // that share the model; 0 is 1
	Args   map[string]any // of the engine, by their names in the plan
	// Fitted is a file of sweep sim fit, whose rates the GPU has; "" is the data sheet.
	Fitted string
	// Jitter is the standard deviation of the logarithm of a step's time; nil is [core.Jitter].
	Jitter *float64
	Speed  float64 // of the GPU, beside others of its kind; 0 is 1
}

// A Prediction is what would become of a server.
type Prediction struct {
	Starts   bool
	Class    string // of the failure, as the classifier of failures names it
	Text     string // of the failure: vLLM's words for every engine
	KVTokens int64  // of a server that starts
}

// Start predicts a start. known is false if nothing can be said.
func Start(s Server) (p Prediction, known bool) {
	cfg, dialect, err := s.engine()
	refused, failed := errors.AsType[*sim.Refusal](err)
	switch {
	case failed:
		return Prediction{Class: class(dialect, refused.Log), Text: refused.Text}, true
	case err != nil:
		return p, false
	}
	return Prediction{Starts: true, KVTokens: int64(cfg.KVTokens())}, true
}

// Engine returns the simulated engine of a server, for rehearsals. The error is a *[sim.Refusal]
// for a server that would not start, and else says why nothing can be said of it.
func Engine(s Server) (*core.Config, error) {
	cfg, _, err := s.engine()
	return cfg, err
}

func (s Server) engine() (cfg *core.Config, dialect string, err error) {
	profile, ok := engine.Lookup(s.Engine)
	if !ok || profile.MemoryLike == "" {
		return nil, "", fmt.Errorf("the simulator has no arithmetic of the engine %q", s.Engine)
	}
	if _, ok := catalog.GPUByName(s.GPU); !ok {
		return nil, "", fmt.Errorf("the catalogue has no GPU %q", s.GPU)
	}
	cfg, err = sim.Engine(s.argv(profile.MemoryLike))
	return cfg, profile.MemoryLike, err
}

// StandIn is the GPU on which a server is put whose own is not in the catalogue: it has
// room for most models, and its rates can be scaled to any.
const StandIn = "h100"

// Machine returns the simulated engine of a server that starts, on paper. The GPU of one that
// is not in the catalogue is [StandIn]. The error says what is not known.
func Machine(s Server) (*core.Config, error) {
	dialect := "vllm"
	if profile, ok := engine.Lookup(s.Engine); ok && slices.Contains(sim.Engines(), profile.MemoryLike) {
		dialect = profile.MemoryLike
	} else if slices.Contains(sim.Engines(), s.Engine) {
		dialect = s.Engine
	}
	if _, ok := catalog.GPUByName(s.GPU); !ok {
		s.GPU = StandIn
	}
	return sim.Engine(s.argv(dialect))
}

// class returns what the classifier calls a failure with this end of a log.
func class(dialect string, log []string) string {
	profile, ok := engine.Lookup(dialect)
	if !ok {
		return failure.ClassUnknown
	}
	return profile.Classify(log, failure.End{Exited: true, Code: 1}).Class
}

func (s Server) argv(dialect string) []string {
	argv := []string{"--engine=" + dialect, "--model=" + s.Model, "--gpu=" + s.GPU}
	if s.Fitted != "" {
		argv = append(argv, "--fitted="+s.Fitted)
	}
	if s.Jitter != nil {
		argv = append(argv, "--jitter="+strconv.FormatFloat(*s.Jitter, 'f', -1, 64))
	}
	if s.Speed != 0 {
		argv = append(argv, "--card-speed="+strconv.FormatFloat(s.Speed, 'f', -1, 64))
	}
	if s.GPUs > 1 {
		argv = append(argv, "--gpu-count="+strconv.Itoa(s.GPUs))
	}
	var flags []string
	for name, value := range s.Args {
		switch v := value.(type) {
		case bool:
			if v {
				flags = append(flags, "--"+name)
			} else if dialect == "vllm" {
				flags = append(flags, "--no-"+name)
			}
		case float64:
			flags = append(flags, "--"+name+"="+strconv.FormatFloat(v, 'f', -1, 64))
		default:
			flags = append(flags, fmt.Sprintf("--%s=%v", name, v))
		}
	}
	slices.Sort(flags)
	// The engine's arguments must not set flags that only the simulator has.
	return append(argv, slices.DeleteFunc(flags, func(f string) bool {
		return strings.HasPrefix(f, "--served-model-name") || strings.HasPrefix(f, "--api-key")
	})...)
}
