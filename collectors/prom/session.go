package prom

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"sweep.dev/sweep/collectors"
	"sweep.dev/sweep/collectors/disagg"
	"sweep.dev/sweep/collectors/quantities"
	"sweep.dev/sweep/engine"
	"sweep.dev/sweep/internal/exposition"
	"sweep.dev/sweep/internal/layout"
	"sweep.dev/sweep/result"
	"sweep.dev/sweep/result/finding"
)

// A session is owned by one goroutine at a time: Start, then loop, then,
// behind done, Finish. Only the scrapes of one round run beside each other.
type session struct {
	config  Config
	trial   collectors.Trial
	sink    collectors.Sink
	watches []*watch
	cancel  context.CancelFunc
	done    chan struct{}

	reading sync.Mutex // see scraper
	rounds  int
}

// A watch is what a session knows of one target.
type watch struct {
	at collectors.Target
	server
	scraper *scraper
	archive *archive

	due     time.Time // not looked at before
	backoff int       // intervals

	baseline bool // the first look succeeded
	firstAt  time.Duration
	looks    int
	failed   int
	dropped  int
	lastErr  error
	settings []string        // that differ from the plan's
	names    map[string]bool // series whose samples are kept
	cut      bool            // there were more
}

func newWatch(t collectors.Trial, target collectors.Target, paths []string, reading *sync.Mutex, share int) (*watch, error) {
	w := &watch{
		at: target,
		server: server{Source: quantities.Source{
			Role: target.Role, Tier: cmp.Or(target.Tier, engine.TierEngine),
			Windows: []*quantities.Window{quantities.NewWindow(target.Metrics)},
		}},
		backoff: 1,
		names:   make(map[string]bool),
	}
	if target.Metrics.Iterations != "" {
		w.Windows = append(w.Windows, quantities.NewWindow(&iterations))
	}
	var err error
	if w.scraper, err = newScraper(target, paths); err != nil {
		return nil, fmt.Errorf("%s: %w", w, err)
	}
	w.scraper.authorize, w.scraper.asked = t.Authorize, t.Asked
	if target.Keyless {
		w.scraper.authorize = nil
	}
	w.scraper.since, w.scraper.reading = t.Anchor.Since, reading
	if w.archive, err = newArchive(share); err != nil {
		return nil, err
	}
	return w, nil
}

func (w *watch) String() string { return fmt.Sprintf("%s %d", w.Role, w.at.Replica) }

// phase is when a look is taken.
type phase int

const (
	edge   phase = iota // before or after the load: of every target
	loaded              // under load: of those that are due
)

// look takes one look at the targets side by side, and returns what reading
// the answers cost.
func (s *session) look(ctx context.Context, limit time.Duration, when phase) (processing time.Duration) {
	s.rounds++
	now := time.Now()
	scrapes := make([]*scrape, len(s.watches))
	var wg sync.WaitGroup
	for i, w := range s.watches {
		if when == loaded && now.Before(w.due) {
			continue
		}
		wg.Go(func() { scrapes[i] = w.scraper.scrape(ctx, limit) })
	}
	wg.Wait()
	for i, w := range s.watches {
		looked := scrapes[i]
		switch {
		case looked == nil:
			continue
		case looked.err != nil && when == loaded && ctx.Err() != nil:
			continue // Finish ended it, which is no failure
		}
		begun := time.Now()
		s.take(w, looked, when)
		processing += looked.processing + time.Since(begun)
		if looked.err != nil {
			w.backoff = min(2*w.backoff, maxBackoff)
			// Half an interval earlier: rounds are not exactly one apart.
			w.due = now.Add(time.Duration(w.backoff)*s.config.Interval - s.config.Interval/2)
		} else {
			w.backoff = 1
		}
	}
	return processing
}

