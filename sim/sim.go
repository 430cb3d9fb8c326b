package sim

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"sweep.dev/sweep/engine/catalog"
	"sweep.dev/sweep/sim/core"
	"sweep.dev/sweep/sim/dialect"
	"sweep.dev/sweep/sim/fleet"
	"sweep.dev/sweep/sim/live"
	"sweep.dev/sweep/sim/server"
)

// Main runs the program until ctx is done and returns its exit status. args
// are without the program's name. With --help the text goes to stdout;
// everything a server says goes to stderr, as vLLM's does.
func Main(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	single := func(ctx context.Context, args []string, in *fleet.Inside) int {
		return serveOne(ctx, args, in, stdout, stderr)
	}
	if fleet.Is(args) {
		return fleet.Main(ctx, args, single, stdout, stderr)
	}
	return single(ctx, args, nil)
}

// serveOne runs the program with one server. in is nil for one on its own.
func serveOne(ctx context.Context, args []string, in *fleet.Inside, stdout, stderr io.Writer) int {
	f, err := parseFlags(args, stdout)
	var usage usageError
	switch {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case errors.As(err, &usage) && usage.dialect != nil:
		fmt.Fprintln(stderr, err)
		return usage.dialect.Usage.Status
	case errors.As(err, &usage):
		fmt.Fprintf(stderr, "usage: sweep sim [flags] [MODEL]    (sweep sim --help says more)\n")
		for line := range strings.SplitSeq(err.Error(), "\n") {
			fmt.Fprintf(stderr, "sweep sim: %s\n", line)
		}
		return 2
	case err != nil:
		fmt.Fprintf(stderr, "sweep sim: %v\n", err)
		return 2
	}
	if f.inside = in; in != nil && in.Metrics {
		f.settings.Metrics = true
	}
	log := &logger{w: stderr, line: f.dialect.Start.Line}
	err = run(ctx, f, log)
	var died *server.Death
	var start *core.StartError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &died):
		return f.die(died, log)
	case errors.As(err, &start):
		log.raw(f.failure(start)...)
	default:
		log.errorf("%v", err)
	}
	return 1
}

// run serves until ctx is done (nil) or something ends it before.
func run(ctx context.Context, f *flags, log *logger) error {
	log.info(f.dialect.Start.Hello(f.dialect)...)
	if len(f.ignored) > 0 {
		log.warnf("without effect in the simulator: %s", strings.Join(f.ignored, " "))
	}
	// An address that is taken must be known before the model is loaded.
	l, err := listen(ctx, f)
	if err != nil {
		return err
	}
	defer l.Close()
	stopLoading := func() error { return nil }
	if f.dialect.API.Loading != nil {
		stopLoading = answerLoading(f.dialect, l, log)
	} else if err := l.Close(); err != nil { // who asks is refused until it serves
		return err
	}
	cfg, err := f.load(ctx, log)
	if stopErr := stopLoading(); err == nil {
		err = stopErr
	}
	if err != nil || cfg == nil {
		return err
	}

	requests, err := server.OpenRequestLog(f.requestLog)
	if err != nil {
		return err
	}
	defer requests.Close()
	if l, err = listen(ctx, f); err != nil {
		return err
	}
	return serve(ctx, f, cfg, log, requests, l)
}

// requestLines returns what it logs of each request.
func (f *flags) requestLines(log *logger) server.Lines {
	var l server.Lines
	if f.logRequests {
		l.Info = log.infof
	}
	if f.debug {
		l.Debug = log.debugf
	}
	return l
}

// failure returns the end of the log of an engine that does not start.
func (f *flags) failure(e *core.StartError) []string {
	return f.dialect.Start.Fail(&dialect.Failure{StartError: e, Model: f.model, Share: f.util, Seqs: f.maxSeqs, Now: time.Now()})
}

// load starts the engine on paper and takes the time that it takes; nil if
// ctx ends it.
func (f *flags) load(ctx context.Context, log *logger) (*core.Config, error) {
	cfg, err := f.plan(log)
	if err != nil {
		return nil, err
	}
	select {
	case <-time.After(f.startDelay):
	case <-ctx.Done():
		return nil, nil
	}
	if f.faults.DieAtStart != nil {
		return nil, f.faults.DieAtStart
	}
	return cfg, nil
}

// answerLoading serves an engine that listens while it loads, until the
// function that it returns is called.
func answerLoading(d *dialect.Dialect, l net.Listener, log *logger) (stop func() error) {
	h := &http.Server{Handler: server.Loading(d), ReadHeaderTimeout: 10 * time.Second, ErrorLog: log.std()}
	var wg sync.WaitGroup
	wg.Go(func() { _ = h.Serve(l) }) // ends with Close
	return func() error {
		err := h.Close()
		wg.Wait()
		return err
	}
}

func listen(ctx context.Context, f *flags) (net.Listener, error) {
	addr := net.JoinHostPort(f.host, strconv.Itoa(f.port))
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", addr)
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, fmt.Errorf(f.dialect.Start.Taken, addr)
	}
	return l, err
}

