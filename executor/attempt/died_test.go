package attempt

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"sweep.dev/sweep/backends"
	"sweep.dev/sweep/executor/serving"
	"sweep.dev/sweep/result"
)

// A dying deployment is asked for nothing but its end.
type dying struct {
	backends.Deployment
	done chan struct{}
}

func (d dying) Done() <-chan struct{} { return d.done }

// The news of a death may come after the errors that it causes; a server that
// goes on answering is not waited for.
func TestDied_newsComeLate(t *testing.T) {
	t.Parallel()
	failed := func(class string, end time.Duration) result.Request {
		return result.Request{Status: result.Failed, ErrorClass: class, End: end}
	}
	completed := func(end time.Duration) result.Request { return result.Request{Status: result.Completed, End: end} }
	for name, tt := range map[string]struct {
		requests  []result.Request
		news      time.Duration // 0: it does not die
		died      bool
		waited    time.Duration
		interrupt bool
	}{
		"all is well":              {requests: []result.Request{completed(1)}},
		"overload":                 {requests: []result.Request{failed(result.ErrOverload, 1)}},
		"broken, then dead":        {requests: []result.Request{completed(1), failed(result.ErrReset, 2)}, news: 900 * time.Millisecond, died: true, waited: 900 * time.Millisecond},
		"broken, and alive":        {requests: []result.Request{completed(1), failed(result.ErrReset, 2)}, waited: afterBroken},
		"errors, then dead":        {requests: []result.Request{failed(result.ErrReset, 2), failed(result.ErrServer, 3)}, news: 4 * time.Second, died: true, waited: 4 * time.Second},
		"errors, then completed":   {requests: []result.Request{failed(result.ErrServer, 1), completed(2)}, news: time.Second},
		"errors, but nobody waits": {requests: []result.Request{failed(result.ErrServer, 1)}, interrupt: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := dying{done: make(chan struct{})}
				a := &Attempt{requests: tt.requests, subject: &Subject{Server: &serving.Server{Deployment: s}}}
				ctx, stop := context.WithCancel(t.Context())
				defer stop()
				if tt.interrupt {
					stop()
				}
				if tt.news > 0 {
					defer time.AfterFunc(tt.news, func() { close(s.done) }).Stop()
				}
				begun := time.Now()
				if died := a.Died(ctx); died != tt.died {
					t.Errorf("died: %t", died)
				}
				if waited := time.Since(begun); waited != tt.waited {
					t.Errorf("waited %s", waited)
				}
			})
		})
	}
}
