// Package openai is the driver on net/http: for every server, over TLS, through
// tunnels and proxies.
//
// One stream has one connection: what else shared it would share its delays.
package openai

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"sweep.dev/sweep/load"
	"sweep.dev/sweep/load/stamp"
	"sweep.dev/sweep/load/wire"
)

const (
	// maxInFlight bounds an open loop that has no bound of its own. There are
	// 28,000 ports for one server address, and each request has a goroutine.
	maxInFlight = 10_000
	// idleTimeout is below the 5 s after which common servers (uvicorn,
	// cpp-httplib) close an idle connection, so that a request does not meet
	// the close on its way.
	idleTimeout = 4 * time.Second

	// writeBuffer holds most requests whole. Where hundreds start at once, larger
	// ones would cost them more (page faults, collections) than a second write
	// costs a long prompt.
	writeBuffer = 4 << 10
	// readBuffer holds any chunk. It is no power of two, so that the buffers of
	// a thousand streams do not all fall into the same sets of the cache.
	readBuffer = 4864
)

// A Driver asks one server. It implements [load.Driver]; one Run at a time.
type Driver struct {
	cfg       wire.Config
	url       *url.URL
	encoder   *wire.Encoder
	header    http.Header
	dialer    *dialer
	transport *http.Transport
}

var _ load.Driver = (*Driver)(nil)

// New checks the configuration and makes a driver. It opens no connection.
// Close must follow.
func New(c wire.Config) (*Driver, error) {
	u, enc, err := c.Prepare()
	if err != nil {
		return nil, fmt.Errorf("openai: %w", err)
	}
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	d := &Driver{
		cfg: c, url: u, encoder: enc,
		header: http.Header{
			"Accept":       {c.Accept()},
			"Content-Type": {"application/json"},
			"User-Agent":   {"sweep"},
		},
		dialer: newDialer(&c, u.Hostname(), port, u.Scheme == "https"),
	}
	var only http.Protocols
	only.SetHTTP1(true)
	// Used without an http.Client: no redirect is followed, so no key goes to
	// another host; there are no cookies, and no proxy from the environment.
	d.transport = &http.Transport{
		DialContext:            d.dialer.take,
		DialTLSContext:         d.dialer.take,
		Protocols:              &only,
		DisableCompression:     true,
		DisableKeepAlives:      c.FreshConnections,
		MaxIdleConnsPerHost:    load.MaxConcurrency,
		IdleConnTimeout:        idleTimeout,
		MaxResponseHeaderBytes: 256 << 10,
		ReadBufferSize:         readBuffer,
		WriteBufferSize:        writeBuffer,
	}
	return d, nil
}

// Close closes all connections that are not in use.
func (d *Driver) Close() {
	d.transport.CloseIdleConnections()
	d.dialer.drop()
}

// Run implements [load.Driver]. Its error is nil: whatever goes wrong is in the
// requests.
func (d *Driver) Run(ctx context.Context, src load.Source, rec load.Recorder, opts load.Options) (load.Health, error) {
	// Connections of an earlier run may have been idle for so long that the server
	// is about to close them.
	d.Close()
	clock := stamp.NewClock(opts.Anchor)
	d.dialer.begin(clock)

	base, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	defer cancel(nil)
	over, end := context.WithCancel(base)
	defer end()
	r := &run{driver: d, ctx: ctx, base: base, over: over, clock: clock, src: src, rec: rec, opts: opts}
	r.background.Go(func() { r.drain(cancel) })
	r.background.Go(func() { r.meter.Report(r.over, opts.Progress) })
	r.background.Go(r.observe)
	watch := load.StartWatch()

	if loop := src.Loop(); loop.Open {
		r.open(loop)
	} else {
		r.closed(loop)
	}

	end()
	r.background.Wait()
	clock.Check()
	d.dialer.measure()
	d.Close() // which takes in what TCP knows of each connection
	h := watch.Stop()
	r.health(&h)
	if opts.Progress != nil {
		opts.Progress(r.meter.Progress())
	}
	return h, nil
}
