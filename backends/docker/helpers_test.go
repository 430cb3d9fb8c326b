package docker_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"testing"
	"time"

	"sweep.dev/sweep/backends"
	"sweep.dev/sweep/backends/backendtest"
	"sweep.dev/sweep/backends/host"
)

const patience = time.Minute

func shell(script string) func(backends.Address) ([]string, error) {
	return func(backends.Address) ([]string, error) { return []string{"sh", "-c", script}, nil }
}

func launch(t *testing.T, b backends.Backend, spec backends.Spec) backends.Deployment {
	t.Helper()
	d, err := b.Launch(t.Context(), spec, &backendtest.Ledger{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stop(t, d) })
	return d
}

func stop(t *testing.T, d backends.Deployment) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), patience)
	defer cancel()
	if err := d.Stop(ctx); err != nil {
		t.Error(err)
	}
}

func get(t *testing.T, h host.Host, path string) (string, error) {
	t.Helper()
	c := http.Client{Transport: &http.Transport{DialContext: h.Dial, DisableKeepAlives: true}, Timeout: 5 * time.Second}
	resp, err := c.Get(h.URL() + path)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	return string(text), err
}

func ended(t *testing.T, d backends.Deployment) *backends.Exit {
	t.Helper()
	select {
	case <-d.Done():
	case <-time.After(patience):
		t.Fatal("the end went unnoticed")
	}
	var e *backends.Exit
	if !errors.As(d.Err(), &e) {
		t.Fatalf("got %v", d.Err())
	}
	return e
}

func terms(d backends.Deployment) backends.Terms { return d.(backends.Rental).Terms() }