func (s *session) loop(ctx context.Context) {
	defer close(s.done)
	if !s.trial.AwaitLoad(ctx) {
		return
	}
	interval := s.config.Interval
	wait := min(interval, firstLook)
	for _, w := range s.watches {
		w.due, w.backoff = time.Time{}, 1
	}
	for {
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C:
		}
		begun := time.Now()
		processing := s.look(ctx, interval*9/10, loaded)
		// The client measures on this machine: whatever a target sends, reading
		// it must stay cheap.
		wait = max(interval-time.Since(begun), 10*processing, interval/10)
	}
}

// take files what one look at one target brought.
func (s *session) take(w *watch, l *scrape, when phase) {
	w.looks++
	wall := s.trial.Anchor.Start.Add(l.at)
	w.archive.add(l, wall)
	w.lines = nil
	if l.err != nil {
		w.failed++
		w.lastErr = l.err
		if when == edge {
			w.Bracketed = false
		}
		return
	}
	first := w.Windows[0].Bodies == 0
	w.dropped += l.exposition.Dropped
	b := quantities.Body{
		Exposition: l.exposition, Round: s.rounds, Loaded: when == loaded, Whole: l.whole,
		ProcessStart: l.started, Now: float64(wall.UnixMicro()) / 1e6,
	}
	w.Windows[0].Observe(b)
	if len(w.Windows) > 1 {
		entries := l.iterations
		if first && len(entries) > 1 {
			entries = entries[len(entries)-1:] // the others are older than the trial
		}
		for _, e := range entries {
			b.Exposition = e
			w.Windows[1].Observe(b)
		}
	}
	switch {
	case when == loaded:
		w.Answered = append(w.Answered, s.rounds)
	case s.rounds == 1:
		w.baseline, w.firstAt = true, l.at
	default:
		w.Bracketed, w.Apart = w.baseline, (l.at - w.firstAt).Seconds()
	}
	if when == edge {
		w.lines = count(l.exposition)
		if w.Tier == engine.TierEngine { // the plan's arguments are those of engines
			w.settings = differing(w.at.Metrics, w.at.Args, l.exposition)
		}
	}
	s.samples(w, l)
}

// count counts a body's samples without _created.
func count(e *exposition.Exposition) lines {
	out := make(lines)
	for _, p := range e.Flat() {
		if !strings.HasSuffix(p.Name, "_created") {
			out[p.Name]++
		}
	}
	return out
}

// samples passes on what a look saw: the canonical quantities under their own
// names, and every series under the engine's. Of histograms only the sum and
// the count; the buckets are in the archive.
func (s *session) samples(w *watch, l *scrape) {
	for _, win := range w.Windows {
		for name, v := range win.Last {
			if w.Window(name) != win {
				continue
			}
			unit := unitOf(name)
			if f, ok := win.Chosen(name); ok {
				unit = f.Unit()
			}
			s.sample(w, l.at, name, "", v, unit)
		}
	}
	for _, p := range l.exposition.Points {
		if !noise(p.Name) {
			s.sample(w, l.at, p.Name, exposition.LabelString(p.Labels), p.Value, unitOf(p.Name))
		}
	}
	for _, h := range l.exposition.Histograms {
		if !noise(h.Name) {
			s.sample(w, l.at, h.Name+"_sum", exposition.LabelString(h.Labels), h.Sum, unitOf(h.Name))
			s.sample(w, l.at, h.Name+"_count", exposition.LabelString(h.Labels), h.Count, "")
		}
	}
}

