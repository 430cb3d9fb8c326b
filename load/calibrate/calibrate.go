package calibrate

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os/exec"
	"slices"
	"time"

	"sweep.dev/sweep/load"
	"sweep.dev/sweep/load/nullserver"
	"sweep.dev/sweep/load/wire"
	"sweep.dev/sweep/result"
)

// A Driver is a load driver that holds connections.
type Driver interface {
	load.Driver
	Close()
}

// Config is one calibration.
type Config struct {
	Machine Machine
	Shape   Shape // is bounded first
	// Driver makes the client as a run would.
	Driver func(wire.Config, string) (Driver, error)
	// Server is the command that runs [nullserver.Process] on its standard
	// streams. Standard input and output must not be set.
	Server func() *exec.Cmd
	// Time is how long all measuring takes, 0 is 4 s; starts and connections
	// are not in it.
	Time time.Duration
}

// The share of the time that each part takes.
const (
	defaultTime = 4 * time.Second

	patternShare = 0.2 // each of random and bursts
	timerShare   = 0.1
	rampShare    = 0.5

	firstToken = 30 * time.Millisecond // all requests are sent before the first chunk comes
	timerRate  = 1000                  // requests per second
	// kept is how many chunks per second have their text kept, to hold their
	// times against the truth: each of them costs the client a little more.
	kept = 20_000
	// grace is how long a part may take beyond its time, before what is in
	// flight is given up.
	grace = 2 * time.Second
)

// The ramp: each step offers more than the one before by a factor.
const (
	rampSteps  = 9
	rampFactor = 1.6
	// rampLeast is where the ramp begins at the least, in chunks per second, and
	// rampStream at most, in chunks per second of one stream.
	rampLeast  = 4000
	rampStream = 1000
	// maxCoalesced is the share of chunks that share a read, from which on a
	// client is not fast enough; the bound of a trial's validity is the same.
	maxCoalesced = 0.01
	// fewCoalesced of them are one moment in which nothing ran, and no rate.
	fewCoalesced = 2
	// maxCPU is the share of the client's CPUs above which there is nothing to
	// spare.
	maxCPU = 0.95
	// busyCPU is how many CPUs a client uses at least that reads late by its own
	// work: no loop of a client that uses less is busy for half of its time.
	busyCPU = 0.5
)

// Run calibrates a client. It takes the configured time and a second or two,
// and ends what it started. While it runs, this process stays off the CPUs that
// the server gets, if there are two or more.
func Run(ctx context.Context, c Config) (_ *Result, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("calibrate: %w", err)
		}
	}()
	begun := time.Now()
	c.Shape = c.Shape.Bounded()
	if c.Time <= 0 {
		c.Time = defaultTime
	}
	client, theirs := divide(allowed())
	s, err := serve(ctx, c.Server(), theirs)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.stop()) }()
	release, apart := confine(client)
	defer release()
	r := &Result{Machine: c.Machine, Shape: c.Shape, At: begun.UTC(), ClientCPUs: len(client)}
	if apart && len(theirs) > 0 {
		r.ServerCPUs = len(theirs)
	}
	m := &measurement{Config: c, url: s.url, result: r}
	for _, part := range []func(context.Context) error{m.random, m.bursts, m.timer, m.ceiling} {
		if err := part(ctx); err != nil {
			return nil, err
		}
	}
	r.Took = time.Since(begun)
	return r, nil
}

// A measurement is a calibration under way.
type measurement struct {
	Config
	url    string
	result *Result
}

func (m *measurement) part(share float64) time.Duration {
	return time.Duration(share * float64(m.Time))
}

func (m *measurement) random(ctx context.Context) (err error) {
	m.result.Random, err = m.pattern(ctx, nullserver.Random)
	return err
}

func (m *measurement) bursts(ctx context.Context) (err error) {
	m.result.Bursts, err = m.pattern(ctx, nullserver.Grid)
	return err
}

// pattern measures the shape itself.
func (m *measurement) pattern(ctx context.Context, mode nullserver.Mode) (Pattern, error) {
	itl := time.Duration(float64(time.Second) / m.Shape.Rate)
	took := m.part(patternShare)
	query := fmt.Sprintf("mode=%d&n=%d&itl=%d&ttft=%d", mode, max(2, int(took/itl)), itl.Microseconds(), firstToken.Microseconds())
	seen, err := m.load(ctx, query, m.streams(took))
	if err != nil {
		return Pattern{}, err
	}
	p := Pattern{Lag: spreadOf(seen.health.Lag), Loop: seen.health.Loop}
	for i := range seen.rows {
		row := &seen.rows[i]
		p.Chunks += len(seen.times(row))
		p.Coalesced += float64(row.Coalesced)
		if row.Status != result.Completed {
			p.Failed++
		}
	}
	if p.Chunks == 0 {
		return p, fmt.Errorf("no chunk came: %s", seen.complaint())
	}
	p.Coalesced /= float64(p.Chunks)
	errs, err := seen.errors()
	if err != nil {
		return p, err
	}
	p.Error = spread(errs)
	from, to := seen.steady()
	n := seen.count(from, to)
	if cpu, ok := seen.watch.cpu(from, to); ok && n > 0 {
		p.CPU = cpu / time.Duration(n)
	}
	if to > from {
		p.Rate = float64(n) / (to - from).Seconds()
	}
	return p, nil
}

// streams returns requests that all begin at once, each with a slot of its own.
func (m *measurement) streams(d time.Duration) *requests {
	every := max(1, int(math.Ceil(float64(m.Shape.Streams)*m.Shape.Rate/kept)))
	return &requests{slots: m.Shape.Streams, keep: every, deadline: d + grace}
}

