// Package prom reads the metrics that an engine exposes in Prometheus' format.
//
// One session takes a look before the load, one each interval during it and
// one after the drain. Counters and histograms are differences between the
// first and the last look, followed look by look so that a restart in between
// is seen; gauges are what the looks under load saw. Percentiles are
// interpolated inside the engine's buckets, so they are as coarse as those.
//
// A target that is slow, gone or full of garbage costs its own columns and
// nothing else: every look is bounded in time (0.9 of the interval; before and
// after the load five intervals, five seconds at most), in bytes (32 MiB) and in series
// (100,000); after a failure looks become rarer, up to one in 16 intervals; and
// reading answers takes a tenth of one CPU at most.
package prom

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"sweep.dev/sweep/collectors"
	"sweep.dev/sweep/engine"
	"sweep.dev/sweep/internal/exposition"
	"sweep.dev/sweep/result"
)

// Config is the collector's part of a plan.
type Config struct {
	// Interval between two looks while the load runs, 100ms to 1m. An engine
	// whose averages count from the last look (llama.cpp) shows shorter
	// averages with a shorter interval.
	Interval time.Duration `yaml:"interval,omitempty" doc:"Time between two looks while the load runs, 100ms to 1m." default:"1s" unit:"s"`
	// Path of the metrics; "" is the engine profile's.
	Path string `yaml:"path,omitempty" doc:"Path of the metrics." default:"the engine profile's" example:"/metrics"`
}

// Default is the configuration that a plan's keys are decoded over.
var Default = Config{Interval: time.Second}

const (
	firstLook  = 250 * time.Millisecond // under load, so that a short trial has one
	maxBackoff = 16                     // intervals
	maxNames   = 2000                   // series whose samples are kept
)

// Factory makes the collector from its part of the plan.
func Factory() collectors.Factory {
	return collectors.Factory{
		Kind:   "prom",
		Doc:    "the engine's own metrics, in Prometheus' format",
		Config: Config{},
		New: func(decode func(any) error) (collectors.Collector, error) {
			c := Default
			if err := decode(&c); err != nil {
				return nil, err
			}
			return New(c)
		},
	}
}

// A Collector scrapes one target a session.
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
	path := c.config.Path
	if path == "" && t.Profile != nil {
		path = t.Profile.Metrics.Path
	}
	if path == "" || t.Profile == nil {
		return nothing{}, nil
	}
	scraper, err := newScraper(t, path)
	if err != nil {
		return nil, err
	}
	archive, err := newArchive()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	s := &session{
		config:   c.config,
		trial:    t,
		target:   t.Targets[0],
		sink:     sink,
		scraper:  scraper,
		archive:  archive,
		window:   newWindow(t.Profile),
		prefixes: prefixes(t.Profile),
		names:    make(map[string]bool),
		cancel:   cancel,
		done:     make(chan struct{}),
	}
	if first := s.look(ctx, s.config.edgeLimit(), false); first.err == nil {
		s.firstAt, s.baseline = first.at, true
	}
	go s.loop(ctx)
	return s, nil
}

// edgeLimit bounds the first and the last look, for which a server at rest has
// more time than under load.
func (c Config) edgeLimit() time.Duration {
	return min(max(5*c.Interval, time.Second), 5*time.Second)
}

// nothing is the session of an engine that exposes no metrics.
type nothing struct{}

func (nothing) Finish(context.Context) (result.Row, error) { return emptyRow(), nil }

// A session is owned by one goroutine at a time: Start, then loop, then,
// behind done, Finish.
type session struct {
	config   Config
	trial    collectors.Trial
	target   collectors.Target
	sink     collectors.Sink
	scraper  *scraper
	archive  *archive
	window   *window
	prefixes []string
	cancel   context.CancelFunc
	done     chan struct{}

	baseline bool // the first look succeeded
	firstAt  time.Duration
	looks    int
	failed   int
	dropped  int
	lastErr  error
	names    map[string]bool // series whose samples are kept
	cut      bool            // there were more
}

func (s *session) loop(ctx context.Context) {
	defer close(s.done)
	if !s.trial.AwaitLoad(ctx) {
		return
	}
	interval := s.config.Interval
	wait := min(interval, firstLook)
	backoff := 1
	for {
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C:
		}
		begun := time.Now()
		looked := s.look(ctx, interval*9/10, true)
		if looked.err != nil {
			backoff = min(2*backoff, maxBackoff)
		} else {
			backoff = 1
		}
		// The client measures on this machine: whatever a target sends, reading
		// it must stay cheap.
		wait = max(interval*time.Duration(backoff)-time.Since(begun), 10*looked.processing, interval/10)
	}
}

