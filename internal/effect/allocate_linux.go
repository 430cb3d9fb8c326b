package effect

import (
	"os"

	"golang.org/x/sys/unix"
)

// allocate takes size bytes of disk for f without writing them.
func allocate(f *os.File, size int64) error { return unix.Fallocate(int(f.Fd()), 0, 0, size) }
