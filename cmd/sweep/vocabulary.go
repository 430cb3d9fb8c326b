package main

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"syscall"
	"time"

	"github.com/urfave/cli/v3"

	"sweep.dev/sweep/backends"
	allbackends "sweep.dev/sweep/backends/all"
	"sweep.dev/sweep/cmd/sweep/internal/outbound"
	"sweep.dev/sweep/cmd/sweep/internal/vocabulary"
	"sweep.dev/sweep/collectors"
	allcollectors "sweep.dev/sweep/collectors/all"
	"sweep.dev/sweep/executor/serving"
	"sweep.dev/sweep/internal/effect"
	"sweep.dev/sweep/internal/plaintext"
	"sweep.dev/sweep/plan"
	"sweep.dev/sweep/plan/planfile"
	"sweep.dev/sweep/rundir"
	"sweep.dev/sweep/sinks"
	allsinks "sweep.dev/sweep/sinks/all"
)

// planFlags returns those of every command that reads a plan.
func planFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringSliceFlag{Name: "set", Usage: "override a value of the plan: `PATH=VALUE` (load.requests=8); recorded in the run", Config: cli.StringConfig{TrimSpace: true}},
		&cli.StringSliceFlag{Name: "allow-env", Usage: "let ${`NAME`} of the plan read this environment variable"},
		sendFlag(),
		&cli.StringSliceFlag{Name: "engine-file", Usage: "a further `FILE` with a profile of an engine, as engine_files in the plan; kept with the run", Config: cli.StringConfig{TrimSpace: true}},
		&cli.IntFlag{Name: "max-cells", Usage: "refuse a matrix with more cells than `N`", Value: planfile.DefaultMaxCells, Validator: positive[int]},
	}
}

// positive refuses what would otherwise stand for no bound at all.
func positive[T int | float64 | time.Duration](v T) error {
	if v > 0 {
		return nil
	}
	return fmt.Errorf("want more than 0, got %v", v)
}

func (a *app) planOptions(c *cli.Command) planfile.Options {
	return planfile.Options{
		Vocabulary: vocabulary.All(), Set: c.StringSlice("set"), AllowEnv: flagWords(c.StringSlice("allow-env")), SendEnv: flagWords(c.StringSlice("send-env")),
		MaxCells: c.Int("max-cells"), LookupEnv: a.env, Config: a.configFile(),
		EngineFiles: c.StringSlice("engine-file"), Stdin: a.in,
	}
}

// kept are files of a plan as a run keeps them, and given what it has kept: engine
// profiles, and manifests.
func kept[F ~struct {
	Name string
	Text []byte
}](files []F) []rundir.Text {
	var texts []rundir.Text
	for _, f := range files {
		texts = append(texts, rundir.Text(f))
	}
	return texts
}

func given[F ~struct {
	Name string
	Text []byte
}](texts []rundir.Text) []F {
	files := []F{} // not nil: what was not kept is not read either
	for _, t := range texts {
		files = append(files, F(t))
	}
	return files
}

// plugins are what a plan names, made.
type plugins struct {
	backend    backends.Backend
	factory    backends.Factory
	collectors []namedCollector
	sinks      []sinks.Sink
	sends      []outbound.Flow // what of the plan's variables goes to which host
}

// servers returns how the backend's servers are got and given back, before a job says
// more. sweep is the path of this program.
func (m *plugins) servers(sweep string) serving.Options {
	f := m.factory
	return serving.Options{Given: f.Given, Rents: f.Bills, Images: f.Images, StopSlack: f.Settle, Sweep: sweep}
}

// traits are what of a backend an estimate depends on.
type traits struct {
	// scale is the number of seconds that pass for the servers in a real one: 1,
	// except for a simulator with a time_scale.
	scale     float64
	simulated bool
	wrapped   bool // requests go through TLS, a tunnel or a proxy
	given     bool // the servers run already
	rents     bool // they cost money
}

func (m *plugins) traits() traits {
	of := traits{scale: 1, given: m.factory.Given, rents: m.factory.Bills}
	if s, ok := m.backend.(backends.TimeScaler); ok {
		of.scale = s.TimeScale()
	}
	if s, ok := m.backend.(backends.Simulator); ok {
		of.simulated = s.Simulated()
	}
	if n, ok := m.backend.(backends.Network); ok {
		of.wrapped = !n.PlainTCP()
	}
	return of
}

type namedCollector struct {
	kind      string
	collector collectors.Collector
}

// build makes the plug-ins of a plan; everything that is wrong with their
// parts of the plan is found here, before anything is started.
func build(p *plan.Plan, fx *effect.Effects) (*plugins, error) {
	var made plugins
	var errs []error
	for _, f := range allbackends.Factories(fx) {
		if f.Kind == p.Backend.Kind {
			f = f.Under(p.Backend.Decode)
			b, err := f.New(p.Backend.Decode)
			errs = append(errs, p.Backend.Wrong(err))
			if gratis, ok := b.(backends.Gratis); ok && err == nil {
				f.Bills = f.Bills && !gratis.Free()
			}
			made.backend, made.factory = b, f
		}
	}
	for _, use := range p.Collect {
		for _, f := range allcollectors.Collectors() {
			if f.Kind == use.Kind {
				c, err := f.New(use.Decode)
				errs = append(errs, use.Wrong(err))
				made.collectors = append(made.collectors, namedCollector{f.Kind, c})
			}
		}
	}
	for _, use := range p.Sinks {
		for _, f := range allsinks.Factories() {
			if f.Kind == use.Kind {
				s, err := f.New(use.Decode, p.Columns())
				errs = append(errs, use.Wrong(err))
				made.sinks = append(made.sinks, s)
			}
		}
	}
	err := faults(errs)
	if err == nil {
		made.sends, err = made.flows(p)
	}
	if err != nil {
		return nil, err
	}
	return &made, nil
}

// faults returns all that plug-ins found wrong with their parts of a plan, as one.
func faults(errs []error) error {
	all := &plan.Diagnostics{}
	for _, err := range errs {
		if d, ok := plan.IsDiagnostics(err); ok {
			all.List = append(all.List, d.List...)
		} else if err != nil {
			return &usage{errors.Join(errs...)}
		}
	}
	if len(all.List) == 0 {
		return nil
	}
	return all
}

// open reads a plan and makes its plug-ins.
func (a *app) open(path string, o planfile.Options) (*plan.Plan, *plugins, error) {
	fx, err := a.effects()
	if err != nil {
		return nil, nil, err
	}
	p, err := planfile.Open(path, o)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			err = &usage{fmt.Errorf("there is no plan %s", path)}
		}
		if at, ok := errors.AsType[*fs.PathError](err); ok { // the plan, or its prompt file
			err = &usage{fmt.Errorf("cannot read %s: %w", at.Path, at.Err)}
			if errors.Is(at.Err, syscall.EISDIR) {
				err = &usage{&hinted{err, "a plan is a file; sweep validate " + filepath.Join(plaintext.Word(at.Path), "*.yaml") + " checks all of a folder"}}
			}
		}
		return nil, nil, err
	}
	made, err := build(p, fx)
	return p, made, err
}

// parse reads a plan that is a text of the program's own, and makes its plug-ins. What
// it names is relative to the working directory.
func (a *app) parse(name, text string, o planfile.Options) (*plan.Plan, *plugins, error) {
	fx, err := a.effects()
	if err != nil {
		return nil, nil, err
	}
	p, err := planfile.Parse(name, ".", []byte(text), o)
	if err != nil {
		return nil, nil, err
	}
	made, err := build(p, fx)
	return p, made, err
}
