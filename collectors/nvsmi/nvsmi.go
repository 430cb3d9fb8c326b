// Package nvsmi watches NVIDIA GPUs by running nvidia-smi where the server
// runs, once before the load, each interval during it and once after the
// drain.
//
// Where there is no nvidia-smi, no GPU, or no way to run a command, its columns
// are null and one finding says why. Every run is bounded in time, and what
// it prints in size by the host. Utilisation is the share of time in which any
// kernel ran, which says little about how busy the GPU was; power is the
// driver's own average, over a second on newer cards; energy is that power
// integrated by trapezoids.
package nvsmi

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"sweep.dev/sweep/collectors"
	"sweep.dev/sweep/host"
	"sweep.dev/sweep/result"
)

// Config is the collector's part of a plan.
type Config struct {
	// Interval between two runs of nvidia-smi while the load runs, 200ms to
	// 1m. A run takes 20 ms to a second, of the server's machine.
	Interval time.Duration `yaml:"interval,omitempty" doc:"Time between two runs of nvidia-smi while the load runs, 200ms to 1m; a run takes 20 ms to a second of the server's machine." default:"1s" unit:"s"`
}

// Default is the configuration that a plan's keys are decoded over.
var Default = Config{Interval: time.Second}

// Codes of the findings.
const (
	GPUMissing = "gpu_metrics_missing"
	GPUPartial = "gpu_metrics_partial"
)

const (
	firstLook  = 250 * time.Millisecond // under load, so that a short trial has one
	maxBackoff = 16                     // intervals
	maxRaw     = 16 << 20               // bytes of raw answers that are kept
)

// Factory makes the collector from its part of the plan.
func Factory() collectors.Factory {
	return collectors.Factory{
		Kind:   "nvsmi",
		Doc:    "NVIDIA GPUs, by running nvidia-smi beside the server",
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

// A Collector watches the GPUs of one host a session.
type Collector struct{ config Config }

var _ collectors.Collector = (*Collector)(nil)

// New checks a configuration.
func New(c Config) (*Collector, error) {
	if c.Interval < 200*time.Millisecond || c.Interval > time.Minute {
		return nil, fmt.Errorf("nvsmi: interval %v: want 200ms to 1m", c.Interval)
	}
	return &Collector{c}, nil
}

// limit bounds one run of nvidia-smi, which may be slow to start where nothing
// keeps the driver loaded.
func (c Config) limit() time.Duration {
	return min(max(5*c.Interval, 2*time.Second), 5*time.Second)
}

// Start takes the first look. Where there is nothing to see the session is one
// that does nothing.
func (c *Collector) Start(ctx context.Context, t collectors.Trial, sink collectors.Sink) (collectors.Session, error) {
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	s := &session{
		config: c.config,
		trial:  t,
		target: t.Targets[0],
		sink:   sink,
		fields: append(append([]string(nil), throttleFields...), coreFields...),
		window: &window{maxGap: max(5*c.config.Interval, 5*time.Second)},
		done:   make(chan struct{}),
	}
	if err := s.first(ctx); err != nil {
		text := err.Error()
		if errors.Is(err, host.ErrNotSupported) {
			text = "no command can be run beside this server"
		}
		sink.Note(result.Finding{Code: GPUMissing, Text: "no GPU was watched: " + text})
		return nothing{}, nil
	}
	ctx, s.cancel = context.WithCancel(ctx)
	go s.loop(ctx)
	return s, nil
}

// nothing is the session where there is no GPU to be seen.
type nothing struct{}

func (nothing) Finish(context.Context) (result.Row, error) { return emptyRow(), nil }

// A session is owned by one goroutine at a time: Start, then loop, then,
// behind done, Finish.
type session struct {
	config Config
	trial  collectors.Trial
	target collectors.Target
	sink   collectors.Sink
	fields []string
	window *window
	cancel context.CancelFunc
	done   chan struct{}

	looks, failed int
	lastErr       error
	raw           bytes.Buffer
	rawFull       bool
}

// first is the look before the load. It settles which fields the driver knows.
func (s *session) first(ctx context.Context) error {
	err := s.look(ctx, false)
	if err == nil || errors.Is(err, host.ErrNotSupported) || errors.Is(err, context.DeadlineExceeded) || ctx.Err() != nil {
		return err
	}
	// An older driver refuses the whole query for one field, in words that
	// have changed before; so any refusal is worth a second, smaller question.
	s.fields = coreFields
	s.looks, s.failed, s.lastErr = 0, 0, nil
	return s.look(ctx, false)
}

func (s *session) loop(ctx context.Context) {
	defer close(s.done)
	if !s.trial.AwaitLoad(ctx) {
		return
	}
	s.window.begin(s.trial.Anchor.Since())
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
		if err := s.look(ctx, true); err != nil {
			backoff = min(2*backoff, maxBackoff)
		} else {
			backoff = 1
		}
		wait = max(interval*time.Duration(backoff)-time.Since(begun), interval/10)
	}
}

func (s *session) look(ctx context.Context, loaded bool) error {
	limit := s.config.limit()
	runCtx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("nvidia-smi took longer than %v: %w", limit, context.DeadlineExceeded))
	defer cancel()
	begun := s.trial.Anchor.Since()
	out, err := s.target.Host.Exec(runCtx, "nvidia-smi", "--query-gpu="+strings.Join(s.fields, ","), "--format=csv,noheader,nounits")
	ended := s.trial.Anchor.Since()
	if err != nil && loaded && ctx.Err() != nil {
		return err // Finish ended it, which is no failure
	}
	s.looks++
	var gpus []gpu
	switch cause := context.Cause(runCtx); {
	case err != nil && cause != nil:
		err = cause
	case err != nil:
		// The reason stands on stdout, beside an exit status that says nothing.
		if said := complaint(string(out)); !errors.Is(said, errAnswer) {
			err = said
		}
	default:
		gpus, err = parse(out, s.fields)
	}
	if err != nil {
		s.failed++
		s.lastErr = err
		return err
	}
	at := begun + (ended-begun)/2
	s.keep(at, out)
	s.window.observe(at, gpus, loaded)
	for _, g := range gpus {
		labels := fmt.Sprintf("gpu=%q,uuid=%q", g.index, g.uuid)
		for _, field := range s.fields {
			if v, ok := g.values[field]; ok {
				s.sink.Sample(result.Sample{
					T: at, Source: result.FromGPU, Role: s.target.Role, Replica: s.target.Replica,
					Name: field, Labels: labels, Value: v, Unit: measured[field].unit,
				})
			}
		}
	}
	return nil
}

