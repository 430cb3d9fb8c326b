package runpodapi

import (
	"context"
	"net/http"
	"regexp"
	"strconv"
	"sync"
	"time"
)

// A limiter keeps all calls of one Backend under the account's quota: a bucket
// that is filled at the plan's rate, and what the server says of its own
// windows, which wins. Deletes never wait for the bucket: a pod that runs on
// costs more than a call.
type limiter struct {
	now   func() time.Time
	every time.Duration // between two calls in the long run
	burst int

	mu    sync.Mutex // guards what follows
	free  time.Time  // when the bucket is full again: the debt of calls
	until time.Time  // the server wants none before
}

func newLimiter(perMinute int) *limiter {
	return &limiter{now: time.Now, every: time.Minute / time.Duration(perMinute), burst: max(1, perMinute/3)}
}

// wait returns when the next call may go out, or with the cause of ctx.
func (l *limiter) wait(ctx context.Context, urgent bool) error {
	for {
		d := l.take(urgent)
		if d <= 0 {
			return context.Cause(ctx)
		}
		if err := Sleep(ctx, d); err != nil {
			return err
		}
	}
}

// take takes a call from the bucket, or says how long there is none.
func (l *limiter) take(urgent bool) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now()
	if d := l.until.Sub(now); d > 0 {
		return d
	}
	if l.free.Before(now) {
		l.free = now
	}
	if d := l.free.Sub(now) - time.Duration(l.burst-1)*l.every; d > 0 && !urgent {
		return d
	}
	l.free = l.free.Add(l.every)
	return 0
}

// learn takes what an answer says of the quota: nothing before a window that
// is used up begins again, nor before what a 429 asks for.
func (l *limiter) learn(status int, h http.Header) {
	wait := time.Duration(0)
	for _, m := range window.FindAllStringSubmatch(h.Get("RateLimit"), -1) {
		if m[1] == "0" {
			wait = max(wait, seconds(m[2]))
		}
	}
	if status == http.StatusTooManyRequests {
		wait = max(wait, retryAfter(h))
		if wait == 0 {
			wait = l.every
		}
	}
	if wait > 0 {
		l.mu.Lock()
		defer l.mu.Unlock()
		if until := l.now().Add(wait); until.After(l.until) {
			l.until = until
		}
	}
}

// window is a member of the header RateLimit: "minute";r=0;t=12.
var window = regexp.MustCompile(`;\s*r=(\d+)\s*;\s*t=(\d+)`)

// retryAfter returns the header Retry-After, in seconds or as a date, at most a day.
func retryAfter(h http.Header) time.Duration {
	text := h.Get("Retry-After")
	if at, err := http.ParseTime(text); err == nil {
		return min(max(0, time.Until(at)), 24*time.Hour)
	}
	return seconds(text)
}

func seconds(text string) time.Duration {
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 {
		return 0
	}
	return min(time.Duration(n), 24*60*60) * time.Second
}

// Sleep waits, or returns the cause of ctx.
func Sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
