package docker

import (
	"context"
	"syscall"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"

	"sweep.dev/sweep/backends"
	"sweep.dev/sweep/internal/effect"
)

// exit says how a container has ended.
//
// Docker has no field for a signal: a process that a signal ended is status
// 128+n, and so is a shell whose child was. OOMKilled is about the container's
// memory limit, and true also where it was a child of the engine that the
// kernel chose, and the engine then exited by itself. 137 without it is a
// SIGKILL of somebody else, which includes the kernel when the whole machine
// ran out of memory.
func exit(role string, replica int, s container.State) *backends.Exit {
	return backends.ShellExit(role, replica, s.ExitCode, s.OOMKilled)
}

// waitOnce waits until a container does not run. gone is one that the daemon
// does not know any more.
func (b *Backend) waitOnce(ctx context.Context, id string) (status int, gone bool, err error) {
	err = b.fx.Call(ctx, effect.DockerRead, func(ctx context.Context) error {
		res := b.api.ContainerWait(ctx, id, client.ContainerWaitOptions{Condition: container.WaitConditionNotRunning})
		select {
		case r := <-res.Result:
			status = int(r.StatusCode)
			return nil
		case err := <-res.Error:
			if cerrdefs.IsNotFound(err) {
				gone, status = true, 128+int(syscall.SIGKILL)
				return nil
			}
			return err
		}
	})
	return status, gone, err
}
