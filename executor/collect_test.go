package executor

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"sweep.dev/sweep/collectors"
	"sweep.dev/sweep/collectors/collectortest"
	"sweep.dev/sweep/executor/observe"
	"sweep.dev/sweep/result"
	"sweep.dev/sweep/result/finding"
)

// codesOf leaves out that the base plan's bounds are wide, that the fake engine
// does not say how it counts, and what a busy machine does to client and engine.
func codesOf(o *result.Outcome) (list []string) {
	for _, f := range o.Findings {
		switch f.Code {
		case finding.BoundLoosened, finding.PromptLengthUnknown, finding.ClientLag, finding.ServerStalled, finding.ColdConnections,
			finding.SteadinessUnknown, finding.WarmupShort: // of any trial as short as these
		default:
			list = append(list, f.Code.String())
		}
	}
	return list
}

// The readings of collectors are in the row, in the samples and beside the trial.
func TestCollect(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.collectors = []observe.Named{{Kind: "good", Collector: &collectortest.Fake{
		Begin: func(_ context.Context, target collectors.Trial, s collectors.Sink) error {
			if len(target.Targets) != 1 || target.Targets[0].Role != "server" || target.Targets[0].Host == nil || target.Profile == nil || len(target.Clients) != 1 {
				t.Errorf("target: %+v", target)
			}
			s.Sample(result.Sample{Source: result.FromServer, Name: "x", Value: 1})
			return nil
		},
		End: func(_ context.Context, s collectors.Sink) (result.Row, error) {
			s.Note(result.Finding{Code: finding.GPUIdle, Text: "it was seen"})
			s.Note(result.Finding{Code: finding.GPUIdle, Text: "again"})
			return result.Row{"mean_gpu_util": 12.5}, s.Artifact("scrapes/raw.txt", strings.NewReader("raw"))
		},
	}}}
	w.must()
	for _, o := range w.outcomes() {
		want(t, "column", o.Row["mean_gpu_util"].(float64), 12.5)
		want(t, "findings", strings.Join(codesOf(o), ","), "gpu_idle")
		// A busy machine adds findings of its own.
		column := strings.Split(o.Row["findings"].(string), ",")
		if !slices.Contains(column, "bound_loosened") || !slices.Contains(column, "gpu_idle") {
			t.Errorf("findings column: %q", column)
		}
		if !slices.ContainsFunc(o.Files, func(f result.File) bool { return f.Name == "scrapes/raw.txt" && f.Bytes == 3 }) {
			t.Errorf("files: %+v", o.Files)
		}
	}
}

// A collector is told when the load begins: what it saw while another one was
// still taking its first look is no load.
func TestCollect_tellsWhenTheLoadBegins(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	var slow atomic.Bool
	loaded := make(chan (<-chan struct{}), 100)
	w.collectors = []observe.Named{
		{Kind: "quick", Collector: &collectortest.Fake{
			Begin: func(_ context.Context, target collectors.Trial, _ collectors.Sink) error {
				loaded <- target.Loaded
				return nil
			},
			End: func(ctx context.Context, _ collectors.Sink) (result.Row, error) {
				select {
				case <-<-loaded:
					return nil, nil
				default:
					return nil, errors.New("the load never began")
				}
			},
		}},
		{Kind: "slow", Collector: &collectortest.Fake{Begin: func(_ context.Context, target collectors.Trial, _ collectors.Sink) error {
			select {
			case <-target.Loaded:
				t.Error("the load began before every baseline was taken")
			case <-time.After(20 * time.Millisecond):
			}
			slow.Store(true)
			return nil
		}}},
	}
	w.must()
	for _, o := range w.outcomes() {
		want(t, "findings", strings.Join(codesOf(o), ","), "")
	}
	want(t, "both ran", slow.Load(), true)
}

