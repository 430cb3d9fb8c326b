package effect

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// permissions of a file and of a folder that is made, less the umask: what a
// server said, and what was asked of it, is its owner's alone unless it is
// shared on purpose.
func (e *Effects) permissions() (file, dir fs.FileMode) {
	if e != nil && e.shared {
		return 0o644, 0o755
	}
	return 0o600, 0o700
}

// A Root does file operations below one directory and cannot be led out of it,
// neither by ".." nor by a symbolic link.
type Root struct {
	fx   *Effects
	root *os.Root // nil for the whole file system
}

// In makes a Root of r.
func (e *Effects) In(r *os.Root) *Root { return &Root{fx: e, root: r} }

func (e *Effects) everywhere() *Root { return &Root{fx: e} }

// Create makes the file at path, or empties it.
func (e *Effects) Create(p Point, path string) (*File, error) { return e.everywhere().Create(p, path) }

// CreateNew makes the file at path; [fs.ErrExist] if there is one, also where a
// symbolic link leads to nothing.
func (e *Effects) CreateNew(p Point, path string) (*File, error) {
	return e.everywhere().open(p, path, os.O_RDWR|os.O_CREATE|os.O_EXCL)
}

// OpenAppend opens the file at path for writing at its end, and makes it if
// it does not exist.
func (e *Effects) OpenAppend(p Point, path string) (*File, error) {
	return e.everywhere().OpenAppend(p, path)
}

// MkdirAll makes the directory at path and those above it that are missing;
// each is durable in its parent when it returns.
func (e *Effects) MkdirAll(p Point, path string) error { return e.everywhere().MkdirAll(p, path) }

// Rename renames a file or directory. It is durable after SyncDir of its folder.
func (e *Effects) Rename(p Point, from, to string) error { return e.everywhere().Rename(p, from, to) }

// SyncDir makes the entries of the directory at path durable.
func (e *Effects) SyncDir(p Point, path string) error { return e.everywhere().SyncDir(p, path) }

// Remove removes a file or an empty directory; one that is not there is [fs.ErrNotExist].
func (e *Effects) Remove(p Point, path string) error { return e.everywhere().Remove(p, path) }

// RemoveAll removes path and all below it; where it is not there, that is a success.
func (e *Effects) RemoveAll(p Point, path string) error { return e.everywhere().RemoveAll(p, path) }

// WriteFileAtomic is [Root.WriteFileAtomic] on the whole file system.
func (e *Effects) WriteFileAtomic(p Point, path string, write func(io.Writer) error) error {
	return e.everywhere().WriteFileAtomic(p, path, write)
}

// Create makes the file, or empties it.
func (r *Root) Create(p Point, name string) (*File, error) {
	return r.open(p, name, os.O_RDWR|os.O_CREATE|os.O_TRUNC)
}

// OpenAppend opens the file for writing at its end, and makes it if it does
// not exist.
func (r *Root) OpenAppend(p Point, name string) (*File, error) {
	return r.open(p, name, os.O_RDWR|os.O_CREATE|os.O_APPEND)
}

func (r *Root) open(p Point, name string, flag int) (*File, error) {
	f := &File{fx: r.fx, made: p}
	err := r.fx.Do(p, func() (err error) {
		f.f, err = r.openFile(name, flag)
		if err != nil {
			return err
		}
		f.inode = r.fx.record(Op{Kind: OpOpen, Path: r.path(name), Empty: flag&os.O_TRUNC != 0})
		f.off, err = f.f.Seek(0, io.SeekEnd)
		return err
	})
	if err != nil {
		if f.f != nil {
			_ = f.f.Close() // a fault after the operation must not leak a descriptor
		}
		return nil, err
	}
	return f, nil
}

// MkdirAll makes the directory and those above it that are missing; each is
// durable in its parent when it returns.
//
// A directory that is there may be what another MkdirAll made immediately
// before it was killed, so the deepest one that exists is made durable as well.
func (r *Root) MkdirAll(p Point, name string) error {
	name = filepath.Clean(name)
	parent := filepath.Dir(name)
	if info, err := r.stat(name); err == nil {
		if !info.IsDir() {
			return &fs.PathError{Op: "mkdir", Path: r.path(name), Err: syscall.ENOTDIR}
		}
		err := r.SyncDir(p, parent)
		if errors.Is(err, fs.ErrPermission) {
			return nil // not ours to read, so not ours to have made
		}
		return err
	}
	if parent != name {
		if err := r.MkdirAll(p, parent); err != nil {
			return err
		}
	}
	if err := r.Mkdir(p, name); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return r.SyncDir(p, parent)
}

