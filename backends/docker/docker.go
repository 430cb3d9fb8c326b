// Package docker runs engines in containers of a Docker daemon on this machine.
//
// # What a pod is
//
// One container for each replica of each role, called by its unit's name (package
// provision). All carry the marks of package backends in their environment and,
// below [labelPrefix], as labels: by those they are found again, by this process
// or any other. [backends.MarkServer] is in the environment alone.
//
// The containers of one deployment reach each other by these names, on a network
// of their own, and share a volume in memory for the files that configure them:
// see group.go. One that is alone has neither.
//
// # How it is reached
//
// The engine's port is published on 127.0.0.1 and nowhere else. Where the
// container's own address can be reached from here (a daemon of this machine
// with a bridge), requests go there: a published port of 127.0.0.1 is served
// by a process of the daemon that copies every byte, and its time would be in
// every measurement.
//
// # How it ends
//
// Stop and Terminate stop it, remove it, and return when the daemon knows it no
// more, by its id and in two successive lists. If neither is called, the
// container ends itself: its first process is package bootstrap's, which knows
// an hour to end at and, where the image has python3, ends it also when our
// heartbeat stays away. What has ended waits, without any process, for the next
// run, sweep gc or sweep pods to remove it.
//
// With inside, the engine is started in a container that runs already and
// belongs to somebody else: see [Inside].
package docker

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/moby/moby/client"

	"sweep.dev/sweep/backends"
	"sweep.dev/sweep/backends/provision"
	"sweep.dev/sweep/internal/effect"
)

// Kind is the backend's name in a plan.
const Kind = "docker"

// atHost is the key of a ledger's At that says which daemon.
const atHost = "host"

// A Backend runs containers.
type Backend struct {
	*provision.Layer // over containers of our own

	fx     *effect.Effects
	api    *client.Client
	config Config
	limits limits

	// claims are the GPUs of containers that this process is about to make.
	mu     sync.Mutex
	claims map[string]bool
}

var (
	_ backends.Backend  = (*Backend)(nil)
	_ backends.Adopter  = (*Backend)(nil)
	_ backends.Accessor = (*Backend)(nil)
	_ backends.Pauser   = (*Backend)(nil)
	_ backends.Checker  = (*Backend)(nil)
	_ backends.Prober   = (*Backend)(nil)
)

// Factory makes docker backends. Where a plan does not say which daemon, the
// environment does, as it does for Docker's own command line: DOCKER_HOST,
// DOCKER_TLS_VERIFY, DOCKER_CERT_PATH.
func Factory(fx *effect.Effects) backends.Factory {
	return backends.Factory{
		Kind:     Kind,
		Doc:      "engines in containers of this machine's Docker",
		FreeGPU:  true,
		Images:   true,
		Outlives: true,
		Launch:   30 * time.Minute, // an image of an engine is 10 GB
		Settle:   20 * time.Second,
		Config:   Config{},
		New: func(decode func(any) error) (backends.Backend, error) {
			c := DefaultConfig()
			if err := decode(&c); err != nil {
				return nil, err
			}
			return New(fx, c, os.LookupEnv)
		},
		Default: func(env func(string) (string, bool)) (backends.Backend, error) {
			return New(fx, DefaultConfig(), env)
		},
	}
}

// New makes a backend of a configuration; getenv is the environment, nil an
// empty one. It does not connect.
func New(fx *effect.Effects, c Config, getenv func(string) (string, bool)) (*Backend, error) {
	limits, err := c.check()
	if err != nil {
		return nil, fmt.Errorf("backend docker: %w", err)
	}
	api, err := connect(c.Host, getenv)
	if err != nil {
		return nil, fmt.Errorf("backend docker: %w", err)
	}
	b := &Backend{fx: fx, api: api, config: c, limits: limits, claims: map[string]bool{}}
	env := map[string]string{}
	for name, value := range c.Env {
		env[name] = value.Reveal()
	}
	b.Layer = provision.New(provision.Settings{
		Kind: Kind, Effects: fx, Env: env, Images: true, SharedDisk: c.DeadMan,
		At:        func() map[string]string { return map[string]string{atHost: api.DaemonHost()} },
		Elsewhere: ": set DOCKER_HOST, or host in the plan",
		Bootstrap: c.DeadMan, Heartbeat: c.Heartbeat,
		Late: lookPatience, Settle: releasePatience,
	}, containers{b})
	return b, nil
}