// plan starts the engine on paper and logs what vLLM logs of it.
func (f *flags) plan(log *logger) (*core.Config, error) {
	m, ok := catalog.ModelByName(f.model)
	if !ok {
		return nil, &core.StartError{Cause: core.NoModel, Text: fmt.Sprintf("OSError: %s is not a local folder and is not a valid model identifier listed on 'https://huggingface.co/models'. The simulator knows: %s.", f.model, strings.Join(modelNames(), ", "))}
	}
	g, _ := catalog.GPUByName(f.gpu) // checked with the flags
	cfg, err := core.Plan(f.options(g, m))
	if err != nil {
		return nil, err
	}
	if cfg.Fallback {
		log.warnf("Your device '%s' (with compute capability %s) doesn't support torch.%s. Falling back to torch.float16 for compatibility.", g.Product, g.ComputeCapability, m.DType)
	}
	log.infof("Simulating %s on %d x %s, %s, seed %d, time scale %v", m.Name, cfg.GPUs, g.Product, cfg.DType, cfg.Seed, f.timeScale)
	log.info(f.dialect.Start.Loaded(f.state(cfg))...)
	return cfg, nil
}

func (f *flags) state(cfg *core.Config) *dialect.State {
	return &dialect.State{Dialect: f.dialect, Settings: f.settings, Core: *cfg, Model: f.model, Served: f.served, Started: time.Now()}
}

// serve runs engine and HTTP server on l, and returns when both have ended.
func serve(ctx context.Context, f *flags, cfg *core.Config, log *logger, requests *server.RequestLog, l net.Listener) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	cfg.Stretch = f.faults.Stretch(func(n int) { log.warnf("Triton kernel JIT compilation during inference: _fwd_kernel_%d", n) })
	engine := live.New(*cfg, f.timeScale, f.dialect.API.Bounds(cfg.MaxModelLen))
	s := server.New(server.Config{
		Dialect: f.dialect, Settings: f.settings, Core: *cfg, Model: f.model, Served: f.served, APIKey: f.apiKey,
		Device: f.device, PromptDetails: f.promptDetails, ForceUsage: f.forceUsage,
		KVDType: f.kvDType, BlocksOverride: f.blocks, TimeScale: f.timeScale,
		Requests: requests, Faults: f.faults, End: cancel, Log: f.requestLines(log),
	}, engine)
	handler := s.Handler()
	if f.inside != nil {
		handler = f.inside.Wrap(fleet.Engine{Handler: handler, Config: *cfg, Served: f.served, URL: "http://" + l.Addr().String()})
	}
	h := &http.Server{
		Handler:           handler,
		ReadHeaderTimeout: 10 * time.Second,
		BaseContext:       func(net.Listener) context.Context { return ctx },
		ErrorLog:          log.std(),
	}
	var wg sync.WaitGroup
	wg.Go(func() { engine.Run(ctx) })
	wg.Go(func() { report(ctx, f.dialect, engine, cfg, log) })
	failed := make(chan error, 1)
	wg.Go(func() { failed <- h.Serve(l) })
	log.info(f.dialect.Start.Ready(f.state(cfg), "http://"+l.Addr().String())...)

	var err error
	select {
	case <-ctx.Done():
	case err = <-failed:
		cancel(err)
	}
	// Streams end where they are, as they do when the real server is stopped.
	_ = h.Close()
	wg.Wait()
	s.Wait()
	log.infof("Timer error: %s", engine.Meter.Timer())
	if died, ok := errors.AsType[*server.Death](context.Cause(ctx)); ok {
		return died
	}
	log.info(f.dialect.Start.Bye)
	return err
}

// report logs once in ten seconds what the engine does, while it does anything.
func report(ctx context.Context, d *dialect.Dialect, engine *live.Engine, cfg *core.Config, log *logger) {
	const interval = 10 * time.Second
	tick := time.NewTicker(interval)
	defer tick.Stop()
	var last core.Stats
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		now := engine.Stats()
		if now.Steps == last.Steps {
			continue
		}
		rate := func(a, b int) float64 { return float64(a-b) / interval.Seconds() }
		p := &dialect.Progress{
			Stats: now, PromptRate: rate(now.PromptTokens, last.PromptTokens), OutputRate: rate(now.GenerationTokens, last.GenerationTokens),
			Timer: engine.Meter.Timer(), MaxTokens: cfg.KVTokens(),
		}
		if now.PrefixQueries > 0 {
			p.HitRate = float64(now.PrefixHits) / float64(now.PrefixQueries)
		}
		log.info(d.Start.Report(p))
		last = now
	}
}

// die ends the process by a signal, or returns the status to end it with.
func (f *flags) die(d *server.Death, log *logger) int {
	if d.Signal == 0 {
		log.raw(f.failure(&core.StartError{Cause: core.Other, Text: fmt.Sprintf("RuntimeError: %v", d)})...)
		return d.Code
	}
	if p, err := os.FindProcess(os.Getpid()); err == nil && p.Signal(d.Signal) == nil {
		time.Sleep(time.Second) // the signal ends us before this does
	}
	return 128 + int(d.Signal)
}

// CheckFaults says what is wrong with a list of --fault values.
func CheckFaults(list []string) error { return server.CheckFaults(list) }
