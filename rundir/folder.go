package rundir

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"sweep.dev/sweep/internal/effect"
)

// mkdirAll makes a folder and those above it. They are durable after settle.
func (d *Dir) mkdirAll(p effect.Point, name string) error {
	if name == "." {
		return nil
	}
	if err := d.mkdirAll(p, filepath.Dir(name)); err != nil {
		return err
	}
	if info, err := d.root.Lstat(name); err == nil {
		if !info.IsDir() {
			return fmt.Errorf("%s is not a folder", filepath.Join(d.path, name))
		}
		return nil
	}
	err := d.files.Mkdir(p, name)
	if errors.Is(err, fs.ErrExist) {
		return nil // another attempt of this run was faster
	}
	return err
}

// mkdirNew makes a folder that must not exist yet.
func (d *Dir) mkdirNew(p effect.Point, name string) error {
	if err := d.mkdirAll(p, filepath.Dir(name)); err != nil {
		return err
	}
	return d.files.Mkdir(p, name)
}

// settle makes a folder and those above it durable in their parents.
//
// It does so once per process and folder, also if another process made the folder: that one
// may have been killed before it was durable, and then it would be the one
// thing of a committed trial that a loss of power takes away.
func (d *Dir) settle(p effect.Point, name string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.settleLocked(p, name)
}

// settleLocked goes from the top down, so that a folder is only called durable
// when those above it are.
func (d *Dir) settleLocked(p effect.Point, name string) error {
	if d.durable[name] {
		return nil
	}
	parent := filepath.Dir(name)
	if err := d.settleLocked(p, parent); err != nil {
		return err
	}
	if err := d.files.SyncDir(p, parent); err != nil {
		return err
	}
	d.durable[name] = true
	return nil
}