func (s *session) look(ctx context.Context, limit time.Duration, loaded bool) *scrape {
	looked := s.scraper.scrape(ctx, limit)
	if looked.err != nil && loaded && ctx.Err() != nil {
		return looked // Finish ended it, which is no failure
	}
	s.looks++
	s.archive.add(looked, s.trial.Anchor.Start.Add(looked.at))
	if looked.err != nil {
		s.failed++
		s.lastErr = looked.err
		return looked
	}
	s.dropped += looked.exposition.Dropped
	s.window.observe(looked.exposition, loaded, looked.whole, looked.started)
	s.samples(looked)
	return looked
}

// samples passes on what a look saw: the canonical quantities under their own
// names, and the engine's series under the engine's. Of histograms only the
// sum and the count; the buckets are in the archive.
func (s *session) samples(l *scrape) {
	for name, v := range s.window.lastValues {
		s.sample(l.at, name, "", v, unitOf(name))
	}
	for _, p := range l.exposition.Points {
		if s.own(p.Name) && !strings.HasSuffix(p.Name, "_created") {
			s.sample(l.at, p.Name, exposition.LabelString(p.Labels), p.Value, unitOf(p.Name))
		}
	}
	for _, h := range l.exposition.Histograms {
		if s.own(h.Name) {
			s.sample(l.at, h.Name+"_sum", exposition.LabelString(h.Labels), h.Sum, unitOf(h.Name))
			s.sample(l.at, h.Name+"_count", exposition.LabelString(h.Labels), h.Count, "")
		}
	}
}

func (s *session) own(name string) bool {
	for _, p := range s.prefixes {
		if strings.HasPrefix(name, p) {
			return true
		}
	}
	return false
}

func (s *session) sample(at time.Duration, name, labels string, v float64, unit string) {
	if math.IsNaN(v) { // the engine says that there is no value
		return
	}
	key := name + "{" + labels
	if !s.names[key] {
		if len(s.names) >= maxNames {
			s.cut = true
			return
		}
		s.names[key] = true
	}
	s.sink.Sample(result.Sample{
		T: at, Source: result.FromServer, Role: s.target.Role, Replica: s.target.Replica,
		Name: name, Labels: labels, Value: v, Unit: unit,
	})
}

// Finish takes the last look, which makes the row.
func (s *session) Finish(ctx context.Context) (result.Row, error) {
	s.cancel()
	<-s.done
	defer s.scraper.close()
	last := s.look(ctx, s.config.edgeLimit(), false)
	bracketed := s.baseline && last.err == nil
	row := s.window.row(bracketed, last.at-s.firstAt)
	s.findings()
	raw, err := s.archive.close()
	if err == nil {
		name := fmt.Sprintf("scrapes/%s-%d.prom.zst", s.target.Role, s.target.Replica)
		if err = s.sink.Artifact(name, raw); err != nil {
			err = fmt.Errorf("keep the scrapes: %w", err)
		}
	}
	if !bracketed {
		err = errors.Join(fmt.Errorf("metrics of %s: %w", s.scraper.url, s.lastErr), err)
	}
	return row, err
}

// Codes of the findings. A trial with EngineRestarted must not be used.
const (
	EngineRestarted = "engine_restarted"
	MetricsMissing  = "metrics_missing"
	MetricsPartial  = "metrics_partial"
	MetricsCut      = "metrics_cut"
)

func (s *session) findings() {
	note := func(code, format string, args ...any) {
		s.sink.Note(result.Finding{Code: code, Text: fmt.Sprintf(format, args...)})
	}
	if s.window.restarted != "" {
		note(EngineRestarted, "the engine restarted: %s", s.window.restarted)
	}
	if s.failed > 0 {
		note(MetricsMissing, "%d of %d looks at the engine's metrics failed, the last with: %v", s.failed, s.looks, s.lastErr)
	}
	switch {
	case s.dropped > 0:
		note(MetricsPartial, "%d lines of the engine's metrics could not be read", s.dropped)
	case s.window.vanished != "":
		note(MetricsPartial, "a series of %s vanished during the trial", s.window.vanished)
	}
	if s.cut || s.archive.full {
		note(MetricsCut, "the engine exposes more than is kept: %d series, and %d MiB of raw bodies", maxNames, maxArchive>>20)
	}
}

// unitOf is the unit of a canonical quantity, or what a series' own name says.
func unitOf(name string) string {
	switch name {
	case engine.KVCacheUsage:
		return "ratio"
	case engine.RequestsRunning, engine.RequestsWaiting, engine.RequestsFinished:
		return "requests"
	case engine.PromptTokens, engine.GenerationTokens, engine.PrefixHits, engine.PrefixQueries:
		return "tokens"
	case engine.GenerationPerSecond:
		return "tokens/s"
	case engine.ProcessStart:
		return "s"
	}
	base := strings.TrimSuffix(name, "_total")
	switch {
	case strings.HasSuffix(base, "_seconds"):
		return "s"
	case strings.HasSuffix(base, "_bytes"):
		return "bytes"
	}
	return ""
}
