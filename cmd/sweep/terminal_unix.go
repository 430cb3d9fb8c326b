//go:build unix

package main

import (
	"os"

	"golang.org/x/sys/unix"
)

// terminalSize returns the size of the terminal on stderr; 80 by 24 if that is no terminal.
func terminalSize() (columns, rows int) { return sizeOf(os.Stderr) }

func sizeOf(f *os.File) (columns, rows int) {
	ws, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ)
	if err != nil || ws.Col == 0 || ws.Row == 0 {
		return 80, 24
	}
	return int(ws.Col), int(ws.Row)
}
