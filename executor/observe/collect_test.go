package observe

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"sweep.dev/sweep/backends"
	"sweep.dev/sweep/backends/host"
	"sweep.dev/sweep/collectors"
	"sweep.dev/sweep/collectors/collectortest"
	"sweep.dev/sweep/engine"
	"sweep.dev/sweep/executor/serving"
	"sweep.dev/sweep/internal/secret"
	"sweep.dev/sweep/result"
	"sweep.dev/sweep/result/finding"
)

// observed returns a server with these roles, which is not observed yet.
func observed(p *engine.Profile, roles []backends.Role) Config {
	return Config{
		Server: &serving.Server{Deployment: aDeployment{}, Roles: roles}, Profile: p,
		Columns: result.Columns(result.Extra{}), Sink: NewSink(nil, secret.NewMask(nil)),
	}
}

// aDeployment is asked for nothing but its hosts, which are not asked anything.
type aDeployment struct{ backends.Deployment }

func (aDeployment) Host(string, int) host.Host { return nil }

// A collector that hangs is cut off when its time is over, and it alone.
func TestCollect_hangs(t *testing.T) {
	t.Parallel()
	hang := func(ctx context.Context) error { <-ctx.Done(); return context.Cause(ctx) }
	for name, bad := range map[string]*collectortest.Fake{
		"start": {Begin: func(ctx context.Context, _ collectors.Trial, _ collectors.Sink) error { return hang(ctx) }},
		"finish": {End: func(ctx context.Context, _ collectors.Sink) (result.Row, error) {
			return nil, hang(ctx)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var alive func() error
				good := &collectortest.Fake{
					Begin: func(ctx context.Context, _ collectors.Trial, _ collectors.Sink) error { alive = ctx.Err; return nil },
					End: func(context.Context, collectors.Sink) (result.Row, error) {
						return result.Row{"mean_gpu_util": 12.5}, alive()
					},
				}
				c := observed(&engine.Profile{}, []backends.Role{{Name: "server", Replicas: 1}})
				c.Collectors = []Named{{"bad", bad}, {"good", good}}
				begun := time.Now()
				row := Start(t.Context(), c)(t.Context())
				if took := time.Since(begun); took != baselineTimeout {
					t.Errorf("it took %s", took)
				}
				if row["mean_gpu_util"] != any(12.5) {
					t.Errorf("the other's column: %v", row)
				}
				notes := c.Sink.Notes()
				if len(notes) != 1 || notes[0].Code != finding.Collector("bad") || !strings.Contains(notes[0].Text, "not done after 10s") {
					t.Errorf("notes: %+v", notes)
				}
				if !errors.Is(alive(), context.Canceled) {
					t.Errorf("the session's context outlives it: %v", alive())
				}
			})
		})
	}
}