// noise reports whether a metric is what the language of a server says of itself.
func noise(name string) bool {
	for _, prefix := range []string{"python_", "process_", "go_"} {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return strings.HasSuffix(name, "_created")
}

func (s *session) sample(w *watch, at time.Duration, name, labels string, v float64, unit string) {
	if v != v { // the engine says that there is no value
		return
	}
	key := name + "{" + labels
	if !w.names[key] {
		if len(w.names) >= maxNames {
			w.cut = true
			return
		}
		w.names[key] = true
	}
	s.sink.Sample(result.Sample{
		T: at, Source: result.FromServer, Role: w.Role, Replica: w.at.Replica,
		Name: name, Labels: labels, Value: v, Unit: unit,
	})
}

// Finish takes the last look, which makes the row.
func (s *session) Finish(ctx context.Context) (result.Row, error) {
	s.cancel()
	<-s.done
	s.look(ctx, s.config.edgeLimit(), edge)
	var servers []*server
	var errs []error
	for _, w := range s.watches {
		w.scraper.close()
		servers = append(servers, &w.server)
		raw, err := w.archive.close()
		if err == nil {
			name := layout.Scrape(w.Role, w.at.Replica)
			if err = s.sink.Artifact(name, raw); err != nil {
				err = fmt.Errorf("keep the scrapes: %w", err)
			}
		}
		if !w.Bracketed {
			errs = append(errs, fmt.Errorf("metrics of %s: %w", w.scraper.url(), w.lastErr))
		}
		errs = append(errs, err)
	}
	s.findings()
	row := makeRow(s.trial.Profile, servers)
	for _, f := range prove(row, s.trial.Profile, servers, disagg.AllowedBy(s.trial.Bounds)) {
		s.sink.Note(f)
	}
	return row, errors.Join(errs...)
}

// findings notes what a person should know, once for each code: of which
// targets stands in the text.
func (s *session) findings() {
	texts := make(map[finding.Code][]string)
	for _, w := range s.watches {
		note := func(code finding.Code, format string, args ...any) {
			text := fmt.Sprintf(format, args...)
			if len(s.watches) > 1 {
				text = w.String() + ": " + text
			}
			texts[code] = append(texts[code], text)
		}
		vanished := ""
		for _, win := range w.Windows {
			if win.Restarted != "" {
				note(finding.EngineRestarted, "the engine restarted: %s", win.Restarted)
			}
			if win.Vanished != "" {
				vanished = win.Vanished
			}
		}
		if w.failed > 0 {
			note(finding.MetricsMissing, "%d of %d looks at the engine's metrics failed, the last with: %v", w.failed, w.looks, w.lastErr)
		}
		switch {
		case w.dropped > 0:
			note(finding.MetricsPartial, "%d lines of the engine's metrics could not be read", w.dropped)
		case vanished != "":
			note(finding.MetricsPartial, "a series of %s vanished during the trial", vanished)
		}
		if w.cut || w.archive.full {
			note(finding.MetricsCut, "the engine exposes more than is kept: %d series, and %d MiB of raw bodies", maxNames, w.archive.max>>20)
		}
		if len(w.settings) > 0 {
			note(finding.SettingDiffers, "the engine runs with other settings than it was given: %s", strings.Join(w.settings, "; "))
		}
	}
	for _, code := range []finding.Code{finding.EngineRestarted, finding.MetricsMissing, finding.MetricsPartial, finding.MetricsCut, finding.SettingDiffers} {
		if list := slices.Compact(texts[code]); len(list) > 0 {
			s.sink.Note(result.Finding{Code: code, Text: strings.Join(list, ". ")})
		}
	}
}

// unitOf returns the unit of a canonical quantity, or what a series' own name says.
func unitOf(name string) string {
	if q, ok := engine.LookupQuantity(name); ok {
		return q.Unit
	}
	base := strings.TrimSuffix(name, "_total")
	switch {
	case strings.HasSuffix(base, "tokens_seconds"):
		return "tokens/s" // llama.cpp's averages
	case strings.HasSuffix(base, "_seconds"):
		return "s"
	case strings.HasSuffix(base, "_milliseconds"), strings.HasSuffix(base, "_ms"):
		return "ms"
	case strings.HasSuffix(base, "_bytes"):
		return "bytes"
	case strings.HasSuffix(base, "_tokens"):
		return "tokens"
	case strings.HasSuffix(base, "_blocks"):
		return "blocks"
	case strings.HasSuffix(base, "_ratio"):
		return "ratio"
	}
	return ""
}
