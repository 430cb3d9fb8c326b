package logs

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"sweep.dev/sweep/backends/kubernetes/kubelog"
	"sweep.dev/sweep/internal/kubeapi"
)

// A reader reads the log of one container, run after run.
type reader struct {
	*follower
	c *Container

	run      string       // ID of the run that is read
	restarts int          // of that run
	seen     kubelog.Seen // its lines
	done     string       // ID of the run that was read to its end
	previous string       // ID of the run whose log was read after its end
	trouble  string       // that was reported
	failures int          // one after the other
	progress bool         // whether a line was new since the log was opened
}

// read ends with the pod, with the context, or with an error that ends everything.
func (r *reader) read(ctx context.Context) error {
	pause := shortPause
	var last *snapshot
	for {
		var now *snapshot
		var err error
		if last == nil {
			now, err = r.pods.fresh(ctx)
		} else {
			now, err = r.pods.after(ctx, last)
		}
		if err != nil {
			return ended(ctx, err)
		}
		st, there := now.of(r.c)
		r.progress = false
		switch {
		case !there:
			return nil
		case st.previous != "" && st.previous != r.previous:
			err = r.readPrevious(ctx, st)
		case st.run != "" && st.run != r.done:
			err = r.readRun(ctx, st)
		case r.options.Once:
			if st.run == "" && st.previous == "" {
				r.say(r.c, "it has no log yet: %s", st.waiting)
			}
			return nil
		default: // nothing new
			last = now
			continue
		}
		last = nil
		if r.progress {
			pause, r.failures = shortPause, 0
		}
		switch {
		case over(ctx):
			return nil
		case err == nil && r.progress:
			continue
		case err == nil:
			// Nothing came: the pods' states lag behind, or a proxy cuts connections.
		case final(err):
			return err
		case r.options.Once && pause >= longPause:
			r.say(r.c, "its log is left out: %v", err)
			return nil
		default:
			r.complain(err)
		}
		if !sleep(ctx, pause) {
			return nil
		}
		pause = min(2*pause, longPause)
	}
}

// ended returns the error of a wait: none if it is over because the context is.
func ended(ctx context.Context, err error) error {
	if over(ctx) {
		return nil
	}
	return err
}

// over reports whether a context has ended.
func over(ctx context.Context) bool {
	select {
	case <-ctx.Done():
		return true
	default:
		return false
	}
}

// A takeError is what the caller's function returned.
type takeError struct{ err error }

func (e *takeError) Error() string { return e.err.Error() }
func (e *takeError) Unwrap() error { return e.err }

// A brokenError is a connection that broke while a log was read.
type brokenError struct{ err error }

func (e *brokenError) Error() string { return "the connection broke: " + e.err.Error() }
func (e *brokenError) Unwrap() error { return e.err }

// final reports whether an error ends everything.
func final(err error) bool {
	_, taken := errors.AsType[*takeError](err)
	return taken || refused(err)
}

// complain reports an error once, as long as it is the same. A connection that broke is
// nothing to report unless the next one does too.
func (r *reader) complain(err error) {
	r.failures++
	if _, broke := errors.AsType[*brokenError](err); broke && r.failures == 1 {
		return
	}
	text := err.Error()
	if text != r.trouble {
		r.trouble = text
		r.say(r.c, "its log cannot be read, trying again: %s", text)
	}
}

