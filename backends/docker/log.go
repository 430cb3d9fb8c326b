package docker

import (
	"context"
	"io"
	"time"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/moby/moby/api/pkg/stdcopy"
	"github.com/moby/moby/client"

	"sweep.dev/sweep/internal/effect"
)

// copyLog writes what a container says, stdout and stderr in order, to f until
// it has ended or ctx has, and closes f. Where the stream breaks although the
// container goes on (a daemon that is restarted), it is read again from the
// start, without what f has already.
func (b *Backend) copyLog(ctx context.Context, id string, f *effect.File) {
	if f == nil {
		return
	}
	defer func() { _ = f.Close() }() // a log that cannot be written must not end a run
	var have int64
	for ctx.Err() == nil {
		n, err := b.copyLogOnce(ctx, id, f, have)
		have += n
		c, inspected := b.inspect(ctx, id)
		ended := inspected == nil && c.State != nil && !c.State.Running && err == nil
		if ended || cerrdefs.IsNotFound(inspected) {
			return
		}
		select {
		case <-ctx.Done():
		case <-time.After(time.Second):
		}
	}
}

func (b *Backend) copyLogOnce(ctx context.Context, id string, f io.Writer, have int64) (int64, error) {
	out := &skipping{w: f, left: have}
	err := b.fx.Call(ctx, effect.DockerRead, func(ctx context.Context) error {
		r, err := b.api.ContainerLogs(ctx, id, client.ContainerLogsOptions{ShowStdout: true, ShowStderr: true, Follow: true})
		if err != nil {
			return err
		}
		defer r.Close()
		_, err = stdcopy.StdCopy(out, out, r)
		return err
	})
	return out.passed, err
}

// A skipping writer drops the first bytes.
type skipping struct {
	w      io.Writer
	left   int64 // to drop
	passed int64
}

func (s *skipping) Write(p []byte) (int, error) {
	drop := min(int64(len(p)), s.left)
	s.left -= drop
	n, err := s.w.Write(p[drop:])
	s.passed += int64(n)
	return int(drop) + n, err
}
