package calibrate

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"time"

	"sweep.dev/sweep/internal/effect"
)

// startTimeout bounds the start of the server's process, which has nothing to
// load.
const startTimeout = 10 * time.Second

// A server is the null server's process.
type server struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	url string
}

// serve starts cmd on the given CPUs, nil for any, and waits for its URL.
func serve(ctx context.Context, cmd *exec.Cmd, cpus []int) (*server, error) {
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	var fx *effect.Effects // a calibration is no part of a run: no fault is rehearsed in it
	if err := startOn(cpus, func() error { return fx.Start(effect.SpawnTool, cmd) }); err != nil {
		return nil, fmt.Errorf("null server: %w", err)
	}
	s := &server{cmd: cmd, in: in}
	type answer struct {
		line string
		err  error
	}
	said := make(chan answer, 1)
	go func() { // ends with the process, which is waited for
		line, err := bufio.NewReader(out).ReadString('\n')
		said <- answer{line, err}
	}()
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	select {
	case <-ctx.Done():
		err = ctx.Err()
		_ = in.Close() // which ends it
		<-said
	case a := <-said:
		s.url, err = strings.TrimSpace(a.line), a.err
	}
	if err == nil && !strings.HasPrefix(s.url, "http://") {
		err = fmt.Errorf("it said %q in place of its URL", s.url)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("null server: %w", err), s.stop())
	}
	return s, nil
}

// stop ends the process by the end of its input, and waits for it.
func (s *server) stop() error {
	_ = s.in.Close() // twice is harmless
	if err := s.cmd.Wait(); err != nil {
		return fmt.Errorf("null server: %w", err)
	}
	return nil
}
