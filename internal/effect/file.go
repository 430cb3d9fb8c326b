package effect

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"

	"golang.org/x/sys/unix"
)

// A File is a file that is being written. Its methods may be called from one
// goroutine at a time.
type File struct {
	fx    *Effects
	made  Point
	f     *os.File
	inode uint64 // in the record; 0 without one
	off   int64  // where the next write goes
}

// Name returns the path that the file was opened with.
func (f *File) Name() string { return f.f.Name() }

// OS returns the file itself, for a child process that writes to it. What is
// written through it is neither counted nor recorded.
func (f *File) OS() *os.File { return f.f }

// Write appends b with one system call where the system takes all of it.
func (f *File) Write(b []byte) (n int, err error) {
	write := func(b []byte) error {
		n, err = f.f.Write(b)
		f.fx.record(Op{Kind: OpWrite, Inode: f.inode, Offset: f.off, Data: b[:n]})
		f.off += int64(n)
		return err
	}
	err = f.fx.do(f.made.of("write"), func() error { return write(b) }, func(fault *Fault) {
		if IsFull(fault) {
			_ = write(b[:len(b)/2]) // the fault is what the caller gets to see
		}
	})
	return n, err
}

// Reserve makes the file size bytes long and takes the space on the disk for
// it, without writing where the file system can do that.
func (f *File) Reserve(size int64) error {
	return f.fx.Do(f.made.of("write"), func() error {
		err := allocate(f.f, size)
		if errors.Is(err, unix.ENOTSUP) || errors.Is(err, unix.ENOSYS) {
			// Noise: a file system that compresses would keep no room for zeros.
			noise := rand.NewChaCha8([32]byte{})
			_, err = io.CopyN(io.NewOffsetWriter(f.f, 0), noise, size)
		}
		if err != nil {
			return fmt.Errorf("reserve %d bytes in %s: %w", size, f.Name(), err)
		}
		f.fx.record(Op{Kind: OpTruncate, Inode: f.inode, Offset: size})
		return nil
	})
}

// Truncate cuts the file to size; the next write goes there.
func (f *File) Truncate(size int64) error {
	return f.fx.Do(f.made.of("truncate"), func() error {
		if err := f.f.Truncate(size); err != nil {
			return err
		}
		f.fx.record(Op{Kind: OpTruncate, Inode: f.inode, Offset: size})
		if _, err := f.f.Seek(size, 0); err != nil {
			return err
		}
		f.off = size
		return nil
	})
}

// Sync makes what was written durable. After an error it is unknown which of the
// bytes since the last Sync are on disk, and a second Sync does not tell: the
// kernel may have dropped them and marked the pages clean.
func (f *File) Sync() error {
	return f.fx.Do(f.made.of("sync"), func() error {
		if err := f.f.Sync(); err != nil {
			return err
		}
		f.fx.record(Op{Kind: OpSync, Inode: f.inode})
		return nil
	})
}

// TryLock takes an exclusive advisory lock on the file (flock) and says whether
// it got it; it never waits. The lock ends with the file, or with the process.
func (f *File) TryLock() (locked bool, err error) {
	err = f.fx.Do(f.made.of("take"), func() error {
		for {
			err := unix.Flock(int(f.f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
			switch {
			case err == nil:
				locked = true
				return nil
			case errors.Is(err, unix.EWOULDBLOCK):
				return nil
			case !errors.Is(err, unix.EINTR):
				return fmt.Errorf("lock %s: %w", f.Name(), err)
			}
		}
	})
	return locked, err
}

// Unlock gives the lock back. Closing the file does not do that at once: a
// child that is between fork and exec still has a copy of its descriptor.
func (f *File) Unlock() error {
	return f.fx.Do(f.made.of("give"), func() error {
		return unix.Flock(int(f.f.Fd()), unix.LOCK_UN)
	})
}

// Close closes the file, which does not make it durable. The file is closed
// whatever the error.
func (f *File) Close() error {
	closed := false
	shut := func() error { closed = true; return f.f.Close() }
	err := f.fx.Do(f.made.of("close"), shut)
	if !closed {
		_ = shut() // a fault must not leak a descriptor
	}
	return err
}
