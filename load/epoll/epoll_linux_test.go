package epoll

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"sweep.dev/sweep/internal/polltest"
	"sweep.dev/sweep/load"
	"sweep.dev/sweep/load/arrivals"
	"sweep.dev/sweep/load/loadtest"
	"sweep.dev/sweep/load/source"
	"sweep.dev/sweep/load/wire"
	"sweep.dev/sweep/result"
)

func TestMain(m *testing.M) {
	polltest.Parallel(32)
	goleak.VerifyTestMain(m)
}

func TestContract(t *testing.T) {
	loadtest.Contract(t, func(t *testing.T, url string) load.Driver { return newDriver(t, chat(url)) })
}

// Several loops share one source and one recorder.
func TestContract_loops(t *testing.T) {
	loadtest.Contract(t, func(t *testing.T, url string) load.Driver {
		d := newDriver(t, chat(url))
		d.loops = 3
		return d
	})
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

// shape returns a load of n requests by as many slots as it takes.
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

// Think time, cancellation and the bound of an open loop are kept by the loop's
// own timers.
func TestDriver_times(t *testing.T) {
	e := loadtest.New(func(*loadtest.Request) loadtest.Answer { return loadtest.Answer{ITL: 10 * time.Millisecond} })
	defer e.Close()

	sc := shape(6, 2)
	sc.ThinkTime = 30 * time.Millisecond
	rows, h := drive(t, t.Context(), newDriver(t, chat(e.URL)), sc, load.Options{})
	last := map[int]result.Request{}
	for _, r := range rows {
		if before, ok := last[r.Slot]; ok && (r.Scheduled-before.End != sc.ThinkTime || r.Sent < r.Scheduled) {
			t.Errorf("due %v after the last, sent %v after that", r.Scheduled-before.End, r.Sent-r.Scheduled)
		}
		last[r.Slot] = r
	}
	if h.ColdDials != 0 || h.Client != "fast" || h.Chunks != 6*9 || h.Reads == 0 || h.RTT.N() == 0 || h.Loop <= 0 || h.Loop > 1 {
		t.Errorf("health %+v", h)
	}

	for _, loops := range []int{1, 2} {
		sc = shape(12, 0)
		sc.Pace, sc.MaxInFlight = arrivals.Steady(1000, arrivals.Process{Kind: arrivals.Constant}), 3
		before := e.Stats().Peak
		d := newDriver(t, chat(e.URL))
		d.loops = loops
		rows, _ = drive(t, t.Context(), d, sc, load.Options{})
		if p := e.Stats().Peak; p > max(before, 3) || len(rows) != 12 {
			t.Errorf("%d rows, %d at once", len(rows), p)
		}
		if lag := rows[11].Sent - rows[11].Scheduled; lag < 100*time.Millisecond {
			t.Errorf("the last of 12 was sent %v late, with 3 at once of 70ms each", lag)
		}
	}
}

// A share of the requests is given up on purpose.
func TestDriver_cancelAfter(t *testing.T) {
	e := loadtest.New(func(*loadtest.Request) loadtest.Answer { return loadtest.Answer{ITL: 50 * time.Millisecond} })
	defer e.Close()
	src, err := source.New(shape(4, 1))
	if err != nil {
		t.Fatal(err)
	}
	var rec recorder
	if _, err := newDriver(t, chat(e.URL)).Run(t.Context(), cancelling{src}, &rec, load.Options{Anchor: result.NewAnchor()}); err != nil {
		t.Fatal(err)
	}
	for _, r := range rec {
		if odd := r.N%2 == 1; odd != r.Planned || odd && (r.Status != result.Cancelled || r.FirstToken == result.Never) || !odd && r.Status != result.Completed {
			t.Errorf("%+v", r)
		}
	}
}

type cancelling struct{ load.Source }

func (c cancelling) Next(slot int, prev *result.Request) (load.Job, bool) {
	j, ok := c.Source.Next(slot, prev)
	if j.N%2 == 1 {
		j.CancelAfter = 120 * time.Millisecond
	}
	return j, ok
}

// The text of an answer is there for the next turn, when it is asked for.
func TestDriver_keepAnswer(t *testing.T) {
	e := loadtest.New(nil)
	defer e.Close()
	src, err := source.New(shape(4, 2))
	if err != nil {
		t.Fatal(err)
	}
	var rec recorder
	if _, err := newDriver(t, chat(e.URL)).Run(t.Context(), keeping{src}, &rec, load.Options{Anchor: result.NewAnchor()}); err != nil {
		t.Fatal(err)
	}
	for _, r := range rec {
		if want := strings.Repeat("w ", 8); r.Answer != want {
			t.Errorf("%q, want %q", r.Answer, want)
		}
	}
}

type keeping struct{ load.Source }

func (k keeping) Next(slot int, prev *result.Request) (load.Job, bool) {
	j, ok := k.Source.Next(slot, prev)
	j.KeepAnswer = true
	return j, ok
}