// timer measures how late an open loop sends.
func (m *measurement) timer(ctx context.Context) error {
	n := int(m.part(timerShare).Seconds() * timerRate)
	seen, err := m.load(ctx, "n=1&ttft=0&mode=3", &requests{open: max(2, n), deadline: grace})
	if err != nil {
		return err
	}
	var late []time.Duration
	for _, r := range seen.rows {
		if r.Sent != result.Never {
			late = append(late, max(0, r.Sent-r.Scheduled))
		}
	}
	if len(late) == 0 {
		return fmt.Errorf("no request was sent: %s", seen.complaint())
	}
	m.result.Timer = spread(late)
	m.result.Driver, m.result.Stamp = seen.health.Client, seen.health.StampKind
	return nil
}

// ceiling raises the rate of all streams step by step, until long after the
// client has had enough, and looks at what it did at each.
func (m *measurement) ceiling(ctx context.Context) error {
	streams := float64(m.Shape.Streams)
	asked := streams * m.Shape.Rate
	rate := min(max(asked/4, rampLeast), 5*rampLeast, rampStream*streams)
	itl := time.Duration(streams / rate * float64(time.Second))
	took := m.part(rampShare)
	step := took / rampSteps
	query := fmt.Sprintf("mode=0&n=10000000&itl=%d&ttft=%d&for=%d&ramp=%.0f&every=%d",
		max(1, itl.Microseconds()), firstToken.Microseconds(), took.Microseconds(), 100*rampFactor, step.Microseconds())
	src := m.streams(took)
	src.keep = 0
	seen, err := m.load(ctx, query, src)
	if err != nil {
		return err
	}
	from, _ := seen.steady()
	m.result.Ceiling = Ceiling{By: ByOffered}
	// The client carried the rate of the shape itself, even if noise disturbed the ramp.
	for _, p := range []Pattern{m.result.Random, m.result.Bursts} {
		if p.Coalesced <= maxCoalesced {
			m.result.Ceiling.Chunks = max(m.result.Ceiling.Chunks, p.Rate)
		}
	}
	for k := range rampSteps {
		begin := from + time.Duration(k)*step
		// The streams do not all change their rate at once, and the watch looks
		// now and then: the edges of a step are left out.
		m.result.Ceiling.climb(seen.step(begin+step/8, begin+7*step/8), m.result.ClientCPUs)
	}
	return nil
}

// climb takes the next step of the ramp in. The first reason after the best
// step stays.
func (c *Ceiling) climb(s step, cpus int) {
	by := ""
	switch {
	case s.n == 0:
	case float64(s.coalesced) > max(fewCoalesced, maxCoalesced*float64(s.n)):
		if by = ByCoalesced; s.cpu < busyCPU {
			by = ByDisturbed
		}
	case s.cpu > maxCPU*float64(cpus):
		by = ByCPU
	case s.rate > c.Chunks:
		*c = Ceiling{Chunks: s.rate, By: ByOffered}
	}
	if by != "" && c.By == ByOffered {
		c.By = by
	}
}

// load runs one load against the null server.
func (m *measurement) load(ctx context.Context, query string, src *requests) (*observed, error) {
	d, err := m.Driver(wire.Config{
		BaseURL: m.url, Path: "/v1/chat/completions?" + query, Model: "null",
		Chat: true, Stream: true, IncludeUsage: true,
	}, m.Shape.Client)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	seen := &observed{anchor: result.NewAnchor()}
	seen.watch = watch(seen.anchor)
	seen.health, err = d.Run(ctx, src, &seen.rows, load.Options{Anchor: seen.anchor})
	seen.watch.stop()
	m.result.Stall = max(m.result.Stall, seen.health.MaxGap)
	if err == nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return seen, err
}

// requests is a source: so many streams that begin at once, or so many
// requests of an open loop.
type requests struct {
	slots    int
	keep     int // every how many streams the answer is kept; 0 is never
	open     int
	deadline time.Duration

	next int
}

// Loop implements [load.Source].
func (s *requests) Loop() load.Loop {
	if s.open > 0 {
		return load.Loop{Open: true, Slots: 1}
	}
	return load.Loop{Slots: s.slots}
}

// Next implements [load.Source].
func (s *requests) Next(slot int, prev *result.Request) (load.Job, bool) {
	if prev != nil || s.open > 0 && s.next == s.open {
		return load.Job{}, false
	}
	j := load.Job{
		N: s.next, Slot: slot, Deadline: s.deadline,
		Prompt:     load.Prompt{Turns: []string{"When was this sent?"}, Target: result.Unknown},
		KeepAnswer: s.keep > 0 && slot%s.keep == 0,
	}
	if s.open > 0 {
		j.At = time.Duration(s.next) * time.Second / timerRate
	}
	s.next++
	return j, true
}

// rows keeps what a driver records.
type rows []result.Request

// Record implements [load.Recorder].
func (r *rows) Record(q result.Request) { *r = append(*r, q) }

func spread(d []time.Duration) Spread {
	slices.Sort(d)
	at := func(p float64) time.Duration { return d[max(0, int(math.Ceil(p*float64(len(d))))-1)] }
	return Spread{N: len(d), P50: at(0.5), P99: at(0.99), P999: at(0.999)}
}

func spreadOf(d load.Durations) Spread {
	return Spread{N: int(d.N()), P50: d.Quantile(0.5), P99: d.Quantile(0.99), P999: d.Quantile(0.999)}
}
