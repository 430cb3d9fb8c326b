package plan

import (
	"errors"
	"time"

	"sweep.dev/sweep/internal/syntax"
)

// A Diagnostic is one thing that is wrong with a plan: where, what, what was
// expected and which valid name is nearest. It is JSON-able as it is.
type Diagnostic = syntax.Diagnostic

// Diagnostics is everything that is wrong with a plan, as one error. Error is
// one line for each; Pretty has snippets.
type Diagnostics = syntax.Diagnostics

// A Vocabulary is what cmd tells the language about the plug-ins there are.
type Vocabulary struct {
	Backends   []PluginDoc
	Collectors []PluginDoc
	Sinks      []PluginDoc
}

// A PluginDoc is one plug-in as the language sees it.
type PluginDoc struct {
	Kind    string
	Doc     string
	Config  any  // zero value of its configuration struct; nil for none
	FreeGPU bool // backends: gpu may be a free label
	// LoadPods says of a backend that clients can run where its servers do.
	LoadPods bool
	// Launch is the default of timeouts.launch on this backend; 0 is five minutes.
	Launch time.Duration
	// Given says of a backend that its servers run already: nothing that a
	// plan says of an engine's command line reaches them, and saying it is an
	// error.
	Given bool
	// Applies says of such a backend that it makes the servers for each deployment, as
	// the plan's manifests say.
	Applies bool
	// Under is the same with what it is under a configuration, of which decode is as
	// [Plugin].Decode; nil if that is always the same.
	Under func(decode func(any) error) PluginDoc
}

// IsDiagnostics reports whether err is, or wraps, what is wrong with a plan.
func IsDiagnostics(err error) (*Diagnostics, bool) {
	var d *Diagnostics
	ok := errors.As(err, &d)
	return d, ok
}
