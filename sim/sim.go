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

	"sweep.dev/sweep/catalog"
	"sweep.dev/sweep/sim/core"
	"sweep.dev/sweep/sim/fleet"
	"sweep.dev/sweep/sim/live"
	"sweep.dev/sweep/sim/server"
)

// Main runs the program until ctx is done and returns its exit status. args
// are without the program's name. With --help the text goes to stdout;
// everything a server says goes to stderr, as vLLM's does.
func Main(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	single := func(ctx context.Context, args []string, wrap fleet.Wrap) int {
		return serveOne(ctx, args, wrap, stdout, stderr)
	}
	if fleet.Is(args) {
		return fleet.Main(ctx, args, single, stdout, stderr)
	}
	return single(ctx, args, nil)
}

// serveOne is the program with one server. wrap may be nil.
func serveOne(ctx context.Context, args []string, wrap fleet.Wrap, stdout, stderr io.Writer) int {
	f, err := parseFlags(args, stdout)
	var usage usageError
	switch {
	case errors.Is(err, flag.ErrHelp):
		return 0
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
	f.wrap = wrap
	log := &logger{w: stderr}
	err = run(ctx, f, log)
	var died *server.Death
	var start *core.StartError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &died):
		return die(died, log)
	case errors.As(err, &start):
		log.failure(start.Text)
	default:
		log.error("%v", err)
	}
	return 1
}

// run serves until ctx is done (nil) or something ends it before.
func run(ctx context.Context, f *flags, log *logger) error {
	log.info("vLLM API server version %s", server.Version)
	if len(f.ignored) > 0 {
		log.warn("without effect in the simulator: %s", strings.Join(f.ignored, " "))
	}
	// An address that is taken must be known before the model is loaded.
	if l, err := listen(ctx, f); err != nil {
		return err
	} else if err := l.Close(); err != nil {
		return err
	}
	cfg, err := f.plan(log)
	if err != nil {
		return err
	}
	select {
	case <-time.After(f.startDelay):
	case <-ctx.Done():
		return nil
	}
	if f.faults.DieAtStart != nil {
		return f.faults.DieAtStart
	}

	requests, err := server.OpenRequestLog(f.requestLog)
	if err != nil {
		return err
	}
	defer requests.Close()
	l, err := listen(ctx, f)
	if err != nil {
		return err
	}
	return serve(ctx, f, cfg, log, requests, l)
}

func listen(ctx context.Context, f *flags) (net.Listener, error) {
	addr := net.JoinHostPort(f.host, strconv.Itoa(f.port))
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", addr)
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, fmt.Errorf("OSError: [Errno 98] Address already in use: %s", addr)
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
		log.warn("Your device '%s' (with compute capability %s) doesn't support torch.%s. Falling back to torch.float16 for compatibility.", g.Product, g.ComputeCapability, m.DType)
	}
	log.info("Simulating %s on %d x %s, %s, seed %d, time scale %v", m.Name, cfg.GPUs, g.Product, cfg.DType, cfg.Seed, f.timeScale)
	log.info("Model loading took %.4f GiB memory", gib(cfg.WeightBytes))
	log.info("Available KV cache memory: %.2f GiB", gib(cfg.KVBytes))
	log.info("GPU KV cache size: %s tokens", thousands(cfg.KVTokens()))
	log.info("Maximum concurrency for %s tokens per request: %.2fx", thousands(cfg.MaxModelLen), float64(cfg.KVTokens())/float64(cfg.MaxModelLen))
	return cfg, nil
}

func gib(n int64) float64 { return float64(n) / (1 << 30) }

// thousands prints 123456 as 123,456.
func thousands(n int) string {
	s := strconv.Itoa(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// serve runs engine and HTTP server on l, and returns when both have ended.
func serve(ctx context.Context, f *flags, cfg *core.Config, log *logger, requests *server.RequestLog, l net.Listener) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	engine := live.New(*cfg, f.timeScale)
	s := server.New(server.Config{
		Core: *cfg, Model: f.model, Served: f.served, APIKey: f.apiKey,
		PromptDetails: f.promptDetails, ForceUsage: f.forceUsage, DisableLogStats: f.disableLogStats,
		KVDType: f.kvDType, BlocksOverride: f.blocks, TimeScale: f.timeScale,
		Requests: requests, Faults: f.faults, End: cancel,
	}, engine)
	handler := s.Handler()
	if f.wrap != nil {
		handler = f.wrap(fleet.Engine{Handler: handler, Config: *cfg, Served: f.served, URL: "http://" + l.Addr().String()})
	}
	h := &http.Server{
		Handler:           handler,
		ReadHeaderTimeout: 10 * time.Second,
		BaseContext:       func(net.Listener) context.Context { return ctx },
		ErrorLog:          log.std(),
	}
	var wg sync.WaitGroup
	wg.Go(func() { engine.Run(ctx) })
	wg.Go(func() { report(ctx, engine, log) })
	failed := make(chan error, 1)
	wg.Go(func() { failed <- h.Serve(l) })
	log.info("Starting vLLM API server 0 on http://%s", l.Addr())
	log.info("Application startup complete.")

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
	log.info("Timer error: %s", engine.Meter.Timer())
	if died, ok := errors.AsType[*server.Death](context.Cause(ctx)); ok {
		return died
	}
	log.info("Shutting down")
	return err
}

// report logs once in ten seconds what the engine does, while it does anything.
func report(ctx context.Context, engine *live.Engine, log *logger) {
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
		hit := 0.0
		if now.PrefixQueries > 0 {
			hit = 100 * float64(now.PrefixHits) / float64(now.PrefixQueries)
		}
		log.info("Engine 000: Avg prompt throughput: %.1f tokens/s, Avg generation throughput: %.1f tokens/s, Running: %d reqs, Waiting: %d reqs, GPU KV cache usage: %.1f%%, Prefix cache hit rate: %.1f%%, timer error: %s",
			rate(now.PromptTokens, last.PromptTokens), rate(now.GenerationTokens, last.GenerationTokens), now.Running, now.Waiting, 100*now.KVUsage, hit, engine.Meter.Timer())
		last = now
	}
}

// die ends the process by a signal, or returns the status to end it with.
func die(d *server.Death, log *logger) int {
	if d.Signal == 0 {
		log.failure(fmt.Sprintf("RuntimeError: %v", d))
		return d.Code
	}
	if p, err := os.FindProcess(os.Getpid()); err == nil && p.Signal(d.Signal) == nil {
		time.Sleep(time.Second) // the signal ends us before this does
	}
	return 128 + int(d.Signal)
}

// CheckFaults says what is wrong with a list of --fault values.
func CheckFaults(list []string) error { return server.CheckFaults(list) }
