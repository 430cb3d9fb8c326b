// Command picker is the simulated endpoint picker of llm-d as Envoy and Kubernetes know the
// real one: it finds the servers of its pool by the labels of their pods, answers Envoy over
// ext_proc, and shows its metrics only to those whose token may read them. Which server
// takes a request is decided by sweep's simulated picker, which it starts beside itself.
// The tests of e2e/kube run it in a pod.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strconv"
	"sync"
	"syscall"
	"time"

	extproc "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
)

// options are the flags of the real one that matter here, with its defaults.
type options struct {
	selector    string
	target      int
	grpc        int
	metrics     int
	metricsAuth bool
	picker      string
	verbose     int
}

func main() {
	var o options
	flag.StringVar(&o.selector, "endpoint-selector", "", "labels of the servers' pods")
	flag.IntVar(&o.target, "endpoint-target-ports", 8000, "port of the servers")
	flag.IntVar(&o.grpc, "grpc-port", 9002, "port of ext_proc, and of its health")
	flag.IntVar(&o.metrics, "metrics-port", 9090, "port of /metrics")
	flag.BoolVar(&o.metricsAuth, "metrics-endpoint-auth", true, "show metrics only to those who may read them")
	flag.StringVar(&o.picker, "picker", "max-score", "how a server is picked: see sweep sim --help")
	flag.IntVar(&o.verbose, "v", 2, "level of the log: 4 prints each request")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, o); err != nil {
		fmt.Fprintln(os.Stderr, "picker:", err)
		os.Exit(1)
	}
}

// run serves until ctx is done, and waits for what it started.
func run(ctx context.Context, o options) error {
	api, err := inCluster()
	if err != nil {
		return err
	}
	asked, err := (&net.ListenConfig{}).Listen(ctx, "tcp", ":"+strconv.Itoa(o.grpc))
	if err != nil {
		return err
	}
	core := &core{api: api, options: o, client: &http.Client{Timeout: 10 * time.Second}}
	envoy := grpc.NewServer()
	extproc.RegisterExternalProcessorServer(envoy, &server{core: core})
	alive := health.NewServer()
	alive.SetServingStatus(extproc.ExternalProcessor_ServiceDesc.ServiceName, healthpb.HealthCheckResponse_SERVING)
	healthpb.RegisterHealthServer(envoy, alive)
	pages := &http.Server{Addr: ":" + strconv.Itoa(o.metrics), Handler: core.pages(), ReadHeaderTimeout: 10 * time.Second}

	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ended := make([]error, 3)
	var wg sync.WaitGroup
	for i, serve := range []func() error{
		func() error { return envoy.Serve(asked) },
		pages.ListenAndServe,
		func() error { return core.follow(ctx) },
	} {
		wg.Go(func() { ended[i] = serve(); cancel() })
	}
	<-ctx.Done()
	envoy.Stop()
	_ = pages.Close()
	wg.Wait()
	for i, err := range ended {
		if errors.Is(err, http.ErrServerClosed) || errors.Is(err, grpc.ErrServerStopped) || errors.Is(err, context.Canceled) {
			ended[i] = nil
		}
	}
	return errors.Join(ended...)
}
