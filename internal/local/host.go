package local

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"

	"sweep.dev/sweep/backends"
	"sweep.dev/sweep/host"
	"sweep.dev/sweep/internal/bounded"
	"sweep.dev/sweep/internal/effect"
	"sweep.dev/sweep/internal/guard"
	"sweep.dev/sweep/internal/netguard"
)

// A localHost is one replica.
type localHost struct {
	fx      *effect.Effects
	address backends.Address
	log     string // "" where there is none
	process *guard.Process
}

var (
	_ host.Host      = (*localHost)(nil)
	_ host.Processor = (*localHost)(nil)
	_ host.Porter    = (*localHost)(nil)
)

func (h *localHost) URL() string     { return "http://" + h.address.String() }
func (h *localHost) Path() host.Path { return host.Direct }
func (h *localHost) PIDs() []int     { return h.process.PIDs() }

func (h *localHost) Addr(name string) string {
	port, ok := h.address.Ports[name]
	if !ok {
		return ""
	}
	return net.JoinHostPort(h.address.Host, strconv.Itoa(port))
}

func (h *localHost) Dial(ctx context.Context, network, addr string) (net.Conn, error) {
	return netguard.Dial(ctx, network, addr)
}

func (h *localHost) Logs(context.Context) (io.ReadCloser, error) {
	if h.log == "" {
		return nil, host.ErrNotSupported
	}
	return os.Open(h.log)
}

const (
	maxOutput = 4 << 20 // of a command, in bytes
	maxErrors = 1 << 10
)

// errTooLong ends a command that says more than anybody asked for.
var errTooLong = fmt.Errorf("more than %d MiB of output", maxOutput>>20)

// Exec runs a command of this machine. Whatever it started ends with it when
// the context does.
func (h *localHost) Exec(ctx context.Context, argv ...string) ([]byte, error) {
	if len(argv) == 0 {
		return nil, errors.New("no command")
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	// Ended, not only cut off: a command that ignores SIGPIPE would go on.
	out := &bounded.Buffer{Max: maxOutput, Full: func() error { cancel(errTooLong); return nil }}
	complaint := &bounded.Buffer{Max: maxErrors}
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Stdout, cmd.Stderr = out, complaint
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return h.fx.Kill(effect.KillTool, -cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = time.Second // a grandchild that kept stdout must not keep us
	err := h.fx.Start(effect.SpawnTool, cmd)
	if err != nil && cmd.Process != nil { // it was started all the same
		_ = cmd.Cancel()
		_ = cmd.Wait()
	}
	if err == nil {
		err = cmd.Wait()
	}
	if err == nil && !errors.Is(context.Cause(ctx), errTooLong) {
		return out.Bytes(), nil
	}
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	if said := strings.TrimSpace(complaint.String()); said != "" {
		return out.Bytes(), fmt.Errorf("%s: %w: %s", argv[0], err, said)
	}
	return out.Bytes(), fmt.Errorf("%s: %w", argv[0], err)
}