// connect makes a client as Docker's own command line would have it.
func connect(address string, getenv func(string) (string, bool)) (*client.Client, error) {
	env := func(name string) string {
		if getenv == nil {
			return ""
		}
		v, _ := getenv(name)
		return v
	}
	if address == "" {
		address = env("DOCKER_HOST")
	}
	if address == "" {
		address = client.DefaultDockerHost
	}
	scheme, where, _ := strings.Cut(address, "://")
	var opts []client.Opt
	switch {
	case scheme == "unix" && where != "":
	case scheme == "tcp" && loopback(where):
		if env("DOCKER_TLS_VERIFY") != "" {
			dir := env("DOCKER_CERT_PATH")
			if dir == "" {
				return nil, errors.New("DOCKER_TLS_VERIFY is set, but not DOCKER_CERT_PATH, where the certificates are")
			}
			opts = append(opts, client.WithTLSClientConfig(
				filepath.Join(dir, "ca.pem"), filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")))
		}
	default:
		return nil, fmt.Errorf("host: %q is not a daemon of this machine (unix:///path, or tcp://127.0.0.1:2375): "+
			"ports are published on 127.0.0.1 of the machine that has the daemon, so run sweep there", address)
	}
	// The host last: it wins over what the options before have made of the transport.
	return client.New(append(opts, client.WithHost(address), client.WithUserAgent("sweep"))...)
}

// Launch implements [backends.Backend].
func (b *Backend) Launch(ctx context.Context, spec backends.Spec, l backends.Ledger) (backends.Deployment, error) {
	if err := b.Check(spec); err != nil {
		return nil, err
	}
	if b.config.Inside != nil {
		return b.launchInside(ctx, spec, l)
	}
	return b.Layer.Launch(ctx, spec, l)
}

// List implements [backends.Backend]: with inside, it also finds the engines in
// that container.
func (b *Backend) List(ctx context.Context, owner string) ([]backends.Listed, error) {
	pods, err := b.Layer.List(ctx, owner)
	if err != nil || b.config.Inside == nil {
		return pods, err
	}
	inside, err := b.insideLayer("").List(ctx, owner)
	if err != nil && !errors.Is(err, backends.ErrNotFound) {
		return nil, err
	}
	return append(pods, inside...), nil
}

// Terminate implements [backends.Backend].
func (b *Backend) Terminate(ctx context.Context, ref backends.Ref) error {
	if id := ref.Details[detailInside]; id != "" {
		return b.insideLayer(id).Terminate(ctx, ref)
	}
	return b.Layer.Terminate(ctx, ref)
}

// Probe asks whether the daemon answers, and speaks a version that we do.
func (b *Backend) Probe(ctx context.Context) error {
	return b.call(ctx, effect.DockerRead, func(ctx context.Context) error {
		_, err := b.api.Ping(ctx, client.PingOptions{NegotiateAPIVersion: true})
		if err != nil {
			return fmt.Errorf("docker at %s: %w", b.api.DaemonHost(), err)
		}
		return nil
	})
}

// Close gives idle connections back.
func (b *Backend) Close() error { return b.api.Close() }

// call makes one call to the daemon as the operation p. Where ctx ended it, the
// error has the cause.
func (b *Backend) call(ctx context.Context, p effect.Point, f func(context.Context) error) error {
	err := b.fx.Call(ctx, p, f)
	if err != nil && ctx.Err() != nil && !errors.Is(err, context.Cause(ctx)) {
		return fmt.Errorf("%w: %w", context.Cause(ctx), err)
	}
	return err
}