// Whatever a collector does, the trial is measured, and the other collectors
// keep what is theirs.
func TestCollect_harmsNothing(t *testing.T) {
	t.Parallel()
	garbage := func() io.Reader { return io.LimitReader(neverEnding('x'), 50<<20) }
	for name, tt := range map[string]struct {
		bad      *collectortest.Fake
		findings string
	}{
		"start fails": {&collectortest.Fake{Begin: func(context.Context, collectors.Trial, collectors.Sink) error {
			return errors.New("no such tool")
		}}, "no_bad"},
		"finish fails": {&collectortest.Fake{End: func(context.Context, collectors.Sink) (result.Row, error) {
			return result.Row{"max_gpu_temp_c": 70.0}, errors.New("lost it")
		}}, "no_bad"},
		"nothing at all": {&collectortest.Fake{End: func(context.Context, collectors.Sink) (result.Row, error) {
			return nil, nil
		}}, ""},
		"too much": {&collectortest.Fake{End: func(_ context.Context, s collectors.Sink) (result.Row, error) {
			return nil, s.Artifact("scrapes/big.txt", garbage())
		}}, ""},
		"artifact breaks": {&collectortest.Fake{End: func(_ context.Context, s collectors.Sink) (result.Row, error) {
			return nil, s.Artifact("scrapes/torn.txt", io.MultiReader(strings.NewReader("half"), brokenReader{}))
		}}, "no_bad"},
		"panic in an artifact": {&collectortest.Fake{End: func(_ context.Context, s collectors.Sink) (result.Row, error) {
			return nil, s.Artifact("scrapes/torn.txt", io.MultiReader(strings.NewReader("half"), panickingReader{}))
		}}, "no_bad"},
		"panic at the start": {&collectortest.Fake{Begin: func(context.Context, collectors.Trial, collectors.Sink) error {
			panic("ours")
		}}, "no_bad"},
		"artifact outside": {&collectortest.Fake{End: func(_ context.Context, s collectors.Sink) (result.Row, error) {
			return nil, s.Artifact("../../escape", strings.NewReader("x"))
		}}, "no_bad"},
		"column that nobody knows": {&collectortest.Fake{End: func(context.Context, collectors.Sink) (result.Row, error) {
			return result.Row{"no_such_column": 1.0}, nil
		}}, "no_bad"},
		"column of another type": {&collectortest.Fake{End: func(context.Context, collectors.Sink) (result.Row, error) {
			return result.Row{"max_gpu_temp_c": "hot"}, nil
		}}, "no_bad"},
		"somebody else's column": {&collectortest.Fake{End: func(context.Context, collectors.Sink) (result.Row, error) {
			return result.Row{"status": "failed", "completed": int64(7)}, nil
		}}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var cut atomic.Bool
			good := &collectortest.Fake{}
			var alive func() error
			good.Begin = func(ctx context.Context, _ collectors.Trial, _ collectors.Sink) error { alive = ctx.Err; return nil }
			good.End = func(context.Context, collectors.Sink) (result.Row, error) {
				cut.Store(alive() != nil)
				return result.Row{"mean_gpu_util": 12.5}, nil
			}
			w := newWorld(t, nil, `matrix: {engine: sim, concurrency: [1]}`)
			w.collectors = []observe.Named{{Kind: "bad", Collector: tt.bad}, {Kind: "good", Collector: good}}
			w.must()
			want(t, "outcomes", w.summary(), "ok/1")
			o := w.outcomes()[0]
			want(t, "findings", strings.Join(codesOf(o), ","), tt.findings)
			want(t, "the other's column", o.Row["mean_gpu_util"].(float64), 12.5)
			want(t, "the other was cut off", cut.Load(), false)
			want(t, "completed", o.Row["completed"].(int64), 3)
		})
	}
}

// The end of the load does not end the sessions before their last look; a run
// that is ended waits for none.
func TestCollect_contexts(t *testing.T) {
	t.Parallel()
	ctx, stop := context.WithCancelCause(t.Context())
	defer stop(nil)
	finished := 0
	var first, last error
	var alive func() error
	w := newWorld(t, firstLaunches(dies(3)), `retries: 0`)
	w.backend.script = firstLaunches(dies(3), script{request: hang(2, func() { stop(errStop) })})
	w.collectors = []observe.Named{{Kind: "good", Collector: &collectortest.Fake{
		Begin: func(ctx context.Context, _ collectors.Trial, _ collectors.Sink) error { alive = ctx.Err; return nil },
		End: func(ctx context.Context, _ collectors.Sink) (result.Row, error) {
			if finished++; finished == 1 {
				first = errors.Join(ctx.Err(), alive()) // of a trial whose server died
				return nil, nil
			}
			<-ctx.Done() // of a trial that will be discarded
			last = context.Cause(ctx)
			return nil, last
		},
	}}}
	begun := time.Now()
	rep, err := w.run(ctx)
	if err != nil || !errors.Is(rep.Interrupted, errStop) {
		t.Errorf("%+v, %v", rep, err)
	}
	want(t, "last looks", finished, 2)
	want(t, "context after a death", first, nil)
	want(t, "context after the end", last, errStop)
	if took := time.Since(begun); took >= 10*time.Second {
		t.Errorf("it took %s", took)
	}
}

type neverEnding byte

func (b neverEnding) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = byte(b)
	}
	return len(p), nil
}

type brokenReader struct{}

func (brokenReader) Read([]byte) (int, error) { return 0, errors.New("torn") }

type panickingReader struct{}

func (panickingReader) Read([]byte) (int, error) { panic("ours") }
