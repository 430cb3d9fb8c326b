package podtest

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"sweep.dev/sweep/internal/guard"
)

// A Spec is one container.
type Spec struct {
	Dir   string // its own; it is made
	Image Image
	Args  string
	Env   map[string]string // beyond the image's
	// Ports are the ports that it was told to listen on, and those of this
	// machine that it will listen on. See [Remap].
	Ports map[int]int
	Words map[string]string // for Image.Programs
	Grace time.Duration     // between SIGTERM and SIGKILL
	// Line gets every line of its output, from one goroutine.
	Line func(string)
}

// A Container is a container that was started. Methods may be called
// concurrently.
type Container struct {
	process *guard.Process
	tail    sync.WaitGroup
	done    chan struct{}
}

// Start starts a container. The context bounds the start, not its life. An
// error means that nothing runs.
func Start(ctx context.Context, s Spec) (*Container, error) {
	argv, err := s.Image.Command(s.Args)
	if err != nil {
		return nil, err
	}
	bin := filepath.Join(s.Dir, "bin")
	if err := os.MkdirAll(bin, 0o700); err != nil {
		return nil, err
	}
	for name, script := range s.Image.Programs {
		script = "#!/bin/sh\n" + fill(script, s.Words)
		if err := os.WriteFile(filepath.Join(bin, name), []byte(script), 0o700); err != nil {
			return nil, err
		}
	}
	tmp := filepath.Join(s.Dir, "tmp")
	if err := os.MkdirAll(tmp, 0o700); err != nil {
		return nil, err
	}
	env := map[string]string{"HOME": s.Dir, "PWD": s.Dir, "TMPDIR": tmp}
	maps.Copy(env, s.Image.Env)
	maps.Copy(env, s.Env)
	env["PATH"] = strings.Join(slices.Concat([]string{bin}, s.Image.Path, []string{os.Getenv("PATH")}), string(os.PathListSeparator))
	argv, env = Remap(argv, env, s.Ports)

	path := filepath.Join(s.Dir, "log")
	log, err := os.OpenFile(path, os.O_RDONLY|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	if _, err := log.Seek(0, io.SeekEnd); err != nil { // what an earlier life wrote has been told
		log.Close()
		return nil, err
	}
	p, err := guard.Start(ctx, nil, guard.Spec{
		Argv: argv, Env: env, Dir: s.Dir, LogPath: path, Grace: s.Grace,
	})
	if err != nil {
		log.Close()
		return nil, err
	}
	c := &Container{process: p, done: make(chan struct{})}
	c.tail.Go(func() {
		defer close(c.done)
		defer log.Close()
		c.follow(log, s.Line)
	})
	return c, nil
}

// poll is how often the output is looked at.
const poll = 20 * time.Millisecond

// follow tells each line of the output until the command has ended.
func (c *Container) follow(log io.Reader, line func(string)) {
	r := bufio.NewReaderSize(log, 64<<10)
	var part strings.Builder
	read := func() {
		for {
			text, err := r.ReadString('\n')
			part.WriteString(text)
			if err != nil && part.Len() < 1<<20 {
				return // the rest of the line is not written yet
			}
			line(strings.TrimRight(part.String(), "\r\n"))
			part.Reset()
		}
	}
	tick := time.NewTicker(poll)
	defer tick.Stop()
	for {
		read()
		select {
		case <-tick.C:
			continue
		case <-c.process.Done():
		}
		break
	}
	read()
	if part.Len() > 0 {
		line(part.String())
	}
}

// Done is closed when its command has ended and all its output has been told.
func (c *Container) Done() <-chan struct{} { return c.done }

// Code returns the exit status of the command after Done, as docker has it: 128 and
// the signal's number where a signal ended it.
func (c *Container) Code() int {
	e := c.process.Exit()
	if e.Signal != 0 {
		return 128 + int(e.Signal)
	}
	return e.Code
}

// PIDs returns its processes.
func (c *Container) PIDs() []int { return c.process.PIDs() }

// Stop ends the container and waits until nothing of it is left. It is
// idempotent.
func (c *Container) Stop(ctx context.Context) error {
	if err := c.process.Stop(ctx); err != nil {
		return fmt.Errorf("container: %w", err)
	}
	c.tail.Wait()
	return nil
}
