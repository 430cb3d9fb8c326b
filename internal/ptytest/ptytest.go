//go:build linux

// Package ptytest runs a program on a terminal of a test's own.
package ptytest

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"sweep.dev/sweep/internal/polltest"
)

// A Terminal is one that a program runs on. What the program writes is kept.
type Terminal struct {
	t    *testing.T
	main *os.File
	done chan struct{} // closed when nothing more is written

	mu   sync.Mutex
	text strings.Builder
}

// Start starts cmd on a new terminal of some columns and rows: its standard streams
// that are nil, and its controlling terminal. The program is killed when the test ends.
func Start(t *testing.T, cmd *exec.Cmd, columns, rows uint16) *Terminal {
	t.Helper()
	main, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	term := &Terminal{t: t, main: main, done: make(chan struct{})}
	number, err := unix.IoctlGetInt(int(main.Fd()), unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(int(main.Fd()), unix.TIOCSPTLCK, 0)
	}
	if err == nil {
		err = unix.IoctlSetWinsize(int(main.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: rows, Col: columns})
	}
	if err != nil {
		t.Fatalf("make a terminal: %v", err)
	}
	side, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if cmd.Stdin == nil {
		cmd.Stdin = side
	}
	if cmd.Stdout == nil {
		cmd.Stdout = side
	}
	if cmd.Stderr == nil {
		cmd.Stderr = side
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true, Ctty: 0}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if err := side.Close(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(term.done)
		buf := make([]byte, 4096)
		for {
			n, err := main.Read(buf)
			term.mu.Lock()
			term.text.Write(buf[:n])
			term.mu.Unlock()
			if err != nil { // EIO once the last process has left
				return
			}
		}
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // it may have ended
		_ = cmd.Wait()
		_ = main.Close()
		<-term.done
	})
	return term
}

// Type types a text.
func (t *Terminal) Type(text string) {
	t.t.Helper()
	if _, err := io.WriteString(t.main, text); err != nil {
		t.t.Fatal(err)
	}
}

// Text returns everything that was written so far, with all escape sequences.
func (t *Terminal) Text() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.text.String()
}

// Await waits until a text was written after the first from bytes, and returns how many
// bytes there are then.
func (t *Terminal) Await(from int, text string) int {
	t.t.Helper()
	if !polltest.Within(polltest.Patience, func() bool { return strings.Contains(t.Text()[from:], text) }) {
		t.t.Fatalf("the terminal never showed %q:\n%q", text, t.Text()[from:])
	}
	return len(t.Text())
}

// Ended waits until the program has ended and returns everything that it wrote, with line
// feeds alone at the ends of lines.
func (t *Terminal) Ended() string {
	t.t.Helper()
	select {
	case <-t.done:
	case <-time.After(polltest.Patience):
		t.t.Fatalf("the program did not end:\n%q", t.Text())
	}
	return strings.ReplaceAll(t.Text(), "\r\n", "\n")
}
