// Package processes has clients of package worker as processes of this machine.
package processes

import (
	"bufio"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"

	"sweep.dev/sweep/internal/bounded"
	"sweep.dev/sweep/internal/effect"
	"sweep.dev/sweep/internal/secret"
	"sweep.dev/sweep/load/worker"
)

const (
	// startWithin bounds the start of a client, which has nothing to load.
	startWithin = 20 * time.Second
	// keptStderr is how much of what a client prints is kept to say how it ended.
	keptStderr = 4 << 10
	// goneWithin is how long the exit of a client may take to be seen here after its
	// connection broke.
	goneWithin = time.Second
	// endWithin is how long a client may take to end.
	endWithin = 5 * time.Second
)

// Clients are clients on this machine.
type Clients struct {
	fx  *effect.Effects
	all []*process
}

// A process is one of them.
type process struct {
	cmd     *exec.Cmd
	in      io.WriteCloser
	address worker.Address
	stderr  bounded.Buffer
	said    chan string   // its first line
	gone    chan struct{} // closed once it has ended
	err     error         // of its end, set before
}

// Start starts n clients, each a command that runs [worker.Main]; standard input, output and error
// must not be set. A client ends with its standard input, which ends with this process,
// however that ends. The context bounds the start. On error nothing is left running.
func Start(ctx context.Context, fx *effect.Effects, n int, command func() *exec.Cmd) (*Clients, error) {
	p := &Clients{fx: fx}
	ctx, cancel := context.WithTimeoutCause(ctx, startWithin, fmt.Errorf("a client did not start within %v", startWithin))
	defer cancel()
	for range n {
		if err := p.start(command()); err != nil {
			return nil, errors.Join(fmt.Errorf("start a client: %w", err), p.Close())
		}
	}
	for _, c := range p.all {
		if err := c.locate(ctx); err != nil {
			return nil, errors.Join(fmt.Errorf("start a client: %w", err), p.Close())
		}
	}
	return p, nil
}

// start starts one client and gives it its token.
func (p *Clients) start(cmd *exec.Cmd) error {
	token := rand.Text()
	c := &process{cmd: cmd, stderr: bounded.Buffer{Max: keptStderr}, gone: make(chan struct{})}
	c.address.Token, c.address.Gone = secret.New("the client's token", token), c.how
	var err error
	if c.in, err = cmd.StdinPipe(); err != nil {
		return err
	}
	cmd.Stderr = &c.stderr
	// A group of its own: a terminal's Ctrl-C is ours to act upon, and a client that is
	// stopped while we die is woken and hung up by the kernel, as its group is an orphan.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := p.fx.Start(effect.SpawnTool, cmd); err != nil {
		return err
	}
	p.all = append(p.all, c)
	c.said = make(chan string, 1)
	go func() { // ends with the process, which Close waits for
		line, _ := bufio.NewReader(out).ReadString('\n')
		c.said <- line
		_, _ = io.Copy(io.Discard, out)
		c.err = cmd.Wait()
		close(c.gone)
	}()
	if _, err := io.WriteString(c.in, token+"\n"); err != nil {
		return fmt.Errorf("give it its token: %w", err)
	}
	return nil
}

// locate waits until the client says where it listens.
func (c *process) locate(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case line := <-c.said:
		c.address.URL = strings.TrimSpace(line)
	}
	if !strings.HasPrefix(c.address.URL, "http://") {
		return fmt.Errorf("it said %q in place of its address: %s", c.address.URL, c.how())
	}
	return nil
}

// how says how the client ended; "" if it has not.
func (c *process) how() string {
	t := time.NewTimer(goneWithin)
	defer t.Stop()
	select {
	case <-t.C:
		return ""
	case <-c.gone:
	}
	text := "its process ended"
	if c.err != nil {
		text += ": " + c.err.Error()
	}
	if said := strings.TrimSpace(c.stderr.String()); said != "" {
		text += ": " + said
	}
	return text
}

// Addresses returns where they listen, in the order of their numbers.
func (p *Clients) Addresses() []worker.Address {
	all := make([]worker.Address, len(p.all))
	for i, c := range p.all {
		all[i] = c.address
	}
	return all
}

// PIDs returns the numbers of the processes, in the same order.
func (p *Clients) PIDs() []int {
	all := make([]int, len(p.all))
	for i, c := range p.all {
		all[i] = c.cmd.Process.Pid
	}
	return all
}

// Close ends all clients and waits for their ends. What is left after 5 s is killed.
func (p *Clients) Close() error {
	for _, c := range p.all {
		_ = c.in.Close() // which ends it
	}
	var ends sync.WaitGroup
	errs := make([]error, len(p.all))
	for i, c := range p.all {
		ends.Go(func() { errs[i] = p.end(c) })
	}
	ends.Wait()
	return errors.Join(errs...)
}

func (p *Clients) end(c *process) error {
	t := time.NewTimer(endWithin)
	defer t.Stop()
	select {
	case <-c.gone:
		return nil
	case <-t.C:
	}
	err := p.fx.Kill(effect.KillTool, c.cmd.Process.Pid, syscall.SIGKILL)
	<-c.gone
	if errors.Is(err, syscall.ESRCH) {
		err = nil
	}
	return err
}
