package docker

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/moby/moby/api/pkg/stdcopy"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"

	"sweep.dev/sweep/backends"
	"sweep.dev/sweep/backends/host"
	"sweep.dev/sweep/backends/provision"
	"sweep.dev/sweep/internal/effect"
)

// A remote is access to one container.
type remote struct {
	b       *Backend
	id      string
	role    string
	replica int
	host    *containerHost
	digest  string    // of the image
	read    time.Time // when the container wrote the last piece of its log that has come
}

var _ provision.TermsUpdater = (*remote)(nil)

// Attach implements [provision.Provider].
func (p containers) Attach(ctx context.Context, i provision.Instance, u *provision.Unit) (provision.Remote, error) {
	c, err := p.b.inspect(ctx, i.ID)
	if err != nil {
		return nil, fmt.Errorf("container %s: %w", i.ID, err)
	}
	at := u.Replicas[0]
	r := &remote{b: p.b, id: i.ID, role: at.Role.Name, replica: at.Place.Replica, digest: i.ImageDigest}
	if r.digest == "" { // of one that is adopted
		img, err := p.b.inspectImage(ctx, c.Image)
		if err != nil {
			return nil, err
		}
		// By the name that the plan has for it, where that is still the same.
		if named, err := p.b.inspectImage(ctx, at.Role.Image); err == nil && named.id == img.id {
			img = named
		}
		r.digest = img.digest
	}
	r.host = &containerHost{
		b: p.b, id: i.ID, network: reachOf(c), address: addressOf(c, at.Place.Port), ports: at.Place.Ports, user: p.b.config.User,
	}
	if at.Role.LogPath != nil {
		r.host.log = at.Role.LogPath(at.Place.Replica)
	}
	return r, nil
}

func (r *remote) Host(int) host.Host { return r.host }
func (r *remote) Close()             {}

// UpdateTerms adds the digest of the image, if it is not known.
func (r *remote) UpdateTerms(t *backends.Terms) {
	if t.ImageDigest == "" {
		t.ImageDigest = r.digest
	}
}

// lastLines is how long the end of a log is waited for after the container's own.
const lastLines = 5 * time.Second

// Follow implements [provision.Remote]: the daemon's log begins again after the last piece
// that has come, by its time, as the beginning of a log that was rotated is gone. The first
// time it begins at its start, without what has come before.
func (r *remote) Follow(ctx context.Context, _ int, offset int64, w io.Writer) error {
	reading, stop := context.WithCancel(ctx)
	defer stop()
	waiting, cancel := context.WithCancel(ctx)
	var end error
	var waiter sync.WaitGroup
	waiter.Go(func() {
		if end = r.wait(waiting); end != nil {
			late := time.AfterFunc(lastLines, stop)
			<-reading.Done()
			late.Stop()
		}
	})
	if r.read.IsZero() {
		w = &skipping{w: w, left: offset}
	}
	broken := r.copyLog(reading, &stamped{w: w, after: r.read, last: &r.read})
	c, err := r.b.inspect(ctx, r.id)
	runs := err == nil && c.State != nil && c.State.Running || err != nil && !cerrdefs.IsNotFound(err)
	if runs && reading.Err() == nil { // a daemon that is restarted
		cancel()
		stop()
		waiter.Wait()
		return fmt.Errorf("%w: %w", provision.ErrBroken, errors.Join(broken, err))
	}
	stop()
	waiter.Wait() // the container has ended, or ctx has
	cancel()
	return end
}

func (r *remote) copyLog(ctx context.Context, w *stamped) error {
	options := client.ContainerLogsOptions{ShowStdout: true, ShowStderr: true, Follow: true, Timestamps: true}
	if !w.after.IsZero() {
		options.Since = w.after.Format(time.RFC3339Nano)
	}
	return r.b.fx.Call(ctx, effect.DockerRead, func(ctx context.Context) error {
		stream, err := r.b.api.ContainerLogs(ctx, r.id, options)
		if err != nil {
			return err
		}
		defer stream.Close()
		_, err = stdcopy.StdCopy(w, w, stream)
		return err
	})
}

// wait returns how the container has ended, or nil when ctx has.
func (r *remote) wait(ctx context.Context) error {
	for ctx.Err() == nil {
		status, gone, err := r.b.waitOnce(ctx, r.id)
		if err != nil || ctx.Err() != nil {
			select { // a daemon that is being restarted
			case <-ctx.Done():
			case <-time.After(time.Second):
			}
			continue
		}
		if !gone {
			// The daemon's account of the end, if the daemon still has the container.
			if c, err := r.b.inspect(ctx, r.id); err == nil && c.State != nil {
				return exit(r.role, r.replica, *c.State)
			}
		}
		return exit(r.role, r.replica, container.State{ExitCode: status})
	}
	return nil
}

// A stamped writer takes the pieces of a log, each with its time and a space before it, and
// passes on those after a time, without it. A piece without a time is passed on as it is.
type stamped struct {
	w     io.Writer
	after time.Time
	last  *time.Time // of the pieces that were passed on
}

func (s *stamped) Write(p []byte) (int, error) {
	piece := p
	if stamp, rest, ok := bytes.Cut(p, []byte{' '}); ok {
		if at, err := time.Parse(time.RFC3339Nano, string(stamp)); err == nil {
			if !at.After(s.after) {
				return len(p), nil
			}
			piece, *s.last = rest, at
		}
	}
	if _, err := s.w.Write(piece); err != nil {
		return 0, err
	}
	return len(p), nil
}

// A skipping writer drops the first bytes.
type skipping struct {
	w    io.Writer
	left int64 // to drop
}

func (s *skipping) Write(p []byte) (int, error) {
	drop := min(int64(len(p)), s.left)
	s.left -= drop
	n, err := s.w.Write(p[drop:])
	return int(drop) + n, err
}
