package attempt

import (
	"context"
	"maps"
	"time"

	"sweep.dev/sweep/backends"
	"sweep.dev/sweep/executor/serving"
	"sweep.dev/sweep/result"
)

// lastWatch bounds the last look at a deployment that somebody else runs.
const lastWatch = 10 * time.Second

// watch looks at a deployment that may become another one under the load, if it is one.
// The returned function must be called.
func (a *Attempt) watch(ctx context.Context) func() {
	w, ok := a.subject.Server.Deployment.(backends.Watched)
	if !ok {
		return func() {}
	}
	finish := w.Watch(ctx)
	return func() {
		ctx, cancel := serving.WithLimit(ctx, "the last look at the stack", lastWatch)
		defer cancel()
		row, findings := finish(ctx)
		for _, f := range findings {
			a.sink.Note(f)
		}
		if a.columns == nil {
			a.columns = result.Row{}
		}
		maps.Copy(a.columns, row)
	}
}
