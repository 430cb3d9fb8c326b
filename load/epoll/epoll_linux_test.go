package epoll

import (
	"context"
	"slices"
	"testing"
	"time"

	"go.uber.org/goleak"

	"sweep.dev/sweep/load"
	"sweep.dev/sweep/load/loadtest"
	"sweep.dev/sweep/load/source"
	"sweep.dev/sweep/load/wire"
	"sweep.dev/sweep/result"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestContract(t *testing.T) {
	loadtest.Contract(t, func(t *testing.T, url string) load.Driver { return newDriver(t, chat(url)) })
}

func newDriver(t testing.TB, c wire.Config) *Driver {
	t.Helper()
	d, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.Close)
	return d
}

func chat(url string) wire.Config {
	return wire.Config{BaseURL: url, Model: "m", Chat: true, Stream: true, IncludeUsage: true, IgnoreEOS: true}
}

// shape is a load of n requests by as many slots as it takes.
func shape(n, slots int) source.Config {
	return source.Config{
		Seed: 1, Cell: "c", Trial: 1, Concurrency: slots, Requests: n, MaxTokens: 8,
		Deadline: 20 * time.Second, Prompts: source.Prompts{InputTokens: 20},
	}
}

type recorder []result.Request

func (r *recorder) Record(q result.Request) { *r = append(*r, q) }

// drive runs one load and returns what was recorded, by number.
func drive(t testing.TB, ctx context.Context, d load.Driver, sc source.Config, opts load.Options) ([]result.Request, load.Health) {
	t.Helper()
	src, err := source.New(sc)
	if err != nil {
		t.Fatal(err)
	}
	if opts.Anchor == (result.Anchor{}) {
		opts.Anchor = result.NewAnchor()
	}
	var rec recorder
	h, err := d.Run(ctx, src, &rec, opts)
	if err != nil {
		t.Fatal(err)
	}
	slices.SortFunc(rec, func(a, b result.Request) int { return a.N - b.N })
	return rec, h
}
