// Package prom reads the metrics that an engine exposes in Prometheus' format.
//
// One session looks at every server of a trial, at all of them side by side:
// before the load, each interval during it, and after the drain. Counters and
// histograms are differences between the first and the last look, followed
// look by look so that a restart in between is seen; gauges are what the looks
// under load saw. Percentiles are interpolated inside the engine's buckets, so
// they are as coarse as those.
//
// The values of several servers become one figure: counters are summed, histograms
// bucket by bucket where their bounds agree, gauges as the quantity demands. A
// figure of which one server's part is missing is not known; it is never that
// of the others. A frontend sees the requests of the engines once more, so
// what it says is only taken where the engines say nothing.
//
// A target that is slow, gone or full of garbage costs its own columns and
// nothing else: every look is bounded in time (0.9 of the interval; before and
// after the load five intervals, five seconds at most), in bytes (32 MiB) and in series
// (100,000); after a failure looks become rarer, up to one in 16 intervals; and
// reading answers takes a tenth of one CPU at most.
package prom

import (
	"context"
	"fmt"
	"strings"
	"time"

	"sweep.dev/sweep/collectors"
	"sweep.dev/sweep/engine"
	"sweep.dev/sweep/result"
)

// Config is the collector's part of a plan.
type Config struct {
	// Interval between two looks while the load runs, 100ms to 1m. An engine
	// whose averages count from the last look (llama.cpp) shows shorter
	// averages with a shorter interval.
	Interval time.Duration `yaml:"interval,omitempty" doc:"Time between two samples during the load, 100ms to 1m." default:"1s" unit:"s" example:"500ms"`
	// Path of the metrics; "" is the engine profile's.
	Path string `yaml:"path,omitempty" doc:"Path of the metrics." default:"the engine profile's" example:"/metrics"`
}

// Default is the configuration that a plan's keys are decoded over.
var Default = Config{Interval: time.Second}

const (
	firstLook  = 250 * time.Millisecond // under load, so that a short trial has one
	maxBackoff = 16                     // intervals
	maxNames   = 2000                   // series of one target whose samples are kept
)

// Factory makes the collector from its part of the plan.
func Factory() collectors.Factory {
	return collectors.Factory{
		Kind:   "prom",
		Doc:    "the engine's own metrics, in Prometheus' format",
		Config: Config{},
		New:    collectors.Configured(Default, New),
	}
}

// A Collector scrapes the servers of a trial.
type Collector struct{ config Config }

var _ collectors.Collector = (*Collector)(nil)

// New checks a configuration.
func New(c Config) (*Collector, error) {
	if c.Interval < 100*time.Millisecond || c.Interval > time.Minute {
		return nil, fmt.Errorf("prom: interval %v: want 100ms to 1m", c.Interval)
	}
	if c.Path != "" && !strings.HasPrefix(c.Path, "/") {
		return nil, fmt.Errorf("prom: path %q: want a leading slash", c.Path)
	}
	return &Collector{c}, nil
}

// Start takes the first look. A target that does not answer it still gets a
// session: its gauges may be seen later.
func (c *Collector) Start(ctx context.Context, t collectors.Trial, sink collectors.Sink) (collectors.Session, error) {
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	if t.Profile == nil {
		return nothing{}, nil
	}
	s := &session{config: c.config, trial: t, sink: sink, done: make(chan struct{})}
	for i := range t.Targets {
		target := t.Targets[i]
		if m := target.Metrics; t.Given && m != nil && m.Iterations != "" {
			// A reader of the statistics of iterations takes them from all others.
			kept := *m
			kept.Iterations = ""
			target.Metrics = &kept
		}
		paths := c.paths(target.Metrics)
		if len(paths) == 0 && (target.Metrics == nil || target.Metrics.Iterations == "") {
			continue // it exposes nothing
		}
		w, err := newWatch(t, target, paths, &s.reading, len(t.Targets))
		if err != nil {
			return nil, err
		}
		s.watches = append(s.watches, w)
	}
	if len(s.watches) == 0 {
		return nothing{t.Profile}, nil
	}
	ctx, s.cancel = context.WithCancel(ctx)
	s.look(ctx, s.config.edgeLimit(), edge)
	go s.loop(ctx)
	return s, nil
}

// paths returns where a target may have its metrics, the first most likely.
func (c *Collector) paths(m *engine.Metrics) []string {
	switch {
	case m == nil:
		return nil
	case c.config.Path != "" && m.Path != "":
		return []string{c.config.Path}
	case m.Path == "":
		return nil
	}
	return append([]string{m.Path}, m.Fallback...)
}

// edgeLimit bounds the first and the last look, for which a server at rest has
// more time than under load.
func (c Config) edgeLimit() time.Duration {
	return min(max(5*c.Interval, time.Second), 5*time.Second)
}

// nothing is the session of an engine that exposes no metrics.
type nothing struct{ profile *engine.Profile }

func (n nothing) Finish(context.Context) (result.Row, error) { return emptyRow(n.profile), nil }