// readRun reads the run that is there, as long as it lasts.
func (r *reader) readRun(ctx context.Context, st state) error {
	if st.run != r.run {
		r.run, r.restarts, r.seen = st.run, st.restarts, kubelog.Seen{}
	}
	query := url.Values{}
	since := r.seen.Reopen()
	if since.Before(r.options.Since) {
		since = r.options.Since
	}
	if !since.IsZero() {
		query.Set("sinceTime", since.UTC().Format(time.RFC3339))
	}
	if !st.ended && !r.options.Once {
		query.Set("follow", "true")
	}
	body, err := r.api.Stream(ctx, r.logPath(r.c, query))
	if err != nil {
		return r.refusal(ctx, err)
	}
	defer body.Close()
	// The container may have been restarted before the log was opened. Runs only follow
	// each other, so a list that is newer than the log shows whose it is.
	now, err := r.pods.fresh(ctx)
	if err != nil {
		return ended(ctx, err)
	}
	if at, there := now.of(r.c); there && at.run != st.run {
		r.progress = true
		return nil
	}
	all := st.ended || r.options.Once // of the run, or as far as it is
	err = r.copy(body, func(l kubelog.Line) error {
		if !l.Ends && !all || !r.seen.Add(l.At, l.Hash) {
			return nil
		}
		return r.hand(l, r.restarts, false)
	})
	if all && err == nil {
		r.done, r.progress = st.run, true
	}
	return err
}

// readPrevious reads what is left of the log of a run that is over, and hands on what its
// own log lacks.
func (r *reader) readPrevious(ctx context.Context, st state) error {
	r.say(r.c, "it was restarted %s", times(st.restarts))
	body, err := r.api.Stream(ctx, r.logPath(r.c, url.Values{"previous": {"true"}, "tailLines": {strconv.Itoa(maxPrevious)}}))
	if err != nil {
		if at, ok := errors.AsType[*kubeapi.StatusError](err); ok && (at.Code == http.StatusBadRequest || at.Code == http.StatusNotFound) {
			r.say(r.c, "the log of its last run is gone: %s", at.Message)
			r.previous, r.progress = st.previous, true
			return nil
		}
		return err
	}
	defer body.Close()
	if r.run != st.previous {
		r.run, r.seen = st.previous, kubelog.Seen{}
	}
	r.seen.Reopen()
	run := max(0, st.restarts-1)
	err = r.copy(body, func(l kubelog.Line) error {
		if err := r.hand(l, run, true); err != nil {
			return err
		}
		if r.done == st.previous || !r.seen.Add(l.At, l.Hash) {
			return nil
		}
		return r.hand(l, run, false)
	})
	if err == nil {
		r.previous, r.done, r.progress = st.previous, st.previous, true
	}
	return err
}

func times(n int) string {
	if n == 1 {
		return "once"
	}
	return fmt.Sprintf("%d times", n)
}

// refusal returns the error of a log that was not opened. A container that has not started, and
// a pod that is gone, have none, and the next list says which it is.
func (r *reader) refusal(ctx context.Context, err error) error {
	at, ok := errors.AsType[*kubeapi.StatusError](err)
	if ok && (at.Code == http.StatusBadRequest || at.Code == http.StatusNotFound) {
		now, stale := r.pods.fresh(ctx)
		if stale != nil {
			return ended(ctx, stale)
		}
		if st, there := now.of(r.c); !there || st.run != r.run {
			return nil
		}
	}
	return err
}

// hand hands a line on, if it is not from before the time that is wanted.
func (r *reader) hand(l kubelog.Line, run int, previous bool) error {
	if l.At.Before(r.options.Since) {
		return nil
	}
	r.progress = true
	line := Line{From: r.c, Time: l.At, Text: strings.TrimSuffix(string(l.Text), "\r"), Cut: l.Cut, Run: run, Previous: previous}
	if err := r.take(line); err != nil {
		return &takeError{err}
	}
	return nil
}

// copy calls take for each line until the log ends. A line of the kubelet is an error.
func (r *reader) copy(body io.Reader, take func(kubelog.Line) error) error {
	lines := kubelog.NewScanner(body)
	for {
		l, err := lines.Next()
		last := errors.Is(err, io.EOF)
		switch {
		case err != nil && !last:
			return &brokenError{err} // the rest of this line comes again
		case last && len(l.Text) == 0 && l.At.IsZero():
			return nil
		case l.At.IsZero():
			return fmt.Errorf("the kubelet says: %.200s", l.Text)
		}
		if err := take(l); err != nil {
			return err
		}
		r.recovered()
		if last {
			return nil
		}
	}
}

func (r *reader) recovered() {
	if r.trouble != "" {
		r.trouble = ""
		r.say(r.c, "its log is read again")
	}
}