// change does a change as the operation p, and records it if it succeeded.
func (r *Root) change(p Point, do func() error, op Op) error {
	return r.fx.Do(p, func() error {
		if err := do(); err != nil {
			return err
		}
		r.fx.record(op)
		return nil
	})
}

// Mkdir makes one directory; one that is there is [fs.ErrExist]. It is durable
// after SyncDir of its parent.
func (r *Root) Mkdir(p Point, name string) error {
	return r.change(p, func() error { return r.mkdir(name) }, Op{Kind: OpMkdir, Path: r.path(name)})
}

// Rename renames a file or directory. It is durable after SyncDir of its folder.
func (r *Root) Rename(p Point, from, to string) error {
	return r.change(p, func() error { return r.rename(from, to) }, Op{Kind: OpRename, Path: r.path(from), To: r.path(to)})
}

// SyncDir makes the entries of a directory durable.
func (r *Root) SyncDir(p Point, name string) error {
	return r.fx.Do(p, func() error {
		d, err := r.openFile(name, os.O_RDONLY)
		if err != nil {
			return err
		}
		defer d.Close() // read only: nothing to lose
		// Some file systems cannot fsync a folder, and say so; there its entries
		// are as durable as they will ever be.
		if err := d.Sync(); err != nil && !errors.Is(err, syscall.EINVAL) && !errors.Is(err, syscall.ENOTSUP) {
			return fmt.Errorf("sync %s: %w", r.path(name), err)
		}
		r.fx.record(Op{Kind: OpSyncDir, Path: r.path(name)})
		return nil
	})
}

// Remove removes a file or an empty directory; one that is not there is [fs.ErrNotExist].
func (r *Root) Remove(p Point, name string) error {
	return r.change(p, func() error { return r.remove(name) }, Op{Kind: OpRemove, Path: r.path(name)})
}

// RemoveAll removes name and all below it; where it is not there, that is a success.
func (r *Root) RemoveAll(p Point, name string) error {
	return r.change(p, func() error { return r.removeAll(name) }, Op{Kind: OpRemove, Path: r.path(name)})
}

// Temp returns the name under which WriteFileAtomic writes.
func Temp(name string) string {
	return filepath.Join(filepath.Dir(name), "."+filepath.Base(name)+".tmp")
}

// WriteFileAtomic writes a whole file: under a temporary name ([Temp]) in the
// same folder, fsynced, renamed, the folder fsynced. A reader sees the old file
// or the new one. One file must have one writer at a time. p is the file's
// ".create" point.
func (r *Root) WriteFileAtomic(p Point, name string, write func(io.Writer) error) error {
	temp := Temp(name)
	if err := r.writeFile(p, temp, write); err != nil {
		_ = r.remove(temp) // may not exist; the next writer empties it anyway
		return err
	}
	if err := r.Rename(p.of("rename"), temp, name); err != nil {
		return err
	}
	return r.SyncDir(p.of("dirsync"), filepath.Dir(name))
}

func (r *Root) writeFile(p Point, name string, write func(io.Writer) error) (err error) {
	f, err := r.Create(p, name)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	b := bufio.NewWriterSize(f, 64<<10)
	if err := write(b); err != nil {
		return err
	}
	if err := b.Flush(); err != nil {
		return err
	}
	return f.Sync()
}

// IsFull reports whether an error is that of a disk without room: for everybody, or
// for us, whose quota is used up.
func IsFull(err error) bool { return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) }

// The rest is the choice between a directory and the whole file system.

func (r *Root) path(name string) string {
	if r.root == nil {
		return name
	}
	return filepath.Join(r.root.Name(), name)
}

func (r *Root) openFile(name string, flag int) (*os.File, error) {
	perm, _ := r.fx.permissions()
	if r.root == nil {
		return os.OpenFile(name, flag, perm)
	}
	return r.root.OpenFile(name, flag, perm)
}

func (r *Root) stat(name string) (fs.FileInfo, error) {
	if r.root == nil {
		return os.Stat(name)
	}
	return r.root.Stat(name)
}

func (r *Root) mkdir(name string) error {
	_, perm := r.fx.permissions()
	if r.root == nil {
		return os.Mkdir(name, perm)
	}
	return r.root.Mkdir(name, perm)
}

func (r *Root) rename(from, to string) error {
	if r.root == nil {
		return os.Rename(from, to)
	}
	return r.root.Rename(from, to)
}

func (r *Root) remove(name string) error {
	if r.root == nil {
		return os.Remove(name)
	}
	return r.root.Remove(name)
}

func (r *Root) removeAll(name string) error {
	if r.root == nil {
		return os.RemoveAll(name)
	}
	return r.root.RemoveAll(name)
}