// keep puts the answer as it came into the raw file, each line after its time.
func (s *session) keep(at time.Duration, out []byte) {
	if s.raw.Len() == 0 {
		fmt.Fprintf(&s.raw, "t_us, %s\n", strings.Join(s.fields, ", "))
	}
	for line := range bytes.Lines(out) {
		if s.raw.Len()+len(line) > maxRaw {
			s.rawFull = true
			return
		}
		if line = bytes.TrimSpace(line); len(line) > 0 {
			fmt.Fprintf(&s.raw, "%d, %s\n", at.Microseconds(), line)
		}
	}
}

// Finish takes the last look, which makes the row.
func (s *session) Finish(ctx context.Context) (result.Row, error) {
	s.cancel()
	<-s.done
	last := s.look(ctx, false)
	row := s.window.row(last == nil)
	switch {
	case s.lastErr != nil:
		s.note(GPUPartial, "%d of %d runs of nvidia-smi failed, the last with: %v", s.failed, s.looks, s.lastErr)
	case s.window.energyKnown && s.window.gaps > 0:
		s.note(GPUPartial, "the power of the GPUs is unknown for %d stretches, so energy is not stated", s.window.gaps)
	case s.rawFull:
		s.note(GPUPartial, "raw answers of nvidia-smi are kept up to %d MiB", maxRaw>>20)
	}
	var err error
	if last != nil {
		err = fmt.Errorf("nvidia-smi: %w", last)
	}
	name := fmt.Sprintf("scrapes/%s-%d.nvidia-smi.csv", s.target.Role, s.target.Replica)
	if kept := s.sink.Artifact(name, &s.raw); kept != nil {
		err = errors.Join(err, fmt.Errorf("keep what nvidia-smi printed: %w", kept))
	}
	return row, err
}

func (s *session) note(code, format string, args ...any) {
	s.sink.Note(result.Finding{Code: code, Text: fmt.Sprintf(format, args...)})
}
