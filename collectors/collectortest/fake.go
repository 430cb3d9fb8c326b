package collectortest

import (
	"context"

	"sweep.dev/sweep/collectors"
	"sweep.dev/sweep/result"
)

// A Fake is a collector made of the functions that a test cares about; the others do
// nothing.
type Fake struct {
	Begin func(context.Context, collectors.Trial, collectors.Sink) error
	End   func(context.Context, collectors.Sink) (result.Row, error)
}

// Start implements [collectors.Collector].
func (f *Fake) Start(ctx context.Context, t collectors.Trial, s collectors.Sink) (collectors.Session, error) {
	if f.Begin != nil {
		if err := f.Begin(ctx, t, s); err != nil {
			return nil, err
		}
	}
	return &fakeSession{f, s}, nil
}

type fakeSession struct {
	of   *Fake
	sink collectors.Sink
}

// Finish implements [collectors.Session].
func (s *fakeSession) Finish(ctx context.Context) (result.Row, error) {
	if s.of.End == nil {
		return result.Row{}, nil
	}
	return s.of.End(ctx, s.sink)
}
