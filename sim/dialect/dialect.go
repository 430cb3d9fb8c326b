// Package dialect is how the single servers that are simulated differ from each
// other: their flags, start-up texts, routes, streams and metrics. What is
// simulated is the same for all.
package dialect

import (
	"fmt"
	"strconv"
	"strings"
)

// A Dialect is one release of one engine.
type Dialect struct {
	Name    string // of the engine, as its profile
	Release string
	Old     bool // the release before names changed
	// TimeScale is the simulated seconds in a real second; 0 is 1.
	TimeScale float64

	// Port is the engine's own default.
	Port int
	// Flags are the engine's own flags. Those of vLLM are the simulator's, so
	// that it lists none.
	Flags []Flag
	// Settings are the keys of its file of settings, and the simulator's flags.
	Settings map[string]string
	Usage    Usage
	Start    Start
	API      API
}

// Version returns what the engine says of itself. Its end says that nothing here was
// measured on a GPU, and at which time scale if that is not 1: 0.32.0+sim.x20.
func (d *Dialect) Version() string {
	if d.TimeScale == 0 || d.TimeScale == 1 {
		return d.Release + Mark
	}
	return d.Release + Mark + ".x" + strconv.FormatFloat(d.TimeScale, 'f', -1, 64)
}

// Mark is after the release in the version of everything that is simulated.
const Mark = "+sim"

// An engine is what can be spoken, newest release first.
type engine struct {
	name     string
	releases []string
	make     func(*Dialect)
}

func engines() []engine {
	return []engine{
		{"vllm", []string{"0.32.0", "0.8.5"}, vllm},
		{"sglang", []string{"0.5.18", "0.4.5"}, sglang},
		{"trtllm", []string{"1.3.0", "1.0.0"}, trtllm},
		{"llamacpp", []string{"b11549", "b5000"}, llamacpp},
		{"tgi", []string{"3.3.6"}, tgi},
	}
}

// Names lists the engines.
func Names() []string {
	var names []string
	for _, e := range engines() {
		names = append(names, e.name)
	}
	return names
}

// Releases lists what can be spoken of an engine, newest first.
func Releases(name string) []string {
	for _, e := range engines() {
		if e.name == name {
			return e.releases
		}
	}
	return nil
}

// New returns the dialect of an engine's release, which may be cut short: 0.8 is
// 0.8.5. "" is the newest.
func New(name, release string) (*Dialect, error) {
	for _, e := range engines() {
		if e.name != name {
			continue
		}
		for i, r := range e.releases {
			if release == "" || r == release || strings.HasPrefix(r, release+".") {
				d := &Dialect{Name: name, Release: r, Old: i > 0, Port: 8000}
				e.make(d)
				return d, nil
			}
		}
		return nil, fmt.Errorf("error: argument --engine-version: invalid choice: '%s' (choose from '%s')", release, strings.Join(e.releases, "', '"))
	}
	return nil, fmt.Errorf("error: argument --engine: invalid choice: '%s' (choose from '%s')", name, strings.Join(Names(), "', '"))
}
