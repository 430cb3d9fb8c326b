package gpu

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"

	"sweep.dev/sweep/backends/host"
	"sweep.dev/sweep/collectors"
	"sweep.dev/sweep/internal/exposition"
	"sweep.dev/sweep/internal/gpustate"
	"sweep.dev/sweep/internal/netguard"
)

const maxBody = 4 << 20 // bytes of one answer over HTTP

func exporter(c Config, h host.Host, asked func()) *source {
	return overHTTP(h, "exporter", "prom", c.address(h.URL()), asked, gpustate.ParseExporter)
}

func wrapper(c Config, h host.Host, asked func()) *source {
	return overHTTP(h, "wrapper", "txt", c.address(h.URL()), asked, gpustate.ParseWrapper)
}

// overHTTP asks an exporter or a wrapper, by the network that the server sees.
// The headers and the key of the server's requests are not sent: the exporter is another
// program.
func overHTTP(h host.Host, name, file, address string, asked func(), parse func([]byte, bool) ([]gpustate.Reading, error)) *source {
	dials := collectors.NewDials(h.Dial)
	client := netguard.Client(dials.Dial, 0)
	return &source{
		name: name, file: "gpu." + file, parse: parse,
		ask: func(ctx context.Context) ([]byte, bool, error) {
			asked()
			return fetch(ctx, client, address)
		},
		close: func() {
			dials.End()
			client.CloseIdleConnections()
		},
	}
}

func fetch(ctx context.Context, client *http.Client, address string) (body []byte, whole bool, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, false, err
	}
	req.Header.Set("Accept", "text/plain;version=0.0.4, text/plain;q=0.8, */*;q=0.1")
	resp, err := client.Do(req)
	if err != nil {
		if cause := context.Cause(ctx); cause != nil {
			err = cause
		} else if ue, ok := errors.AsType[*url.Error](err); ok {
			err = ue.Err
		}
		return nil, false, err
	}
	defer resp.Body.Close()
	body, err = io.ReadAll(io.LimitReader(resp.Body, maxBody+1))
	switch {
	case err != nil && context.Cause(ctx) != nil:
		return nil, false, context.Cause(ctx)
	case err != nil:
		return nil, false, fmt.Errorf("read the answer: %w", err)
	case len(body) > maxBody:
		return nil, false, fmt.Errorf("the answer is larger than %d MiB", maxBody>>20)
	case resp.StatusCode != http.StatusOK:
		return nil, false, fmt.Errorf("status %d", resp.StatusCode)
	}
	return body, exposition.Whole(resp), nil
}
