package executor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"sweep.dev/sweep/backends"
	"sweep.dev/sweep/collectors"
	"sweep.dev/sweep/engine"
	"sweep.dev/sweep/host"
	"sweep.dev/sweep/internal/secret"
	"sweep.dev/sweep/result"
	"sweep.dev/sweep/result/finding"
	"sweep.dev/sweep/rundir"
	"sweep.dev/sweep/serving"
)

// How long a collector may take for its first and its last look. One that
// takes longer loses its own columns, never the trial.
const (
	baselineTimeout = 10 * time.Second
	lastLookTimeout = 10 * time.Second
)

// A sink takes what the collectors of one attempt see.
type sink struct {
	mu      sync.Mutex
	files   *rundir.Attempt
	mask    secret.Mask
	samples []result.Sample
	notes   []result.Finding
	closed  bool
}

// Sample implements [collectors.Sink].
func (s *sink) Sample(x result.Sample) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		s.samples = append(s.samples, x)
	}
}

// Artifact implements [collectors.Sink].
func (s *sink) Artifact(name string, r io.Reader) (err error) {
	w, err := s.files.Create(name)
	if err != nil {
		return err
	}
	// Also where r panics: a file that is still open forbids the commit.
	defer func() { err = errors.Join(err, w.Close()) }()
	_, err = io.Copy(w, r)
	return err
}

// Note implements [collectors.Sink].
func (s *sink) Note(f result.Finding) {
	f.Text = s.mask.Text(f.Text)
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, have := range s.notes {
		if have.Code == f.Code {
			return
		}
	}
	s.notes = append(s.notes, f)
}

func (s *sink) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
}

// safely turns a panic of a collector into an error: it must not harm the
// trial, and still less the teardown.
func safely(f func() error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("panic: %v", v)
		}
	}()
	return f()
}

// targets are the servers of the trial.
func (m *measurement) targets() []collectors.Target {
	var list []collectors.Target
	var lost []string
	for _, role := range m.d.server.Roles {
		for replica := range role.Replicas {
			t := collectors.Target{
				Role: role.Name, Replica: replica, Tier: engine.TierEngine, Host: m.d.server.Host(role.Name, replica),
				Metrics: &m.d.profile.Metrics, Args: role.Args,
			}
			if of := m.d.profile.Role(role.Name); of != nil {
				t.Tier, t.Metrics = cmp.Or(of.Tier, engine.TierEngine), m.d.profile.MetricsOf(role.Name)
			}
			if !m.locate(&t) {
				// Its own port has no metrics, or those of another role.
				t.Metrics = nil
				lost = append(lost, role.Name)
			}
			list = append(list, t)
		}
	}
	for _, role := range m.d.profile.Roles {
		known := slices.ContainsFunc(m.d.server.Roles, func(r backends.Role) bool { return r.Name == role.Name })
		if metrics := m.d.profile.MetricsOf(role.Name); !known && metrics != nil && metrics.Path != "" {
			lost = append(lost, role.Name)
		}
	}
	if len(lost) > 0 {
		m.sink.Note(result.Finding{Code: finding.MetricsUnreachable, Text: fmt.Sprintf(
			"the address of the metrics of %s is not known, and their columns are null; in the plan: backend.roles: {%s: [{metrics: http://HOST:PORT}]}",
			strings.Join(slices.Compact(lost), ", "), lost[0])})
	}
	return list
}

// locate finds where the metrics of a target are; false if that is not known.
func (m *measurement) locate(t *collectors.Target) bool {
	if known, ok := m.config.Backend.(backends.Standing); ok {
		if h, ok := known.Metrics(t.Role, t.Replica); ok {
			t.Host, t.Keyless = h, keyless(m.d.server.Host(m.d.profile.EntryRole(), 0).URL(), h.URL())
			return true
		}
	}
	if t.Metrics == nil || t.Metrics.Port == "" {
		return true
	}
	if p, ok := t.Host.(host.Porter); ok {
		t.MetricsAddr = p.Addr(t.Metrics.Port)
	}
	return t.MetricsAddr != ""
}

// keyless says whether the key of one URL must not be sent to another: to another
// host, or without the TLS that protects it on its way to its own.
func keyless(own, other string) bool {
	from, err := url.Parse(own)
	to, err2 := url.Parse(other)
	return err != nil || err2 != nil || !strings.EqualFold(from.Hostname(), to.Hostname()) ||
		from.Scheme == "https" && to.Scheme != "https"
}

// watch starts all collectors and returns after their baselines;
// the end of ctx cuts those short. The returned function takes the last looks
// and returns the columns.
func (m *measurement) watch(ctx context.Context) func(context.Context) result.Row {
	m.sink.files = m.files
	begun := make(chan struct{})
	watched := collectors.Trial{
		Targets: m.targets(), Profile: m.d.profile, Anchor: m.anchor, Loaded: begun,
		Authorize: m.d.server.Authorize, Clients: []int{os.Getpid()},
		Given: m.config.Servers.Given, Asked: func() { m.d.extra.add(1, 0) },
	}

	type started struct {
		kind    string
		session collectors.Session
	}
	var (
		mu       sync.Mutex
		sessions []started
		wg       sync.WaitGroup
	)
	// The sessions' context lives until their last look: the end of the load
	// must not cut them off before it.
	live, stop := context.WithCancel(context.WithoutCancel(ctx))
	for _, c := range m.config.Collectors {
		wg.Go(func() {
			// Each has a context of its own: one that hangs must not take
			// the others with it.
			live, cut := context.WithCancelCause(live)
			bound, cancel := serving.WithLimit(ctx, "the first look", baselineTimeout)
			defer cancel()
			defer context.AfterFunc(bound, func() { cut(context.Cause(bound)) })()
			var s collectors.Session
			err := safely(func() (err error) {
				s, err = c.Collector.Start(live, watched, &m.sink)
				return err
			})
			if err != nil {
				cut(err)
				m.sink.Note(result.Finding{Code: finding.Collector(c.Kind), Text: fmt.Sprintf("%s collected nothing: %v", c.Kind, err)})
				return
			}
			mu.Lock()
			defer mu.Unlock()
			sessions = append(sessions, started{c.Kind, s})
		})
	}
	wg.Wait()
	close(begun)

	return func(ctx context.Context) result.Row {
		defer stop()
		ctx, cancel := serving.WithLimit(ctx, "the last look", lastLookTimeout)
		defer cancel()
		row := result.Row{}
		for _, s := range sessions {
			wg.Go(func() {
				var r result.Row
				err := safely(func() (err error) {
					r, err = s.session.Finish(ctx)
					if garbage := m.conforms(r); garbage != nil {
						r, err = nil, errors.Join(err, garbage)
					}
					return err
				})
				mu.Lock()
				defer mu.Unlock()
				if err != nil {
					m.sink.Note(result.Finding{Code: finding.Collector(s.kind), Text: fmt.Sprintf("%s collected only a part: %v", s.kind, err)})
				}
				maps.Copy(row, r)
			})
		}
		wg.Wait()
		m.sink.close()
		return row
	}
}

// conforms says what in a collector's row is no column, or no value of one: that
// must be seen before it can spoil the trial's whole row.
func (m *measurement) conforms(r result.Row) error {
	given := slices.DeleteFunc(m.config.Plan.Columns(), func(c result.Column) bool {
		_, ok := r[c.Name]
		return !ok
	})
	_, err := r.Conform(given)
	return err
}
