package effect

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"syscall"
	"time"
)

// ErrNotStarted is a command that has done nothing, because it did not start.
var ErrNotStarted = errors.New("it was not started")

// maxComplaint is how much of a command's stderr is in its error, in bytes: the
// last, where a trace has its reason.
const maxComplaint = 1 << 10

// Run runs a command of this machine as the operation run, which is over when the
// command has ended. stdout goes to out as it comes. The command has a process
// group of its own, which is killed, as the operation kill, when ctx ends or out
// returns an error: Run returns the cause of that. The group is killed, too, when
// this process ends in whatever way. What the group leaves running when the command
// ends by itself goes on.
func (e *Effects) Run(ctx context.Context, run, kill Point, argv []string, stdin io.Reader, out io.Writer) error {
	if len(argv) == 0 {
		return fmt.Errorf("%w: no command", ErrNotStarted)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	group, leave, err := newGroup(ctx)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrNotStarted, err)
	}
	defer leave()
	var complaint complaint
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	// Ended, not only cut off: a command that ignores SIGPIPE would go on.
	cmd.Stdin, cmd.Stdout, cmd.Stderr = stdin, &taker{out, cancel}, &complaint
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pgid: group}
	cmd.Cancel = func() error { return e.Kill(kill, -group, syscall.SIGKILL) }
	cmd.WaitDelay = time.Second // a grandchild that kept stdout must not keep us
	err = e.Do(run, func() error {
		if err := cmd.Start(); err != nil {
			return err
		}
		if err := cmd.Wait(); !errors.Is(err, exec.ErrWaitDelay) {
			return err
		}
		return nil
	})
	switch {
	case err == nil:
		return nil
	case cmd.Process == nil:
		return fmt.Errorf("%w: %w", ErrNotStarted, err)
	case ctx.Err() != nil:
		err = context.Cause(ctx)
	}
	if said := strings.TrimSpace(string(complaint)); said != "" {
		return fmt.Errorf("%w: %s", err, said)
	}
	return err
}

// follower kills its process group when its stdin ends without a line.
const follower = `read -r over || kill -s KILL -- "-$$"`

// newGroup makes a process group that is killed when this process ends before leave
// is called.
func newGroup(ctx context.Context) (id int, leave func(), err error) {
	cmd := exec.CommandContext(context.WithoutCancel(ctx), "/bin/sh", "-c", follower)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	hold, err := cmd.StdinPipe()
	if err != nil {
		return 0, nil, err
	}
	if err := cmd.Start(); err != nil {
		return 0, nil, err
	}
	return cmd.Process.Pid, func() {
		_, _ = io.WriteString(hold, "over\n") // unless it was killed with its group
		_ = cmd.Wait()
	}, nil
}

// A taker passes on what a command prints until that is refused, and ends the
// command then.
type taker struct {
	out io.Writer
	end context.CancelCauseFunc
}

func (t *taker) Write(p []byte) (int, error) {
	if _, err := t.out.Write(p); err != nil {
		t.end(err)
		return 0, err
	}
	return len(p), nil
}

// A complaint is the end of what a command prints on stderr.
type complaint []byte

func (c *complaint) Write(p []byte) (int, error) {
	*c = append(*c, p...)
	*c = (*c)[max(0, len(*c)-maxComplaint):]
	return len(p), nil
}
